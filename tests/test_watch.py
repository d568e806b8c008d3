"""Watching a run: incidents are told at the row at which they begin, once each, to people, programs and web hooks."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from playbook.engine.tables import SHAPE
from playbook.errors import PlaybookError
from playbook.faces.cli import playbook as cli
from playbook.findings import Evidence
from playbook.workflow.book import Library
from playbook.workflow.ingest import ingest, look
from playbook.workflow.watching import notify
from playbook.workflow.watching.alarm import Alarm, News
from playbook.workflow.watching.live import Follower
from playbook.workflow.watching.watch import Happening, Options, watch
from tests import live_kit as kit

LAB = Path(__file__).parent / "lab" / "runs"


def told_by(values: np.ndarray, library: Library, tmp_path: Path, *near: int) -> list[tuple[int, News]]:
    """(rows written, news) of a loss that is looked at after each row near some rows, and now and then elsewhere."""
    path = tmp_path / "run.csv"
    path.write_bytes(b"step,loss,grad_norm,lr\n")
    follower, alarm = Follower([str(path)]), Alarm(library.book.signals[SHAPE])
    rows = kit.csv_bytes(values).splitlines(keepends=True)[1:]
    found: list[tuple[int, News]] = []
    looks = {*range(0, len(rows), 40), len(rows), *(row + i for row in near for i in range(-8, 16))}
    for at, until in pairwise(sorted(looks)):
        kit.append(path, b"".join(rows[at:until]))
        follower.poll()
        run = follower.run()
        if run is not None:
            found += [(until, item) for item in alarm.look(look(run, library.book))]
    return found


def alerts(found: list[tuple[int, News]]) -> list[tuple[int, str, int | None]]:
    return [(rows, item.evidence.state, item.evidence.step) for rows, item in found if item.kind == "incident"]


# What is told, and when


def test_a_healthy_run_is_silent(library: Library, tmp_path: Path) -> None:
    assert told_by(kit.losses(500), library, tmp_path) == []


def test_a_nan_is_told_at_its_row_and_once(library: Library, tmp_path: Path) -> None:
    values = kit.losses(300)
    values[200:] = np.nan
    assert alerts(told_by(values, library, tmp_path, 200)) == [(201, "instant-nan", 201)]


def test_a_spike_is_told_at_its_row_and_is_over_when_the_curve_is_back(library: Library, tmp_path: Path) -> None:
    values = kit.losses(400)
    values[250:256] += 9.0
    found = told_by(values, library, tmp_path, 250)
    assert [rows for rows, _, _ in alerts(found)] == [251]
    over = [(rows, item.because) for rows, item in found if item.kind == "over"]
    assert len(over) == 1 and 257 <= over[0][0] <= 262 and over[0][1] == "the curve is back"


def test_spikes_that_come_again_alarm_once(library: Library, tmp_path: Path) -> None:
    values = kit.losses(2_500)
    for at in (600, 1_200, 1_900):
        values[at : at + 4] += 9.0
    found = told_by(values, library, tmp_path, 600, 1_200, 1_900)
    assert [rows for rows, _, _ in alerts(found)] == [601]
    assert [item.evidence.step for _, item in found if item.kind == "again"] == [1_201, 1_901]


def test_a_spike_that_stays_after_one_that_passed_alarms(library: Library, tmp_path: Path) -> None:
    values = kit.losses(2_000)
    values[600:604] += 9.0
    values[1_200:] += 9.0
    found = told_by(values, library, tmp_path, 600, 1_200)
    assert [(rows, state) for rows, state, _ in alerts(found)] == [
        (601, "transient-spike"),
        (1_440, "persistent-spike"),
    ]
    assert next((rows, item.kind) for rows, item in found if 1_200 < rows < 1_400) == (1_201, "again")


def test_a_spike_that_ends_in_nan_is_one_incident(library: Library, tmp_path: Path) -> None:
    values = kit.losses(400)
    values[250:] += np.linspace(4.0, 60.0, 150)
    values[300:] = np.nan
    found = told_by(values, library, tmp_path, 250, 300)
    assert len(alerts(found)) == 1
    assert "instant-nan" in [item.evidence.state for _, item in found if item.kind == "changed"]


def test_a_second_incident_after_a_rollback_is_told(library: Library, tmp_path: Path) -> None:
    first, second = kit.losses(400)[:300], kit.losses(400)[150:400]
    first[280:] = np.nan
    second[200:] = np.nan
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"")
    follower, alarm = Follower([str(path)]), Alarm(library.book.signals[SHAPE])
    news: list[News] = []
    rows = kit.jsonl_bytes(first).replace(b"nan", b"NaN") + kit.jsonl_bytes(second, first=151)
    for number, row in enumerate(rows.splitlines(keepends=True)):
        kit.append(path, row)
        if number % 20 and not 275 < number < 310 and not 495 < number < 510:
            continue
        follower.poll()
        run = follower.run()
        if run is not None:
            news += alarm.look(look(run, library.book))
    assert [(n.kind, n.evidence.step) for n in news if n.kind == "incident"] == [("incident", 281), ("incident", 351)]
    assert [n.because for n in news if n.kind == "over"] == ["the job goes on from step 151"]


def test_what_is_known_at_the_start_is_no_news(library: Library, tmp_path: Path) -> None:
    values = kit.losses(900)
    values[300:304] += 9.0
    path = tmp_path / "run.csv"
    path.write_bytes(kit.csv_bytes(values[:600]))
    follower, alarm = Follower([str(path)]), Alarm(library.book.signals[SHAPE])
    alarm.skip(look(kit.polled(follower), library.book))
    assert alarm.look(look(kit.polled(follower), library.book)) == []
    values[800:] = np.nan
    kit.append(path, b"".join(kit.csv_bytes(values).splitlines(keepends=True)[601:]))
    assert [n.kind for n in alarm.look(look(kit.polled(follower), library.book))] == ["incident"]


def test_thinned_rows_do_not_end_an_incident(library: Library, tmp_path: Path) -> None:
    """A spike far back in a long run: the rows that showed it may be gone, and that is no recovery."""
    path = tmp_path / "run.csv"
    values = kit.losses(30_000)
    values[400:404] += 9.0
    path.write_bytes(b"")
    follower, alarm = Follower([str(path)], held=128 << 10), Alarm(library.book.signals[SHAPE])
    news: list[News] = []
    for piece in kit.chunks(kit.csv_bytes(values), random.Random(3), 40):
        kit.append(path, piece)
        follower.poll()
        for growing in follower._files.values():
            growing._text.history.limit = 2_048
        run = follower.run()
        if run is not None:
            news += alarm.look(look(run, library.book), {str(path): follower.recent(str(path))})
    assert [n.kind for n in news] == ["incident"] or [n.kind for n in news] == ["incident", "over"]
    assert follower.recent(str(path)) > 10_000


LAB_RUNS = ["damaged-batches-2", "log-of-zero-1", "nan-in-a-row-2", "rate-absurd-2", "resume-fresh-weights-3"]


@pytest.mark.parametrize("name", LAB_RUNS)
def test_runs_of_the_lab_alarm_once_and_end_with_the_verdict_of_ingest(
    name: str, library: Library, tmp_path: Path
) -> None:
    import gzip

    data = gzip.decompress((LAB / "faulty" / name / "metrics.csv.gz").read_bytes())
    path = tmp_path / "metrics.csv"
    path.write_bytes(data)
    offline = ingest([str(path)], library.book)
    path.write_bytes(b"")
    follower, alarm = Follower([str(path)]), Alarm(library.book.signals[SHAPE])
    news: list[News] = []
    rows = data.splitlines(keepends=True)
    for at in range(0, len(rows), 7):
        kit.append(path, b"".join(rows[at : at + 7]))
        follower.poll()
        if (run := follower.run()) is not None:
            found = look(run, library.book)
            news += alarm.look(found)
    assert [n.kind for n in news].count("incident") == 1
    assert found.evidence == offline.evidence and found.verdict == offline.verdict == "incident"


# The loop


def happenings(paths: list[str], library: Library, write: Callable[[], None], options: Options) -> list[Happening]:
    """All that happens while another thread writes."""
    writer = threading.Thread(target=write)
    writer.start()
    try:
        return list(watch(paths, library, options))
    finally:
        writer.join()


def test_a_watch_waits_for_the_file_follows_it_and_ends_with_the_incident(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    values = kit.losses(120)
    values[100:] = np.nan

    def write() -> None:
        rows = kit.csv_bytes(values).splitlines(keepends=True)
        time.sleep(0.5)  # the watch is there first
        for at in range(0, len(rows), 20):
            time.sleep(0.05)
            kit.append(path, b"".join(rows[at : at + 20]))

    seen = happenings([str(path)], library, write, Options(poll=0.02, seconds=20, until_incident=True))
    assert [h.kind for h in seen] == ["waiting", "reading", "incident", "end"]
    alert = seen[2].alert
    assert alert["symptom"]["id"] == "instant-nan" and alert["symptom"]["onset_step"] == 101
    assert alert["location"] == {"file": str(path), "line": 102} and alert["first_aid"] and alert["causes"]
    assert json.loads(json.dumps(alert)) == alert and seen[-1].reason == "an incident began"


def test_from_now_on_only_what_is_new_counts(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    faulty(path)
    options = Options(poll=0.02, seconds=0.2, from_now=True, until_incident=True)
    seen = list(watch([str(path)], library, options))
    assert [h.kind for h in seen] == ["reading", "end"] and seen[-1].incidents == 0
    path.unlink()

    def write() -> None:
        time.sleep(0.5)
        faulty(tmp_path / "new.csv")
        (tmp_path / "new.csv").rename(path)

    seen = happenings([str(path)], library, write, Options(0.02, 20, True, True))
    assert [h.kind for h in seen] == ["waiting", "reading", "incident", "end"]  # written after we came


def test_the_last_word_is_the_verdict_of_ingest(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(kit.csv_bytes(kit.losses(200))[:-1] + b"5")  # the last line has no end
    end = list(watch([str(path)], library, Options(poll=0.02, seconds=0)))[-1]
    offline = ingest([str(path)], library.book)
    assert end.kind == "end" and end.found is not None
    assert (end.found.verdict, end.found.evidence) == (offline.verdict, offline.evidence)
    assert kit.told(end.found.run) == kit.told(offline.run)


def test_a_look_that_fails_is_told_and_the_next_one_comes(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(kit.csv_bytes(kit.losses(50)))
    monkeypatch.setattr("playbook.workflow.watching.watch.look", lambda *_: 1 / 0)
    seen = list(watch([str(path)], library, Options(poll=0.02, seconds=0.2)))
    assert [h.kind for h in seen] == ["problem", "end"] and "division" in str(seen[0].problem)


def test_a_recorded_incident_is_in_the_store(library: Library, tmp_path: Path) -> None:
    path, db = tmp_path / "run.csv", f"sqlite:///{tmp_path / 'store.db'}"
    values = kit.losses(120)
    values[100:] = np.nan
    path.write_bytes(kit.csv_bytes(values))
    seen = list(watch([str(path)], library, Options(seconds=0, record=True, db=db, title="the night run")))
    alert = next(h.alert for h in seen if h.kind == "incident")
    shown = CliRunner().invoke(cli, ["incident", "show", alert["incident"], "--db", db, "--json"])
    assert shown.exit_code == 0 and "the night run" in shown.output
    broken = list(watch([str(path)], library, Options(seconds=0, record=True, db=f"sqlite:///{path}/below-a-file.db")))
    assert [h.kind for h in broken] == ["reading", "problem", "incident", "end"]


# Programs and web hooks

ALERT = {
    "event": "incident", "number": 1, "host": "n1", "files": ["run.csv"], "because": "loss is <NaN> & stays",
    "time": "2026-01-02T03:04:05+00:00",
    "symptom": {"id": "instant-nan", "title": "The loss turns NaN", "onset_step": 7, "confidence": 0.95},
    "first_aid": [{"id": "stop", "title": "Stop", "summary": "", "steps": []}],
    "causes": [{"id": "c", "title": "A cause", "layer": "data", "probability": 0.4}],
    "diagnose": "playbook diagnose run.csv",
}  # fmt: skip


def delivered(sender: notify.Sender, documents: list[dict[str, Any]], patience: float = 20.0) -> list[str]:
    for document in documents:
        sender.send(document)
    sender.close(patience)
    return sender.faults()


def test_a_program_gets_the_alert_and_no_shell_sees_it(tmp_path: Path) -> None:
    out = tmp_path / "got.json"
    code = f"import sys; open({str(out)!r}, 'w').write(sys.argv[1] + chr(10) + sys.stdin.read())"
    target = notify.program(f"{sys.executable} -c \"{code}\" '; touch {tmp_path}/owned $(id)'")
    assert delivered(notify.Sender([target]), [ALERT]) == []
    argument, _, text = out.read_text().partition("\n")
    assert argument.startswith("; touch") and "$(id)" in argument and json.loads(text) == ALERT
    assert not (tmp_path / "owned").exists()


def test_a_program_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = notify.program(f"{sys.executable} -c \"import sys; sys.exit('no pager')\"")
    assert "code 1: no pager" in delivered(notify.Sender([failing]), [ALERT])[0]
    monkeypatch.setattr(notify, "PROGRAM_TIMEOUT", 0.2)
    slow = notify.program(f'{sys.executable} -c "import time; time.sleep(9)"')
    assert "took more than" in delivered(notify.Sender([slow]), [ALERT])[0]
    for command, what in (
        ("nosuchprogram --x", "no such program"),
        ("", "no such program"),
        ("a 'b", "cannot be split"),
    ):
        with pytest.raises(PlaybookError, match=what):
            notify.program(command)


class Hook:
    """A web hook on the loopback: answers in turn, the last one for ever."""

    def __init__(self, *answers: int | tuple[int, dict[str, str]] | None) -> None:
        self.answers, self.posts = list(answers), list[dict[str, Any]]()
        self.hold = threading.Event()


@contextmanager
def served(hook: Hook) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.posts.append(json.loads(body))
            answer = hook.answers.pop(0) if len(hook.answers) > 1 else hook.answers[0]
            if answer is None:
                hook.hold.wait(20)
                return
            code, headers = answer if isinstance(answer, tuple) else (answer, {})
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/secret/path"
    finally:
        hook.hold.set()
        server.shutdown()
        server.server_close()


def test_a_web_hook_is_tried_again() -> None:
    hook = Hook(503, 429, 200)
    with served(hook) as url:
        assert delivered(notify.Sender([notify.webhook(url, backoff=0.01)]), [ALERT]) == []
    assert hook.posts == [ALERT] * 3


def test_a_service_may_ask_for_patience() -> None:
    hook = Hook((429, {"Retry-After": "1"}), 200)
    begin = time.monotonic()
    with served(hook) as url:
        assert delivered(notify.Sender([notify.webhook(url, backoff=0.01)]), [ALERT]) == []
    assert time.monotonic() - begin >= 1.0


@pytest.mark.parametrize("answer", [404, (302, {"Location": "http://127.0.0.1:9/"})])
def test_a_refusal_is_final_and_the_secret_is_not_told(answer: int | tuple[int, dict[str, str]]) -> None:
    hook = Hook(answer)
    with served(hook) as url:
        faults = delivered(notify.Sender([notify.webhook(url, backoff=0.01)]), [ALERT])
    assert len(hook.posts) == 1 and "HTTP" in faults[0] and "secret" not in faults[0]


def test_a_hook_that_never_answers_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "QUEUE", 4)
    hook = Hook(None)
    with served(hook) as url:
        sender = notify.Sender([notify.webhook(url)])
        begin = time.monotonic()
        for number in range(50):
            sender.send(ALERT | {"number": number})
        assert time.monotonic() - begin < 5
        sender.close(0.2)
        faults = sender.faults()
    assert any("oldest was dropped" in f for f in faults) and any("given up" in f for f in faults)


def test_nobody_listens() -> None:
    faults = delivered(notify.Sender([notify.webhook("http://127.0.0.1:9/x", backoff=0.001)]), [ALERT])
    assert len(faults) == 1 and "refused" in faults[0]


@pytest.mark.parametrize("url", ["ftp://host/x", "hooks.slack.com/x", "", "http:///x"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(PlaybookError, match="no http"):
        notify.webhook(url)


def test_slack_gets_blocks_with_its_special_characters_escaped() -> None:
    post = notify.slack(ALERT)
    assert post["text"].startswith("The loss turns NaN from step 7 on n1: loss is &lt;NaN&gt; &amp; stays")
    assert post["blocks"][0]["type"] == "header" and all(
        len(b["text"]["text"]) <= (150 if b["type"] == "header" else 3000) for b in post["blocks"]
    )
    assert "• Stop" in json.dumps(post, ensure_ascii=False) and "A cause (40%)" in json.dumps(post)


def test_pagerduty_opens_one_incident_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlaybookError, match=notify.PAGERDUTY_KEY):
        notify.webhook("https://events.pagerduty.com/v2/enqueue")
    monkeypatch.setenv(notify.PAGERDUTY_KEY, "key")
    notify.webhook("https://events.pagerduty.com/v2/enqueue")
    post = notify.pagerduty(ALERT)
    assert post["routing_key"] == "key" and post["event_action"] == "trigger"
    assert post["dedup_key"] == notify.pagerduty(ALERT | {"because": "other"})["dedup_key"]
    assert post["dedup_key"] != notify.pagerduty(ALERT | {"number": 2})["dedup_key"]
    payload = post["payload"]
    assert payload["severity"] == "critical" and payload["source"] == "n1" and len(payload["summary"]) <= 1024


# The command


def faulty(path: Path) -> None:
    values = kit.losses(120)
    values[100:] = np.nan
    path.write_bytes(kit.csv_bytes(values))


def test_the_command_prints_one_document_a_line(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    faulty(path)
    result = CliRunner().invoke(
        cli, ["watch", str(path), "--max-seconds", "0", "--json", "--check"], standalone_mode=False
    )
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    assert [d["event"] for d in documents] == ["reading", "incident", "end"] and result.return_value == 1
    assert documents[-1]["verdict"] == "incident" and documents[-1]["incidents"] == 1
    path.write_bytes(kit.csv_bytes(kit.losses(120)))
    result = CliRunner().invoke(cli, ["watch", str(path), "--max-seconds", "0", "--check"], standalone_mode=False)
    assert result.return_value == 0 and "healthy" in result.stdout


def test_the_command_says_what_to_do(tmp_path: Path) -> None:
    faulty(tmp_path / "run.csv")
    out = CliRunner().invoke(cli, ["watch", str(tmp_path), "--until-incident", "--max-seconds", "9"]).stdout
    assert "INCIDENT" in out and "from step 101" in out and "First aid" in out and "playbook diagnose" in out


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["nowhere.csv", "--max-seconds", "0.1"], "nothing could be read"),
        (["-"], "standard input is not followed"),
        (["x", "--webhook", "mailto:a@b"], "no http"),
        (["x", "--exec", "nosuchprogram"], "no such program"),
        (["x", "--webhook-format", "slack"], "goes with --webhook"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], what: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "playbook", "watch", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 2 and what in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_the_watch_in_order(number: signal.Signals, code: int, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(kit.csv_bytes(kit.losses(60)))
    command = [sys.executable, "-m", "playbook", "watch", str(path), "--json", "--poll", "0.1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    ) as job:
        assert job.stdout is not None
        assert json.loads(job.stdout.readline())["event"] == "reading"
        job.send_signal(number)
        rest = job.stdout.read()
        job.wait(20)
    assert job.returncode == code and json.loads(rest.splitlines()[-1])["reason"] == "stopped"


def test_an_alarm_survives_what_has_no_place(library: Library) -> None:
    """A symptom without step and line (a message of the machine) alarms once."""
    from playbook.series import Run
    from playbook.workflow.ingest import Ingested

    alarm = Alarm(library.book.signals[SHAPE])
    found = Ingested(Run(), (), (Evidence(SHAPE, "hang-or-crash", "log", "NCCL time-out"),))
    assert [n.kind for n in alarm.look(found)] == ["incident"] and alarm.look(found) == []
    assert alarm.open and alarm.count == 1
