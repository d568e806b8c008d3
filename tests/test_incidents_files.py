"""Incidents as files: redaction, bundles and hostile bundles, exports, regression artifacts, post-mortems."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from playbook.errors import PlaybookError
from playbook.faces.cli import run as command
from playbook.incidents import bundle
from playbook.incidents.artifacts import digest
from playbook.incidents.bundle import Bundle, Limits
from playbook.incidents.redact import Redactor, Rules, read_rules
from playbook.knowledge.loader import Book, load
from playbook.workflow.book import Library, open_book
from playbook.workflow.ingest import look
from playbook.workflow.records import exchange, regression
from playbook.workflow.records.incident import Attached, Closing, attach, close
from playbook.workflow.records.postmortem import SEVEN, curve_of, draw, markdown, postmortem
from playbook.workflow.records.record import record as recorded
from playbook.workflow.records.replay import replay_incident
from playbook.workflow.records.shelf import shelf
from tests.incidents_kit import kept, record, session_on, spiked

TINY = Path(__file__).parent / "tiny_knowledge"
RULES = read_rules()


@pytest.fixture
def incident(tiny: Book) -> str:
    """A run with paths, hosts and users in it, recorded, with a note full of secrets, closed."""
    found = look(spiked(600, 480), tiny)
    session = session_on(tiny, found)
    session.answer("lower-lr-removes-it", "yes", because="asked alice on gpu-node-17")
    name = recorded(session, found, session.diagnosis(), title="alice's run on gpu-node-17 broke")
    note = "ssh alice@gpu-node-17, WANDB_API_KEY=0123456789abcdef, mail bob@example.com, see /home/alice/exp/train.log"
    attach(name, Attached(note=note, links=("https://wandb.example.com/alice/runs/1",)), tiny)
    close(name, Closing("lr-peak", "alice", fixes=("lower-peak-lr=cured",), steps=500), tiny)
    return name


# Redaction.


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda r: r.name)
def test_every_rule_removes_its_samples_and_leaves_the_others(rule) -> None:  # type: ignore[no-untyped-def]
    assert rule.match and rule.no_match
    for text in rule.match:
        one = Redactor(Rules((rule,), {}, RULES.ordinary))
        assert one.text(text) != text and one.removed()[0]["rule"] == rule.name
    for text in rule.no_match:
        one = Redactor(Rules((rule,), {}, RULES.ordinary))
        assert one.text(text) == text and not one.removed()


LOG = """\
Mar 10 12:00:01 trainbox kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.
gpu17:1234:5678 [3] NCCL WARN Connect to 10.2.3.4<29500> failed : Connection refused
[rank3]:   File "/home/alice/proj/train.py", line 88, in step
 iteration     1200/  10000 | lm loss: 2.345678E+00 | grad norm: 1.234 | learning rate: 3.000E-04 |
alice restarted trainbox and gpu17 with hf_abcdefghijklmnopqrstuvwxyz012345
"""


def test_names_stay_the_same_and_the_meaning_stays() -> None:
    redactor = Redactor(RULES)
    redactor.learn(LOG)
    text = redactor.text(LOG)
    for gone in ("alice", "trainbox", "gpu17", "10.2.3.4", "/home", "hf_abc"):
        assert gone not in text
    for stays in (
        "NVRM: Xid (PCI:0000:3b:00): 79",
        "NCCL WARN",
        "lm loss: 2.345678E+00",
        'train.py", line 88',
        "[rank3]",
    ):
        assert stays in text
    first, last = text.splitlines()[0], text.splitlines()[-1]
    host = re.search(r"host-\d+", first)
    assert host and host.group() in last  # the same machine has the same name everywhere
    assert len(set(re.findall(r"host-\d+", text))) == 3


def test_numbers_metrics_and_ids_of_the_book_are_no_secrets() -> None:
    redactor = Redactor(RULES)
    harmless = [
        "train/loss", "lm loss: 1.25E-03", "tokens/s 1.2e4", "fp16", "lr-overshoot-at-peak", "torch.nn.Linear",
        "2.18.3",
        "model.layers.0.mlp", "step 1200 of 10000", "loss is nan at step 12", "00:01:02", "world size 1024",
        "key_padding_mask",
        "param_groups[0]", "gradient norm climbs from 1.99 to 3.95 before step 13500", "rank[3]", "tokenizer: gpt2",
    ]  # fmt: skip
    for text in harmless:
        redactor.learn(text)
    assert [redactor.text(t) for t in harmless] == harmless


def test_fields_of_a_configuration_are_removed_by_their_name() -> None:
    config = {
        "hub_token": "abc", "wandb": {"api_key": "x", "entity": "ourteam"}, "output_dir": "/data/secret-project/run",
        "max_tokens": "4096", "pad_token": "<pad>", "hostname": "box", "learning_rate": 3e-4,
        "data_path": "corp/internal/set.bin",
        "user": "dora", "note": "dora on box",
    }  # fmt: skip
    redactor = Redactor(RULES)
    redactor.learn_all(config)
    got = redactor.document(config)
    assert got["hub_token"] == got["wandb"]["api_key"] == "<secret>"
    assert got["max_tokens"] == "4096" and got["pad_token"] == "<pad>" and got["learning_rate"] == 3e-4
    assert got["output_dir"].endswith("/run") and "secret-project" not in got["output_dir"]
    assert "corp" not in got["data_path"] and got["data_path"].endswith("/set.bin")
    assert got["note"] == f"{got['user']} on {got['hostname']}"
    assert "ourteam" not in json.dumps(got)


def test_a_team_adds_its_own_rules(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("rules:\n- {name: project, kind: secret, pattern: 'Project [A-Z]\\w+'}\n")
    assert Redactor(read_rules(own)).text("Project Mars began") == "<secret> began"


@pytest.mark.parametrize(
    "text", ["rules: [{name: x, kind: secret, pattern: '('}]", "rules: [{kind: secret}]",
             "rules: [{name: x, kind: odd, pattern: x}]", "[1", "- 1"],
)  # fmt: skip
def test_a_broken_rule_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(PlaybookError, match="no rules of redaction"):
        read_rules(tmp_path / "own.yaml")


def test_a_long_line_is_no_trap() -> None:
    import time

    started = time.process_time()
    for text in ("a" * 300_000, "a-" * 100_000, "a." * 100_000, "/a" * 100_000, "1:" * 100_000):
        Redactor(RULES).text(text)
    assert time.process_time() - started < 30


# Bundles.


def test_a_bundle_goes_to_another_team_and_replays(incident: str, tiny: Book, tmp_path: Path) -> None:
    out = tmp_path / "b.zip"
    done = exchange.export([incident], out)
    assert {(r["kind"]) for r in done.removed} >= {"secret", "user", "host", "path", "mail", "url"}
    with zipfile.ZipFile(out) as archive:
        everything = "\n".join(archive.read(name).decode("utf-8", "replace") for name in archive.namelist())
    for gone in (
        "alice",
        "gpu-node-17",
        '0123456789abcdef"',
        "bob@example.com",
        "/home",
        "WANDB_API_KEY=0",
        "wandb.example",
    ):
        assert gone not in everything, gone
    db = f"sqlite:///{tmp_path}/other/x.db"
    assert exchange.import_bundle(out, db).added == [incident]
    assert exchange.import_bundle(out, db).already == [incident]
    library = Library(tiny)
    with shelf(db) as store:
        theirs = store.get(incident)
        again = replay_incident(theirs, library, store)
    ours = kept(incident)
    assert not again.changed and not again.problem
    assert theirs.verdict == ours.verdict and theirs.facts == ours.facts and theirs.losses == ours.losses
    assert theirs.cause == "lr-peak" and theirs.treatments[0].fix == "lower-peak-lr"
    assert theirs.confirmed_by.startswith("user-")


def test_the_same_incident_gives_the_same_bundle(incident: str, tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip"):
        exchange.export([incident], tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_an_unredacted_copy_is_whole(incident: str, tmp_path: Path) -> None:
    exchange.export([incident], tmp_path / "b.zip", redacted=False)
    db = f"sqlite:///{tmp_path}/other/x.db"
    exchange.import_bundle(tmp_path / "b.zip", db)
    with shelf(db) as store:
        assert store.get(incident) == kept(incident)


def test_samples_of_the_data_leave_only_when_asked(incident: str, tiny: Book, tmp_path: Path) -> None:
    np.savez(tmp_path / "batch.npz", input_ids=np.ones((2, 4), int))
    attach(incident, Attached((tmp_path / "batch.npz",)), tiny)
    done = exchange.export([incident], tmp_path / "a.zip")
    assert any("batch" in line and "--with-batch" in line for line in done.left_out)
    assert all(a.kind != "batch" for a in bundle.read(tmp_path / "a.zip").records[0].artifacts)
    exchange.export([incident], tmp_path / "b.zip", with_batch=True)
    assert any(a.kind == "batch" for a in bundle.read(tmp_path / "b.zip").records[0].artifacts)


def test_a_differing_incident_needs_replace(incident: str, tiny: Book, tmp_path: Path) -> None:
    exchange.export([incident], tmp_path / "b.zip", redacted=False)
    attach(incident, Attached(note="since then"), tiny)
    with pytest.raises(PlaybookError, match="differs"):
        exchange.import_bundle(tmp_path / "b.zip")
    assert kept(incident).notes[-1] == "since then"
    assert exchange.import_bundle(tmp_path / "b.zip", replace=True).replaced == [incident]
    assert "since then" not in kept(incident).notes


# Hostile bundles: each one is refused with a line, and leaves no trace.


def honest(*artifacts: bytes) -> dict[str, bytes]:
    """The files of a small bundle."""
    refs = [{"name": f"{k}.log", "kind": "log", "sha256": digest(a), "size": len(a)} for k, a in enumerate(artifacts)]
    made = Bundle((record(1, artifacts=refs),), {digest(a): a for a in artifacts})
    with zipfile.ZipFile(io.BytesIO(bundle.pack(made))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(path: Path, files: dict[str, bytes], *more: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in [*files.items(), *more]:
            archive.writestr(name, data)
    return path


def with_manifest(files: dict[str, bytes], /, **changed: object) -> dict[str, bytes]:
    """The manifest vouches for whatever files there are, with changes."""
    manifest = json.loads(files["manifest.json"])
    others = {n: d for n, d in files.items() if n != "manifest.json"}
    manifest["files"] = {n: {"sha256": digest(d), "size": len(d)} for n, d in others.items()}
    return files | {"manifest.json": json.dumps(manifest | changed).encode()}


def refused(path: Path, what: str, limits: Limits | None = None) -> None:
    with pytest.raises(PlaybookError, match=what) as told:
        bundle.read(path, limits)
    assert "\n" not in str(told.value)


def test_the_honest_one_is_read(tmp_path: Path) -> None:
    assert bundle.read(zipped(tmp_path / "b.zip", honest(b"log"))).records[0].title == "Loss leaves at step 1"


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/passwd", "incidents/../../x.json", "artifacts/../x", "C:\\x", "artifacts\\x", "a.txt",
             "incidents/a/b.json",
             "incidents/.json", "artifacts/" + "a" * 63, "manifest.json/", "incidents/"],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    refused(zipped(tmp_path / "b.zip", honest(), (name, b"x")), "no file of a bundle")
    assert not (tmp_path.parent / "evil").exists()


def test_a_link_is_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("artifacts/" + "a" * 64)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    refused(zipped(tmp_path / "b.zip", honest(), (info, b"/etc/passwd")), "a link")


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    files = honest()
    name = next(n for n in files if n.startswith("incidents/"))
    with pytest.warns(UserWarning, match="Duplicate"):
        path = zipped(tmp_path / "b.zip", files, (name, b"{}"))
    refused(path, "twice")


def test_bombs_are_refused(tmp_path: Path) -> None:
    zeros = bytes(30_000_000)
    refused(zipped(tmp_path / "a.zip", honest(zeros)), "times its size")
    refused(zipped(tmp_path / "b.zip", honest(os.urandom(200_000))), "too much", Limits(file_bytes=100_000))
    several = honest(*(os.urandom(60_000) for _ in range(4)))
    refused(zipped(tmp_path / "c.zip", several), "too much", Limits(total_bytes=150_000))
    refused(zipped(tmp_path / "d.zip", several), "more than 3", Limits(files=3))


def test_a_lying_header_is_no_way_around(tmp_path: Path) -> None:
    """The size in the central directory says little, the bytes are many."""
    path = zipped(tmp_path / "b.zip", honest(bytes(5_000_000)))
    data = bytearray(path.read_bytes())
    big = (5_000_000).to_bytes(4, "little")
    assert big in data
    path.write_bytes(bytes(data).replace(big, (10).to_bytes(4, "little")))
    with pytest.raises(PlaybookError):
        bundle.read(path)


@pytest.mark.parametrize(
    ("changed", "what"),
    [({"bundle": 2}, "version 2"), ({"bundle": None}, "version None"), ({"files": 7}, "lists no files"),
     ({"files": {"x": 1}}, "lists no files")],
)  # fmt: skip
def test_an_unknown_version_or_manifest_is_refused(tmp_path: Path, changed: dict[str, object], what: str) -> None:
    refused(zipped(tmp_path / "b.zip", with_manifest(honest(), **changed)), what)


def test_tampered_bytes_are_refused(tmp_path: Path) -> None:
    files = honest(b"a log line")
    name = next(n for n in files if n.startswith("artifacts/"))
    refused(zipped(tmp_path / "a.zip", files | {name: b"another line"}), "not what it was")
    # Also when the manifest vouches for it: the name is the hash.
    refused(zipped(tmp_path / "b.zip", with_manifest(files | {name: b"another line"})), "not what it was")
    told = next(n for n in files if n.startswith("incidents/"))
    refused(zipped(tmp_path / "c.zip", files | {told: files[told].replace(b"leaves", b"stays!")}), "not what it was")


def test_what_is_missing_or_too_much_is_refused(tmp_path: Path) -> None:
    files = honest(b"a log line")
    name = next(n for n in files if n.startswith("artifacts/"))
    cut = {n: d for n, d in files.items() if n != name}
    refused(zipped(tmp_path / "a.zip", cut), "lacks")
    refused(zipped(tmp_path / "b.zip", with_manifest(cut)), "which is not there")
    refused(zipped(tmp_path / "c.zip", files, ("artifacts/" + digest(b"x"), b"x")), "does not know")
    refused(zipped(tmp_path / "d.zip", {n: d for n, d in files.items() if n != "manifest.json"}), "no manifest")
    refused(zipped(tmp_path / "e.zip", with_manifest({"manifest.json": files["manifest.json"]})), "no incident")


@pytest.mark.parametrize(
    "document",
    [b"{}", b"[" * 50_000, b"nonsense", b'{"format": 1}', b"\xff\xfe", b'{"format": 9}', b"null",
     json.dumps({"format": 1, "id": "../x", "title": "", "opened_at": "", "verdict": {"word": "incident"}}).encode(),
     json.dumps({"format": 1, "id": "other", "title": "", "opened_at": "", "verdict": {"word": "incident"}}).encode()],
    ids=["empty", "deep", "nonsense", "short", "binary", "format 9", "null", "climbs", "other id"],
)  # fmt: skip
def test_a_document_that_is_none_is_refused(tmp_path: Path, document: bytes) -> None:
    files = honest()
    name = next(n for n in files if n.startswith("incidents/"))
    refused(zipped(tmp_path / "b.zip", with_manifest(files | {name: document})), ".")


@pytest.mark.parametrize("data", [b"", b"PK", b"no zip at all", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_zip_is_one_line_and_exit_2(tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "b.zip").write_bytes(data)
    assert command(["incident", "import", str(tmp_path / "b.zip")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert command(["incident", "import", str(tmp_path)]) == 2
    assert command(["incident", "import", str(tmp_path / "none.zip")]) == 2


def test_every_cut_of_a_bundle_is_refused(tmp_path: Path) -> None:
    whole = zipped(tmp_path / "b.zip", honest(b"a log line")).read_bytes()
    for end in range(0, len(whole), 97):
        (tmp_path / "cut.zip").write_bytes(whole[:end])
        with pytest.raises(PlaybookError):
            bundle.read(tmp_path / "cut.zip")


def test_a_refused_bundle_leaves_no_trace(tmp_path: Path) -> None:
    files = honest(b"a log line")
    name = next(n for n in files if n.startswith("artifacts/"))
    path = zipped(tmp_path / "b.zip", files | {name: b"another line"})
    with pytest.raises(PlaybookError):
        exchange.import_bundle(path)
    assert not (tmp_path / "home").exists()


def test_a_hostile_title_steers_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences of an imported document are gone before anything is stored."""
    files = honest()
    name = next(n for n in files if n.startswith("incidents/"))
    data = json.loads(files[name]) | {"title": "\x1b]0;owned\x07\x1b[2J[bold red]x[/] <script>"}
    path = zipped(tmp_path / "b.zip", with_manifest(files | {name: json.dumps(data).encode()}))
    exchange.import_bundle(path)
    for arguments in (["list"], ["show", data["id"]], ["show", data["id"], "--markdown"]):
        assert command(["incident", *arguments]) == 0
        told = capsys.readouterr().out
        assert "\x1b" not in told and "\x07" not in told
        assert "<script>" not in told or arguments != ["show", data["id"], "--markdown"]


# JSON and CSV.


def test_csv_and_json_of_everything(incident: str, capsys: pytest.CaptureFixture[str]) -> None:
    with shelf() as store:
        store.add(record(1, title='=cmd("x")\nnew "line"'))
    assert command(["incident", "export", "--all", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {r["id"] for r in rows} == {incident, "20260304-made1"}
    assert next(r for r in rows if r["id"] == "20260304-made1")["title"].startswith("'=cmd")
    assert command(["incident", "export", "--all", "--json"]) == 0
    documents = json.loads(capsys.readouterr().out)["incidents"]
    assert [d["id"] for d in documents] == [incident, "20260304-made1"]
    assert documents[0]["cost"]["usd"] > 0


@pytest.mark.parametrize(
    "arguments",
    [(), ("--all",), ("--all", "--csv", "--json"), ("x", "--csv"), ("x", "--all", "--out", "y.zip"),
     ("nosuch", "--out", "y.zip")],
)  # fmt: skip
def test_an_export_of_nothing_is_exit_2(
    arguments: tuple[str, ...], incident: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(["incident", "export", *arguments]) == 2
    assert not (tmp_path / "y.zip").exists()


# Regression artifacts.


def captured(folder: Path, **arrays: np.ndarray) -> Path:
    import playbook.capture

    made = playbook.capture.capture(
        folder, step=480, batch=arrays, config={"vocab_size": 100, "max_seq_len": 8}, rank=0
    )
    assert made is not None
    return made


STEP = """
import numpy as np
def loss(batch):
    return {"loss": np.float32(batch["input_ids"].mean())}
def bad(batch):
    return float("nan")
def data():
    yield {"input_ids": np.arange(8).reshape(1, 8)}
def broken_data():
    yield {"input_ids": np.full((1, 8), 5000)}
"""


def pytest_in(folder: Path, project: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PLAYBOOK_KNOWLEDGE": str(TINY), "PYTHONPATH": str(project)}
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    return subprocess.run(line, capture_output=True, text=True, cwd=folder, env=environment, check=False)


def frozen(incident: str, out: Path, library: Library | None = None, **options: object) -> regression.Frozen:
    return regression.freeze(incident, out, library or Library(load([TINY])), None, **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_written_test_passes_and_can_fail(incident: str, tiny: Book, tmp_path: Path) -> None:
    ids = np.arange(24).reshape(2, 12)
    ids[1, 3] = 4000
    attach(incident, Attached((captured(tmp_path / "caps", input_ids=ids),)), tiny)
    (tmp_path / "ourstep.py").write_text(STEP)
    out = tmp_path / "reg"
    done = frozen(incident, out, open_book([TINY]), call="ourstep:loss", data="ourstep:data")
    assert done.parts == ("verdict", "rule", "data", "callable")
    assert [b.split(":")[0] for b in done.broken] == ["length", "length", "token-range"]
    result = pytest_in(out, tmp_path)
    assert result.returncode == 0 and "4 passed" in result.stdout, result.stdout

    rules = json.loads((out / "rules.json").read_text())
    (out / "rules.json").write_text(
        json.dumps(rules | {"callable": "ourstep:bad", "data": "ourstep:broken_data", "broken": []})
    )
    expected = (out / "expected.json").read_text()
    (out / "expected.json").write_text(expected.replace("persistent-spike", "plateau"))
    result = pytest_in(out, tmp_path)
    assert "4 failed" in result.stdout, result.stdout


def test_a_scene_replays_byte_for_byte(incident: str, tmp_path: Path) -> None:
    frozen(incident, tmp_path / "r")
    library = Library(load([TINY]))
    assert regression.replayed_bytes(tmp_path / "r", library) == (tmp_path / "r" / "expected.json").read_bytes()
    assert not regression.replay_folder(tmp_path / "r", library).changed
    files = sorted(p.name for p in (tmp_path / "r").iterdir())
    assert files == [
        "README.md",
        "expected.json",
        "incident.json",
        "scene.jsonl",
        f"test_incident_{incident.replace('-', '_')}.py",
    ]
    # Another scene says something else.
    lines = (tmp_path / "r" / "scene.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "r" / "scene.jsonl").write_text("".join(x for x in lines if '"metric":"loss"' not in x))
    assert regression.replayed_bytes(tmp_path / "r", library) != (tmp_path / "r" / "expected.json").read_bytes()


def test_an_artifact_is_not_written_over_another(incident: str, tmp_path: Path) -> None:
    frozen(incident, tmp_path / "r")
    with pytest.raises(PlaybookError, match="is there already"):
        frozen(incident, tmp_path / "r")
    frozen(incident, tmp_path / "r", overwrite=True)


@pytest.mark.parametrize("options", [{"call": "nomodule"}, {"call": "m:f"}, {"data": ":x"}])
def test_a_callable_needs_its_form_and_a_batch(incident: str, tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(PlaybookError, match=r"--callable|--data"):
        frozen(incident, tmp_path / "r", **options)
    assert not (tmp_path / "r").exists()


def test_what_is_missing_is_said_with_how_to_get_it(incident: str, tmp_path: Path) -> None:
    done = frozen(incident, tmp_path / "r")
    assert done.parts == ("verdict",)
    assert "playbook.capture" in (tmp_path / "r" / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "data"),
    [("expected.json", "{}"), ("expected.json", "["), ("incident.json", "[" * 50_000), ("incident.json", "{}"),
     ("scene.jsonl", "x"), ("expected.json", '{"verdict": {"verdict": "odd"}}')],
    ids=["no verdict", "cut", "deep", "empty", "scene", "odd verdict"],
)  # fmt: skip
def test_damaged_pieces_of_an_artifact_are_one_line(
    incident: str, tmp_path: Path, name: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    frozen(incident, tmp_path / "r")
    (tmp_path / "r" / name).write_text(data)
    assert command(["replay", str(tmp_path / "r"), "--knowledge", str(TINY)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("data", [b"[1]", b"{", b'{"sample_ids": 5, "config": [1]}'])
def test_a_hostile_capture_freezes_or_is_told(incident: str, tiny: Book, tmp_path: Path, data: bytes) -> None:
    made = captured(tmp_path / "caps", input_ids=np.ones((2, 3), int))
    (made / "capture.json").write_bytes(data)
    attach(incident, Attached((made,)), tiny)
    try:
        frozen(incident, tmp_path / "r")
    except PlaybookError as error:
        assert "\n" not in str(error)


# Post-mortems.


def test_a_post_mortem_answers_the_seven_questions(incident: str, tiny: Book) -> None:
    with shelf() as store:
        told = markdown(postmortem(kept(incident), tiny, store))
    assert [line[3:] for line in told.splitlines() if line.startswith("## ")][:7] == [title for _, title in SEVEN]
    for piece in (
        "^ onset",
        "| Step or time |",
        "lower-lr-removes-it",
        "GPUs x 2 USD",
        "Outcome: cured",
        "Confirmed by alice",
    ):
        assert piece in told
    assert "_Not answered yet._" not in told


def test_text_of_people_is_only_text(tiny: Book) -> None:
    nasty = "<script>alert(1)</script> [x](javascript:1) `a` | # **b**"
    made = record(1, title=nasty, notes=[nasty], timeline=[{"kind": "note", "text": nasty, "time": nasty}])
    told = markdown(postmortem(made, tiny))
    assert "<script" not in told and not re.search(r"(?<!\\)\](?=\(javascript)", told) and "**b**" not in told
    table = [line for line in told.splitlines() if line.startswith("|") and "alert" in line]
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in table) and table


def test_own_words_come_before_those_of_the_book(incident: str, tiny: Book) -> None:
    own = kept(incident).model_copy(update={"answers": {"trigger": "A new data stage.", "earlier": "Watch the norm."}})
    told = markdown(postmortem(own, tiny))
    assert "A new data stage." in told and "Watch the norm." in told


def test_the_curve_shows_extremes_nan_and_onset() -> None:
    run = spiked(1000, 800)
    values = run.series["loss", None].values.copy()
    values[100] = np.nan
    run = replace(run, series={("loss", None): replace(run.series["loss", None], values=values)})
    curve = curve_of(run, 8000)
    assert curve is not None and curve.onset is not None and len(curve.low) == 72
    assert np.nanmax(curve.high) == np.nanmax(values) and np.nanmin(curve.low) == np.nanmin(values)
    assert curve.bad.sum() == 1
    picture = draw(curve).splitlines()
    assert any("x" in line for line in picture[:1])
    assert picture[-2].index("^") - picture[-3].index("+") - 1 == curve.onset
    assert curve_of(replace(run, series={}), None) is None


def test_a_curve_without_a_finite_value_is_said() -> None:
    run = spiked(100, 80)
    loss = replace(run.series["loss", None], values=np.full(100, np.nan))
    curve = curve_of(replace(run, series={("loss", None): loss}), None)
    assert curve is not None and draw(curve) == "loss: no finite value"
