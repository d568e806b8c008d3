"""Does a curve go on where it was? The first rows after a seam against the trend before it, judged by the curve itself.

How far a curve wanders from its own trend in a few rows is not computed from a model of its noise: the same question
is put at many other places of the run before, and the seam must stand out from those answers. So a steep descent, a
heavy tail, averaged or correlated rows make the answer weaker, not wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from playbook.detectors.stats import MAD_TO_SIGMA
from playbook.detectors.stats import diff_sigma as noise

TREND = 160  # rows that make the trend, at most
LEAST_TREND = 8
PACE_ROWS = 128
NEWEST = 24
PLACES = 160  # other places that are asked, at most
FEW_PLACES = 12  # fewer answers than this make no scale
DEVIATIONS = 5.0
BEYOND = 1.15  # how far outside the widest answer of another place the seam must be


@dataclass(frozen=True, slots=True)
class Move:
    """How a stretch of rows after the seam stands to what was expected, in the domain of the comparison.

    shift     difference from the expectation; for a logarithm about the relative difference
    bar       the difference that this curve would have to reach to stand out
    pace      what the curve itself moved over the last rows before the seam
    level     what was expected, in the units of the log
    value     what was found
    """

    shift: float
    bar: float
    pace: float
    level: float
    value: float

    @property
    def up(self) -> bool:
        return self.shift > self.bar

    @property
    def down(self) -> bool:
        return self.shift < -self.bar


@dataclass(frozen=True, slots=True)
class Curve:
    """Both sides of a seam in one domain: the logarithm where all values are positive, elsewhere the values in `scale`.

    steps, x              int64[n], float64[n]: the rows before
    later_steps, later    int64[m], float64[m]: the rows from the seam on
    scale                 the usual size of the values before; 1 for logarithms
    wide                  how many times as far as a curve that is judged alone it must stand out: one of many ranks
    """

    steps: np.ndarray
    x: np.ndarray
    later_steps: np.ndarray
    later: np.ndarray
    log: bool
    scale: float = 1.0
    wide: float = 1.0

    @classmethod
    def of(
        cls, before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray], wide: float = 1.0
    ) -> Curve:
        (sb, vb), (sa, va) = before, after
        log = bool(len(vb) and len(va) and vb.min() > 0 and va.min() > 0)
        if log:
            return cls(sb, np.log(vb), sa, np.log(va), True, wide=wide)
        scale = max(float(np.median(np.abs(vb))) if len(vb) else 0.0, 1e-30)
        return cls(sb, vb / scale, sa, va / scale, False, scale, wide)

    @property
    def enough(self) -> bool:
        return len(self.x) >= LEAST_TREND

    def move(self, low: int, high: int, floor: float) -> Move | None:
        """How the middle of the rows low to high - 1 after the seam stands to the trend before it.

        floor: differences below this are of no interest. None where there are too few rows to say anything.
        """
        stride = self._stride()
        # a stretch longer than a quarter of the run before cannot be held against other stretches of it
        high = min(high, low + max(1, len(self.x) // (4 * stride)))
        rows = self.later[low:high]
        if not self.enough or not len(rows):
            return None
        ahead = float(np.median(self.later_steps[low:high]))
        expected = _expected(self.steps, self.x, ahead)
        answers = self._elsewhere(len(rows), stride, ahead)
        if len(answers) < FEW_PLACES:
            return None
        found, usual = _centre(rows), float(np.median(answers))
        off = np.abs(answers - usual)
        wide = max(DEVIATIONS * MAD_TO_SIGMA * float(np.median(off)), BEYOND * float(off.max()))
        bar = self.wide * max(floor, float(max(1.0, min(self._rougher(), 4.0)) * self._rising_noise() * wide))
        # the trend may err everywhere in one direction; what is not off in both views is not off
        shift = _nearer(found - expected, found - expected - usual)
        return Move(shift, bar, _pace(self.x), self.value(found - shift), self.value(found))

    def value(self, x: float) -> float:
        """A value of the domain in the units of the log."""
        return float(np.exp(min(x, 700.0))) if self.log else x * self.scale

    def domain(self, value: float) -> float:
        """A value of the log in the domain of the comparison."""
        return float(np.log(value)) if self.log else value / self.scale

    def _sigma(self) -> float:
        recent = self.x[-4 * TREND :]
        return max(noise(recent), 1e-9)

    def _rising_noise(self) -> float:
        """How much noisier the last rows are than those that the other places lie in."""
        return max(1.0, min(noise(self.x[-NEWEST:]) / self._sigma(), 2.0))

    def _rougher(self) -> float:
        """How much noisier the rows after are: rows averaged over fewer steps are."""
        ours, theirs = self._sigma(), noise(self.later)
        finer = _step(self.steps) / _step(self.later_steps)
        return min(theirs / ours, 1.4 * np.sqrt(max(finer, 1.0)))

    def _stride(self) -> int:
        return max(1, round(_step(self.later_steps) / _step(self.steps)))

    def _elsewhere(self, size: int, stride: int, ahead: float) -> np.ndarray:
        """The same difference at other places of the run before, the newest ones."""
        distance = max(1, round((ahead - float(self.steps[-1])) / _step(self.steps)))
        half = (size - 1) * stride // 2
        n = len(self.x)
        first = max(LEAST_TREND, min(TREND, n // 4), n - 5 * TREND)
        final = n - distance - half
        if final <= first:
            return np.empty(0)
        answers = []
        for place in np.unique(np.linspace(first, final - 1, PLACES).astype(int)):
            centre = place - 1 + distance
            begin = max(place, centre - half)
            rows = self.x[begin : centre + half + 1 : stride]
            expected = _expected(self.steps[:place], self.x[:place], float(self.steps[min(centre, n - 1)]))
            answers.append(_centre(rows) - expected)
        return np.array(answers)


def _centre(values: np.ndarray) -> float:
    """The mean without the outer sixths; of a few values the median."""
    if len(values) < 8:
        return float(np.median(values))
    cut = len(values) // 6
    return float(np.mean(np.sort(values)[cut : len(values) - cut]))


def _step(steps: np.ndarray) -> float:
    return max(1.0, float(np.median(np.diff(steps)))) if len(steps) > 1 else 1.0


def _expected(steps: np.ndarray, x: np.ndarray, ahead: float) -> float:
    """The trend of the last rows, drawn on to a step: from the middles of their two halves, never upwards."""
    level, change, centre, apart = _halves(steps, x)
    # no further than the trend itself is long: a descent does not go on for ever
    return level + min(change / apart, 0.0) * min(ahead - centre, apart)


def _halves(steps: np.ndarray, x: np.ndarray) -> tuple[float, float, float, float]:
    """Of the rows of the trend: level of the later half, its change from the earlier one, its step, steps between."""
    size = min(TREND, max(LEAST_TREND, len(x) // 4))
    s, v = steps[-size:], x[-size:]
    half = len(v) // 2
    one, two = _centre(v[:half]), _centre(v[half:])
    at_one, at_two = float(np.mean(s[:half])), float(np.mean(s[half:]))
    return two, two - one, at_two, max(at_two - at_one, 1.0)


def _pace(x: np.ndarray) -> float:
    recent = x[-PACE_ROWS:]
    third = max(1, len(recent) // 3)
    return abs(_centre(recent[-third:]) - _centre(recent[:third]))


def _nearer(one: float, two: float) -> float:
    """The one nearer to zero, zero where they disagree about the direction."""
    if one * two <= 0:
        return 0.0
    return min(one, two, key=abs)
