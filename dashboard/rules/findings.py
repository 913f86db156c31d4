"""What rules find: the nouns that pages, reports and the command line show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import NamedTuple

from dashboard.fleet import JsonText, State
from dashboard.rules.domain import Domain, ImpactContext


class Severity(StrEnum):
    """How bad a finding is, the worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """Return 0 for the worst."""
        return list(Severity).index(self)

    @property
    def milder(self) -> Severity:
        """Return the next milder severity; info stays."""
        return list(Severity)[min(self.rank + 1, len(Severity) - 1)]

    @property
    def assumed(self) -> Severity:
        """Return the severity where it rests on an assumption: warning at most."""
        return max(self, Severity.WARNING, key=lambda each: each.rank)


class Confidence(StrEnum):
    """How sure a finding is, apart from how bad it is."""

    REPORTED = "reported"  # every value in it was told by a replica
    DERIVED = "derived"  # concluded from what was told
    ASSUMED = "assumed"  # true only if its assumptions are


class Family(StrEnum):
    """What a rule is about; the letters of its id. Of equally bad findings those of the first family come first."""

    ROUTING = "routing"  # RT
    DISAGGREGATION = "disaggregation"  # PD
    STORES = "stores"  # SH
    CAPACITY = "capacity"  # CP
    BEHAVIOUR = "behaviour"  # CO
    IDENTITY = "identity"  # ID
    BASELINE = "baseline"  # BL


class Evidence(NamedTuple):
    """One value that a finding rests on: who told it.

    `value` is canonical JSON text. `holder` says who tells it where that is not simply these replicas: `router`, a
    pool's name, or a baseline's file. `is_reference` marks what the others are held against; `comment` is what people
    wrote beside it.
    """

    path: str
    value: JsonText
    state: State
    replicas: tuple[str, ...] = ()
    holder: str = ""
    is_reference: bool = False
    comment: str = ""


class Snippet(NamedTuple):
    """Something to paste: `kind` is flag, env, yaml or shell."""

    kind: str
    text: str


class Remedy(NamedTuple):
    """What to do, in one sentence, and what can be pasted for it: all of it, or with `any_of` one of the snippets."""

    sentence: str
    snippets: tuple[Snippet, ...] = ()
    any_of: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """What a rule yields; the engine makes a finding of it.

    `replicas` are those to be changed (ids). The sentence holds the values and names no replica: they stand beside
    it, and a suppression may take some of them away. `severity` and `why` only where this case is another than the
    rule's. `assumptions` are clauses such as `PYTHONHASHSEED is unset`; with one, the confidence is assumed.
    """

    replicas: tuple[str, ...]
    sentence: str
    evidence: tuple[Evidence, ...]
    remedy: Remedy
    confidence: Confidence = Confidence.REPORTED
    severity: Severity | None = None
    why: str | None = None
    assumptions: tuple[str, ...] = ()


class Unjudged(NamedTuple):
    """Replicas that do not report what a rule needs, yielded beside drafts. `reason`: nothing could be judged."""

    replicas: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Suppression:
    """A finding that somebody answers for until a day. `number` is its place in fleet.yaml, from 1."""

    rule: str
    owner: str
    reason: str
    until: date
    pool: str | None = None  # a glob
    replicas: tuple[str, ...] = ()  # globs over names and ids
    labels: Mapping[str, str] = field(default_factory=dict)
    number: int = 0


class CohortShare(NamedTuple):
    """The replicas of a finding that stand in one cohort, by id. The letter is empty where nothing was read."""

    pool: str
    letter: str
    replicas: tuple[str, ...]

    @property
    def number(self) -> int:
        """Count its replicas."""
        return len(self.replicas)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, on which replicas, what it breaks, what to do.

    `id` stays the same from poll to poll while rule, pools and values do. `unknown` is how many replicas of the
    subject do not tell the settings that it names. `suppression` is set on what is suppressed, `expired` on what was.
    `assumptions` are what severity or sentence rest on though nobody reports it. `facet` is that of the rule's `why`.
    `severity_behind` are the routers behind which it would be worse, where the pool's router is not declared.
    """

    id: str
    rule: str
    severity: Severity
    confidence: Confidence
    subject: str
    pools: tuple[str, ...]
    replicas: tuple[str, ...]
    cohorts: tuple[CohortShare, ...]
    sentence: str
    why: str
    remedy: Remedy
    evidence: tuple[Evidence, ...]
    unknown: int = 0
    total: int = 0
    is_rollout: bool = False
    suppression: Suppression | None = None
    expired: Suppression | None = None
    assumptions: tuple[str, ...] = ()
    facet: ImpactContext | None = None
    severity_behind: tuple[tuple[ImpactContext, Severity], ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the settings that the finding names, each once."""
        return tuple(dict.fromkeys(each.path for each in self.evidence))


class OutcomeKind(StrEnum):
    """What became of one rule on one subject."""

    FAILED = "failed"
    ERROR = "error"  # the rule itself raised
    SKIPPED = "skipped"  # what it needs was not told
    NOT_APPLICABLE = "not applicable"  # nothing of the kind is there, or fleet.yaml disables the rule
    PASSED = "passed"


class Outcome(NamedTuple):
    """One rule on one subject: a pool, a pair `prefill + decode`, or the whole fleet.

    `reason` says why it was skipped or what it raised; `unknown` of `total` replicas do not tell what it needs.
    """

    rule: str
    subject: str
    pools: tuple[str, ...]
    kind: OutcomeKind
    findings: int = 0
    reason: str = ""
    unknown: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Rollout:
    """One version of a pool replacing another: every replica of `new` started well after every one of `old`."""

    pool: str
    old: str
    new: str
    replicas: tuple[str, ...]  # those on the new version
    total: int
    began: datetime
    last: datetime


class Tally(NamedTuple):
    """Findings by severity, and beside them how much could not be judged."""

    critical: int = 0
    warning: int = 0
    info: int = 0
    unknown: int = 0

    @property
    def worst(self) -> Severity | None:
        """Return the worst severity there is."""
        return next((severity for severity in Severity if getattr(self, severity)), None)


@dataclass(frozen=True, slots=True)
class Inspection:
    """All that the rules say of one fleet. Findings are sorted, the worst first.

    `notes` are sentences on options and baselines that match nothing. `domains` is by pool.
    """

    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    domains: Mapping[str, Domain] = field(default_factory=dict)
    rollouts: Mapping[str, Rollout] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
