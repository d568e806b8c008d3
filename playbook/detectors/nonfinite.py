"""Numbers that are none: NaN and infinity in the loss, the gradient norm and the evaluation loss.

What it sees
    NaN or infinity in the loss: `nan-from-start` (no row is finite), `nan` (up to the end), `nan-transient` (finite
    again). `hidden-nan` is one that the log hides: a loss printed as 0.0 beside a gradient norm that is NaN or no
    longer logged; `nan` also a loss that is no longer in the rows of the learning rate or the gradient norm, since
    many writers leave the cell of a NaN empty. `grad-nan-once` and `grad-nan-lasting` tell of the gradient norm,
    `eval-nan` of an evaluation loss that is not finite while the training loss is. Where a quiet run dies from one
    row to the next, the first bad row tells the stage: `backward-first` (a gradient norm that is not finite beside
    a finite loss), `infinite-first` (the loss is infinite before it is NaN).
Why it matters
    A NaN in the weights never leaves by itself: every step after it is lost. The first step that shows it is where
    the search begins (D0-sym-1, D1-step-1).
Blind when
    None of loss, grad_norm and eval_loss was logged. A trainer that replaces NaN by 0 or leaves the row out hides
    it unless the gradient norm was logged as well.
Easily mistaken for
    A cell that was not logged in this row; one overflowing gradient norm of a skipped step (fp16, benign); a
    running mean that has no value yet; a counter named "nan". Only the loss itself makes an incident of it.
"""

from __future__ import annotations

import numpy as np

from playbook.detectors import stats
from playbook.detectors.shared import DOUBTFUL, MENTION, Shared, answer, blind, finding
from playbook.detectors.stats.curve import Curve
from playbook.findings import Finding, Scan

NAME = "nonfinite"
NEEDS = (("loss", "grad_norm", "eval_loss"),)
OPTIONAL = ("nan_iters",)
KINDS = (
    *("nan-from-start", "nan", "nan-transient", "hidden-nan", "grad-nan-once", "grad-nan-lasting", "eval-nan"),
    *("backward-first", "infinite-first"),
)

DEAD = ("nan-from-start", "nan", "hidden-nan", "grad-nan-lasting")  # an evaluation of dead weights only follows them
LASTING_ROWS = 10  # rows in a row without a finite gradient norm: no dynamic loss scale skips that long in health
ZERO_ROWS = 2  # printed zeros up to the end of the log
ORDINARY = 0.02  # of the first level: a loss that was above it did not shrink to a rounded 0.0 by learning
GONE_ROWS, BESIDE = 12, 0.9  # rows of other metrics behind the last loss; share of theirs that it was in until then
QUIET_ROWS, QUIET = 32, 3.0  # rows before a death and times their median: a run that was blowing up tells no stage


def look(shared: Shared) -> Scan:
    if gap := shared.lacks(NEEDS):
        return blind(NAME, gap)
    loss, grad, evaluation = shared.loss, shared.curve("grad_norm"), shared.curve("eval_loss")
    found: list[Finding] = []
    if loss is not None:
        found += _in_loss(loss) + _hidden(loss, grad, shared)
        found += _stage(loss, grad, shared, next((f for f in found if f.kind == "nan"), None))
        found += _gone(loss, shared) if not found else []
    if grad is not None:
        found += _in_gradient(grad, loss)
    if evaluation is not None and not any(f.kind in DEAD for f in found):
        found += _in_evaluation(evaluation, loss)
    looked = ", ".join(m for m in ("loss", "grad_norm", "eval_loss") if shared.curve(m) is not None)
    return answer(NAME, found, f"every value of {looked} is finite")


def _in_loss(loss: Curve) -> list[Finding]:
    bad = ~loss.finite
    if not bad.any():
        return []
    starts, ends = stats.runs(bad)
    first, share = int(starts[0]), float(bad.mean())
    numbers = {"rows": float(bad.sum()), "share": share, "episodes": float(len(starts))}
    what = "infinite" if np.isinf(loss.values[first]) else "NaN"
    step = int(loss.steps[first])
    if _unlogged(starts, ends, len(loss)):
        text = f"loss is {what} in {share:.0%} of the rows at even distances: probably rows that log something else"
        return [finding(NAME, "nan-transient", loss, first, text, 0.3, numbers=numbers)]
    if first == 0 and share > 0.9:
        text = f"loss is {what} from the first row (step {step}), {int(bad.sum())} of {stats.rows(len(loss))}"
        return [finding(NAME, "nan-from-start", loss, 0, text, 0.98, numbers=numbers)]
    out: list[Finding] = []
    if ends[-1] == len(loss) or _broken_off(loss, int(starts[-1]), int(ends[-1])):
        last = int(starts[-1])
        # an episode shortly before belongs to the same death
        for s, e in zip(starts[-2::-1], ends[-2::-1], strict=True):
            if last - e > max(5, 0.01 * len(loss)):
                break
            last = int(s)
        length = int(ends[-1]) - last
        text = f"loss is {what} from step {int(loss.steps[last])} to the end ({stats.rows(length)})"
        sure = 0.97 if length > 1 else 0.9
        out.append(finding(NAME, "nan", loss, last, text, sure, numbers=numbers))
        starts = starts[starts < last]
    for begin in starts[:20].tolist():
        end = int(ends[np.searchsorted(starts, begin)])
        again = int(loss.steps[min(end, len(loss) - 1)])
        text = f"loss is {what} at step {int(loss.steps[begin])} and finite again at step {again}"
        sure = DOUBTFUL if end - begin == 1 and begin < 3 else 0.8
        more = {"last_step": int(loss.steps[end - 1]), "numbers": {**numbers, "episode_rows": float(end - begin)}}
        out.append(finding(NAME, "nan-transient", loss, begin, text, sure, **more))
    return out


def _stage(loss: Curve, grad: Curve | None, shared: Shared, dead: Finding | None) -> list[Finding]:
    """Where the first value that is none stood, for a quiet run whose loss dies in one row.

    The loss of a row is computed before its gradient, so a bad gradient beside a good loss came up in the backward
    pass. With a loss scale such rows are skipped overflows and tell nothing.
    """
    if dead is None or dead.step is None:
        return []
    at = int(np.flatnonzero(~loss.finite & (loss.steps == dead.step))[0])
    before = loss.values[max(0, at - QUIET_ROWS) : at]
    before = before[np.isfinite(before)]
    if len(before) < 3 or float(np.abs(before[-3:]).max()) > QUIET * float(np.median(np.abs(before))):
        return []
    step, n = int(loss.steps[at]), stats.number
    if np.isinf(loss.values[at]) and not shared.has("loss_scale"):
        text = f"the first bad row (step {step}) has a loss of {loss.values[at]:g}, not NaN"
        text += f", after {n(float(before[-1]))}"
        return [finding(NAME, "infinite-first", loss, at, text, 0.75)]
    if grad is None or shared.has("loss_scale"):
        return []
    rows = np.flatnonzero((grad.steps >= loss.steps[max(0, at - 3)]) & (grad.steps < step) & ~grad.finite)
    if not len(rows):
        return []
    usual = grad.values[max(0, int(rows[0]) - QUIET_ROWS) : int(rows[0])]
    usual = usual[np.isfinite(usual)]
    if len(usual) < 3 or float(usual[-3:].max()) > QUIET * float(np.median(usual)):
        return []
    text = f"gradient norm is not finite at step {int(grad.steps[rows[0]])} beside a finite loss"
    text += f", the loss at step {step}"
    return [finding(NAME, "backward-first", grad, int(rows[0]), text, 0.85)]


def _unlogged(starts: np.ndarray, ends: np.ndarray, n: int) -> bool:
    """Many short episodes at even distances: holes of the log, no fault of the run."""
    if len(starts) < 5 or np.sum(ends - starts) < 0.1 * n:
        return False
    gaps = np.diff(starts)
    return bool(np.median(ends - starts) <= np.median(gaps) and np.mean(np.abs(gaps - np.median(gaps)) <= 1) > 0.8)


def _broken_off(loss: Curve, begin: int, end: int) -> bool:
    """NaN up to a restart: the run died there, although the file goes on."""
    return end - begin >= 2 and end in set(loss.restarts.tolist())


def _hidden(loss: Curve, grad: Curve | None, shared: Shared) -> list[Finding]:
    """Zeros printed in place of NaN: abrupt after ordinary values, and the gradient norm not finite or gone."""
    zero = loss.values == 0.0
    if not zero.any():
        return []
    starts, ends = stats.runs(zero)
    out: list[Finding] = []
    for begin, end in zip(starts.tolist(), ends.tolist(), strict=True):
        norms = _beside(grad, loss, begin, end)
        bad_norm = norms is not None and len(norms) > 0 and not np.isfinite(norms).any()
        gone = norms is not None and not len(norms) and end - begin >= 3
        level = loss.values[max(0, begin - 16) : begin]
        level = np.abs(level[np.isfinite(level) & (level != 0.0)])
        first = np.abs(loss.values[: max(1, begin)])
        first = first[np.isfinite(first) & (first > 0.0)][:16]
        abrupt = len(level) >= 1 and float(np.median(level)) > ORDINARY * float(np.median(first))
        lasts = end == len(loss) or end - begin >= 10
        numbers = {"rows": float(end - begin), "level_before": float(np.median(level)) if len(level) else 0.0}
        step = int(loss.steps[begin])
        if bad_norm and (abrupt or begin == 0):
            text = f"loss is printed as 0.0 from step {step} while the gradient norm is not finite ("
            text += f"{stats.rows(end - begin)})"
            sure = 0.95 if lasts else 0.75
        elif gone and abrupt and lasts:
            text = f"loss is printed as 0.0 from step {step}, the gradient norm is gone ({stats.rows(end - begin)})"
            sure = 0.85
        elif norms is None and abrupt and lasts and end - begin >= ZERO_ROWS:
            before = stats.number(numbers["level_before"])
            text = (
                f"loss falls from {before} to exactly 0.0 at step {step} and stays there: a NaN that the log replaces"
            )
            sure = MENTION if shared.no_measure else 0.72
        else:
            continue
        out.append(finding(NAME, "hidden-nan", loss, begin, text, sure, numbers=numbers))
    return out[:20]


def _gone(loss: Curve, shared: Shared) -> list[Finding]:
    """A loss that stops while the rows that it was in go on: tables and JSON of many tools have no NaN."""
    last, path = int(loss.steps[-1]), loss.series.origin.path
    for metric in ("lr", "grad_norm"):
        other = shared.curve(metric)
        if other is None or other.series.origin.path != path or len(loss.restarts) or len(other.restarts):
            continue
        after = np.flatnonzero(other.steps > last)
        together = np.isin(other.steps[other.steps <= last], loss.steps)
        if len(after) < GONE_ROWS or len(together) < GONE_ROWS or together[-GONE_ROWS:].mean() < BESIDE:
            continue
        if together.mean() < BESIDE or float(other.steps[after[0]] - last) > 5.0 * loss.spacing:
            continue
        text = f"loss is in {together.mean():.0%} of the rows of {metric} up to step {last} and in none of the"
        text += f" {len(after)} behind it: a value that is no number was left out"
        numbers = {"rows": float(len(after))}
        sure = MENTION if shared.no_measure else 0.75
        return [finding(NAME, "nan", other, int(after[0]), text, sure, numbers=numbers)]
    return []


def _beside(grad: Curve | None, loss: Curve, begin: int, end: int) -> np.ndarray | None:
    """Gradient norms at the steps of rows begin..end-1; None where the run does not log them."""
    if grad is None or not grad.finite.any():
        return None if grad is None else grad.values[: end - begin]
    low = loss.steps[begin]
    high = loss.steps[end] if end < len(loss) and loss.steps[end] > low else np.iinfo(np.int64).max
    return grad.values[(grad.steps >= low) & (grad.steps < high)]


def _in_gradient(grad: Curve, loss: Curve | None) -> list[Finding]:
    bad = ~grad.finite
    if not bad.any():
        return []
    starts, ends = stats.runs(bad)
    length = ends - starts
    total = int(bad.sum())
    numbers = {"rows": float(total), "share": float(bad.mean()), "episodes": float(len(starts))}
    longest = int(np.argmax(length))
    at_end = int(ends[-1]) == len(grad) and int(length[-1]) >= 3
    if at_end or length[longest] >= LASTING_ROWS or total == len(grad) > 1:
        begin = int(starts[-1]) if at_end else int(starts[longest])
        rows = int(length[-1]) if at_end else int(length[longest])
        text = f"gradient norm is not finite from step {int(grad.steps[begin])} on, {stats.rows(rows)} without a break"
        alive = loss is None or bool(np.isfinite(loss.values[loss.steps >= grad.steps[begin]]).all())
        # with a finite loss the steps are skipped: endless skipping is a fault of its own
        sure = 0.85 if alive else 0.9
        return [finding(NAME, "grad-nan-lasting", grad, begin, text, sure, numbers=numbers)]
    begin = int(starts[0])
    text = f"gradient norm is not finite in {total} of {stats.rows(len(grad))}, first at step {int(grad.steps[begin])}"
    text += "; never for long, as where a step is skipped"
    return [finding(NAME, "grad-nan-once", grad, begin, text, 0.3, numbers=numbers)]


def _in_evaluation(evaluation: Curve, loss: Curve | None) -> list[Finding]:
    bad = ~evaluation.finite
    if not bad.any():
        return []
    begin = int(np.flatnonzero(bad)[0])
    step = int(evaluation.steps[begin])
    if loss is not None:
        near = loss.values[(loss.steps <= step) & (loss.steps >= step - 5 * loss.spacing)]
        if len(near) and not np.isfinite(near).all():
            return []  # it only follows the training loss
    text = f"evaluation loss is not finite in {int(bad.sum())} of {len(evaluation)} evaluations, first at step {step}"
    text += ", while the training loss is finite" if loss is not None else ""
    numbers = {"rows": float(bad.sum()), "share": float(bad.mean())}
    return [finding(NAME, "eval-nan", evaluation, begin, text, 0.65 if loss is not None else 0.6, numbers=numbers)]
