"""What the detectors share about one run, computed once: curves, segments, excursions, settings, events.

A detector gets a `Shared` instead of a `Run`, asks it for what it needs and returns a `Scan`; the helpers at the end
build the three kinds of answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from playbook.detectors import stats
from playbook.detectors.stats import excursions as excursions_of
from playbook.detectors.stats import rate
from playbook.detectors.stats.curve import Curve, Domain, domain, fold, of_ranks
from playbook.detectors.stats.segments import By, Segment, lineages, segments, usable
from playbook.findings import Finding, Scan
from playbook.series import Event, Run, Series

Needs = tuple[str | tuple[str, ...], ...]

# The confidence from which a loss fault makes an incident; one that could as well be nothing; one that health explains
# better, told to people only.
INCIDENT, DOUBTFUL, MENTION = 0.7, 0.6, 0.4
NOTICED = 0.5  # below it a finding is a mention
ANEW = 4.0  # times the noise of the later rows: the first ones of a running mean
FILES = 16  # parts of a run
REACH, LIFTED = 64, 1.25  # rows behind a restart of the learning rate, and times the level of the last time


# Raw names: a KL between two policies, and the loss of a generator or a discriminator.
_POLICY = re.compile(r"(?i)approx|ppo|policy|actor|objective")
_ADVERSARY = re.compile(
    r"(?i)(?:^|[^a-z])(?:[gd]_?loss|loss[_ /.-]?[gd]|[gd]_(?:gan|adv|real|fake))(?:$|[^a-z])"
    r"|generator|discriminator|advers"
)
_BESIDE = re.compile(r"(?i)(?:^|[^a-z])(?:disc|d_x|d\(x\)|d_g_z\d?|d\(g\(z\)\))(?:$|[^a-z])")


class Shared:
    """One run and everything that more than one detector wants to know about it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.memo: dict[str, Any] = {}

    def curve(self, metric: str) -> Curve | None:
        """A metric of the whole job (the mean over ranks where only ranks logged it); None where it has no rows."""
        key = f"curve:{metric}"
        if key not in self.memo:
            series = self.run.get(metric)
            if series is not None and len(series):
                self.memo[key] = fold(series)
            else:
                self.memo[key] = of_ranks(metric, self.run.by_rank(metric))
        found: Curve | None = self.memo[key]
        return found

    @cached_property
    def ranked(self) -> dict[str, dict[int, Series]]:
        """metric -> rank -> series, for the metrics that ranks logged (empty series left out)."""
        out: dict[str, dict[int, Series]] = {}
        for (metric, rank), series in self.run.series.items():
            if rank is not None and len(series):
                out.setdefault(metric, {})[rank] = series
        return {metric: dict(sorted(ranks.items())) for metric, ranks in out.items()}

    def family(self, metric: str) -> dict[str, Curve]:
        """The metric and its members by layer: activation_max, activation_max/layers.3, ..."""
        names = [m for m in self.run.metrics if m == metric or m.startswith(metric + "/")]
        return {name: curve for name in names if (curve := self.curve(name)) is not None}

    def has(self, metric: str) -> bool:
        return any(
            len(s) for (name, _), s in self.run.series.items() if name == metric or name.startswith(metric + "/")
        )

    def lacks(self, needs: Needs) -> str:
        """What is missing of `needs`, for people; "" where all is there."""
        for need in needs:
            group = (need,) if isinstance(need, str) else need
            if not any(self.has(metric) for metric in group):
                return f"no {' or '.join(group)} in this run"
        return ""

    @cached_property
    def loss(self) -> Curve | None:
        return self.curve("loss")

    @cached_property
    def good(self) -> np.ndarray:
        """bool: the rows of the loss that are values (see `usable`)."""
        return usable(self.loss) if self.loss is not None else np.zeros(0, dtype=bool)

    @cached_property
    def domain(self) -> Domain:
        return domain(self.loss.values[self.good]) if self.loss is not None else Domain(False)

    @cached_property
    def segments(self) -> list[Segment]:
        if self.loss is None:
            return []
        return segments(self.loss, self.domain, self.good, self._marks(self.loss))

    def _marks(self, loss: Curve) -> dict[int, By]:
        """Steps at which something else than the steps tells of a resume, the surest kind first."""
        marks: dict[int, By] = dict.fromkeys(sorted({e.step for e in self.events("resume") if e.step}), "event")
        seams = loss.series.seams
        sizes = np.diff([0, *seams, len(loss.series)])
        # many files, or files of one size, are a log that was cut into pieces
        if len(seams) <= FILES and not (len(seams) > 1 and len(set(sizes[:-1].tolist())) == 1):
            for row in seams:
                marks.setdefault(int(loss.series.steps[row]), "file")
        for step in self.begins_anew:
            marks.setdefault(step, "rate")
        return marks

    @cached_property
    def begins_anew(self) -> list[int]:
        """Steps at which the learning rate goes back to the beginning of its course, in the middle of it."""
        lr = self.curve("lr")
        return [] if lr is None or lr.mixed else [int(lr.steps[row]) for row in rate.begins_anew(lr)[:FILES]]

    @cached_property
    def lineages(self) -> list[np.ndarray]:
        return lineages(self.loss, self.segments, self.good) if self.loss is not None else []

    @cached_property
    def excursions(self) -> list[tuple[Segment, excursions_of.Excursion]]:
        if self.loss is None:
            return []
        return [
            (seg, e)
            for seg in self.segments
            if seg.kind != "rewrite"
            for e in excursions_of.measure(self.loss, self.domain, seg, self.good)
        ]

    def events(self, *kinds: str) -> list[Event]:
        """Events whose kind is, or begins with, one of `kinds`."""
        return [e for e in self.run.events if any(e.kind == k or e.kind.startswith(k + "-") for k in kinds)]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The run's configuration: last part of each dotted key, lower case -> value (the first one met wins)."""
        out: dict[str, Any] = {}

        def walk(node: Any, depth: int) -> None:
            if isinstance(node, dict) and depth < 8:
                for key, value in node.items():
                    name = str(key).lower().replace("-", "_").rsplit(".", 1)[-1]
                    if isinstance(value, dict):
                        walk(value, depth + 1)
                    else:
                        out.setdefault(name, value)

        walk(self.run.config, 0)
        return out

    def setting(self, *names: str) -> float | None:
        """The first of the settings that is a finite number."""
        for name in names:
            value = self.settings.get(name)
            if isinstance(value, bool) or value is None:
                continue
            try:
                number = float(value)
            except (TypeError, ValueError):
                continue
            if math.isfinite(number):
                return number
        return None

    @cached_property
    def classes(self) -> int | None:
        """The number of classes that the loss is a cross entropy over, where the configuration tells.

        A vocabulary is believed; a plain number of classes only without any word of a language model or a detector.
        """
        value = self.setting("vocab_size", "padded_vocab_size", "n_vocab", "vocabulary_size")
        foreign = ("vocab_file", "seq_length", "max_position_embeddings", "roi_heads", "max_seq_length", "anchors")
        if value is None and not any(name in self.settings for name in foreign):
            value = self.setting("num_classes", "num_labels")
        return int(value) if value is not None and 2 <= value < 1e7 else None

    @cached_property
    def no_measure(self) -> bool:
        """True where the loss says little about the state of the model: a policy, or one of two adversaries.

        A KL alone is no policy: autoencoders, distillation and preference losses log one, too.
        """
        if self.has("reward") or (self.has("kl") and self.has("entropy")):
            return True
        kl = self.curve("kl")
        policy = kl is not None and bool(_POLICY.search(kl.series.raw))
        if policy or (self.loss is not None and bool(_ADVERSARY.search(self.loss.series.raw))):
            return True
        # a column beside the loss names the other one: "disc", "D_real", "D(x)"
        return any(_ADVERSARY.search(raw) or _BESIDE.search(raw) for raw in self.run.unmapped)

    @cached_property
    def phased_in(self) -> bool:
        """True where a term of the loss is weighed anew as the run goes on: its rise is planned.

        A KL that is logged is a term of an autoencoder's loss, mostly brought in over many steps.
        """
        weight = self.curve("loss_weight")
        moves = weight is not None and bool(weight.finite.any()) and float(np.ptp(weight.values[weight.finite])) > 0.0
        return moves or self.has("kl")

    @cached_property
    def counts_epochs(self) -> bool:
        """True where the steps are epochs: each row sums up many updates, and all of them begin an epoch."""
        epoch = self.curve("epoch")
        return epoch is not None and len(epoch) >= 2 and float(np.ptp(epoch.values - epoch.steps)) == 0.0

    @cached_property
    def epoch_starts(self) -> np.ndarray:
        """Steps at which the logged epoch counts one up."""
        epoch = self.curve("epoch")
        if epoch is None or len(epoch) < 2 or self.counts_epochs:
            return np.zeros(0, dtype=np.int64)
        with np.errstate(invalid="ignore"):
            whole = np.floor(epoch.values + 1e-9)
            return epoch.steps[1:][(np.diff(whole) >= 1) & (np.diff(epoch.steps) > 0)]

    @cached_property
    def mean_of_epoch(self) -> bool:
        """True where the logged loss is a running mean that begins anew with each epoch: its first rows scatter."""
        if self.loss is None or len(self.epoch_starts) < 3:
            return False
        begins = np.searchsorted(self.loss.steps, self.epoch_starts)
        parts = [self.loss.values[a:b] for a, b in pairwise(begins.tolist()) if b - a >= 30]
        noise = [(stats.diff_sigma(p[:8]), stats.diff_sigma(p[len(p) // 2 :])) for p in parts if np.isfinite(p).all()]
        return len(noise) >= 2 and float(np.median([a / max(b, 1e-12) for a, b in noise])) >= ANEW

    def begins_epoch(self, index: int) -> bool:
        """True for a row of the loss in the first third of an epoch."""
        if self.loss is None or len(self.epoch_starts) < 2:
            return False
        begins = np.searchsorted(self.loss.steps, self.epoch_starts)
        k = int(np.searchsorted(begins, index, side="right")) - 1
        return k >= 0 and 3 * (index - int(begins[k])) <= int(np.median(np.diff(begins)))

    def near_epoch(self, step: int) -> bool:
        """True where an epoch begins within three rows of a step."""
        if not len(self.epoch_starts) or self.loss is None:
            return False
        return bool(np.min(np.abs(self.epoch_starts - step)) <= 3 * self.loss.spacing)

    def changes(self, metric: str, step: int) -> bool:
        """True where a setting that is logged takes another value at a step, or within five rows of it."""
        curve = self.curve(metric)
        if curve is None or len(curve) < 2:
            return False
        with np.errstate(invalid="ignore"):
            moves = curve.steps[1:][np.diff(curve.values) != 0]
        return len(moves) > 0 and bool(np.min(np.abs(moves - step)) <= 5 * curve.spacing)

    def lr_restarts(self, step: int, steps: float, level: float | None = None) -> bool:
        """True where, in the `steps` before a step, the learning rate rises again after it had come down.

        With a `level` of the loss behind it only where that is not far above what it was when the rate was last as
        high: a warm restart goes back some way, and not beyond what was lost.
        """
        lr, loss = self.curve("lr"), self.loss
        if lr is None or not rate.restarts(lr, step, steps):
            return False
        if level is None or loss is None or not self.domain.log:
            return True
        last = rate.last_as_high(lr, step, step + REACH * loss.spacing)
        rows = np.flatnonzero(self.good & (loss.steps <= last)) if last is not None else np.empty(0, dtype=np.int64)
        return len(rows) < 3 or level <= LIFTED * float(np.median(loss.values[rows[-16:]]))


def finding(name: str, kind: str, curve: Curve, index: int, because: str, confidence: float, **more: Any) -> Finding:
    """A finding at a row of a curve; numbers that are not finite are left out."""
    numbers = {k: float(v) for k, v in more.pop("numbers", {}).items() if v is not None and math.isfinite(float(v))}
    step = int(curve.steps[index])
    return Finding(
        name,
        kind,
        curve.metric,
        step,
        because,
        round(confidence, 3),
        numbers=numbers,
        origin=curve.origin(index),
        **more,
    )


def answer(name: str, findings: Iterable[Finding], looked: str) -> Scan:
    """Found, or clear with what was looked at; clear as well where all that there is are mentions (below `NOTICED`)."""
    told = tuple(findings)
    if any(f.confidence >= NOTICED for f in told):
        return Scan(name, "found", told)
    return Scan(name, "clear", told, looked or "nothing beyond what a healthy run shows")


def blind(name: str, because: str) -> Scan:
    return Scan(name, "blind", (), because)
