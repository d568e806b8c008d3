"""Evidence that the product gets itself: only what is allowed, within time and limits, and with its origin."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from playbook.errors import PlaybookError
from playbook.faces.cli import playbook as cli
from playbook.findings import Evidence
from playbook.knowledge.loader import Book
from playbook.probes import host, prometheus
from playbook.workflow.watching import fetch as fetching
from playbook.workflow.watching.fetch import fetch, from_host, from_prometheus, moment, weightier
from tests import prometheus_kit as kit
from tests.reading import FORMATS

END = 1_760_000_000.0 - 1_760_000_000.0 % 15
START = END - 2 * 3600.0


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, for programs of paper."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(host, "PAUSE", 0.01)
    monkeypatch.setattr(host, "interfaces", lambda: ["eth0"])
    return folder


def tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def cat(folder: Path, name: str, file: Path) -> None:
    tool(folder, name, f"/bin/cat {file}")


def states(found: fetching.Fetched) -> dict[str, str]:
    return {item.signal: item.state for item in found.evidence}


def command(name: str) -> host.Command:
    return next(c for c in host.ALLOWED if c.name == name)


# Commands of the host


def test_the_allow_list_only_reads() -> None:
    for entry in host.ALLOWED:
        for form in entry.forms:
            assert form[0] == entry.name and "/" not in form[0] and "sudo" not in form
            assert not {"-c", "--clear", "-C", "--reset", "--gpu-reset", "-r", "-pm", "-s"} & set(form[1:])
    shown = fetching.script()
    assert all(entry.name in shown for entry in host.ALLOWED) and "ssh" not in shown


def test_a_machine_without_the_programs_is_asked_nothing(tools: Path, real_book: Book) -> None:
    assert from_host(real_book) == fetching.Fetched()


def test_what_the_programs_print_is_evidence_of_a_probe(tools: Path, real_book: Book) -> None:
    cat(tools, "nvidia-smi", FORMATS / "nvidia_smi_q" / "three.txt")
    tool(tools, "dmesg", "echo '[ 9.000001] NVRM: Xid (PCI:0000:c6:00): 79, pid=11, GPU has fallen off the bus.'")
    tool(tools, "py-spy", "echo '    all_reduce (torch/distributed/distributed_c10d.py:2501)'")
    tool(tools, "ethtool", _counting(tools / "count", "     rx_discards_phy: $n"))
    found = from_host(real_book, lambda c: host.run(c, 0.01) if c.name != "py-spy" else [host._start(c, ["py-spy"])])
    assert states(found)["xid-code"] == "bus-lost" and states(found)["gpu-errors"] == "xid"
    assert states(found)["host-stack"] == "in-collective" and states(found)["network-counters"] == "rising"
    assert {e.source for e in found.evidence} == {"probe"} and {e.step for e in found.evidence} == {None}
    places = {e.signal: e.origin.path for e in found.evidence if e.origin is not None}
    assert places["xid-code"].startswith("dmesg") and places["host-stack"] == "py-spy"
    assert "loss-scale-before" not in states(found)  # that a machine logs no loss scale is no news
    assert "ethtool -S eth0" in found.asked


def _counting(path: Path, line: str) -> str:
    """A program whose counter is higher at every call."""
    return (
        f"n=0; [ -f {path} ] && read n < {path}; n=$((n+100)); echo $n > {path}\n"
        f'echo "NIC statistics:"; echo "{line}"; echo "     rx_packets: 5"'
    )


def test_quiet_machines_are_evidence_too(tools: Path, real_book: Book) -> None:
    report = tools / "report"
    report.write_text(
        "==============NVSMI LOG==============\n\nAttached GPUs                : 1\nGPU 00000000:07:00.0\n"
        "    Utilization\n        Gpu                  : 98 %\n"
        "    Temperature\n        GPU Current Temp     : 60 C\n"
    )
    tool(tools, "dmesg", "echo '[ 9.000001] usb 1-1: new device found'")
    assert "gpu-errors" not in states(from_host(real_book))  # half of the truth
    cat(tools, "nvidia-smi", report)
    assert states(from_host(real_book))["gpu-errors"] == "none"
    tool(tools, "dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    found = from_host(real_book)
    assert "gpu-errors" not in states(found) and "not permitted" in str(found.problems[0])


def test_an_option_that_is_not_known_is_left_out(tools: Path) -> None:
    tool(tools, "dmesg", '[ $# -gt 0 ] && { echo "unrecognized option" >&2; exit 1; }; echo "[ 1.000000] hello"')
    (raw,) = host.run(command("dmesg"))
    assert raw.text == "[ 1.000000] hello\n" and raw.shown == "dmesg" and not raw.problem


def test_time_is_kept_and_children_are_ended_too(tools: Path) -> None:
    slow = host.Command("slow", (("slow",),), "kernel_log", 0.3)
    mark = tools / "mark"
    tool(tools, "slow", f"(/bin/sleep 2; : > {mark}) &\necho early; /bin/sleep 30")
    begin = time.monotonic()
    (raw,) = host.run(slow)
    assert time.monotonic() - begin < 5 and raw.text == "early\n" and "more than 0.3 s" in raw.problem
    time.sleep(2.2)
    assert not mark.exists()


def test_output_is_limited(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "LIMIT", 100_000)
    tool(tools, "chatty", "while :; do echo yesyesyesyesyesyesyesyesyes; done")
    (raw,) = host.run(host.Command("chatty", (("chatty",),), "kernel_log", 20.0))
    assert "printed more than" in raw.problem and 100_000 <= len(raw.text) < 400_000


def test_a_program_gets_no_input_and_no_shell(tools: Path) -> None:
    tool(tools, "asking", 'read answer && echo "got $answer"; echo "$1"')
    (raw,) = host.run(host.Command("asking", (("asking", "$(id); rm -rf x"),), "kernel_log"))
    assert raw.text == "$(id); rm -rf x\n"


def test_garbage_is_a_problem_and_no_crash(tools: Path, real_book: Book) -> None:
    for entry in host.ALLOWED:
        tool(tools, entry.name, "/usr/bin/head -c 2000 /dev/urandom")
    found = from_host(real_book)
    assert not found.evidence


def test_only_cards_with_a_device_are_asked(tmp_path: Path) -> None:
    for name in ("eth0", "lo", "docker0", "-s", "ib0"):
        (tmp_path / name).mkdir()
    for name in ("eth0", "-s", "ib0"):
        (tmp_path / name / "device").mkdir()
    assert host.interfaces(tmp_path) == ["eth0", "ib0"] and host.interfaces(tmp_path / "no") == []


# Prometheus


@pytest.fixture(scope="module", params=["paper", "real"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = kit.exported(START, END)
    if request.param == "paper":
        with kit.paper(kit.Paper(data)) as url:
            yield url
        return
    if kit.installed() is None:
        pytest.skip("no Prometheus here (PLAYBOOK_PROMETHEUS_BIN names the folder of one)")
    with kit.real(data, tmp_path_factory.mktemp("prometheus")) as url:
        yield url


def test_samples_of_a_range(server: str) -> None:
    found = prometheus.query_range(server, "DCGM_FI_DEV_XID_ERRORS", START, END)
    assert len(found) == 8 and {s.label("gpu") for s in found} == {"0", "1", "2", "3"}
    sick = next(s for s in found if s.label("Hostname") == "n1" and s.label("gpu") == "2")
    assert sorted(set(sick.values)) == [0.0, 79.0] and len(sick.times) == 481
    assert np.allclose(np.diff(sick.times), 15.0)


def test_values_that_are_no_numbers(server: str) -> None:
    found = {s.label("kind"): s.values[0] for s in prometheus.query_range(server, "odd_values", START, END)}
    assert np.isnan(found["nan"]) and found["inf"] == np.inf and found["-inf"] == -np.inf


def test_no_range_is_too_long_for_the_server(server: str) -> None:
    found = prometheus.query_range(server, "DCGM_FI_DEV_GPU_TEMP", END - 30 * 86_400, END)
    assert len(found) == 8 and prometheus.step_of(END - 30 * 86_400, END) == 236
    for days in (0.01, 1, 2, 7, 365):
        assert days * 86_400 / prometheus.step_of(0, days * 86_400) <= 11_000


def test_a_refused_question_is_told(server: str) -> None:
    with pytest.raises(PlaybookError, match="parse error"):
        prometheus.query_range(server, "sum(", START, END)


def test_what_the_exporters_saw_is_evidence(server: str, real_book: Book) -> None:
    found = from_prometheus(real_book, server, START, END)
    seen = {e.signal: e for e in found.evidence}
    assert seen["xid-code"].state == "bus-lost" and "00000000:03:00.0" in seen["xid-code"].because
    assert seen["gpu-errors"].state == "xid" and seen["gpu-errors"].rank == 6  # the third GPU of the second host
    assert seen["gpu-temperature"].state == "hot" and seen["network-counters"].state == "rising"
    assert seen["kernel-panic-or-oom-killer"].state != "none"
    assert {e.source for e in found.evidence} == {"probe"} and not found.problems
    assert all(e.origin is not None and e.origin.path == server for e in seen.values())
    assert "2025-" in seen["gpu-temperature"].because and "step" not in seen["gpu-temperature"].because


def test_an_old_xid_is_no_news_and_quiet_hosts_are_told(server: str, real_book: Book) -> None:
    found = states(from_prometheus(real_book, server, START, (START + END) / 2 - 60))
    assert found["gpu-errors"] == "none" and found["network-counters"] == "quiet"
    assert "xid-code" not in found and "gpu-temperature" not in found


def test_a_time_without_samples_is_told(server: str, real_book: Book) -> None:
    found = from_prometheus(real_book, server, START - 90 * 86_400, START - 80 * 86_400)
    assert not found.evidence and "knows none of the metrics" in str(found.problems[0])


def test_nobody_answers(real_book: Book) -> None:
    found = from_prometheus(real_book, "http://127.0.0.1:9", START, END)
    assert len(found.asked) == 1 and "cannot be asked" in str(found.problems[0])


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (b"<html>login</html>", "not that of a Prometheus"),
        (b'{"status":"success","data":{"resultType":"vector","result":[]}}', "a vector and not a matrix"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{}, "values":[[1]]}]}}', "damaged"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[3]}}', "damaged"),
        (b"[" * 100_000, "not that of a Prometheus"),
        (401, "HTTP 401"),
        (503, "HTTP 503"),
    ],
)
def test_answers_that_are_none(broken: bytes | int, what: str) -> None:
    odd = kit.Paper({})
    odd.broken = broken
    with kit.paper(odd) as url, pytest.raises(PlaybookError, match=what):
        prometheus.query_range(url, "up", START, END)


def test_patience_and_size_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = kit.Paper({})
    slow.delay = 4.0
    with kit.paper(slow) as url:
        begin = time.monotonic()
        with pytest.raises(PlaybookError, match="timed out"):
            prometheus.query_range(url, "up", START, END, timeout=-1.5)  # two seconds are added for the way
        assert time.monotonic() - begin < 3
    monkeypatch.setattr(prometheus, "ANSWER", 1_000)
    with kit.paper(kit.Paper(kit.exported(START, END))) as url, pytest.raises(PlaybookError, match="an answer of more"):
        prometheus.query_range(url, "DCGM_FI_DEV_GPU_TEMP", START, END)


def test_who_asks_is_told_and_secrets_are_not(monkeypatch: pytest.MonkeyPatch, real_book: Book) -> None:
    server = kit.Paper(kit.exported(START, END))
    with kit.paper(server) as url:
        named = url.replace("http://", "http://me:s%40cret@") + "/prefix/api/v1/query_range"
        found = from_prometheus(real_book, named, START, END)
        assert found.evidence and "cret" not in repr(found)
        assert server.headers[0]["Authorization"] == "Basic bWU6c0BjcmV0"
        monkeypatch.setenv(prometheus.TOKEN, "t0ken")
        prometheus.query_range(url, "up", START, END)
        assert server.headers[-1]["Authorization"] == "Bearer t0ken"
    for url in ("file:///etc/passwd", "mon:9090", "ftp://x/"):
        with pytest.raises(PlaybookError, match="no http"):
            prometheus.query_range(url, "up", START, END)


# Into a diagnosis


def test_times_as_people_write_them() -> None:
    assert moment("90m", 10_000.0) == 4_600.0 and moment("2 h", 10_000.0) == 2_800.0
    assert moment("1760000000", 0.0) == 1_760_000_000.0
    assert moment("2025-10-09T08:53:20", 0.0) == moment("2025-10-09T10:53:20+02:00", 0.0) == 1_760_000_000.0
    for text in ("yesterday", "", "5y"):
        with pytest.raises(PlaybookError, match="is no time"):
            moment(text, 0.0)


def test_what_tells_more_wins() -> None:
    known = [
        Evidence("gpu-errors", "none", "person"),
        Evidence("network-counters", "quiet", "log", confidence=0.6),
        Evidence("loss-shape", "healthy", "metrics", confidence=0.8),
    ]
    found = [
        Evidence("gpu-errors", "xid", "probe", confidence=0.99),
        Evidence("network-counters", "rising", "probe", confidence=0.85),
        Evidence("loss-shape", "hang-or-crash", "probe", confidence=0.9),
        Evidence("gpu-temperature", "hot", "probe", confidence=0.7),
        Evidence("gpu-temperature", "hot", "probe", confidence=0.85),
    ]
    assert [(e.signal, e.confidence) for e in weightier(known, found)] == [
        ("network-counters", 0.85), ("gpu-temperature", 0.85),
    ]  # fmt: skip


def test_nothing_is_run_and_nobody_asked_without_leave(tools: Path, real_book: Book) -> None:
    tool(tools, "dmesg", f": > {tools}/was-run")
    assert fetch(real_book) == fetching.Fetched()
    assert CliRunner().invoke(cli, ["diagnose", "--no-input", "--json"]).exit_code == 0
    assert not (tools / "was-run").exists()


def test_diagnose_fetches_what_it_may(tools: Path) -> None:
    tool(tools, "dmesg", "echo '[ 9.000001] NVRM: Xid (PCI:0000:c6:00): 79, pid=11, GPU has fallen off the bus.'")
    tool(tools, "ibstat", "echo broken >&2; exit 3")
    with kit.paper(kit.Paper(kit.exported(START, END))) as url:
        result = CliRunner().invoke(
            cli,
            ["diagnose", "--no-input", "--json", "--allow-commands", "--prometheus", url,
             "--since", f"{START}", "--until", f"{END}"],
        )  # fmt: skip
    document = json.loads(result.stdout)
    by_signal = {e["signal"]: e for e in document["evidence"]}
    assert by_signal["xid-code"]["source"] == "probe" and by_signal["gpu-temperature"]["state"] == "hot"
    assert document["causes"][0]["layer"] == "hardware" and "ibstat: left with code 3: broken" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--since", "2h"], "go with --prometheus"),
        (["--prometheus", "http://x", "--since", "1h", "--until", "2h"], "is not before"),
        (["--prometheus", "http://x", "--since", "soon"], "is no time"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], what: str) -> None:
    result = CliRunner().invoke(cli, ["diagnose", "--no-input", *arguments])
    assert isinstance(result.exception, PlaybookError) and what in str(result.exception)


def test_commands_for_another_machine_are_printed_and_not_run(tools: Path) -> None:
    tool(tools, "dmesg", f": > {tools}/was-run")
    out = CliRunner().invoke(cli, ["diagnose", "--show-commands"]).output
    assert "dmesg > dmesg.probe.txt" in out and "playbook ingest -" in out and not (tools / "was-run").exists()
    assert os.environ["PATH"] == str(tools)
