"""Alerts to programs and web hooks, without ever holding up the watch: a thread of its own, a bounded queue, retries.

A program gets the alert as JSON on its standard input and is started from a list of arguments, never by a shell. A web
hook gets what its service expects: Slack's blocks, PagerDuty's events, or the alert itself.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import shutil
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from playbook import __version__
from playbook.errors import PlaybookError

Document = dict[str, Any]
Target = Callable[[Document, threading.Event], None]  # raises PlaybookError where it cannot deliver

QUEUE = 64  # alerts that wait; above it the oldest is dropped and told
TRIES = 6  # of one web hook: after 0, 1, 2, 4, 8 and 16 seconds
BACKOFF = 1.0  # seconds before the second try
LONGEST_WAIT = 60.0  # seconds that a service may ask us to wait (Retry-After)
HOOK_TIMEOUT = 10.0  # seconds
PROGRAM_TIMEOUT = 60.0  # seconds
PAGERDUTY_KEY = "PLAYBOOK_PAGERDUTY_KEY"  # environment: the routing key of the service
FORMATS = ("slack", "pagerduty", "json")
_LATER = frozenset((408, 425, 429, 500, 502, 503, 504))  # answers after which another try is worth it


class Sender:
    """Delivers documents to its targets. `faults` are one-line messages for people; reading them never blocks."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = tuple(targets)
        self._waiting: queue.Queue[Document | None] = queue.Queue(QUEUE)
        self._faults: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._open = 0  # alerts that are neither delivered nor given up
        self._lock = threading.Lock()

    @property
    def idle(self) -> bool:
        """Whether everything was delivered, or given up."""
        return self._open == 0

    def _count(self, change: int) -> None:
        with self._lock:
            self._open += change

    def send(self, document: Document) -> None:
        """Put an alert into the queue."""
        if not self._targets:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="playbook-alerts", daemon=True)
            self._thread.start()
        self._count(1)
        while True:
            try:
                self._waiting.put_nowait(document)
                return
            except queue.Full:
                try:
                    self._waiting.get_nowait()
                    self._count(-1)
                    self._faults.put(f"more than {QUEUE} alerts wait; the oldest was dropped")
                except queue.Empty:
                    continue

    def faults(self) -> list[str]:
        """What went wrong since the last call."""
        found = []
        while True:
            try:
                found.append(self._faults.get_nowait())
            except queue.Empty:
                return found

    def close(self, patience: float = 30.0) -> None:
        """Wait for what is under way, for `patience` seconds at most."""
        if self._thread is None:
            return
        try:
            self._waiting.put(None, timeout=patience)
            self._thread.join(patience)
        except queue.Full:
            pass
        if self._thread.is_alive():
            self._stop.set()
            self._faults.put(f"alerts that could not be delivered within {patience:g} s were given up")

    def _work(self) -> None:
        while (document := self._waiting.get()) is not None and not self._stop.is_set():
            for target in self._targets:
                try:
                    target(document, self._stop)
                except PlaybookError as error:
                    self._faults.put(str(error))
                except Exception as error:
                    self._faults.put(f"an alert was not delivered: {type(error).__name__}: {error}")
            self._count(-1)


def program(command: str) -> Target:
    """A target that runs a command line. Raises `PlaybookError` where it cannot be run."""
    where = f"--exec {command}"
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise PlaybookError(where, f"cannot be split into arguments: {error}", "close every quote") from None
    if not arguments or shutil.which(arguments[0]) is None:
        raise PlaybookError(where, "no such program", "give a program and its arguments; no shell is used")

    def run(document: Document, _: threading.Event) -> None:
        text = json.dumps(document, ensure_ascii=False, default=str)
        try:
            done = subprocess.run(
                arguments,
                input=text.encode("utf-8", "replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=PROGRAM_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PlaybookError(where, f"took more than {PROGRAM_TIMEOUT:g} s and was ended") from None
        except OSError as error:
            raise PlaybookError(where, f"cannot be run: {error.strerror or error}") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise PlaybookError(where, f"left with code {done.returncode}" + (f": {said[-1][:200]}" if said else ""))

    return run


def webhook(
    url: str, shape: str | None = None, backoff: float = BACKOFF
) -> Callable[[Document, threading.Event], None]:
    """A target that posts to a URL. `shape` is one of `FORMATS`; by default the host tells. Raises `PlaybookError`."""
    parts = urllib.parse.urlsplit(url)
    where = f"--webhook {parts.scheme}://{parts.hostname or ''}"  # the path of a hook is a secret
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PlaybookError("--webhook", "is no http or https URL", "write for example https://hooks.slack.com/...")
    host = parts.hostname.lower()
    shape = shape or ("slack" if host.endswith("slack.com") else "pagerduty" if "pagerduty" in host else "json")
    if shape == "pagerduty" and not os.environ.get(PAGERDUTY_KEY):
        raise PlaybookError(where, "needs a routing key", f"set {PAGERDUTY_KEY} to the integration key of the service")
    make = _SHAPES[shape]

    def post(document: Document, stop: threading.Event) -> None:
        body = json.dumps(make(document), ensure_ascii=False, default=str).encode("utf-8", "replace")
        problem = ""
        for attempt in range(TRIES):
            answer = _post(url, body)
            if answer is None:
                return
            problem, again, wait = answer
            if not again or attempt == TRIES - 1 or stop.wait(max(wait, backoff * 2**attempt)):
                break
        raise PlaybookError(where, f"the alert was not delivered: {problem}", "check the URL and the network")

    return post


class _Stay(urllib.request.HTTPRedirectHandler):
    """A redirect would turn the post into a get: it is a fault and not followed."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _post(url: str, body: bytes) -> tuple[str, bool, float] | None:
    """None where it was taken, else (what is wrong, whether to try again, seconds to wait at least)."""
    request = urllib.request.Request(
        url,
        body,
        {"Content-Type": "application/json; charset=utf-8", "User-Agent": f"playbook/{__version__}"},
        method="POST",
    )
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=HOOK_TIMEOUT) as answer:
            answer.read(4096)
            return None
    except urllib.error.HTTPError as error:
        wait = error.headers.get("Retry-After", "")
        error.close()
        seconds = min(float(wait), LONGEST_WAIT) if wait.isdecimal() else 0.0
        return f"HTTP {error.code}", error.code in _LATER, seconds
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return str(reason) or type(error).__name__, not isinstance(error, ValueError), 0.0


def slack(document: Document) -> Document:
    """Slack's incoming web hook (Mattermost and others take it too): a text, and blocks with the details."""
    title, because = headline(document), str(document.get("because", ""))
    aid = [f"• {fix['title']}" for fix in document.get("first_aid", ())]
    causes = [f"• {c['title']} ({c['probability']:.0%})" for c in document.get("causes", ())]
    sections = [because]
    if aid:
        sections.append("*First aid*\n" + "\n".join(aid))
    if causes:
        sections.append("*Most probable causes*\n" + "\n".join(causes))
    sections.append(f"`{document.get('diagnose', '')}`")
    blocks: list[Document] = [{"type": "header", "text": {"type": "plain_text", "text": title[:150]}}]
    blocks += [{"type": "section", "text": {"type": "mrkdwn", "text": _escaped(s)[:3000]}} for s in sections if s]
    return {"text": _escaped(f"{title}: {because}")[:3000], "blocks": blocks}


def pagerduty(document: Document) -> Document:
    """PagerDuty's Events API, version 2. One incident has one `dedup_key`, so that it is opened once."""
    files = [str(f) for f in document.get("files", ())]
    key = f"playbook/{document.get('host', '')}/{files[0] if files else ''}/{document.get('number', 1)}"
    symptom = document.get("symptom") or {}
    return {
        "routing_key": os.environ.get(PAGERDUTY_KEY, ""),
        "event_action": "trigger",
        "dedup_key": key[-255:],
        "client": "playbook",
        "payload": {
            "summary": f"{headline(document)}: {document.get('because', '')}"[:1024],
            "source": str(document.get("host", "")) or "playbook",
            "severity": "critical",
            "timestamp": document.get("time"),
            "component": files[0] if files else "",
            "class": symptom.get("id", ""),
            "custom_details": document,
        },
    }


_SHAPES: dict[str, Callable[[Document], Document]] = {"slack": slack, "pagerduty": pagerduty, "json": lambda d: d}


def headline(document: Document) -> str:
    """One line: what it is, where it began, on which machine."""
    symptom = document.get("symptom") or {}
    step = symptom.get("onset_step")
    at = f" from step {step}" if step is not None else ""
    host = f" on {document['host']}" if document.get("host") else ""
    return f"{symptom.get('title') or symptom.get('id') or 'incident'}{at}{host}"


def _escaped(text: str) -> str:
    """Slack's three special characters."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
