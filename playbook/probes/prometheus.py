"""Range queries to a Prometheus or VictoriaMetrics server: what DCGM exporter and node exporter saw of the machines.

`query_range` gives the samples of one expression; the tables say which expressions are worth asking for and what they
mean. Only reads, over HTTP, with a time-out and a limit for every answer.
"""

from __future__ import annotations

import base64
import json
import math
import os
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from playbook.errors import PlaybookError

TIMEOUT = 15.0  # seconds, of one query
ANSWER = 64 << 20  # bytes, of one answer
POINTS = 11_000  # samples of a series that a server gives in one answer
FINEST = 15.0  # seconds between two samples: exporters are seldom scraped more often
TOKEN = "PLAYBOOK_PROMETHEUS_TOKEN"  # environment: a bearer token
_PATH = "/api/v1/query_range"


@dataclass(frozen=True, slots=True)
class Query:
    """An expression and the metric that it measures. `rank` is the label that numbers the GPUs of a host."""

    metric: str
    expression: str
    rank: str = ""


GPUS: tuple[Query, ...] = (
    Query("gpu_util", "DCGM_FI_DEV_GPU_UTIL", "gpu"),
    Query("gpu_temp", "DCGM_FI_DEV_GPU_TEMP", "gpu"),
    Query("gpu_clock", "DCGM_FI_DEV_SM_CLOCK", "gpu"),
    Query("gpu_power", "DCGM_FI_DEV_POWER_USAGE", "gpu"),
    Query("gpu_mem", "DCGM_FI_DEV_FB_USED", "gpu"),
    Query("ecc_errors", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "gpu"),
    Query("xid", "DCGM_FI_DEV_XID_ERRORS", "gpu"),
)
_CARDS = '{device!~"lo|docker.*|veth.*|cni.*|cali.*|br-.*|virbr.*"}'
# Counters of errors; the sum over all cards and ports of a host is `network_errors`.
NETWORK: tuple[Query, ...] = tuple(
    Query("network_errors", f"sum by (instance) ({name})")
    for name in (
        f"node_network_receive_errs_total{_CARDS}",
        f"node_network_transmit_errs_total{_CARDS}",
        f"node_network_receive_drop_total{_CARDS}",
        f"node_network_transmit_drop_total{_CARDS}",
        "node_infiniband_port_errors_received_total",
        "node_infiniband_port_discards_transmitted_total",
        "node_infiniband_symbol_error_total",
        "node_infiniband_local_link_integrity_errors_total",
        "node_infiniband_link_error_recovery_total",
        "node_infiniband_link_downed_total",
    )
)
OOM_KILLS = Query("oom_kills", "sum by (instance) (node_vmstat_oom_kill)")


@dataclass(frozen=True, slots=True)
class Samples:
    """One series of an answer: seconds since 1970 and values, non-finite kept."""

    labels: tuple[tuple[str, str], ...]
    times: tuple[float, ...]
    values: tuple[float, ...]

    def label(self, name: str) -> str:
        return dict(self.labels).get(name, "")


def step_of(start: float, end: float) -> float:
    """Seconds between samples that keep a range within what a server gives at once."""
    return max(FINEST, math.ceil((end - start) / (POINTS - 1)))


def query_range(url: str, expression: str, start: float, end: float, timeout: float = TIMEOUT) -> list[Samples]:
    """All series of an expression. Raises `PlaybookError` where the server cannot be asked or refuses."""
    where, base, headers = _server(url)
    question = urllib.parse.urlencode(
        {
            "query": expression,
            "start": f"{start:.3f}",
            "end": f"{end:.3f}",
            "step": f"{step_of(start, end):g}",
            "timeout": f"{timeout:g}s",
        }
    )
    request = urllib.request.Request(f"{base}{_PATH}?{question}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout + 2.0) as answer:
            body = answer.read(ANSWER + 1)
    except urllib.error.HTTPError as error:
        with error:
            said = _json(error.read(1 << 16))
        reason = said.get("error") if isinstance(said, dict) else None
        raise PlaybookError(where, f"HTTP {error.code}: {reason or error.reason}", _hint(error.code)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise PlaybookError(where, f"cannot be asked: {reason}", "check the URL and the network") from None
    if len(body) > ANSWER:
        raise PlaybookError(where, f"an answer of more than {ANSWER >> 20} MB", "ask for a shorter time")
    return _series(where, _json(body))


def _series(where: str, said: Any) -> list[Samples]:
    """The series of an answer that was read."""
    data = said.get("data") if isinstance(said, dict) else None
    if not isinstance(said, dict) or said.get("status") != "success" or not isinstance(data, dict):
        reason = said.get("error") if isinstance(said, dict) else None
        raise PlaybookError(where, str(reason or "the answer is not that of a Prometheus server"), "check the URL")
    if data.get("resultType") != "matrix":
        raise PlaybookError(where, f"the answer is a {data.get('resultType')} and not a matrix", "check the server")
    found = []
    try:
        for one in data["result"]:
            pairs = [(float(at), float(value)) for at, value in one.get("values", ())]
            labels = tuple(sorted((str(k), str(v)) for k, v in one["metric"].items()))
            found.append(Samples(labels, tuple(at for at, _ in pairs), tuple(value for _, value in pairs)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PlaybookError(where, f"the answer is damaged: {error}", "check what stands between") from None
    return sorted(found, key=lambda s: s.labels)


def _server(url: str) -> tuple[str, str, dict[str, str]]:
    """(how messages call it, base URL, headers); a name and password in the URL go into a header."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PlaybookError("--prometheus", f"{url!r} is no http or https URL", "write http://HOST:9090")
    headers = {"Accept": "application/json"}
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    elif token := os.environ.get(TOKEN):
        headers["Authorization"] = f"Bearer {token}"
    host = parts.netloc.rpartition("@")[2]
    path = parts.path.rstrip("/").removesuffix(_PATH).removesuffix("/api/v1")
    return f"{parts.scheme}://{host}", f"{parts.scheme}://{host}{path}", headers


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _hint(code: int) -> str:
    if code in (401, 403):
        return f"name a user in the URL, or set {TOKEN}"
    return "is this the address of a Prometheus server?" if code == 404 else "ask for a shorter time"
