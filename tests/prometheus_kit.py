"""A Prometheus server for the tests: one of paper with the real one's answers, or the real one where it is installed.

Both serve the same samples, and only on the loopback. The real one is looked for in PLAYBOOK_PROMETHEUS_BIN (a folder
with `prometheus` and `promtool`), then on the PATH.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Labels = tuple[tuple[str, str], ...]
Data = dict[tuple[str, Labels], list[tuple[float, float]]]  # (name, labels) -> (seconds, value)

LOOKBACK = 300.0  # seconds that a sample counts for, as in Prometheus
POINTS = 11_000
_QUERY = re.compile(
    r"(?:sum by \((?P<by>\w+)\) \()?(?P<name>[A-Za-z_:]\w*)(?:\{(?P<label>\w+)!~\"(?P<pattern>[^\"]*)\"\})?\)?"
)


def exported(start: float, end: float, every: float = 15.0) -> Data:
    """Two hosts of four GPUs. GPU 2 of n1 gets hot and slow and reports Xid 79 half-way; n0's card drops packets."""
    data: Data = {}
    middle = (start + end) / 2
    count = int((end - start) / every)
    times = [start + i * every for i in range(count)]

    def put(name: str, labels: dict[str, str], value: Any) -> None:
        data[name, tuple(sorted(labels.items()))] = [(t, float(value(t))) for t in times]

    for host in ("n0", "n1"):
        for gpu in range(4):
            labels = {
                "gpu": str(gpu), "UUID": f"GPU-{host}-{gpu}", "device": f"nvidia{gpu}", "modelName": "NVIDIA H100",
                "pci_bus_id": f"00000000:{gpu + 1:02X}:00.0", "Hostname": host, "instance": f"{host}:9400",
            }  # fmt: skip
            sick = host == "n1" and gpu == 2
            put("DCGM_FI_DEV_GPU_UTIL", labels, lambda t: 98 + int(t) % 2)
            put("DCGM_FI_DEV_GPU_TEMP", labels, lambda t, s=sick: 93 if s and t > middle else 61 + int(t / every) % 3)
            put("DCGM_FI_DEV_SM_CLOCK", labels, lambda t, s=sick: 900 if s and t > middle else 1980)
            put("DCGM_FI_DEV_POWER_USAGE", labels, lambda t: 640.0)
            put("DCGM_FI_DEV_FB_USED", labels, lambda t: 71_000)
            put("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", labels, lambda t: 0)
            # GPU 0 of n0 still shows an Xid of last week
            old = 45 if host == "n0" and gpu == 0 else 0
            put("DCGM_FI_DEV_XID_ERRORS", labels, lambda t, s=sick, o=old: 79 if s and t > middle else o)
        node = {"instance": f"{host}:9100", "job": "node"}
        for card in ("eth0", "lo", "docker0"):
            lost = host == "n0" and card == "eth0"
            rising = lambda t, r=lost: 5 + (max(0.0, t - middle) * 40 if r else 0)  # noqa: E731
            put("node_network_receive_drop_total", node | {"device": card}, rising)
            put(
                "node_network_receive_errs_total",
                node | {"device": card},
                lambda t, c=card: 1e6 + t if c == "lo" else 0,
            )
        put("node_vmstat_oom_kill", node, lambda t, h=host: 3 + (h == "n1" and t > middle))
    put("odd_values", {"kind": "nan"}, lambda t: math.nan)
    put("odd_values", {"kind": "inf"}, lambda t: math.inf)
    put("odd_values", {"kind": "-inf"}, lambda t: -math.inf)
    return data


class Paper:
    """`query_range` of Prometheus 2, for selectors and `sum by`."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.asked: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.broken: bytes | int | None = None  # an answer of its own, or a status
        self.delay = 0.0

    def answer(self, path: str, asked: dict[str, str]) -> tuple[int, bytes]:
        if isinstance(self.broken, bytes):
            return 200, self.broken
        if isinstance(self.broken, int):
            return self.broken, b"<html>no</html>"
        if not path.endswith("/api/v1/query_range"):
            return 404, b"404 page not found\n"
        start, end, step = (float(asked[name]) for name in ("start", "end", "step"))
        if step <= 0:
            return 400, _fault("zero or negative query resolution step widths are not accepted.")
        if (end - start) / step > POINTS:
            return 400, _fault("exceeded maximum resolution of 11,000 points per timeseries.")
        hit = _QUERY.fullmatch(asked["query"])
        if hit is None:
            return 400, _fault("1:1: parse error: unexpected character")
        grid = [start + i * step for i in range(int((end - start) / step + 1e-9) + 1)]
        series = {}
        for (name, labels), samples in self.data.items():
            own = dict(labels)
            if name == hit["name"] and not (hit["pattern"] and re.fullmatch(hit["pattern"], own.get(hit["label"], ""))):
                series[labels] = _sampled(samples, grid)
        if hit["by"]:
            sums: dict[Labels, dict[float, float]] = {}
            for labels, found in series.items():
                total = sums.setdefault(((hit["by"], dict(labels).get(hit["by"], "")),), {})
                for at, value in found.items():
                    total[at] = total.get(at, 0.0) + value
            series = sums
            names: dict[str, str] = {}
        else:
            names = {"__name__": hit["name"]}
        result = [
            {"metric": names | dict(labels), "values": [[at, _text(value)] for at, value in found.items()]}
            for labels, found in series.items()
            if found
        ]
        return 200, json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def _sampled(samples: list[tuple[float, float]], grid: list[float]) -> dict[float, float]:
    found, place = {}, -1
    for at in grid:
        while place + 1 < len(samples) and samples[place + 1][0] <= at:
            place += 1
        if place >= 0 and at - samples[place][0] < LOOKBACK:
            found[at] = samples[place][1]
    return found


def _text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return ("+Inf" if value > 0 else "-Inf") if math.isinf(value) else f"{value:g}" if value < 1e6 else repr(value)


def _fault(what: str) -> bytes:
    return json.dumps({"status": "error", "errorType": "bad_data", "error": what}).encode()


@contextmanager
def paper(server: Paper) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            asked = dict(urllib.parse.parse_qsl(parts.query))
            server.asked.append(asked)
            server.headers.append(dict(self.headers.items()))
            time.sleep(server.delay)
            code, body = server.answer(parts.path, asked)
            with suppress(OSError):  # who asked has lost patience
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        httpd.server_close()


def installed() -> dict[str, str] | None:
    """The paths of prometheus and promtool."""
    folder = os.environ.get("PLAYBOOK_PROMETHEUS_BIN")
    found = {name: shutil.which(name, path=folder) for name in ("prometheus", "promtool")}
    return None if None in found.values() else {name: path for name, path in found.items() if path}


@contextmanager
def real(data: Data, folder: Path) -> Iterator[str]:
    """A server of its own with the samples as old blocks."""
    programs = installed()
    assert programs is not None
    lines = []
    for name in sorted({name for name, _ in data}):
        lines.append(f"# TYPE {name} unknown")
        for (own, labels), samples in data.items():
            if own == name:
                shown = ",".join(f'{k}="{v}"' for k, v in labels)
                lines += [f"{name}{{{shown}}} {_text(value)} {at:.3f}" for at, value in samples]
    (folder / "data.om").write_text("\n".join(lines) + "\n# EOF\n")
    (folder / "prometheus.yml").write_text("global: {scrape_interval: 1h}\n")
    subprocess.run(
        [programs["promtool"], "tsdb", "create-blocks-from", "openmetrics", "data.om", "store"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        programs["prometheus"], "--config.file=prometheus.yml", "--storage.tsdb.path=store",
        "--storage.tsdb.retention.time=10y", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            try:
                with urllib.request.urlopen(f"{url}/-/ready", timeout=1) as answer:
                    if answer.status == 200:
                        break
            except OSError:
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(20)
