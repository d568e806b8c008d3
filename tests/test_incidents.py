"""The store on SQLite and on a real PostgreSQL: the same promises on both."""
# ruff: noqa: F811  (a fixture of the kit is a parameter here)

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from playbook.errors import PlaybookError
from playbook.incidents import artifacts
from playbook.incidents.database import on_network, open_database
from playbook.incidents.models import METADATA
from playbook.incidents.record import Record, document, parse, tidy
from playbook.incidents.schema import HEAD, MIGRATIONS, VERSIONS, ensure
from playbook.incidents.store import Filter, Store, Taken, open_store
from tests.incidents_kit import record, url  # noqa: F401  (url is a fixture)


@pytest.fixture
def store(url: str, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(url, tmp_path / "artifacts")
    yield opened
    opened.close()


def test_an_incident_comes_back_as_it_was(store: Store) -> None:
    made = record(1)
    store.add(made)
    assert store.get(made.id) == made
    assert store.get("20260304-made") == made  # a beginning that fits one
    assert list(store.records()) == [made]


def test_an_id_is_taken_once_and_nothing_of_the_second_stays(store: Store) -> None:
    store.add(record(1))
    with pytest.raises(Taken):
        store.add(record(1, title="another"))
    assert store.count() == 1
    assert store.get("20260304-made1").title == "Loss leaves at step 1"


@pytest.mark.parametrize(("asked", "what"), [("nosuch", "no such incident"), ("20260304-made", "fits several")])
def test_an_unknown_or_ambiguous_id_is_told(store: Store, asked: str, what: str) -> None:
    store.put([record(1), record(2)])
    with pytest.raises(PlaybookError, match=what):
        store.get(asked)


def test_wildcards_of_like_mean_nothing_in_an_id(store: Store) -> None:
    store.add(record(1))
    for asked in ("%", "20260304_made1", "2026030%"):
        with pytest.raises(PlaybookError, match="no such incident"):
            store.get(asked)


def test_list_newest_first_with_filters(store: Store) -> None:
    confirmed = {"cause": "bad-samples", "cause_class": "data_bad_content", "layer": "data"}
    closed = record(3, status="closed", closed_at="2026-03-05T00:00:00Z", **confirmed)
    store.put([record(2), closed, record(1)])

    def ids(**wanted: object) -> list[str]:
        return [row["id"][-1] for row in store.summaries(Filter(**wanted))]  # type: ignore[arg-type]

    assert ids() == ["3", "2", "1"]
    assert ids(limit=1) == ["3"]
    assert ids(status="open") == ["2", "1"]
    assert ids(cause="lr-peak") == ["2", "1"]  # leading, as long as none is confirmed
    assert ids(cause="data_bad_content") == ["3"]
    assert ids(layer="data") == ["3"]
    assert ids(symptom="plateau") == []
    assert ids(since="2026-03-04T05:00:02Z") == ["3", "2"]
    assert store.count(Filter(status="open")) == 2


SEARCHED = {
    "1": "Gradient overflow at the embedding 梯度爆炸 after resume",
    "2": '学习率 too high, 100%_sure "quoted" AND OR NOT *',
    "3": "nothing of the kind, fp16",
}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("overflow", "1"), ("OVERFLOW embed", "1"), ("verflo", "1"), ("梯度爆炸", "1"), ("爆炸", "1"), ("学习率", "2"),
        ("学习", "2"), ("习率 high", "2"), ("overflow 学习", ""), ("100%_sure", "2"), ("100__sure", ""), ("%", "2"),
        ("AND OR NOT", "2"), ('"quoted"', "2"), ("*", "2"), ("fp", "3"), ("nothing fp16", "3"), ("(", ""), ("'", ""),
        ("persistent-spike", "123"), ("lower-peak-lr", "123"), ("zzz", ""),
    ],
)  # fmt: skip
def test_search_finds_parts_of_words_in_any_script(store: Store, query: str, found: str) -> None:
    store.put([record(int(n), title=title) for n, title in SEARCHED.items()])
    assert sorted(row["id"][-1] for row in store.summaries(Filter(query=query))) == list(found)


def test_search_follows_changes(store: Store) -> None:
    store.add(record(1, title="the old words"))
    store.change("20260304-made1", lambda r: r.model_copy(update={"title": "fresh sentence"}))
    assert store.count(Filter(query="old words")) == 0
    assert store.count(Filter(query="fresh sentence")) == 1
    store.remove("20260304-made1")
    assert store.count(Filter(query="fresh")) == 0


def test_change_is_all_or_nothing(store: Store) -> None:
    store.add(record(1))

    def bad(_: Record) -> Record:
        raise ValueError("half-way")

    with pytest.raises(ValueError, match="half-way"):
        store.change("20260304-made1", bad)
    assert store.get("20260304-made1") == record(1)


def test_children_go_with_their_incident(store: Store) -> None:
    store.put([record(1), record(2)])
    store.remove("20260304-made1")
    with store.database.reading() as connection:
        for name in ("move", "timeline", "treatment", "link"):
            table = METADATA.tables[name]
            rows = connection.execute(table.select()).all()
            assert rows and {r.incident for r in rows} == {2}
    with pytest.raises(PlaybookError, match="no such incident"):
        store.remove("20260304-made1")


def test_numbers_and_texts_at_their_limits(store: Store) -> None:
    nasty = tidy("NUL \x00 bell \x07 esc \x1b[31mred\x1b[0m surrogate \udc80 tab\t中文")
    assert nasty == "NUL  bell  esc red surrogate ? tab\t中文"
    move = {"kind": "observed", "signal": "s", "state": "x", "because": nasty, "step": 2**62, "rank": 4095}
    made = record(1, title=nasty * 50, moves=[move])
    store.add(made)
    assert store.get(made.id) == made


def test_find_and_facts(store: Store) -> None:
    store.put([record(1), record(2, verdict={"word": "incident", "symptom": "plateau"})])
    assert store.find("20260304-made1") == record(1)
    assert store.find("20260304-made") is None
    rows = store.facts("persistent-spike", 10)
    assert [r["id"] for r in rows] == ["20260304-made1"]
    assert rows[0]["facts"] == {"loss-shape": "persistent-spike", "lower-lr-removes-it": "yes"}
    assert len(store.facts(None, 10)) == 2


# The schema.


def test_versions_are_those_of_the_migrations() -> None:
    files = sorted(p.name for p in (MIGRATIONS / "versions").glob("0*.py"))
    assert tuple(name.split("_")[0] for name in files) == VERSIONS
    before = None
    for name in files:
        text = (MIGRATIONS / "versions" / name).read_text("utf-8")
        assert re.search(rf'^revision = "{name[:4]}"$', text, re.M)
        assert re.search(rf"^down_revision = {f'.{before}.' if before else 'None'}$", text, re.M)
        before = name[:4]


def _ours(thing: object, name: str, kind: str, reflected: bool, other: object) -> bool:
    return not name.startswith("incident_text")


def test_migrations_make_the_tables_of_the_models(store: Store) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with store.database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": _ours})
        differences = compare_metadata(context, METADATA)
    assert differences == []


@pytest.mark.parametrize("start", VERSIONS)
def test_up_from_every_earlier_schema(url: str, tmp_path: Path, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store as an earlier release left it, with an incident in it, opens today and reads as it was."""
    from sqlalchemy import text

    from playbook.incidents import schema

    with monkeypatch.context() as old:
        old.setattr(schema, "HEAD", start)
        old.setattr("playbook.incidents.schema.ensure", lambda database: None)
        database = open_database(url)
    ensure(database, start)
    with database.writing() as connection:
        for statement in OLD_ROWS:
            connection.exec_driver_sql(statement)
    database.engine.dispose()
    with open_store_closing(url, tmp_path) as store:
        assert store.get("old-1").title == "from long ago"
        assert store.get("old-1").moves[0].signal == "loss-shape"
        assert store.count(Filter(query="long ago")) == 1
        store.add(record(1))
        with store.database.reading() as connection:
            assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == HEAD


OLD_ROWS = (
    """INSERT INTO incident (number, id, title, status, opened_at, verdict, decided, confirmed_by, gpus, hours_lost,
       cost_usd, minutes, gpu_hours, questions, facts, words, detail) VALUES (7, 'old-1', 'from long ago', 'open',
       '2026-01-01T00:00:00Z', 'incident', TRUE, '', 8, 0, 0, 0, 0, 0, '{}', 'from long ago',
       '{"format":1,"verdict":{"word":"incident"}}')""",
    """INSERT INTO move (incident, position, kind, signal, state, source, because, minutes, gpu_hours, belief, extra)
       VALUES (7, 0, 'observed', 'loss-shape', 'plateau', 'metrics', '', 0, 0, '{}', '{}')""",
)


def open_store_closing(url: str, tmp_path: Path):  # type: ignore[no-untyped-def]
    from contextlib import closing

    return closing(open_store(url, tmp_path / "artifacts"))


def test_a_newer_schema_is_refused(url: str, store: Store, tmp_path: Path) -> None:
    from sqlalchemy import text

    with store.database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(PlaybookError, match="newer playbook"):
        open_store(url, tmp_path)


def test_a_database_of_something_else_is_left_alone(url: str, tmp_path: Path) -> None:
    from sqlalchemy import create_engine, text

    plain = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    (tmp_path / "store").mkdir(exist_ok=True)
    with plain.begin() as connection:
        connection.execute(text("CREATE TABLE invoices (id integer)"))
    with pytest.raises(PlaybookError, match="something else"):
        open_store(url, tmp_path)
    with plain.connect() as connection:
        assert connection.dialect.get_table_names(connection) == ["invoices"]
    plain.dispose()


# Words for what goes wrong.


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ("nonsense", "no database URL"), ("mysql://u:secret@h/x", "no such kind of store"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///{tmp}", "is a folder"),
        ("sqlite:///{tmp}/text.db", "no SQLite database"),
        ("sqlite:////proc/x/y.db", "cannot be made"),
    ],
)  # fmt: skip
def test_a_bad_url_is_one_clear_line(tmp_path: Path, bad: str, what: str) -> None:
    (tmp_path / "text.db").write_text("this is no database, it is a text of some length\n" * 40)
    with pytest.raises(PlaybookError, match=what) as told:
        open_store(bad.replace("{tmp}", str(tmp_path)))
    assert "\n" not in str(told.value) and "secret" not in str(told.value)


def test_a_server_that_is_not_there_is_told_without_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(PlaybookError, match="no connection") as told:
        open_store(f"postgresql://me:hunter2@/x?host={tmp_path}", tmp_path)
    assert "hunter2" not in str(told.value)


def test_network_file_systems_are_known(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda1 / ext4 rw 0 0\nsrv:/home /home nfs4 rw 0 0\nscratch /scratch\\040x lustre rw 0 0\n")
    assert on_network(Path("/home/me/p.db"), mounts)
    assert on_network(Path("/scratch x/p.db"), mounts)
    assert not on_network(Path("/homes/me/p.db"), mounts)
    assert not on_network(Path("/var/p.db"), mounts)
    assert not on_network(Path("/var/p.db"), tmp_path / "nothing")


@pytest.mark.parametrize(("network", "mode"), [(False, "wal"), (True, "delete")])
def test_wal_only_where_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: bool, mode: str) -> None:
    monkeypatch.setattr("playbook.incidents.database.on_network", lambda path: network)
    store = open_store(f"sqlite:///{tmp_path}/x.db")
    store.add(record(1))
    with store.database.reading() as connection:
        names = ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
        read = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names}
    assert read == {"journal_mode": mode, "foreign_keys": 1, "busy_timeout": 10000, "synchronous": 2}
    assert not list(tmp_path.glob("*-journal"))
    store.close()


# Documents from outside.


def test_a_document_survives_the_way_out_and_in() -> None:
    made = record(1)
    assert parse(document(made), "x") == made


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"format": 2}, "format 2"), ({"format": None}, "no incident document"), ({"id": "../../etc/passwd"}, "id:"),
        ({"status": "dead"}, "status:"), ({"surprise": 1}, "surprise:"), ({"title": 5}, "title:"),
        ({"artifacts": [{"name": "x", "kind": "log", "sha256": "../x", "size": 1}]}, "sha256"),
        ({"losses": {"gpus": -1}}, "gpus"), ({"moves": [{"kind": "observed", "signal": "s", "step": 2**70}]}, "step"),
    ],
)  # fmt: skip
def test_a_wrong_document_names_the_field(change: dict[str, object], what: str) -> None:
    data = document(record(1)) | change
    with pytest.raises(PlaybookError, match=re.escape(what)):
        parse(data, "x.json")


def test_sums_of_a_document_are_not_taken_over() -> None:
    data = document(record(1)) | {"cost": {"usd": 1e9}, "facts": {"a": "b"}}
    assert parse(data, "x").losses.usd == 64.0


# Artifacts.


def test_artifacts_are_kept_once_and_verified(tmp_path: Path) -> None:
    sha = artifacts.put(tmp_path, b"bytes")
    assert artifacts.put(tmp_path, b"bytes") == sha
    assert [s for s, _ in artifacts.every(tmp_path)] == [sha]
    assert artifacts.path_of(tmp_path, sha) == tmp_path / "sha256" / sha[:2] / sha[2:]
    assert artifacts.get(tmp_path, sha) == b"bytes"
    assert not list((tmp_path / "tmp").iterdir())


def test_a_damaged_artifact_is_told_and_mended_by_the_next_write(tmp_path: Path) -> None:
    sha = artifacts.put(tmp_path, b"bytes")
    artifacts.path_of(tmp_path, sha).write_bytes(b"bytez")
    with pytest.raises(PlaybookError, match="is damaged"):
        artifacts.get(tmp_path, sha, "scene.jsonl")
    artifacts.put(tmp_path, b"bytes")
    assert artifacts.get(tmp_path, sha) == b"bytes"


@pytest.mark.parametrize("sha", ["../../etc/passwd", "", "a" * 63, "G" * 64, "a" * 64 + "/x"])
def test_only_a_hash_names_an_artifact(tmp_path: Path, sha: str) -> None:
    with pytest.raises(PlaybookError, match="no SHA-256"):
        artifacts.get(tmp_path, sha)


def test_leftovers_are_swept_after_a_day(tmp_path: Path) -> None:
    artifacts.put(tmp_path, b"x")
    left = tmp_path / "tmp" / "left"
    left.write_bytes(b"half")
    now = left.stat().st_mtime
    assert artifacts.sweep(tmp_path, now + 60) == 0
    assert artifacts.sweep(tmp_path, now + artifacts.STALE_SECONDS + 1) == 1
    assert not left.exists()
