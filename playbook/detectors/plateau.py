"""A loss that does not come down, or that stands still.

What it sees
    `uniform-output`: the loss stands at the logarithm of the number of classes (10.3735 = ln 32000, 0.6931 = ln 2;
    the configuration tells it, else the usual ones are tried): the model says the same to everything, from the start
    or since it was blown up. `no-descent`: no descent from a start that nothing has learned from.
    `stuck`: a constant to the last digit after a healthy stretch, or no descent from the row on from which the
    gradient norm or the learning rate is zero. `slow`: it moves, but hardly.
Why it matters
    It separates what cannot learn (no gradient, no labels, a learning rate of zero or far too high) from what
    learns slowly (D1-sym-1, D1-flat-1). The number it stands at often names the fault.
Blind when
    No loss was logged, or fewer than 8 rows; a run that is still in the first part of its warm-up.
Easily mistaken for
    Training that goes on from trained weights: it starts low and stays flat in health. A converged run. A first
    loss near ln(vocabulary) is what a fresh model has to show.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import DOUBTFUL, MENTION, Shared, answer, blind, finding
from playbook.detectors.stats.curve import spent
from playbook.findings import Finding, Scan

NAME = "plateau"
NEEDS = ("loss",)
OPTIONAL = ("lr", "grad_norm", "entropy")
KINDS = ("no-descent", "stuck", "uniform-output", "slow")

LEAST = 8  # rows
AT_UNIFORM = 0.02  # nats to ln(classes) of a level that counts as standing there
NARROW = 0.02  # nats: scatter of the rows of a uniform output (labels of a batch are a sample)
OF_TEXT, BESIDE_TEXT = (3, 4, 5, 10), 0.01  # classes near whose ln trained language models stand; nats
DESCENT = 0.01  # of the level: less over the whole run is none
LONG_ROWS, LONG_STEPS = 25, 100  # a shorter log from the start tells nothing
STILL = 1e-5  # relative spread of a loss that stands still
FRESH_LOSS = 6.5  # nats: above it only a guess over a vocabulary or a large set of classes explains a first loss
SILENT, FAINT = 1e-9, 1e-6  # a gradient norm that moves nothing, and one that does not beside its usual size
BLOCKS = 40  # of the run, to see whether the loss was lower in between
DIP = 0.05  # of the level: lower in between by this is no plateau
BAND = 0.015  # of ln(classes), known: standing there, a little excess or the skew of the labels included
SETTLED, SETTLED_ROWS, SETTLED_STEPS = 0.4, 100, 150  # share of the run, rows and steps that a stand must last
SETTLED_EPOCHS = 10  # rows, where each is an epoch
SOLVED = 1e-3  # of the first rows: a gradient may well end with what there was to learn
GOES_ON = 0.004  # of the level: a descent over the second half of a stand that is none
CRAWL_ROWS = 400  # and steps at least: word frequencies alone are learned in fewer
MOVES_ANYTHING = 5e-3  # learning rate: no loss stays where it was under it, unless nothing arrives
EVEN, UNEVEN = 0.015, 0.15  # of the first rows: as low as this at the best, and as high at the worst
FEW_CLASSES, HIT = 20, 0.003  # ln(21) - ln(20) is 0.05: a level this near to one of them is no chance
QUIET_NOISE, QUIET_ROWS, WORKS = 0.015, 200, 1e-4  # relative noise, rows, learning rate: such a loss ought to move


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    rows = int(shared.good.sum())
    if rows < LEAST:
        return blind(NAME, f"only {stats.rows(rows)} of loss, {LEAST} are needed")
    out: list[Finding] = []
    for line in shared.lineages:
        if len(line) >= LEAST:
            out += _in_line(shared, line)
    if shared.no_measure:  # the loss of a policy or of an adversary may stand anywhere
        out = [replace(f, confidence=min(f.confidence, MENTION)) for f in out]
    return answer(NAME, out + _entropy(shared), f"{stats.rows(rows)} of loss that move")


def _in_line(shared: Shared, line: np.ndarray) -> list[Finding]:
    loss = shared.loss
    assert loss is not None
    v = loss.values[line]
    if still := _still(shared, line, v) or _silent(shared, line, v) or _spent(shared, line, v):
        return still
    n = len(v)
    part = max(3, n // 10)
    first, last = float(np.median(v[:part])), float(np.median(v[-part:]))
    middle, sigma = float(np.median(v)), stats.mad_sigma(v)
    classes = shared.classes
    away, count = stats.nearest_uniform(middle, classes)
    blocks = stats.block_medians(v, max(5, n // BLOCKS))
    dipped = float(blocks.min()) < min(first, last) - max(DIP * abs(middle), 3.0 * stats.diff_sigma(blocks))
    lasted = int(loss.steps[line[-1]] - loss.steps[line[0]])
    long = n >= LONG_ROWS and (lasted >= LONG_STEPS or shared.counts_epochs)
    if not long or _warming(shared):
        return []
    if classes is not None and (stands := _stands(shared, line, v, classes)):
        return [stands]
    dead = _dead_gradient(shared) or _no_lr(shared)
    flat = not dipped and first - last < max(DESCENT * abs(middle), 0.0)
    flat = flat and abs(first - last) < max(0.03 * abs(middle), 3 * sigma)
    numbers = {"level": middle, "first": first, "last": last, "spread": sigma, "classes": float(count)}
    numbers["distance_to_uniform"] = away
    # near zero every value is near some logarithm; from 2 classes on the distances mean something
    tight = 0.05 if dead else AT_UNIFORM if classes is not None or count in (2, 100, 1000) else 0.012
    narrow = max(NARROW, 0.004 * middle)
    if classes is None and not dead and count in OF_TEXT:
        tight, narrow = BESIDE_TEXT, BESIDE_TEXT
    if flat and middle > 0.6 and away < tight and sigma < narrow:
        text = f"loss stands at {stats.number(middle)} for {stats.rows(n)}, {away:.3f} from "
        text += f"{stats.uniform_name(middle, classes, sigma + away)}, that of a uniform guess"
        sure = 0.9 if dead or abs(count - 2) < 1 or middle > 5 else 0.75
        if classes is None and not dead and int(loss.steps[line[0]]) > lasted:
            sure = DOUBTFUL  # as many steps went before as are seen: it has learned what it has, and stands by chance
        return [finding(NAME, "uniform-output", loss, int(line[0]), text, sure, numbers=numbers)]
    if unmoved := _unmoved(shared, line, v):
        return [unmoved]
    fresh = first > 0.9 * math.log(classes) if classes else stats.nearest_uniform(first)[0] < 0.1 and first > FRESH_LOSS
    if flat:
        text = f"loss is {stats.number(first)} at the start and {stats.number(last)} after {stats.rows(n)}: no descent"
        sure = 0.85 if dead else 0.75 if fresh and (classes is not None or first > 9.0) else MENTION
        if sure == MENTION and _ought_to_move(shared, line, v, middle):
            sure = DOUBTFUL
        return [finding(NAME, "no-descent", loss, int(line[0]), text, sure, numbers=numbers)]
    if fresh and 0.0 < first - last < 0.05 * first and n >= 4 * LONG_ROWS:
        text = f"loss comes down from {stats.number(first)} to {stats.number(last)} only, in {stats.rows(n)}"
        # images are slow at first; text of a known vocabulary is not
        text_of_known = shared.setting("vocab_size", "padded_vocab_size", "n_vocab", "vocabulary_size") is not None
        sure = 0.75 if text_of_known and n >= CRAWL_ROWS else DOUBTFUL
        return [finding(NAME, "slow", loss, int(line[0]), text, sure, numbers=numbers)]
    return []


def _stands(shared: Shared, line: np.ndarray, v: np.ndarray, classes: int) -> Finding | None:
    """The last part of a run at ln(classes), the number of classes being known, and not on its way through."""
    loss, n = shared.loss, stats.number
    assert loss is not None
    uniform = math.log(classes)
    size = max(5, len(v) // BLOCKS)
    blocks = stats.block_medians(v, size)
    off = np.flatnonzero(np.abs(blocks - uniform) > BAND * uniform)
    begin = (int(off[-1]) + 1) * size if len(off) else 0
    rest = v[begin:]
    # a loss that was clearly lower once was blown up; else the guess is there from the first row
    before = blocks[: begin // size]
    learned = len(before) > 0 and float(before.min()) < uniform - 3.0 * BAND * uniform
    least, steps = (SETTLED_EPOCHS, 0) if shared.counts_epochs else (SETTLED_ROWS, SETTLED_STEPS)
    if len(rest) < max(0.0 if learned else SETTLED * len(v), least) or uniform < 0.6:
        return None
    if int(loss.steps[line[-1]] - loss.steps[line[begin]]) < steps:
        return None
    half, quarter = rest[len(rest) // 2 :], max(3, len(rest) // 4)
    falls = float(np.median(rest[-2 * quarter : -quarter]) - np.median(rest[-quarter:]))
    if falls > GOES_ON * uniform + 2.0 * stats.diff_sigma(half) / math.sqrt(quarter):
        return None
    level = float(np.median(half))
    at = int(line[begin if learned else 0])
    text = f"loss stands at {n(level)} for the last {len(rest)} of {stats.rows(len(v))}"
    text += f"; a guess gives ln({classes}) = {n(uniform)}"
    numbers = {"level": level, "rows": float(len(rest)), "classes": float(classes), "first": float(np.median(v[:3]))}
    numbers |= {"distance_to_uniform": abs(level - uniform), "spread": stats.mad_sigma(half)}
    return finding(NAME, "uniform-output", loss, at, text, 0.85, numbers=numbers)


def _ought_to_move(shared: Shared, line: np.ndarray, v: np.ndarray, level: float) -> bool:
    """True where the log begins with the run, is quiet and long, and the learning rate is large enough to see."""
    loss, lr = shared.loss, shared.curve("lr")
    if loss is None or lr is None or not lr.finite.any() or len(v) < QUIET_ROWS or level < 3.0:
        return False
    begins = int(loss.steps[line[0]]) <= max(20, 2 * loss.spacing)
    return begins and stats.diff_sigma(v) < QUIET_NOISE * level and float(lr.values[lr.finite].max()) >= WORKS


def _unmoved(shared: Shared, line: np.ndarray, v: np.ndarray) -> Finding | None:
    """Rows that are never better than the first ones, though the log begins with the run and the rate moves anything.

    Sure where they stand at the logarithm of a small number of classes, which a batch of labels hits to three digits.
    """
    loss, lr, n = shared.loss, shared.curve("lr"), stats.number
    if loss is None or lr is None or not lr.finite.any() or len(v) < QUIET_ROWS or v[0] < 0.6:
        return None
    if int(loss.steps[line[0]]) > max(20, 2 * loss.spacing) or float(lr.values[lr.finite].max()) < MOVES_ANYTHING:
        return None
    start, blocks = float(np.median(v[:3])), stats.block_medians(v, max(5, len(v) // BLOCKS))
    if float(blocks.min()) < start * (1.0 - EVEN) or float(blocks.max()) > start * (1.0 + UNEVEN):
        return None
    part = v[-max(QUIET_ROWS // 4, len(v) // 4) :]
    level, scatter = float(np.median(part)), stats.mad_sigma(part)
    classes = shared.classes or max(2, round(math.exp(level)))
    away = abs(level - math.log(classes))
    guess = classes <= FEW_CLASSES and away < max(HIT, 3.0 * scatter / math.sqrt(len(part)))
    text = f"loss is {n(start)} in the first rows and never lower in {stats.rows(len(v))} (at the end {n(level)})"
    text += f"; a guess among {classes} gives {n(math.log(classes))}" if guess else ""
    numbers = {"level": level, "first": start, "spread": scatter, "distance_to_uniform": away}
    kind = "uniform-output" if guess else "no-descent"
    return finding(NAME, kind, loss, int(line[0]), text, 0.75 if guess else DOUBTFUL, numbers=numbers)


def _entropy(shared: Shared) -> list[Finding]:
    """An entropy of the policy that climbs to ln(vocabulary): it says all tokens alike, whatever the loss does."""
    entropy = shared.curve("entropy")
    if entropy is None or int(entropy.finite.sum()) < LEAST:
        return []
    index = np.flatnonzero(entropy.finite)
    v = entropy.values[index]
    part = max(3, len(v) // 10)
    first, last = float(np.median(v[:part])), float(np.median(v[-part:]))
    away, count = stats.nearest_uniform(last, shared.classes)
    if last < FRESH_LOSS or away > AT_UNIFORM or first > 0.7 * last or stats.mad_sigma(v[-part:]) > AT_UNIFORM:
        return []
    at = int(index[np.argmax(v > last - 0.1)])
    text = f"entropy climbs from {stats.number(first)} to {stats.number(last)}, {away:.3f} from "
    text += stats.uniform_name(last, shared.classes, AT_UNIFORM)
    numbers = {"first": first, "last": last, "classes": float(count)}
    return [finding(NAME, "uniform-output", entropy, at, text, 0.85, numbers=numbers)]


def _still(shared: Shared, line: np.ndarray, v: np.ndarray) -> list[Finding]:
    """A loss that repeats one value to the last digits up to the end, after it moved."""
    loss = shared.loss
    assert loss is not None
    end = float(v[-1])
    if end == 0.0:
        return []  # loss_zero tells
    same = np.abs(v - end) <= max(STILL * abs(end), 1e-9)
    away, count = stats.nearest_uniform(end, shared.classes)
    uniform = away < 2e-3 and end > 0.6
    # at ln(classes) the last rows may still scatter a little, elsewhere only a frozen number counts
    if uniform:
        same = np.abs(v - end) <= 2e-3
    starts, ends = stats.runs(same)
    begin, rows = int(starts[-1]), int(ends[-1] - starts[-1])
    if ends[-1] != len(v) or rows < (5 if uniform else max(12, 0.02 * len(v))):
        return []
    if not uniform and begin > 0:
        # rounding of a converged loss repeats too: the noise before must have been much larger than the last digit
        before = v[max(0, begin - 64) : begin]
        if stats.diff_sigma(before) < 20.0 * STILL * abs(end) or abs(end) < 0.05 * float(
            np.abs(v[: max(3, len(v) // 50)]).max()
        ):
            return []
    index = int(line[begin])
    step = int(loss.steps[index])
    numbers = {"level": end, "rows": float(rows), "classes": float(count), "distance_to_uniform": away}
    near = 3.0 * (BAND * end if shared.classes is not None else NARROW)
    always = shared.classes is not None or float(v[:begin].max(initial=end)) < end + near
    if uniform and always and float(v[:begin].min(initial=end)) > end - near:
        index, begin = int(line[0]), 0  # it never was better than a guess: the fault is there from the first row on
        step = int(loss.steps[index])
    if uniform:
        text = f"loss stands at {stats.number(end)} from step {step}, {away:.4f} from "
        text += f"{stats.uniform_name(end, shared.classes, away)}, that of a uniform guess"
        return [finding(NAME, "uniform-output", loss, index, text, 0.93, numbers=numbers)]
    text = f"loss repeats {end:.6g} from step {step} to the end ({stats.rows(rows)})"
    return [finding(NAME, "stuck", loss, index, text, 0.85 if begin > 0 else 0.8, numbers=numbers)]


def _silent(shared: Shared, line: np.ndarray, v: np.ndarray) -> list[Finding]:
    """A gradient norm that is as good as zero from some row to the end, and a loss that comes down no further."""
    loss, grad = shared.loss, shared.curve("grad_norm")
    if grad is None or loss is None or len(grad) < 4 * LEAST or not abs(grad.values[-1]) <= SILENT:
        return []
    if int(grad.finite.sum()) < 4 * LEAST or len(grad.restarts):
        return []
    index = np.flatnonzero(grad.finite)
    norm = np.abs(grad.values[index])
    usual = float(np.median(norm[: min(1000, max(LEAST, len(norm) // 10))]))
    faint = min(SILENT, FAINT * usual)
    if norm[-1] > faint:
        return []
    starts, ends = stats.runs(norm <= faint)
    if not len(starts) or ends[-1] != len(norm) or len(norm) - starts[-1] < max(12, 0.02 * len(norm)):
        return []
    begin = int(starts[-1])
    step = int(grad.steps[index[begin]])
    at = int(np.searchsorted(loss.steps[line], step))
    after = v[at:]
    if begin < LEAST or not _stays(after) or abs(float(np.median(after))) < SOLVED * abs(float(np.median(v[:LEAST]))):
        return []
    n = stats.number
    text = f"gradient norm is {n(float(np.median(norm[begin:])))} from step {step} to the end ({n(usual)} at first)"
    text += f", the loss stands at {n(float(np.median(after)))}"
    numbers = {"level": float(np.median(after)), "rows": float(len(norm) - begin)}
    return [finding(NAME, "stuck", loss, int(line[at]), text, 0.8, numbers=numbers)]


def _spent(shared: Shared, line: np.ndarray, v: np.ndarray) -> list[Finding]:
    """A learning rate that ran out before the run did, and a loss that comes down no further from there on."""
    loss, lr = shared.loss, shared.curve("lr")
    if lr is None or loss is None or len(lr.restarts) or (begin := spent(lr)) is None:
        return []
    step = int(lr.steps[begin])
    at = int(np.searchsorted(loss.steps[line], step))
    after = v[at:]
    if at < LEAST or not _stays(after):
        return []
    level = float(np.median(after))
    left = float(lr.values[begin])
    text = f"learning rate is {stats.number(left)}{' and less' if left else ''} from step {step} to the end"
    text += f" ({stats.rows(len(after))} of loss), the loss stands at {stats.number(level)}"
    numbers = {"level": level, "rows": float(len(after))}
    return [finding(NAME, "stuck", loss, int(line[at]), text, 0.8, numbers=numbers)]


def _stays(after: np.ndarray) -> bool:
    """True where rows of loss come down no further."""
    third = max(3, len(after) // 3)
    if len(after) < LEAST or (level := abs(float(np.median(after)))) == 0.0:
        return False
    noise = 2.5 * stats.diff_sigma(after) / math.sqrt(third)  # of the difference of two medians, about 1.5 sigma
    return float(np.median(after[:third]) - np.median(after[-third:])) <= GOES_ON * level + noise


def _warming(shared: Shared) -> bool:
    """True while the learning rate still rises at the end of the log."""
    lr = shared.curve("lr")
    if lr is None or int(lr.finite.sum()) < 4:
        return False
    v = lr.values[lr.finite]
    return bool(v[-1] >= v.max() and v[-1] > 1.02 * v[len(v) * 3 // 4] and v[0] < 0.5 * v[-1])


def _dead_gradient(shared: Shared) -> bool:
    grad = shared.curve("grad_norm")
    return grad is not None and bool(grad.finite.any()) and bool(np.median(np.abs(grad.values[grad.finite])) < 1e-9)


def _no_lr(shared: Shared) -> bool:
    lr = shared.curve("lr")
    return lr is not None and len(lr) >= 3 and bool(np.all(lr.values[1:] == 0.0))
