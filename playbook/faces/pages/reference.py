"""Reference pages: the vocabulary, the sources, and what this site is and how it is meant to be used."""

from __future__ import annotations

from playbook.faces.pages.blocks import Cell, Commands, Facts, Page, Part, Plain, Prose, Section, Steps, Table, Web
from playbook.faces.pages.shelf import SAFE_URL, Shelf
from playbook.faces.words import Words
from playbook.knowledge.entries import HOW_OFTEN, Command

MOST_CITING = 6  # entries named beside a source

# (word, what it means here, what it is not): the vocabulary that the whole product keeps to.
TERMS = (
    ("Metric", "A named number logged per step, such as loss, grad_norm or loss_scale.", "signal"),
    ("Series", "The values of one metric of one rank in the order of the file, restarts marked.", "curve"),
    ("Event", "A line of text worth keeping: an NCCL message, an Xid, a checkpoint, a skipped step.", "log"),
    ("Run", "Everything that was read from one training job.", "experiment"),
    ("Finding", "What a detector saw in this run, with steps and numbers and no judgement.", "alert"),
    (
        "Scan",
        "One detector's answer: found, clear, or blind with the reason why. Only clear means absence.",
        "result",
    ),
    ("Symptom", "The class of trouble as a person would name it; the door of a diagnosis.", "finding"),
    (
        "Signal",
        "An observation with a finite set of outcomes that tells causes apart; it says how to get it and its price.",
        "metric",
    ),
    (
        "Check",
        "The act of obtaining a signal: by a detector, a log line, a probe, a question or a control run.",
        "test",
    ),
    ("Evidence", "The outcome of a signal in this incident, and where it came from.", "finding"),
    ("Cause", "The mechanism whose removal ends the incident. It belongs to one layer.", "symptom"),
    ("Fix", "An action with cost, risk, a way to verify and a way back: first aid, repair or prevention.", "check"),
    (
        "Diagnosis",
        "Ranked causes with probability, reasons for and against, and the next check or a verdict.",
        "report",
    ),
    ("Verdict", "The diagnosis when asking stops: a cause, or an open admission that it is undecided.", "guess"),
    ("Incident", "One trouble of one run: its scene, its evidence, its verdict and its outcome.", "case"),
    ("Scene", "The excerpt of the run that is kept with an incident.", "dump"),
    ("Case", "A published incident in the book that can be replayed.", "incident"),
    ("Artifact", "A frozen incident as plain files that replays in a test suite.", "backup"),
    ("Playbook", "The decisions for one symptom: first aid, the order of checks, fixes, prevention.", "runbook"),
    ("Runbook", "The numbered steps of one check or one fix, with commands.", "playbook"),
    ("Question", "One quiz item tied to entries of the book.", "check"),
    ("Drill", "A case solved by buying evidence, scored against the engine's own cost.", "quiz"),
)


def glossary_page(shelf: Shelf) -> Page:
    w = shelf.w
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (Plain(w(term)), w(meaning), Plain(w(not_this))) for term, meaning, not_this in TERMS
    )
    often: tuple[tuple[Cell, ...], ...] = tuple(
        (Plain(shelf.often_word(word)), Plain(f"{share:.0%}")) for word, share in HOW_OFTEN.items()
    )
    return Page(
        path="glossary.html",
        kind="reference",
        id="",
        title=w("Glossary"),
        lead=w("One word, one meaning."),
        sections=(
            Section("words", w("Words"), (Table((w("Word"), w("Means here"), w("Not to be confused with")), rows),)),
            Section("often", w("How often"), (Prose(w("Links are weighted in words, which stand for these shares.")),
                                                Table((w("Word"), w("Share")), often))),
        ),
    )  # fmt: skip


def sources_page(shelf: Shelf) -> Page:
    w = shelf.w
    kinds = {
        "paper": w("Papers"),
        "docs": w("Documentation"),
        "chronicle": w("Chronicles of runs"),
        "issue": w("Issues"),
        "": w("Other"),
    }
    grouped: dict[str, list[tuple[Cell, ...]]] = {kind: [] for kind in kinds}
    for key in sorted(shelf.book.sources):
        info = shelf.book.sources[key]
        url, title = str(info.get("url", "")), str(info.get("title", key))
        kind = str(info.get("kind", ""))
        name: Part = Web(url if SAFE_URL.match(url) else "", title)
        grouped[kind if kind in grouped else ""].append((Plain(key, code=True), name, _citing(shelf, key)))
    head = (w("Citation key"), w("Source"), w("Rests on it"))
    sections = [
        Section(f"kind-{kind or 'other'}", heading, (Table(head, tuple(grouped[kind]), anchors=""),))
        for kind, heading in kinds.items()
        if grouped[kind]
    ]
    ledger: list[tuple[Cell, ...]] = [
        (Plain(key, code=True), Plain(shelf.book.ledger[key]), _citing(shelf, key)) for key in shelf.book.ledger
    ]
    if ledger:
        table = Table((w("Citation key"), w("Fact"), w("Rests on it")), tuple(ledger), anchors="")
        sections.append(Section("ledger", w("Facts of the source documents"), (table,)))
    return Page(
        path="sources.html",
        kind="reference",
        id="",
        title=w("Sources"),
        lead=w("What the book rests on, and which entries rest on it."),
        sections=tuple(sections),
        searched=False,
    )


def _citing(shelf: Shelf, key: str) -> tuple[Part, ...]:
    found = shelf.cited_by.get(key, [])
    parts: list[Part] = []
    for kind, entry_id in found[:MOST_CITING]:
        if parts:
            parts.append(Plain(" · "))
        parts.append(shelf.ref(kind, entry_id))
    if len(found) > MOST_CITING:
        parts.append(Plain(f" · +{len(found) - MOST_CITING}"))
    return tuple(parts)


def _contribute(w: Words) -> Section:
    """How a team adds what it knows: a pack of its own over the built-in book."""
    make = Command(
        run="playbook knowledge new causes data/my-cause --out my-pack\nplaybook knowledge schema causes",
        expect=w("a template that loads as it is, and the JSON Schema for the editor"),
        mutates=True,
    )
    check = Command(
        run="playbook knowledge lint --knowledge my-pack\nplaybook replay --knowledge my-pack",
        expect=w("no promise of the book is broken, and every verdict that changed is one that you meant to change"),
    )
    use = Command(
        run="export PLAYBOOK_KNOWLEDGE=my-pack",
        expect=w("every command and the site take the pack over the built-in book"),
    )
    return Section("contribute", w("Adding what your team knows"), (
        Steps((
            w("One entry is one file; its name is the id, its folder is the kind (for causes: the layer)."),
            w("Weigh each link in words (almost_always ... almost_never) and cite what it rests on."),
            w("Say what a cause is mistaken for and which signal tells the two apart; write it in both entries."),
            w("Give every cause a fix that can be verified and every incident a case: they test the next change."),
            w("An entry of the same id overrides the built-in one; with `extend: true` it is laid over it."),
        )),
        Commands((make, check, use)),
    ))  # fmt: skip


def about_page(shelf: Shelf, version: str) -> Page:
    w = shelf.w
    sizes = {kind: len(shelf.book.entries[kind]) for kind in ("symptoms", "signals", "causes", "fixes", "cases")}
    counts: tuple[tuple[str, Cell], ...] = tuple((shelf.kind_word(kind), Plain(str(n))) for kind, n in sizes.items())
    annotation = Command(
        run='annotations:\n  runbook_url: "https://YOUR-HOST/en/symptoms/instant-nan.html#first-aid"',
        language="yaml",
        expect=w("the alert links to first aid; the page keeps its address when its title changes"),
    )
    keys: tuple[tuple[str, Cell], ...] = (
        ("`/`", w("search")),
        ("`Esc`", w("leave the search")),
        ("`1` – `9`", w("answer in the guided diagnosis")),
        ("`u`", w("take the last answer back")),
    )
    record = Command(
        run="playbook diagnose LOGS --record\nplaybook site build --out OUT", expect=w("the incident is on the site")
    )
    sections: list[Section] = [
        Section("use", w("How to use it"), (Steps((
            w("Find the curve on the first page, or paste a log line into the search."),
            w("Do the first aid. It costs minutes and keeps the scene."),
            w("Do the checks in order: they are sorted by how much each tells for its cost."),
            w("Apply a fix, verify it, and record the incident so that the next one is shorter."),
        )),)),
        Section("probabilities", w("What the probabilities mean"), (
            Prose(w("They are the engine's posterior: published incidents as prior, the book's links as likelihoods. "
                    "A page of a symptom knows the symptom and nothing else, so its bars are a starting point. "
                    "The guided diagnosis computes the same numbers as the command line.")),
        )),
        Section("alerts", w("Linking alerts to pages"), (
            Prose(w("Every id is a permanent address. `runbooks.json` lists all of them for machines.")),
            Commands((annotation,)),
        )),
        Section("record", w("Recording an incident"), (Commands((record,)),)),
        _contribute(w),
        Section("keys", w("Keys"), (Facts(keys),)),
        Section("version", w("This book"), (Facts((*counts, (w("Content"), Plain(version, code=True)))),)),
        Section("licences", w("Licences"), (
            Prose(w("The search uses MiniSearch (MIT); its licence is beside the script.")),
        )),
    ]  # fmt: skip
    return Page(
        path="about.html",
        kind="reference",
        id="",
        title=w("About"),
        lead=w(
            "On-call book for training runs: symptoms, signals, causes, fixes, cases, and an engine that weighs them."
        ),
        sections=tuple(sections),
    )
