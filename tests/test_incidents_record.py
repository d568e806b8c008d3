"""From a diagnosis to the record and on: what is kept, how a person closes it, what looked like it before."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from playbook.errors import PlaybookError
from playbook.faces.cli import run as command
from playbook.incidents import scene
from playbook.incidents.record import Losses, Record
from playbook.knowledge.loader import Book
from playbook.workflow.ingest import look
from playbook.workflow.records.incident import Attached, Closing, attach, bill, close, kind_of, known_cause, reopen
from playbook.workflow.records.record import build, fingerprint, new_id
from playbook.workflow.records.record import record as recorded
from playbook.workflow.records.scenes import cut_to_size, freeze_scene, said
from playbook.workflow.records.shelf import is_there, shelf
from playbook.workflow.records.similar import compare, similar
from playbook.workflow.records.trends import of, trends
from playbook.workflow.session import Session
from tests.incidents_kit import session_on, shape, spiked, with_nan, write_csv

TINY = ("--knowledge", str(Path(__file__).parent / "tiny_knowledge"))
NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def asked(book: Book, *answers: str) -> Session:
    """A session with answers that cost something."""
    session = session_on(book)
    session.observe([shape()])
    for pair in answers:
        signal, _, state = pair.partition("=")
        session.answer(signal, state)
    return session


def stored(incident: str) -> Record:
    with shelf() as store:
        return store.get(incident)


# What is kept.


def test_moves_costs_and_the_belief_after_each_are_kept(tiny: Book) -> None:
    session = asked(tiny, "lower-lr-removes-it=yes", "tied-to-samples=unknown", "precision=fp16?")
    session.retract("precision")
    kept = stored(recorded(session, None, session.diagnosis(), now=NOON))
    assert [(m.kind, m.signal, m.state) for m in kept.moves] == [
        ("observed", "loss-shape", "persistent-spike"),
        ("answered", "lower-lr-removes-it", "yes"),
        ("closed", "tied-to-samples", None),
        ("answered", "precision", "fp16"),
        ("retracted", "precision", None),
    ]
    first, second = kept.moves[:2]
    assert first.at is None and first.top and not first.paid
    assert second.gpu_hours == pytest.approx(500 * 2 / 3600 * 8, abs=1e-3)
    assert second.top[0][0] == "lr-peak" and second.top[0][1] > first.top[0][1]
    assert kept.moves[3].confidence == 0.7
    assert kept.minutes == session.cost.minutes and kept.gpu_hours == session.cost.gpu_hours
    assert kept.facts == {"loss-shape": "persistent-spike", "lower-lr-removes-it": "yes"}
    assert kept.verdict.symptom == "persistent-spike" and kept.verdict.onset_step == 24000
    assert kept.verdict.causes[0].id == "lr-peak"
    assert kept.opened_at == "2026-03-04T12:00:00Z" and kept.status == "open"
    assert kept.versions["book"] == fingerprint(session)


def test_a_run_is_kept_with_timeline_bill_and_scene(tiny: Book) -> None:
    found = look(spiked(), tiny)
    session = session_on(tiny, found)
    kept = stored(recorded(session, found, session.diagnosis()))
    assert kept.verdict.word == "incident" and kept.verdict.symptom == "persistent-spike"
    steps = [h.step for h in kept.timeline if h.step is not None]
    assert steps == sorted(steps)
    assert {"finding", "event"} <= {h.kind for h in kept.timeline}
    assert any(h.numbers for h in kept.timeline)
    assert kept.run["first_step"] == 0 and kept.run["last_step"] == 29990
    onset = kept.verdict.onset_step
    assert onset is not None and abs(onset - 24000) <= 600
    assert kept.losses.estimated
    assert kept.losses.hours == pytest.approx((29990 - onset) * session.size.step_seconds / 3600, abs=1e-3)
    scene_ref = kept.artifact("scene")
    assert scene_ref is not None
    with shelf() as store:
        assert said(look(scene.thaw(store.fetch(scene_ref.sha256)), tiny).evidence) == said(found.evidence)


def test_the_same_diagnosis_gives_the_same_document(tiny: Book) -> None:
    found = look(spiked(400, 300), tiny)
    session = session_on(tiny, found)
    made = [build(session, found, session.diagnosis(), "x", None, "2026-03-04T12:00:00Z") for _ in range(2)]
    assert made[0].model_dump_json() == made[1].model_dump_json()


def test_ids_sort_by_day_and_differ() -> None:
    ids = {new_id(NOON) for _ in range(200)}
    assert len(ids) == 200 and all(i.startswith("20260304-") and len(i) == 15 for i in ids)


def test_a_taken_id_is_drawn_again(tiny: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["same-id", "same-id", "same-id", "other-id"])
    monkeypatch.setattr("playbook.workflow.records.record.new_id", lambda now=None: next(drawn))
    session = asked(tiny)
    assert recorded(session, None, session.diagnosis()) == "same-id"
    assert recorded(session, None, session.diagnosis()) == "other-id"


def test_files_that_were_read_are_kept_cut_to_size(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"".join(b"line %06d\n" % k for k in range(10_000)))
    data, cut = cut_to_size(path, 2_000)
    assert len(data) < 2_100 and cut == 110_000 + 10_000 - (len(data) - len(f"... {cut} bytes left out ...\n"))
    assert data.startswith(b"line 000000\n") and data.endswith(b"line 009999\n")
    assert f"\n... {cut} bytes left out ...\nline 00".encode() in data
    assert cut_to_size(path, 1_000_000) == (path.read_bytes(), 0)


# Scenes.


def test_a_scene_keeps_every_number_and_the_same_bytes(tiny: Book) -> None:
    run = with_nan(spiked(500, 400), 420)
    data = scene.freeze(run)
    again = scene.thaw(data)
    assert scene.freeze(again) == data
    for key, series in run.series.items():
        other = again.series[key]
        assert other.steps.tolist() == series.steps.tolist()
        assert other.values.tobytes() == series.values.tobytes()
        assert other.lines is not None and other.origin == series.origin
    assert again.events == run.events and again.config == run.config and again.files == run.files


def test_a_scene_is_whole_around_the_onset_and_thin_elsewhere(tiny: Book) -> None:
    run = with_nan(spiked(20_000, 15_000), 3_000)
    small = scene.thin(run, 150_000, 500, 100)
    loss, whole = small.series["loss", None], run.series["loss", None]
    near = (loss.steps >= 145_000) & (loss.steps <= 155_000)
    assert near.sum() == 1001
    assert len(loss) < 1_500
    assert loss.values[~loss.finite].size == 2  # what is not finite is never thinned away
    assert loss.values[loss.finite].max() == whole.values[whole.finite].max()
    assert loss.lines is not None and loss.lines[0] == 2
    assert scene.points([small]) < scene.points([run]) / 10


def test_the_frozen_scene_is_the_smallest_that_says_the_same(tiny: Book) -> None:
    found = look(spiked(20_000, 15_000), tiny)
    data = freeze_scene(found, tiny)
    assert said(look(scene.thaw(data), tiny).evidence) == said(found.evidence)
    assert len(data) < len(scene.freeze(found.run)) / 3


def test_a_scene_never_grows_beyond_its_limit(tiny: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(spiked(20_000, 15_000), tiny)
    monkeypatch.setattr(
        "playbook.workflow.records.scenes.said", lambda evidence: object()
    )  # no scene ever says the same
    assert len(freeze_scene(found, tiny)) == len(scene.freeze(found.run))
    monkeypatch.setattr("playbook.workflow.records.scenes.POINTS", 10_000)
    assert scene.points([scene.thaw(freeze_scene(found, tiny))]) <= 10_000


def test_line_ends_of_unicode_stay_inside_an_event(tiny: Book) -> None:
    from dataclasses import replace

    run = spiked(100, 80)
    odd = replace(run, events=(replace(run.events[0], text="a\u2028b\u0085c\x0bd"),))
    assert scene.thaw(scene.freeze(odd)).events == odd.events


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"{}", b"not json", b'{"scene": 2}', b'{"scene": 1}\n{"metric": 1}', b"\xff\xfe", b"[" * 100_000,
     b'{"scene": 1}\n{"metric":"l","rank":null,"raw":"","origin":["a",1,""],"steps":[1],"values":[1,2],"lines":null}'],
    ids=["empty", "line", "object", "text", "format", "series", "binary", "deep", "columns"],
)  # fmt: skip
def test_what_is_no_scene_is_told(data: bytes) -> None:
    with pytest.raises(PlaybookError):
        scene.thaw(data, "scene.jsonl")


# Closing, attaching, reopening.


@pytest.fixture
def opened(tiny: Book) -> str:
    session = asked(tiny, "lower-lr-removes-it=yes")
    return recorded(session, None, session.diagnosis(), now=NOON)


def test_close_with_cause_fix_and_bill(opened: str, tiny: Book) -> None:
    said_ = Closing("lr-peak", "ann", fixes=("lower-peak-lr=cured", "tried a reboot=not-cured"), steps=500, gpus=64,
                    answers={"trigger": "new schedule"}, note="second time this month")  # fmt: skip
    closed = close(opened[:12], said_, tiny, now=NOON)
    assert (closed.status, closed.cause) == ("closed", "lr-peak")
    assert (closed.cause_class, closed.layer) == ("lr_too_high", "optimization")
    assert closed.confirmed_by == "ann"
    # D3-cost-1: 64 GPUs at 2 USD an hour, 500 steps of 2 s rolled back.
    assert closed.losses.usd == pytest.approx(64 * 2 * 500 * 2 / 3600, abs=0.01) and not closed.losses.estimated
    assert [(t.fix, t.outcome) for t in closed.treatments] == [
        ("lower-peak-lr", "cured"),
        ("tried a reboot", "not-cured"),
    ]
    assert closed.answers["trigger"] == "new schedule"
    assert "closed: lr-peak" in [h.text for h in closed.timeline]
    assert stored(opened) == closed


def test_a_pending_fix_that_worked_is_one_treatment(opened: str, tiny: Book) -> None:
    attach(opened, Attached(fixes=("lower-peak-lr",)), tiny)
    closed = close(opened, Closing("lr-peak", fixes=("lower-peak-lr=cured",)), tiny)
    assert [(t.fix, t.outcome) for t in closed.treatments] == [("lower-peak-lr", "cured")]


def test_reopen_forgets_the_cause_and_keeps_the_history(opened: str, tiny: Book) -> None:
    close(opened, Closing("lr-peak", "ann"), tiny)
    again = reopen(opened, note="came back")
    assert (again.status, again.cause, again.closed_at) == ("open", None, None)
    assert "reopened: came back (was lr-peak)" in [h.text for h in again.timeline]
    with pytest.raises(PlaybookError, match="open already"):
        reopen(opened)


@pytest.mark.parametrize(
    ("said_", "what"),
    [
        (Closing(), "needs its confirmed cause"), (Closing("lr-peak", false_alarm=True), "either"),
        (Closing("lr-peek"), "did you mean lr-peak"), (Closing("other"), "needs words"),
        (Closing("lr-peak", fixes=("lower-peak-lr=great",)), "no outcome"),
        (Closing("lr-peak", fixes=("nofix=cured",)), "no fix"),
        (Closing("lr-peak", answers={"why": "x"}), "none of the seven"),
    ],
)  # fmt: skip
def test_a_wrong_closing_changes_nothing(opened: str, tiny: Book, said_: Closing, what: str) -> None:
    before = stored(opened)
    with pytest.raises(PlaybookError, match=what):
        close(opened, said_, tiny)
    assert stored(opened) == before


def test_a_cause_may_be_a_class_or_own_words(tiny: Book) -> None:
    assert known_cause("lr_too_high", tiny) == ("lr_too_high", "lr_too_high", "optimization")
    assert known_cause("other", tiny) == ("other", None, None)


def test_the_bill_needs_the_time_of_a_step() -> None:
    with pytest.raises(PlaybookError, match="time of a step"):
        bill(Losses(), Closing(steps=500))
    assert bill(Losses(gpus=8), Closing(hours=3, usd_per_gpu_hour=1.5)).usd == 36.0
    assert bill(Losses(gpus=8, hours=2.0, usd_per_gpu_hour=2.0), Closing()).estimated


def test_attach_files_links_and_notes(opened: str, tiny: Book, tmp_path: Path) -> None:
    for name in ("train.log", "ds_config.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "train.log").write_text("other")
    what = Attached(
        (tmp_path / "train.log", tmp_path / "ds_config.json", tmp_path / "deep"), links=("https://a.b/c",), note="n"
    )
    got = attach(opened, what, tiny)
    assert [(a.name, a.kind) for a in got.artifacts] == [
        ("train.log", "log"),
        ("ds_config.json", "config"),
        ("2-train.log", "log"),
    ]
    assert [x.url for x in got.links] == ["https://a.b/c"] and got.notes == ["n"]
    with shelf() as store:
        assert store.fetch(got.artifacts[2].sha256) == b"other"


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (Attached(), "nothing to attach"), (Attached((Path("/no/such"),)), "no such file"),
        (Attached(links=("javascript:alert(1)",)), "no web address"), (Attached(fixes=("nofix",)), "no fix"),
    ],
)  # fmt: skip
def test_a_wrong_attachment_is_told(opened: str, tiny: Book, what: Attached, told: str) -> None:
    with pytest.raises(PlaybookError, match=told):
        attach(opened, what, tiny)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("capture.json", "capture"), ("batch.npz", "batch"), ("rng.json", "capture"), ("x.yaml", "config"),
     ("a.csv", "metrics"),
     ("train.out", "log"), ("core.bin", "other"), ("weights.pt", "other")],
)  # fmt: skip
def test_a_file_is_taken_for_what_its_name_says(name: str, kind: str) -> None:
    assert kind_of(Path(name)) == kind


# What looked like it before.


def test_similar_incidents_with_what_was_asked_there(tiny: Book) -> None:
    old = asked(tiny, "grad-norm-before=climbs", "precision=bf16", "lower-lr-removes-it=yes")
    like = recorded(old, None, old.diagnosis())
    close(like, Closing("lr-peak", fixes=("lower-peak-lr=cured",)), tiny)
    other = asked(tiny, "grad-norm-before=normal", "precision=fp16", "tied-to-samples=yes")
    recorded(other, None, other.diagnosis())
    alarm = asked(tiny, "grad-norm-before=climbs", "precision=bf16")
    close(recorded(alarm, None, alarm.diagnosis()), Closing(false_alarm=True), tiny)

    now = asked(tiny, "grad-norm-before=climbs", "precision=bf16")
    found, problem = similar(now)
    assert problem == ""
    first = found[0]
    assert (first.id, first.kind, first.cause, first.confirmed) == (like, "incident", "lr-peak", True)
    assert first.asked == (("lower-lr-removes-it", "yes"),)
    assert first.cured_by == ("lower-peak-lr",)
    assert [s.id for s in found if s.kind == "incident"] == [like]
    assert like not in [s.id for s in similar(now, leave_out=[like])[0]]


def test_likeness_falls_with_every_contradiction(tiny: Book) -> None:
    tables = session_on(tiny).tables
    here = {
        "loss-shape": "persistent-spike",
        "grad-norm-before": "climbs",
        "precision": "bf16",
        "tied-to-samples": "no",
    }
    same = compare(tables, here, here)
    less = compare(tables, here, here | {"tied-to-samples": "yes"})
    assert same is not None and same.likeness > 0.6
    assert less is None or less.likeness < same.likeness
    assert compare(tables, here, here | {"loss-shape": "instant-nan"}) is None
    assert compare(tables, here, {"loss-shape": "persistent-spike", "precision": "bf16"}) is None  # one fact is chance


def test_a_store_that_cannot_be_read_stops_no_diagnosis(tiny: Book, tmp_path: Path) -> None:
    (tmp_path / "bad.db").write_text("no database at all, only text " * 50)
    found, problem = similar(asked(tiny, "precision=bf16"), f"sqlite:///{tmp_path}/bad.db")
    assert "no SQLite database" in problem and all(s.kind == "case" for s in found)


def test_no_store_is_made_by_looking(tiny: Book) -> None:
    assert not is_there()
    similar(asked(tiny, "precision=bf16"))
    assert trends()["incidents"] == 0
    assert command(["incident", "list"]) == 0
    assert not is_there()


# Trends.


def test_trends_sum_by_cause_layer_and_month(tiny: Book) -> None:
    row = {
        "status": "closed", "verdict": "incident", "cost_usd": 100.0, "hours_lost": 2.0, "cause": "lr-peak",
        "cause_class": "lr_too_high", "first_class": "lr_too_high", "layer": "optimization", "symptom": "plateau",
        "opened_at": "2026-03-04T00:00:00Z", "closed_at": "2026-03-04T06:00:00Z", "minutes": 10.0, "questions": 2,
    }  # fmt: skip
    april = {"opened_at": "2026-04-01T00:00:00Z", "closed_at": "2026-04-01T02:00:00Z", "minutes": 20.0}
    wrong = row | april | {"first_class": "fp16_overflow"}
    fresh = row | {"status": "open", "cause": None, "cause_class": None, "layer": None, "closed_at": None}
    told = of([row, wrong, fresh, row | {"status": "false-alarm"}, row | {"verdict": "healthy"}])
    assert (told["incidents"], told["open"], told["closed"], told["false_alarms"], told["usd"]) == (3, 1, 2, 1, 300.0)
    assert told["first_was_right"] == 0.5
    assert [(r["name"], r["incidents"]) for r in told["by_cause"]] == [("lr-peak", 2), ("not confirmed", 1)]
    assert told["by_cause"][0]["median_hours_to_confirm"] == 4.0 and told["by_cause"][0]["median_minutes_asked"] == 15.0
    assert [r["name"] for r in told["by_month"]] == ["2026-03", "2026-04"]


# The command line.


def test_the_life_of_an_incident_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(tmp_path / "run.csv", spiked(600, 480))

    def told(*arguments: str, code: int = 0) -> str:
        assert command(list(arguments)) == code
        return capsys.readouterr().out

    assert "no incidents" in told("incident", "list")
    done = json.loads(
        told("diagnose", str(path), "--no-input", "--record", "--title", "Spike at night", "--json", *TINY)
    )
    name = done["incident"]
    assert name and isinstance(done["similar"], list)
    listed = json.loads(told("incident", "list", "--json", "--search", "spike night"))
    assert [i["id"] for i in listed["incidents"]] == [name]
    assert "Spike at night" in told("incident", "show", name)
    shown = json.loads(told("incident", "show", name[:12], "--json"))
    assert shown["id"] == name and shown["cost"]["usd"] > 0 and shown["facts"]["loss-shape"] == "persistent-spike"
    told("incident", "attach", name, str(path), "--note", "looked at it", *TINY)
    told("incident", "close", name, "--cause", "lr-peak", "--lost-hours", "2", "--gpus", "8", "--by", "ann", *TINY)
    assert "8 GPU x 2 USD/h x 2 h = 32 USD" in told("incident", "show", name)
    assert json.loads(told("incident", "trends", "--json"))["usd"] == 32.0
    assert "lr-peak" in told("incident", "trends")
    told("incident", "reopen", name)
    again = json.loads(told("diagnose", str(path), "--no-input", "--json", *TINY))
    assert again["similar"][0]["id"] == name
    opened = json.loads(told("incident", "open", "--title", "by hand", "--json", *TINY))["incident"]
    assert json.loads(told("incident", "show", opened, "--json"))["verdict"]["word"] == "undecided"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("incident", "show", "nosuch"), "no such incident"), (("incident", "open"), "says nothing"),
        (("incident", "open", "--answer", "x"), "is not SIGNAL=STATE"),
        (("incident", "close", "nosuch", "--cause", "lr-peak"), "no such incident"),
        (("incident", "close", "x", "--answer", "y", "--cause", "z"), "is not QUESTION=TEXT"),
        (("incident", "attach", "x", "/no/such"), "no such file"),
        (("incident", "list", "--db", "x://y"), "--db"), (("incident", "list", "--limit", "0"), "--limit"),
        (("incident", "reopen", "nosuch"), "no such incident"),
    ],
)  # fmt: skip
def test_bad_usage_is_one_line_and_exit_2(
    arguments: tuple[str, ...], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    packs = TINY if arguments[1] not in ("list", "show", "reopen") else ()
    assert command([*arguments, *packs]) == 2
    told = capsys.readouterr()
    assert what in told.err and told.err.count("\n") == 1 and not told.out
