"""Templates of entries, valid as they are: a contributor replaces the words and runs the lint."""

from __future__ import annotations

from pathlib import Path

from playbook.errors import PlaybookError
from playbook.knowledge.entries import KINDS, LAYERS

_TEXTS = {
    "symptoms": """\
title: What a person would say that they see
summary: >-
  One or two sentences that an on-call engineer recognises.
looks_like: What the curve does, with numbers.
not_this: What is easily taken for it and is none.
impact: What it costs to go on.
stop_loss: When to stop or roll back, in steps.
sources: [D3-case]
""",
    "signals": """\
title: The thing observed
question: The question as it is asked at 3 a.m.?
outcomes:
  yes: what is then seen, with numbers
  no: what is then seen
background: {yes: seldom, no: usually}
group: my-group            # signals of one group are views of one fact
kind: ask                  # metrics | log | config | ask | experiment | probe
how: >-
  How to get it, in plain words.
commands:
  - run: nvidia-smi -q
    expect: what a good and a bad output look like
minutes: 5
log_next_time: what to log so that it is known for free
sources: [D3-loc-1]
""",
    "causes": """\
title: The fault, in the words of the field
class: lr_too_high          # one of the 48 classes of classes.yaml
common: occasional          # within its class
summary: >-
  What an on-call engineer recognises in five seconds; at least thirty words together with the mechanism.
mechanism: >-
  How it makes the symptom, step by step, with the numbers that are known of it from incidents.
shows: {persistent-spike: usually, transient-spike: seldom}
expects:                     # almost_always usually half seldom almost_never
  grad-norm-before: {climbs: usually, because: [D3-case]}
  lower-lr-removes-it: {yes: almost_always, because: [D3-ctl-2]}
mistaken_for:
  - {cause: hard-samples, tell: what tells them apart, signal: tied-to-samples}
sources: [D3-case]
""",
    "fixes": """\
title: What to do, as a command
kind: repair                 # first-aid | repair | prevention
treats: [lr-overshoot-at-peak]
summary: >-
  One sentence that says what it does to the cause.
steps:
  - First this, with the numbers and the command that it takes.
  - Then that.
minutes: 10
gpu_steps: 500               # steps until it can be judged
risk: low                    # safe | low | medium | high
cured: What is seen when it worked, within how many steps.
not_cured: What is seen when not, and what that says about the cause.
undo: How to go back.
sources: [D3-par-2]
""",
    "cases": """\
title: One line, in the field's words
sources: [D3-case]
context: {precision: bf16, gpus: 64, task: pretraining}
given: [loss-shape]
answers: {loss-shape: persistent-spike, grad-norm-before: climbs}
causes: [lr_too_high]        # cause ids or classes
story: What happened, in your own words.
wrong_turns: [What was suspected first.]
fix: What ended it.
earlier: What would have shown it earlier.
""",
    "questions": """\
title: A short name of the question
ask: The question?
about: [lr-overshoot-at-peak]
difficulty: 2
choices:
  - {text: The right answer, right: true, why: why it is right}
  - {text: A wrong answer, why: when it would be right}
sources: [D3-int-1]
""",
    "checklists": """\
title: What the list is for
summary: When to go through it.
items:
  - id: clip-on
    text: Clipping of the global gradient norm is on
    why: What happens without it.
    sources: [D3-par-4]
    config:
      - {keys: [max_grad_norm, gradient_clipping, clip_grad], below: [[0.0000001, bad]], above: [[0, ok]]}
sources: [D0-prev-4]
""",
}


def plural(kind: str) -> str:
    """`cause` and `causes` are one kind."""
    return next((name for name in KINDS if kind in (name, name.removesuffix("s"), name.removesuffix("es"))), kind)


def template(kind: str, entry_id: str) -> str:
    """The text of a new entry. Raises `PlaybookError` for a kind that is none."""
    kind = plural(kind)
    place_of(Path(), kind, entry_id)
    return f"id: {entry_id.rsplit('/', 1)[-1]}\n{_TEXTS[kind]}"


def place_of(folder: Path, kind: str, entry_id: str) -> Path:
    """The file of an entry: file name = id, folder = kind (and layer)."""
    kind = plural(kind)
    if kind not in KINDS:
        raise PlaybookError(kind, "no such kind", f"one of {', '.join(KINDS)}")
    layer, slash, name = entry_id.rpartition("/")
    if not name.replace("-", "").replace(".", "").isalnum() or name != name.strip("."):
        raise PlaybookError(entry_id, "is no id", "lower-case words joined by dashes")
    if kind == "causes" and layer not in LAYERS:
        raise PlaybookError(
            entry_id, "a cause needs its layer", f"write {LAYERS[0]}/{name} (one of {', '.join(LAYERS)})"
        )
    if kind != "causes" and slash:
        raise PlaybookError(entry_id, "only a cause has a folder of its own", f"write {name}")
    return folder / kind / layer / f"{name}.yaml" if layer else folder / kind / f"{name}.yaml"
