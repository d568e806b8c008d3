"""What a watch says: one JSON document a happening, and lines for people."""

from __future__ import annotations

from typing import Any

from playbook.faces.words import Words
from playbook.workflow.watching.watch import Happening

_AIDS, _STEPS = 2, 4  # first aids and their steps that are shown at once


def happening_document(item: Happening) -> dict[str, Any]:
    """One event of `watch --json`, for one line."""
    base: dict[str, Any] = {"event": item.kind, "time": item.at.isoformat(timespec="seconds")}
    if item.alert:
        return base | item.alert
    if item.problem is not None:
        problem = item.problem
        base |= {"file": problem.where, "line": problem.line, "what": problem.what, "hint": problem.hint or None}
    if item.reason and item.kind == "end":
        base["reason"] = item.reason
    if item.kind not in ("reading", "end"):
        return base
    found = item.found
    base |= {"files": [], "last_step": None, "verdict": "undecided", "symptom": None}
    if found is not None:
        symptom = found.symptom
        base |= {
            "files": [{"path": f.path, "format": f.format, "rows": f.rows} for f in found.run.files],
            "last_step": found.run.step_range()[1],
            "verdict": found.verdict,
            "symptom": None
            if symptom is None
            else {"id": symptom.state, "onset_step": symptom.step, "confidence": round(symptom.confidence, 3)},
        }
    if item.kind == "end":
        base["incidents"] = item.incidents
    return base


def happening_lines(item: Happening, w: Words) -> list[str]:
    """The same for people, without colours; the first line says it all."""
    clock = item.at.astimezone().strftime("%H:%M:%S")
    if item.kind == "incident":
        return [f"{clock} {w.lead('INCIDENT')}{_what(item, w)}", *_details(item, w)]
    if item.kind == "known":
        told = w("reported before; --no-memory reports it again")
        return [f"{clock} {w.lead('still going on')}{_what(item, w)} ({told})"]
    if item.kind in ("changed", "again", "over"):
        says = {"changed": w("now it is"), "again": w("again"), "over": w("over")}[item.kind]
        return [f"{clock} {says}: {_what(item, w)}", f"  {w.say(item.alert['because'])}"]
    if item.problem is not None:
        word = w("waiting") if item.kind == "waiting" else "!"
        return [f"{clock} {word} {w.problem(item.problem)}"]
    found = item.found
    if found is None:
        return [f"{clock} {w('nothing was read')} ({w(item.reason)})"]
    rows = sum(f.rows for f in found.run.files)
    formats = ", ".join(sorted({f.format for f in found.run.files}))
    step = found.run.step_range()[1]
    at = f", {w('step')} {step}" if step is not None else ""
    files = w.count(len(found.run.files), "1 file", "{n} files")
    head = f"{files} ({formats}), {w.count(rows, '1 row', '{n} rows')}{at}: {w(found.verdict)}"
    if item.kind == "end":
        return [
            f"{clock} {w('end')} ({w(item.reason)}): {head}; {w.count(item.incidents, '1 incident', '{n} incidents')}"
        ]
    return [f"{clock} {w('watching')} {head}"]


def _what(item: Happening, w: Words) -> str:
    symptom = item.alert["symptom"]
    step = symptom["onset_step"]
    at = f" {w('from step {step}', step=step)}" if step is not None else ""
    rank = item.alert.get("rank")
    who = f" [{w('rank')} {rank}]" if rank is not None else ""
    return f"{symptom['title']}{at}{who}"


def _details(item: Happening, w: Words) -> list[str]:
    alert = item.alert
    place = alert.get("location") or {}
    where = f" ({place['file']}:{place['line']})" if place.get("line") else ""
    lines = [f"  {w.say(alert['because'])}{where}"]
    for aid in alert.get("first_aid", ())[:_AIDS]:
        lines.append(f"  {w.lead('First aid')}{aid['title']}")
        lines += [f"    - {' '.join(step.split())}" for step in aid["steps"][:_STEPS]]
    causes = [f"{cause['title']} {cause['probability']:.0%}" for cause in alert.get("causes", ())]
    if causes:
        lines.append(f"  {w.lead('Causes')}{'; '.join(causes)}")
    if alert.get("incident"):
        lines.append(f"  {w('recorded as incident {id}', id=alert['incident'])}")
    lines.append(f"  {w.lead('go on with')}{alert['diagnose']}")
    return lines
