"""The page of a fix: the steps, what it costs and risks, how it is seen to have worked, the way back."""

from __future__ import annotations

from playbook.faces.pages.blocks import (
    Block,
    Cell,
    Commands,
    Facts,
    Links,
    Notice,
    Page,
    Plain,
    Ref,
    Section,
    Snippets,
    Steps,
    Table,
    Web,
)
from playbook.faces.pages.parts import drop_empty, notices, past_section, quiz_section, sources_section
from playbook.faces.pages.shelf import Shelf
from playbook.knowledge.entries import Fix


def fix_page(shelf: Shelf, fix: Fix) -> Page:
    w = shelf.w
    incidents = shelf.incidents_by_fix.get(fix.id, [])
    cured = [i for i in incidents if any(t.fix == fix.id and t.outcome == "cured" for t in i.record.treatments)]
    steps: list[Block] = [Steps(tuple(fix.steps))]
    if fix.risk in ("medium", "high"):
        steps.insert(0, Notice("warn", f"{shelf.risk_word(fix.risk)}. {w.lead('Way back')}{fix.undo}"))
    steps.append(Commands(tuple(fix.commands)))
    sections = drop_empty(
        [
            Section("steps", w("Steps"), tuple(steps), w("Mitigation")),
            Section("settings", w("Settings by framework"), (Snippets(tuple(fix.settings.items())),))
            if fix.settings
            else None,
            Section("verify", w("Verify"), (Facts(tuple(_verify(shelf, fix))),)),
            Section("undo", w("Way back"), (Facts(((w("Undo"), fix.undo),)),)),
            _treats(shelf, fix),
            past_section(shelf, incidents, [], cured),
            quiz_section(shelf, fix.id),
            sources_section(shelf, fix),
        ]
    )
    kinds = {"first-aid": w("first aid"), "repair": w("repair"), "prevention": w("prevention")}
    return Page(
        path=f"fixes/{fix.id}.html",
        kind="fixes",
        id=fix.id,
        title=fix.title,
        lead=fix.summary,
        sections=sections,
        crumbs=(shelf.index("fixes"), Ref(f"fixes/index.html#{fix.kind}", kinds[fix.kind])),
        tags=tuple(_tags(shelf, fix)),
        notices=notices(shelf, fix, "fixes"),
    )


def _tags(shelf: Shelf, fix: Fix) -> list[Cell]:
    tags: list[Cell] = [Plain(shelf.minutes(fix.minutes)), Plain(shelf.risk_word(fix.risk))]
    if fix.gpu_steps:
        tags.append(Plain(shelf.w("judged after {n} steps", n=fix.gpu_steps)))
    return tags


def _verify(shelf: Shelf, fix: Fix) -> list[tuple[str, Cell]]:
    w = shelf.w
    rows: list[tuple[str, Cell]] = [(w("It worked when"), fix.cured), (w("It did not when"), fix.not_cured)]
    for signal, outcome in fix.tests.items():
        rows.append((w("A cure would show"), (shelf.ref("signals", signal), Plain(" = "), Plain(outcome, code=True))))
    return rows


def _treats(shelf: Shelf, fix: Fix) -> Section | None:
    w = shelf.w
    blocks: list[Block] = []
    if fix.treats:
        rows: list[tuple[Cell, ...]] = []
        for name in fix.treats:
            cause = shelf.book.causes.get(name)
            rows.append((shelf.ref("causes", name), Plain(shelf.layer_word(cause.layer) if cause else "")))
        blocks.append(Table((w("Cause"), w("Layer")), tuple(rows)))
    if fix.symptoms:
        links: tuple[tuple[Ref | Web, str], ...] = tuple((shelf.ref("symptoms", s), "") for s in fix.symptoms)
        blocks.append(Links(links))
    return Section("treats", w("What it treats"), tuple(blocks))
