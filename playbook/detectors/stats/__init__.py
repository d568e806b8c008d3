"""Robust numbers for curves that carry noise, trends and outliers: levels, scales, runs, trends. numpy only, no state.

Every function takes a plain float64 array without non-finite values unless it says otherwise, and costs O(n) or less.
"""

from __future__ import annotations

import bisect
import math

import numpy as np

MAD_TO_SIGMA = 1.4826  # median absolute deviation -> standard deviation of a normal law
WINDOW = 64  # rows: how far back the level of a curve is taken
EXACT = 4096  # rows: up to here trailing medians are exact, above they are medians of medians of BLOCK rows
BLOCK = 8  # rows
LAG = 1.0  # of the noise of a row: below it a level does not lag
SAMPLE = 100_000  # rows: a scale or a quantile needs no more
CENTRE = 32  # rows of a stretch whose own line is taken off before noise and tails are measured
# of a power-law tail, from 95 to 99.5 %: Student's t with 2 degrees of freedom has 3.4, Cauchy's law 10. A run whose
# tail is steeper has spikes among its rows, and they must not hide the next ones.
STEEPEST = 6.0
FAR_DRAWS = 20_000  # rows beyond which a power-law tail is not carried on

# Numbers of classes whose uniform guess is worth recognising: binary, small tasks, image sets, tokenizers in use.
CLASSES: tuple[int, ...] = (
    *(2, 3, 4, 5, 10, 20, 100, 200, 256, 365, 1000, 1024, 21841),
    *(8192, 16000, 16384, 21128, 28996, 29056, 30000, 30522, 30528, 31999, 32000, 32001, 32064, 32100, 32128, 32768),
    *(49152, 49408, 50257, 50258, 50265, 50272, 50277, 50280, 50304, 50368, 50400, 50432, 51200, 51865, 51866, 64000),
    *(65024, 65536, 92544, 100256, 100277, 100278, 100352, 102400, 119547, 122753, 125696, 128000, 128256, 129280),
    *(131072, 151643, 151646, 151936, 152064, 156032, 200019, 200064, 248320, 250002, 250112, 250680, 250880, 255000),
    *(256000, 256128, 256206, 262144, 262208),
)
SAME_VOCABULARY = 5e-4  # nats: what four printed decimals and rounding leave open
LN_CLASSES = np.log(np.array(CLASSES, dtype=np.float64))


def mad_sigma(x: np.ndarray) -> float:
    """Scale from the median absolute deviation; 0.0 for fewer than two values."""
    if len(x) < 2:
        return 0.0
    x = x[:: max(1, len(x) // SAMPLE)]
    return float(MAD_TO_SIGMA * np.median(np.abs(x - np.median(x))))


def diff_sigma(x: np.ndarray) -> float:
    """Noise of one row from the differences of neighbours: blind to a steady trend and to a few jumps."""
    if len(x) < 3:
        return 0.0
    return mad_sigma(np.diff(x)) / math.sqrt(2.0)


def block_medians(x: np.ndarray, size: int) -> np.ndarray:
    """Medians of consecutive blocks of `size` rows; a shorter tail of at least half a block counts as one."""
    if size <= 1:
        return x
    full = len(x) // size
    out = np.median(x[: full * size].reshape(full, size), axis=1) if full else np.empty(0)
    tail = x[full * size :]
    if len(tail) * 2 >= size or (not full and len(tail)):
        out = np.append(out, np.median(tail))
    return out


def trailing_level(x: np.ndarray, window: int = WINDOW, least: int = 8) -> np.ndarray:
    """Median of up to `window` rows before each row (not of the row itself); NaN where fewer than `least` are known."""
    n = len(x)
    out = np.full(n, np.nan)
    if n <= least:
        return out
    if n <= EXACT:
        head: list[float] = sorted(x[:least].tolist())
        for i in range(least, min(window, n)):  # a sorted list that grows: a tenth of the time of a median each
            half = i // 2
            out[i] = head[half] if i % 2 else (head[half - 1] + head[half]) / 2.0
            bisect.insort(head, float(x[i]))
        if n > window:
            out[window:] = np.median(np.lib.stride_tricks.sliding_window_view(x, window)[:-1], axis=1)
        return out
    out[:window] = trailing_level(x[: window + 1], window, least)[:window]
    blocks = np.median(x[: n // BLOCK * BLOCK].reshape(-1, BLOCK), axis=1)
    levels = np.median(np.lib.stride_tricks.sliding_window_view(blocks, window // BLOCK), axis=1)
    # rows of block k look at the blocks k - window/BLOCK .. k - 1 only
    out[window:] = np.repeat(levels, BLOCK)[: n - window]
    return out


def without_lag(x: np.ndarray, level: np.ndarray, near: int = 12) -> np.ndarray:
    """The trailing level, or that of the last `near` rows where it is lower: in a descent the first lags far behind.

    Lower by more than the noise of a row, so that noise alone moves nothing.
    """
    short = np.full(len(x), np.inf)
    if len(x) > near:
        short[near:] = np.median(np.lib.stride_tricks.sliding_window_view(x, near)[:-1], axis=1)
    return np.asarray(np.minimum(level, short + LAG * diff_sigma(x)))


def local_sigma(residual: np.ndarray, window: int = 256) -> np.ndarray:
    """Scale of each row's residual from the stretch of `window` rows that it lies in and the stretch before it.

    The smaller of the two for all but quiet curves: an excursion that fills its own stretch must not hide itself.
    """
    n = len(residual)
    # a descent pulls whole stretches below their trailing level, a rise lifts them above it: neither is noise
    residual = residual - _centres(residual)
    whole = mad_sigma(residual)
    if n < 2 * window:
        return np.full(n, whole)
    full = n // window
    grid = residual[: full * window].reshape(full, window)
    centre = np.median(grid, axis=1, keepdims=True)
    sigma = MAD_TO_SIGMA * np.median(np.abs(grid - centre), axis=1)
    before = np.concatenate([sigma[:1], sigma[:-1]])
    sigma = np.maximum(np.minimum(sigma, before), 0.5 * whole)
    out = np.repeat(sigma, window)
    return np.concatenate([out, np.full(n - len(out), sigma[-1])])


def tail_extreme(residual: np.ndarray, draws: int | None = None) -> float:
    """How far the largest residual reaches where the upper tail goes on as it begins (exponential through 75 and 95 %).

    Normal noise gives about 4 sigma at a thousand rows; heavy tails give more, so that their outliers are no news.
    `draws` is the number of rows among which the largest is sought, where `residual` is only a part of them.
    """
    n = len(residual)
    if n < 20:
        return 0.0
    draws = draws or n
    sample = residual[:: max(1, n // SAMPLE)]
    middle, q75, q95 = np.quantile(sample, [0.5, 0.75, 0.95])
    return float((q75 - middle) + (q95 - q75) / math.log(5.0) * math.log(max(draws / 4.0, 1.0)))


def tail_far(residual: np.ndarray, draws: int) -> float:
    """How far single rows reach where the tail is a power law (through 95 and 99.5 %), as with a share of hard batches.

    Wider than `tail_extreme` wherever outliers are part of the noise. Needs some hundred rows; 0.0 for fewer than 200.
    """
    n = len(residual)
    if n < 200:
        return 0.0
    middle, q95, q995 = np.quantile(residual[:: max(1, n // SAMPLE)], [0.5, 0.95, 0.995])
    near, far = float(q95 - middle), float(q995 - middle)
    if near <= 0.0 or far <= near:
        return max(far, 0.0)
    decades = math.log10(max(min(draws, FAR_DRAWS) * 0.05, 1.0))
    return near * min(far / near, STEEPEST) ** decades


def tails_before(residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`tail_extreme` and `tail_far` of each row from the rows before it: a fault must not widen its own measure.

    Taken at 16, 32, 64, 128, ... rows and held in between.
    """
    n = len(residual)
    # a steep descent pulls whole stretches below their trailing level: that is no tail
    residual = residual - _centres(residual)
    near, far = np.empty(n), np.empty(n)
    begin, known = 0, min(WINDOW // 4, n)
    while begin < n:
        end = n if known >= n else 2 * known
        part = residual[:known]
        near[begin:end] = max(tail_extreme(part, n), 3.0 * mad_sigma(part))
        far[begin:end] = max(tail_far(part, n), near[begin])
        begin, known = end, 2 * known
    return near, far


def _centres(residual: np.ndarray) -> np.ndarray:
    """A line through the medians of the two halves of the block of `CENTRE` rows that each row lies in."""
    n, half = len(residual), CENTRE // 2
    full = n // CENTRE
    if not full:
        return np.full(n, float(np.median(residual)))
    halves = np.median(residual[: full * CENTRE].reshape(full, 2, half), axis=2)
    slope = (halves[:, 1] - halves[:, 0]) / half
    place = np.arange(CENTRE) - (CENTRE - 1) / 2.0
    lines = (halves.mean(axis=1)[:, None] + slope[:, None] * place).ravel()
    rest = residual[full * CENTRE :]
    # a short last block has a level of its own, or goes on at that of the block before
    last = float(np.median(rest)) if len(rest) >= half else float(halves[-1, 1])
    return np.concatenate([lines, np.full(len(rest), last)])


def runs(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends (exclusive) of the stretches where `mask` holds."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return edges[0::2], edges[1::2]


def trend(x: np.ndarray) -> float:
    """Kendall's tau of x against time, -1..1; 0.0 for fewer than four values. For up to some hundred values."""
    n = len(x)
    if n < 4:
        return 0.0
    if n > 400:
        x = block_medians(x, -(-n // 400))
        n = len(x)
    signs = np.sign(x[None, :] - x[:, None])
    return float(np.triu(signs, 1).sum() / (n * (n - 1) / 2.0))


def slope(x: np.ndarray) -> float:
    """Theil-Sen slope a row, for up to some hundred values."""
    n = len(x)
    if n < 2:
        return 0.0
    i, j = np.triu_indices(n, 1)
    return float(np.median((x[j] - x[i]) / (j - i)))


def hinge(x: np.ndarray, curved: bool = False) -> int:
    """Where a flat or falling curve turns up: the break of the best pair of joined straight lines, index into x.

    With `curved` the second one may bend: a climb seldom is a straight line, and its bend would draw the break away.
    """
    n = len(x)
    if n < 6:
        return int(np.argmin(x))
    t = np.arange(n, dtype=np.float64)
    best, where = math.inf, 0
    for k in range(2, n - 2):
        up = np.maximum(t - k, 0.0)
        basis = np.stack([np.ones(n), t, up, up**2] if curved else [np.ones(n), t, up], axis=1)
        coef, *_ = np.linalg.lstsq(basis, x, rcond=None)
        error = float(np.sum(np.abs(x - basis @ coef)))
        if error < best and coef[2] > 0:
            best, where = error, k
    return where


def lag_correlation(x: np.ndarray, lag: int = 1) -> float:
    """Correlation of x with itself `lag` rows later; 0.0 where it is not defined."""
    if len(x) <= lag + 2:
        return 0.0
    a, b = x[:-lag] - x[:-lag].mean(), x[lag:] - x[lag:].mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale > 0 else 0.0


def evenly(places: list[int], start: int) -> bool:
    """True where two places and more lie one period apart, the first one period behind the start: planned restarts."""
    gaps = np.diff(np.array([start, *places], dtype=np.float64))
    return len(gaps) >= 2 and bool((np.abs(gaps - np.median(gaps)) <= 0.05 * np.median(gaps)).all())


def nearest_uniform(value: float, classes: int | None = None) -> tuple[float, int]:
    """Distance of a loss to ln(classes) and the number of classes; the nearest of the usual ones unless it is given."""
    if classes is not None and classes > 1:
        return abs(value - math.log(classes)), classes
    index = int(np.argmin(np.abs(LN_CLASSES - value)))
    return abs(value - float(LN_CLASSES[index])), CLASSES[index]


def uniform_name(value: float, classes: int | None, tolerance: float) -> str:
    """What a loss that a uniform guess explains is called: ln(classes) where the number is known.

    Usual vocabularies lie so close (50257 to 50432: 0.0035) that a value within `tolerance` names all that fit.
    """
    if classes is not None and classes > 1:
        return f"ln({classes})"
    near = np.flatnonzero(np.abs(LN_CLASSES - value) <= max(tolerance, SAME_VOCABULARY))
    if not len(near):
        near = np.array([int(np.argmin(np.abs(LN_CLASSES - value)))])
    found = [CLASSES[k] for k in near.tolist()]
    if len(found) == 1:
        return f"ln({found[0]})"
    return f"ln(V) of usual vocabularies (V = {found[0]} to {found[-1]})"


def number(value: float) -> str:
    """A number for people: four significant digits."""
    return f"{value:.4g}"


def rows(n: int) -> str:
    """`1 row`, `12 rows`."""
    return "1 row" if n == 1 else f"{n} rows"
