"""Scans, log events and the run's configuration -> evidence, by what the signals of the book say about themselves.

No judgement is made here that is not written in an entry: a signal's `seen_by` (the first line that fits wins), its
`log` patterns and its `config` rules. A scan that is blind is no evidence, unless the signal says what blindness means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from playbook.findings import Evidence, Finding, Scan
from playbook.knowledge.entries import SHAPE, ConfigRule, Signal
from playbook.series import Event, Origin, Setting

# A finding below this is mentioned to people, but moves no probability.
MIN_CONFIDENCE = 0.5
# A finding of this confidence decides a line of `seen_by`; a weaker one only where no later line has a stronger one.
STRONG = 0.7
# Over a healthy loss only a fault elsewhere that is this sure is called an incident: a line of a log may be about
# another job or an old fault, a measured series is about this run.
SURE, SURE_MEASURED = 0.85, 0.75
HEALTHY = "healthy"
# Sections of a configuration that are not about the training of the model.
_BESIDE = re.compile(
    r"profil\w*|nsys_profile|torch_profil\w*|eval\w*|val(?:id\w*|_\w+)?|test(?:_\w+)?|ref(?:erence)?(?:_\w+)?|reward\w*|rm"
    r"|rollout|teacher\w*|critic|generation\w*|sampling\w*|wandb|tensorboard|mlflow|loggers?|tracker|ema\w*|discriminator\w*"
    r"|default_hooks|custom_hooks|callbacks|tokenizer\w*|quantiz\w*|distillation|speed_monitor|optimizer_in_bwd|metrics?_\w+"
)
# How far a clear scan is trusted: a detector may overlook what a person would see.
QUIET = 0.8


def observe(
    signals: Mapping[str, Signal],
    scans: Iterable[Scan],
    events: Sequence[Event],
    config: Mapping[str, Any],
    settings: Iterable[Setting] = (),
) -> list[Evidence]:
    """One Evidence per signal that the data answer, by signal ids; `settings` say where `config` stands."""
    places = {setting.name: setting.origin for setting in settings}
    by_detector = {scan.detector: scan for scan in scans}
    flat = flatten(config)
    texts = list(dict.fromkeys(event.text for event in events))
    first_event = {event.text: event for event in reversed(events)}
    found = []
    for name in sorted(signals):
        signal = signals[name]
        candidates = [from_scans(signal, by_detector), _from_log(signal, texts, first_event)]
        candidates.append(from_config(signal, flat, places))
        known = [item for item in candidates if item is not None]
        if known:
            found.append(max(known, key=lambda e: e.confidence))
    return with_implied(signals, found)


def with_implied(signals: Mapping[str, Signal], found: list[Evidence]) -> list[Evidence]:
    """A fault of the machine that no curve shows names its symptom where the loss is unknown or looks healthy."""
    shape = next((e for e in found if e.signal == SHAPE), None)
    if SHAPE not in signals or (shape is not None and shape.state != HEALTHY):
        return found
    implied = [
        e
        for e in found
        if e.state in signals[e.signal].implies
        and (shape is None or e.confidence >= (SURE if e.source == "log" else SURE_MEASURED))
    ]
    if not implied:
        return found
    best = max(implied, key=lambda e: e.confidence)
    # Without a curve the step is that of a snapshot or of a line, not of an onset.
    step = best.step if shape is not None else None
    symptom = replace(best, signal=SHAPE, state=signals[best.signal].implies[best.state], step=step)
    return sorted([e for e in found if e.signal != SHAPE] + [symptom], key=lambda e: e.signal)


def from_scans(signal: Signal, scans: Mapping[str, Scan]) -> Evidence | None:
    """The answer of the detectors: the first line of `seen_by` with a sure finding, else a weak one, else what quiet
    detectors mean."""
    weak: Evidence | None = None
    quiet: Evidence | None = None
    for seen in signal.seen_by:
        scan = scans.get(seen.detector)
        if scan is None:
            continue
        fitting = [f for f in scan.findings if f.kind in seen.kinds and f.confidence >= MIN_CONFIDENCE]
        if fitting:
            best = max(fitting, key=lambda f: (f.confidence, -(f.step or 0)))
            item = _of_finding(signal.id, seen.kinds[best.kind], best)
            if best.confidence >= STRONG:
                return item
            weak = weak or item
        elif scan.status == "clear" and seen.clear is not None:
            quiet = quiet or Evidence(signal.id, seen.clear, "metrics", scan.because, confidence=QUIET)
        elif scan.status == "blind" and seen.blind is not None:
            quiet = quiet or Evidence(signal.id, seen.blind, "metrics", scan.because, confidence=QUIET)
    return weak or quiet


def _of_finding(signal: str, outcome: str, finding: Finding) -> Evidence:
    return Evidence(
        signal,
        outcome,
        "metrics",
        finding.because,
        finding.step,
        finding.rank,
        min(finding.confidence, 0.98),
        finding.origin,
        remark=finding.remark,
    )


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _from_log(signal: Signal, texts: Sequence[str], first_event: Mapping[str, Event]) -> Evidence | None:
    best: Evidence | None = None
    rank = (0.0, 0)  # confidence, then earliest in the log: what comes first is nearest to the cause
    for rule in signal.log:
        regex = _compiled(rule.pattern)
        for place, text in enumerate(texts):
            if not regex.search(text):
                continue
            if best is None or (rule.confidence, -place) > rank:
                rank = (rule.confidence, -place)
                event = first_event[text]
                best = Evidence(
                    signal.id, rule.outcome, "log", quoted(text), event.step, event.rank, rule.confidence, event.origin
                )
            break
    return best


def quoted(text: str) -> str:
    """A line of a log as a reason: at most 200 characters."""
    return text if len(text) <= 200 else text[:197] + "..."


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings -> dotted lower-case names, dashes as underscores."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}".lower().replace("-", "_")
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{name}."))
        else:
            flat[name] = value
    return flat


def lookup(flat: Mapping[str, Any], key: str) -> tuple[str, Any] | None:
    """The value of a dotted name, else of the shortest name that ends in it and is of the training."""
    key = key.lower().replace("-", "_")
    if key in flat:
        return key, flat[key]
    ending = [name for name in flat if name.endswith("." + key) and not foreign(name)]
    name = min(ending, key=lambda n: (n.count("."), n), default=None)
    return (name, flat[name]) if name is not None else None


def foreign(name: str) -> bool:
    """True for a setting of something beside the training: `profiler.warmup_steps`, `evaluators.0.data.num_workers`."""
    return any(_BESIDE.fullmatch(part) for part in name.split(".")[:-1])


def from_config(signal: Signal, flat: Mapping[str, Any], places: Mapping[str, Origin] | None = None) -> Evidence | None:
    """The answer of the run's configuration: the first rule and key that fit."""
    for rule in signal.config:
        for key in rule.keys:
            hit = lookup(flat, key)
            if hit is None or hit[1] is None:
                continue
            outcome = rule_outcome(rule, hit[1])
            if outcome is not None:
                origin = (places or {}).get(hit[0])
                return Evidence(signal.id, outcome, "config", f"{hit[0]} = {hit[1]}", confidence=0.97, origin=origin)
    return None


def rule_outcome(rule: ConfigRule, value: Any) -> str | None:
    """What one value of the configuration means by one rule; None where the rule does not say."""
    if isinstance(value, list) and len(value) == 1:  # fairseq writes `lr: [0.0005]`
        value = value[0]
    text = str(value).strip().lower()
    if text in rule.equals:
        return rule.equals[text]
    try:
        number = float(text)
    except ValueError:
        number = None
    if number is not None:
        for limit, outcome in sorted(rule.below):
            if number < limit:
                return outcome
        for limit, outcome in sorted(rule.above, reverse=True):
            if number > limit:
                return outcome
    return rule.equals.get("*")
