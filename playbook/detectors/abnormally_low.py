"""A loss that is far lower than learning can explain.

What it sees
    `too-low`: a model that started near the loss of a random guess over a large vocabulary and is below a tenth of
    a nat at the end (where the configuration tells the vocabulary, also of a small one, and sure where it is below a
    fiftieth); or a collapse to less than a fifth of the level in a few rows in the middle of a run, without an epoch
    beginning there.
Why it matters
    Nothing looks healthier than a leak: the answer is visible to the model (mask off by one, packed documents that
    see each other), only copied or padding tokens count, or the data repeats (D2-sym-3).
Blind when
    No loss was logged, or fewer than 20 rows.
Easily mistaken for
    A small set of templates learned by heart, a loss on another scale (averaged over padding, divided twice), a
    regression.
"""

from __future__ import annotations

import math
import re

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import DOUBTFUL, MENTION, Shared, answer, blind, finding
from playbook.findings import Finding, Scan

NAME = "abnormally_low"
NEEDS = ("loss",)
OPTIONAL = ("epoch", "grad_norm")
KINDS = ("too-low",)

LEAST = 20  # rows
# names of losses that are no cross entropy over a vocabulary
_OTHER = re.compile(
    r"(?i)contrast|clip|nce(?![a-z])|triplet|mse|mae|huber|l[12](?![a-z])|bce|flow|denois|diffusion|elbo"
)
FRESH = (6.5, 13.0)  # nats: ln of vocabularies of 700 to 440,000
LOW = 0.1  # nats a token: below the entropy of any text that was not seen before
NOTHING = 0.02  # nats: what no order of words leaves
REGRESSION = 1e-3  # below it a loss of unknown kind is a squared error
COLLAPSE = 0.2  # of the level
STEEPER = 2.5  # times the course of the loss before: a fall that is one
ROWS = 8  # in which a collapse happens
AT_ONCE, STAYS = 0.05, 8  # of the level, in one row and for good, and rows on each side: so deep that few rows tell


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    loss = shared.loss
    assert loss is not None
    rows = int(shared.good.sum())
    if rows < LEAST:
        return blind(NAME, f"only {stats.rows(rows)} of loss, {LEAST} are needed")
    out: list[Finding] = []
    if shared.domain.log:
        for line in shared.lineages:
            if len(line) >= LEAST:
                out += _in_line(shared, line)
    return answer(NAME, out, f"{stats.rows(rows)} of loss, none implausibly low")


def _in_line(shared: Shared, line: np.ndarray) -> list[Finding]:
    loss = shared.loss
    assert loss is not None
    v = loss.values[line]
    first = float(np.median(v[:3]))
    last = float(np.median(v[-max(3, len(v) // 20) :]))
    smooth = stats.block_medians(v, ROWS)
    out: list[Finding] = []
    # collapse: a block at less than a fifth of the block two before, for good
    if len(smooth) >= 6:
        falls = np.flatnonzero(smooth[2:] < COLLAPSE * smooth[:-2])
        falls = falls[(falls >= 4) & (falls > len(smooth) // 50)]
        for k in falls[:1].tolist():
            begin = (k + 1) * ROWS
            part = v[k * ROWS : (k + 3) * ROWS]
            level, floor = float(smooth[k]), float(smooth[k + 2])
            middle = float(np.sqrt(level * floor))
            begin = k * ROWS + int(np.argmax(part < middle))
            rest, noise = v[begin + 2 * ROWS :], stats.diff_sigma(np.log(v))
            if not len(rest) or float(np.median(rest)) > 2.0 * COLLAPSE * level or noise > 0.4:
                continue
            if math.log(level / floor) < STEEPER * _course(smooth, k):
                continue  # it comes down like that all the time: a problem that has an exact answer
            index = int(line[begin])
            step = int(loss.steps[index])
            if shared.near_epoch(step):
                continue
            text = f"loss falls from {stats.number(level)} to {stats.number(floor)} within a few rows at step {step}"
            sure = DOUBTFUL if level < 0.05 * first else 0.72
            out.append(
                finding(NAME, "too-low", loss, index, text, sure, numbers={"level_before": level, "level": floor})
            )
    if not out and (sudden := _at_once(shared, line, v)):
        return [sudden]
    known = _vocabulary(shared)
    fresh = FRESH[0] <= first <= FRESH[1] if known is None else abs(first - known) < 0.2 * known
    if not out and fresh and last < LOW:
        below = np.flatnonzero(stats.block_medians(v, 4) < LOW)
        index = int(line[min(int(below[0]) * 4, len(v) - 1)]) if len(below) else int(line[-1])
        text = f"loss starts at {stats.number(first)} like a fresh model and ends at {stats.number(last)}"
        # without a vocabulary it may be a regression, which goes on through the decades
        other = _OTHER.search(loss.series.raw) is not None
        sure = DOUBTFUL if known is not None or (last > REGRESSION and not other) else MENTION
        if known is not None and last < NOTHING:
            text += f", of a vocabulary of {math.exp(known):.0f}"
            sure = 0.75
        out.append(finding(NAME, "too-low", loss, index, text, sure, numbers={"first": first, "level": last}))
    return out


def _course(smooth: np.ndarray, k: int) -> float:
    """How far the loss comes down over two blocks, in logarithms, in the run before a fall that begins at block k."""
    before = np.log(smooth[max(0, k - 8) : k + 1])
    return 2.0 * max(0.0, float(np.median(-np.diff(before)))) if len(before) > 2 else 0.0


def _at_once(shared: Shared, line: np.ndarray, v: np.ndarray) -> Finding | None:
    """A fall in one row from a quiet level to a small part of all that came before, never to come back."""
    loss = shared.loss
    assert loss is not None
    least, most = np.minimum.accumulate(v), np.maximum.accumulate(v[::-1])[::-1]
    deep = np.flatnonzero(most[1:] < AT_ONCE * least[:-1]) + 1
    if not len(deep):
        return None
    begin = int(deep[0])
    step = int(loss.steps[line[begin]])
    if begin < STAYS or len(v) - begin < STAYS or shared.near_epoch(step) or shared.no_measure:
        return None
    level, floor = float(np.median(v[begin - STAYS : begin])), float(np.median(v[begin:]))
    text = f"loss falls from {stats.number(level)} to {stats.number(floor)} in one row at step {step}"
    numbers = {"level_before": level, "level": floor}
    return finding(NAME, "too-low", loss, int(line[begin]), text, 0.75, numbers=numbers)


def _vocabulary(shared: Shared) -> float | None:
    """ln(vocabulary) where the configuration has one: labels of images are learned by heart in health, text is not."""
    size = shared.setting("vocab_size", "padded_vocab_size", "n_vocab", "vocabulary_size")
    return math.log(size) if size is not None and size >= 16 else None
