"""`playbook verify-resume`, `compare` and `preflight`: two runs side by side, and a configuration before its run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from playbook.faces.cli import common, completing
from playbook.faces.cli.speech import current, say
from playbook.faces.wrapping import cells

if TYPE_CHECKING:
    from playbook.workflow.comparison.compare import Comparison

_MARK = {"ok": ("ok", "green"), "failed": ("FAILED", "red"), "unknown": ("unknown", "yellow"), "bad": ("BAD", "red"),
         "warn": ("warn", "yellow"), "changed": ("changed", "yellow")}  # fmt: skip


_RANKS = 8  # that are named


def _named(kind: str, name: str) -> str:
    """A name of a check or of an area of settings in words; such a word means something else elsewhere."""
    return current().table.get(f"{kind}: {name}", name)


def _ranks(ranks: tuple[int, ...]) -> str:
    """Which ranks it is about, where it is not the whole job."""
    shown = ", ".join(map(str, ranks[:_RANKS])) + (" ..." if len(ranks) > _RANKS else "")
    return f" [{current()('rank')} {shown}]" if ranks else ""


def _line(state: str, name: str, text: str, place: str = "") -> None:
    w = current()
    word, colour = _MARK[state]
    word = w(word)
    gap = " " * max(1, 8 - cells(word))
    common.console().print(f"[{colour}]{word}[/]{gap}[bold]{name}[/]  {_escape(w.say(text) + place)}", soft_wrap=True)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _place(location: dict[str, Any]) -> str:
    return f"{location['file']}:{location['line']}" if location["line"] is not None else str(location["file"])


@click.command("verify-resume", short_help="Does a resumed run continue the run before it?")
@click.argument("before", metavar="BEFORE", shell_complete=completing.files)
@click.argument("after", metavar="AFTER", shell_complete=completing.files)
@common.map_option
@common.lang_option
@common.json_option
@common.knowledge_option
def verify_resume(before: str, after: str, mapping: tuple[str, ...], as_json: bool, packs: tuple[Path, ...]) -> int:
    """Check that AFTER (the resumed run) continues BEFORE; exit 1 when a check fails.

    Steps, loss, learning rate, gradient norm, loss scale, tokens, data, speed and world size are compared around the
    resume; a failed check names what is known to cause exactly that. AFTER may hold the rows of BEFORE as well, and
    both may be one file in which the steps go back. Where both hold ranks, every rank is judged.
    """
    from playbook import readers
    from playbook.workflow.book import open_book
    from playbook.workflow.comparison import verify_resume as use_case

    rename = common.parse_mapping(mapping)
    checks = use_case.verify(readers.read([before], rename=rename), readers.read([after], rename=rename))
    suspects, verdict, unseen = use_case.suspects(checks), use_case.verdict(checks), use_case.unseen(checks)
    failed = verdict == "broken"
    if as_json:
        common.emit(
            {
                "ok": not failed,
                "verdict": verdict,
                "checks": [asdict(c) for c in checks],
                "suspects": suspects,
                "unseen": unseen,
            }
        )
        return int(failed)
    for check in checks:
        _line(check.status, _named("check", check.name), check.because, _ranks(check.ranks))
    say(f"\n{_VERDICTS[verdict]}")
    if suspects:
        causes = open_book(packs, lang=current().code).book.causes
        say("look first at:")
        for name in suspects[:4]:
            click.echo(f"  {name:36} {causes[name].title if name in causes else ''}")
        say(f"`playbook knowledge show {suspects[0]}` tells how to confirm and mend it")
        say("until that is clear, keep the checkpoint it was loaded from out of the rotation")
    if unseen and not failed:
        say("these files cannot show:")
        for line in unseen:
            say(f"  {line}")
    return int(failed)


_VERDICTS = {
    "continues": "nothing here speaks against it: the run continues where it was",
    "broken": "the run does not continue where it was",
    "undecided": "undecided: nothing failed, but the loss at the seam says too little",
}


@click.command(short_help="Where does a run depart from a reference run?")
@click.argument("reference", metavar="REFERENCE", shell_complete=completing.files)
@click.argument("run", metavar="RUN", shell_complete=completing.files)
@common.map_option
@common.lang_option
@common.json_option
def compare(reference: str, run: str, mapping: tuple[str, ...], as_json: bool) -> int:
    """Find the first step at which RUN departs from REFERENCE, beyond what another seed would do, and list the settings
    that differ, those most likely to matter first."""
    from playbook import readers
    from playbook.workflow.comparison import compare as use_case

    rename = common.parse_mapping(mapping)
    found = use_case.compare(readers.read([reference], rename=rename), readers.read([run], rename=rename))
    first = found.first
    if as_json:
        common.emit(
            {
                "departs": first is not None,
                "first": asdict(first) if first else None,
                "metrics": [asdict(d) for d in found.departures],
                "same_seed": found.same_seed,
                "ends": found.ends,
                "config": [asdict(d) for d in found.differences],
            }
        )
        return 0
    for departure in found.departures:
        _line("failed" if departure.step is not None else "ok", departure.metric, departure.because)
    say(f"\n{_summary(found)}")
    ends = [end for end in found.ends if end is not None]
    if len(set(ends)) == 2:
        say(f"REFERENCE ends at step {ends[0]}, RUN at {ends[1]}: only what both logged is compared")
    if found.differences:
        say("settings that differ, those that most often matter first:")
    for item in found.differences[:12]:
        click.echo(f"  {item.key}: {item.reference} -> {item.run}  ({_named('area', item.area)})")
    if len(found.differences) > 12:
        say(f"  and {len(found.differences) - 12} more (--json has all)")
    return 0


def _summary(found: Comparison) -> str:
    """One line: where it departs, or that it does not."""
    kind = "same seed and data" if found.same_seed else "not the same seed or data: compared as two seeds"
    if (first := found.first) is None:
        return f"no departure ({kind})"
    about = "about " if first.blur else ""
    return f"departs at {about}step {first.step}, first in {first.metric} ({kind})"


@click.command(short_help="Check a run's configuration before it is started.")
@click.argument("config", nargs=-1, required=True, metavar="CONFIG...", shell_complete=completing.files)
@common.lang_option
@common.json_option
@common.knowledge_option
def preflight(config: tuple[str, ...], as_json: bool, packs: tuple[Path, ...]) -> int:
    """Check CONFIG against the checklists; exit 1 when one is bad.

    CONFIG is JSON, YAML, TOML, Python (parsed, never run), a job script or the head of a log. Several are one run: the
    DeepSpeed JSON beside the trainer's arguments, a base file before the one that overrides it.
    """
    from playbook import readers
    from playbook.workflow.book import open_book
    from playbook.workflow.preflight import preflight as judge

    verdicts = judge(readers.read(config), open_book(packs, lang=current().code).book)
    bad = any(v.state == "bad" for v in verdicts)
    if as_json:
        common.emit({"ok": not bad, "items": [asdict(v) for v in verdicts]})
        return int(bad)
    for verdict in verdicts:
        if verdict.state != "unknown":
            place = f"{_place(verdict.location)}: " if verdict.state != "ok" and verdict.location else ""
            _line(verdict.state, verdict.item, f"{place}{current().say(verdict.found)}")
            if verdict.state != "ok":
                w = current()
                for word, text in (("mend:", verdict.text), ("why:", verdict.why)):
                    common.console().print(f"        [dim]{w.say(word)}[/] {_escape(text)}", soft_wrap=True)
    told = {state: sum(v.state == state for v in verdicts) for state in ("bad", "warn", "ok")}
    click.echo("\n" + ", ".join(f"{count} {current().say(state)}" for state, count in told.items()))
    unknown = [v for v in verdicts if v.state == "unknown"]
    if unknown:
        say(f"\nnot said by the configuration, or nothing to say against it ({len(unknown)}):")
        for verdict in unknown:
            click.echo(f"  [ ] {verdict.text}")
    return int(bad)
