"""The schema of the book: what each kind of YAML entry may say.

One entry a file; file name = id, folder = kind (a cause's folder = its layer). References fall:
cases and fixes name causes, causes name signals and symptoms, signals name detectors. Links are weighed in words;
`HOW_OFTEN` is the only place that turns words into numbers.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

HowOften = Literal["almost_always", "usually", "half", "seldom", "almost_never"]

# P(outcome | cause). Deliberately coarse: authors cannot tell 0.70 from 0.75, and calibration has one place to turn.
HOW_OFTEN: dict[str, float] = {
    "almost_always": 0.93,
    "usually": 0.72,
    "half": 0.45,
    "seldom": 0.15,
    "almost_never": 0.03,
}

# What first aid keeps from being lost: GPU time while nothing gets better, evidence that the next restart overwrites,
# a healthy state to go back to, or a healthy run that is meddled with.
Loss = Literal["burn", "scene", "state", "needless"]

Layer = Literal[
    "data", "numerics", "model", "optimization", "implementation", "communication", "hardware", "checkpoint"
]
LAYERS = (
    "data",
    "numerics",
    "model",
    "optimization",
    "implementation",
    "communication",
    "hardware",
    "checkpoint",
)
SHAPE = "loss-shape"  # the signal whose outcomes are the symptoms
SYMPTOMS = (
    "instant-nan",
    "early-explosion",
    "transient-spike",
    "persistent-spike",
    "slow-climb",
    "plateau",
    "loss-zero",
    "resume-drift",
    "silent-degradation",
    "throughput-drop",
    "hang-or-crash",
    "healthy",
)

Id = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=80)]
CaseId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=120)]  # given by others
Text = Annotated[str, Field(min_length=1)]
Sources = Annotated[list[str], Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Entry(_Strict):
    """What every entry has. `sources` are ledger rows (D3-tab-1), case ids, or keys of `sources.yaml`."""

    id: Id
    title: Text
    status: Literal["draft", "stable", "deprecated"] = "stable"
    use_instead: Id | None = None
    sources: Sources
    note: str = ""  # a correction of a source, a disagreement and how it was weighed


class Symptom(Entry):
    """The class of trouble as a person would name it; an outcome of the signal `loss-shape`."""

    summary: Text
    looks_like: Text  # what the curve does, with numbers
    not_this: Text  # what is easily taken for it and is none
    impact: Text  # what it costs to go on
    stop_loss: Text  # when to stop or roll back, with numbers
    escalate: str = ""


class SeenBy(_Strict):
    """One way in which a detector answers the signal: kinds of findings -> outcomes; `clear`, `blind` likewise."""

    detector: str
    kinds: dict[str, str] = {}
    clear: str | None = None
    blind: str | None = None  # only where being blind is itself the answer ("absent")


class LogPattern(_Strict):
    """A regular expression over events and log lines; `match` and `no_match` are its tests."""

    pattern: str
    outcome: str
    match: Annotated[list[str], Field(min_length=1)]
    no_match: list[str] = []
    confidence: float = Field(0.9, gt=0, le=1)

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value


class ConfigRule(_Strict):
    """Reads the outcome off the run's configuration (or its metric names).

    keys     dotted names, lower case, any of which may hold the value
    equals   {text of the value, lower case: outcome}; a key of `*` is any other value
    below / above   numeric thresholds: [[limit, outcome], ...]; the first that holds wins
    """

    keys: Annotated[list[str], Field(min_length=1)]
    equals: dict[str, str] = {}
    below: list[tuple[float, str]] = []
    above: list[tuple[float, str]] = []


class Command(_Strict):
    """Something to copy: a shell command, a code snippet or a setting. `mutates` marks what is not read-only."""

    run: Text
    language: Literal["sh", "python", "yaml", "json", "text"] = "sh"
    expect: str = ""  # what the output looks like when good or bad
    mutates: bool = False


class Signal(Entry):
    """An observation with a finite set of outcomes that tells causes apart, and how to get it."""

    question: Text
    outcomes: Annotated[dict[str, str], Field(min_length=2)]  # outcome -> what it means
    background: dict[str, HowOften]  # over all incidents, before any cause is known
    weight: float = Field(1.0, gt=0, le=1)  # share of its log ratio that counts: a circumstance says where, not what
    synonyms: dict[str, list[str]] = {}  # outcome -> other words for it, in people's contexts and answers
    group: Id  # signals of one group are views of one fact; the engine discounts them
    kind: Literal["metrics", "log", "config", "ask", "experiment", "probe"]  # the main way to get it
    seen_by: list[SeenBy] = []
    log: list[LogPattern] = []
    config: list[ConfigRule] = []
    implies: dict[str, Id] = {}  # outcome -> symptom, where this is seen and no curve tells the symptom
    told_by: dict[str, dict[Id, list[str]]] = {}  # outcome -> {signal: outcomes} that say as much: not asked, not new
    needs: dict[Id, list[str]] = {}  # signal -> outcomes: where it is known to be another one, there is nothing to ask
    how: Text  # in plain words
    commands: list[Command] = []
    minutes: float = Field(ge=0)  # a person's time
    steps: int = Field(0, ge=0)  # training steps that a control run needs (cost = steps x step time x GPUs)
    gpus: Literal["none", "one", "all"] = "none"
    danger: Literal["none", "slows", "stops-the-run", "changes-the-run"] = "none"
    cluster: Id | None = None  # one rerun answers all experiments of a cluster
    log_next_time: str = ""  # what to log so that this is known for free

    @model_validator(mode="after")
    def _outcomes_fit(self) -> Signal:
        known = set(self.outcomes)
        used = set(self.background)
        for seen in self.seen_by:
            used |= set(seen.kinds.values()) | {o for o in (seen.clear, seen.blind) if o is not None}
        used |= {p.outcome for p in self.log} | set(self.synonyms) | set(self.implies)
        used |= set(self.told_by)
        for rule in self.config:
            used |= set(rule.equals.values()) | {o for _, o in rule.below} | {o for _, o in rule.above}
        if extra := sorted(used - known):
            raise ValueError(f"outcomes {extra} are not among {sorted(known)}")
        return self

    @property
    def circumstance(self) -> bool:
        """Whether it is about how the run is set up and not about the fault."""
        return self.kind == "config" or self.group.startswith("context-")

    def outcome(self, text: object) -> str | None:
        """The outcome that a person's words mean: the outcome itself, or one whose synonym is among the words."""
        if text is True or text is False:
            text = "yes" if text else "no"
        said = str(text).strip().lower().replace("_", "-")
        if said in self.outcomes:
            return said
        for outcome, words in self.synonyms.items():
            if any(re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", said) for word in words):
                return outcome
        named = [o for o in self.outcomes if re.search(rf"(?<![a-z0-9]){re.escape(o)}(?![a-z0-9])", said)]
        return named[0] if len(named) == 1 and len(named[0]) > 3 else None


class Expectation(_Strict):
    """What a cause does to one signal: outcome -> how often; what is not listed shares the rest."""

    states: Annotated[dict[str, HowOften], Field(min_length=1)]
    because: Sources
    why: str = ""


class Exclusion(_Strict):
    """A hard fact: with this outcome the cause is impossible (no loss scale under bf16)."""

    signal: Id
    outcome: str
    because: Sources
    why: Text


class Mistaken(_Strict):
    """What the cause is commonly taken for, and the observation that tells them apart."""

    cause: Id
    tell: Text
    signal: Id | None = None


class Couple(_Strict):
    """A second cause that often acts together with this one."""

    cause: Id
    why: Text
    because: Sources


class Cause(Entry):
    """The mechanism whose removal ends the incident. `layer` is filled in from the folder."""

    layer: Layer
    class_: str = Field(alias="class")  # one of the 48 classes of the taxonomy
    summary: Text
    mechanism: Text  # how it makes the symptom
    common: Literal["very_common", "common", "occasional", "rare"] = "occasional"  # within its class
    shows: Annotated[dict[str, HowOften], Field(min_length=1)]  # symptom -> how often
    expects: Annotated[dict[Id, Expectation], Field(min_length=2)]
    excludes: list[Exclusion] = []
    mistaken_for: list[Mistaken] = []
    couples: list[Couple] = []
    earlier: str = ""  # how monitoring would have found it earlier
    affects_results: str = ""  # whether earlier conclusions are affected
    regression: str = ""  # the test that keeps it from coming back

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Fix(Entry):
    """An action with cost, risk, a way to verify it and a way back."""

    kind: Literal["first-aid", "repair", "prevention"]
    treats: list[Id] = []  # causes
    symptoms: list[Id] = []  # for first aid
    averts: dict[Loss, HowOften] = {}  # for first aid: what is not lost, and how often it helps
    called_by: dict[Id, list[str]] = {}  # first aid: signal -> outcomes that call for it first, whatever the symptom
    unless: dict[Id, list[str]] = {}  # first aid: signal -> outcomes with which it makes no sense
    summary: Text
    steps: Annotated[list[str], Field(min_length=1)]
    commands: list[Command] = []
    settings: dict[str, str] = {}  # framework -> snippet
    minutes: float = Field(ge=0)
    gpu_steps: int = Field(0, ge=0)  # training steps until it can be judged
    risk: Literal["safe", "low", "medium", "high"]
    cured: Text  # what is seen when it worked
    not_cured: Text  # what is seen when not, and what that says
    undo: Text
    tests: dict[Id, str] = {}  # signal -> outcome that a cure would show (a fix that is also an experiment)

    @model_validator(mode="after")
    def _aims(self) -> Fix:
        if self.kind == "first-aid" and not self.symptoms:
            raise ValueError("a first-aid fix needs `symptoms`")
        if self.averts and self.kind != "first-aid":
            raise ValueError("only a first-aid fix has `averts`")
        if self.kind != "first-aid" and not self.treats:
            raise ValueError("a repair or prevention needs `treats`")
        return self


class Case(Entry):
    """A published incident, replayable: the contract's case file plus the story for its page."""

    id: CaseId
    context: dict[str, str | int | float | bool] = {}
    given: list[Id] = []
    answers: dict[Id, str] = {}
    metrics: list[str] = []
    causes: Annotated[list[str], Field(min_length=1)]  # cause ids or classes
    story: str = ""
    wrong_turns: list[str] = []
    fix: str = ""
    earlier: str = ""
    confidence: Literal["confirmed", "likely"] = "confirmed"
    split: Literal["development", "test"] | None = None


class Choice(_Strict):
    text: Text
    right: bool = False
    why: Text  # shown after the answer; for a wrong choice: when it would be right
    about: Id | None = None  # the entry to read on at; without it the first one that the question is about


class Figure(_Strict):
    """A number to be named. `within` is the relative error that still counts as knowing it."""

    value: float
    unit: str = ""
    within: float = Field(0.05, ge=0)
    why: Text


class Question(Entry):
    """One quiz item: choices to pick from, a number to name, or key points for a spoken answer.

    A key point reads "[2] Label: what a good answer says": the digit is the depth of the answer that it belongs to
    (1 knows of it, 2 works by a system, 3 has done it), the label is the key of `synonyms`, the list of other words
    for it. A question whose id begins with that of another one and a hyphen is its follow-up.
    """

    ask: Text
    about: Annotated[list[Id], Field(min_length=1)]
    difficulty: int = Field(ge=1, le=4)
    choices: list[Choice] = []
    number: Figure | None = None
    key_points: list[str] = []
    traps: list[str] = []
    synonyms: dict[str, list[str]] = {}

    @model_validator(mode="after")
    def _answerable(self) -> Question:
        if not self.choices and not self.key_points and self.number is None:
            raise ValueError("needs `choices`, `number` or `key_points`")
        if self.choices and sum(c.right for c in self.choices) != 1:
            raise ValueError("exactly one choice is right")
        return self


class CheckItem(_Strict):
    """One line of a checklist; with `config` it is checked by `playbook preflight`.

    good: outcome texts are not needed; `config` uses the outcomes ok / warn / bad.
    """

    id: Id
    text: Text
    why: Text
    sources: Sources
    config: list[ConfigRule] = []
    relation: Id | None = None  # a check of several settings together, by its name in workflow/preflight
    prevents: list[Id] = []
    snippets: dict[str, str] = {}


class Checklist(Entry):
    """Things to do before or after; data of `preflight` and of the checklist pages."""

    summary: Text
    items: Annotated[list[CheckItem], Field(min_length=1)]


KINDS: dict[str, type[Entry]] = {
    "symptoms": Symptom,
    "signals": Signal,
    "causes": Cause,
    "fixes": Fix,
    "cases": Case,
    "questions": Question,
    "checklists": Checklist,
}
