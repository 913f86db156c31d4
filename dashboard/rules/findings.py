"""What rules find: findings, outcomes and their counts."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from dashboard.fleet import JsonText, Replica, RouterFact, SettingValue, State
from dashboard.fleet.grouping import grouped
from dashboard.fleet.history import Extent, Rollout, Sighting
from dashboard.fleet.pieces import Text, to_plain
from dashboard.rules.domain import Domain, ImpactContext
from vllm_fleet_provider.shared.spelling import canonical_text

FINGERPRINT_DIGITS = 16


class Severity(StrEnum):
    """How bad a finding is, the worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)

    @property
    def milder(self) -> Severity:
        """Return the next milder severity; info stays."""
        return list(Severity)[min(self.rank + 1, len(Severity) - 1)]

    @property
    def assumed(self) -> Severity:
        """Return the severity where it depends on an assumption: warning or milder."""
        return max(self, Severity.WARNING, key=lambda each: each.rank)


class Confidence(StrEnum):
    """How certain a finding is, apart from how bad it is."""

    REPORTED = "reported"  # replicas reported every value
    DERIVED = "derived"  # concluded from reported values
    ASSUMED = "assumed"  # true only if its assumptions are


class Family(StrEnum):
    """The topic of a rule. Of equally bad findings those of the first family are listed first."""

    ROUTING = "routing"
    DISAGGREGATION = "disaggregation"
    STORES = "stores"
    CAPACITY = "capacity"
    BEHAVIOUR = "behaviour"
    IDENTITY = "identity"
    BASELINE = "baseline"
    EFFECT = "effect"


LOW_HIT_RATE = "EF-01"  # the rule whose findings are low hit rates of the prefix cache
# By the prefix of rule ids, in the order in which rules are listed.
FAMILIES = {
    "RT": Family.ROUTING,
    "PD": Family.DISAGGREGATION,
    "SH": Family.STORES,
    "CO": Family.BEHAVIOUR,
    "CP": Family.CAPACITY,
    "ID": Family.IDENTITY,
    "BL": Family.BASELINE,
    "EF": Family.EFFECT,
}


class Evidence(NamedTuple):
    """One value on which a finding is based, and the replicas that report it.

    `value` is canonical JSON text. `holder` is set where these replicas are not the source: `router`, a pool's name or
    a baseline's file. `is_reference` marks the value that the others are compared with. `comment` is the baseline's.
    """

    path: str
    value: JsonText
    state: State
    replicas: tuple[str, ...] = ()
    holder: str = ""
    is_reference: bool = False
    comment: str = ""


def expectation(path: str, value: object, fact: RouterFact | None = None) -> Evidence:
    """Return the router's side of a finding: the `fact` that it reports itself, else what fleet.yaml declares."""
    holder = f"router ({fact.source})" if fact else "router"
    return Evidence(path, canonical_text(value), State.REPORTED, holder=holder, is_reference=True)


class Snippet(NamedTuple):
    """Text to paste; `kind` is flag, env, yaml or shell."""

    kind: str
    text: str


class Way(NamedTuple):
    """Settings that end a finding together, as (path, value), on its replicas or on all of its pools."""

    settings: tuple[tuple[str, SettingValue], ...]
    is_everywhere: bool = False


_RESTART = re.compile(r"\brestart\b(?! a router)", re.IGNORECASE)


class Remedy(NamedTuple):
    """What to do, and what to paste for it: all snippets, or with `any_of` one of them.

    `ways` are the same as settings, the recommended one first; empty where it is not, or not only, a matter of these.
    """

    sentence: str
    snippets: tuple[Snippet, ...] = ()
    any_of: bool = False
    ways: tuple[Way, ...] = ()

    @property
    def is_restart(self) -> bool:
        """Return whether the sentence says to restart replicas."""
        return bool(_RESTART.search(self.sentence))

    @property
    def is_wait(self) -> bool:
        """Return whether there is nothing to do but wait."""
        return self.sentence.startswith("Wait ")


@dataclass(frozen=True, slots=True)
class Draft:
    """What a rule yields; the engine completes it to a finding.

    `replicas` are the ids of those to change. The text names values, never replicas: a suppression may exclude some of
    them. `severity` and `why` are set only where they differ from the rule's. `assumptions` are clauses such as
    `PYTHONHASHSEED is unset`; with one, the confidence is assumed. `explained_by` are ids of rules with findings on
    these replicas that can be the cause of this one.
    """

    replicas: tuple[str, ...]
    text: Text
    evidence: tuple[Evidence, ...]
    remedy: Remedy
    confidence: Confidence = Confidence.REPORTED
    severity: Severity | None = None
    why: str | None = None
    assumptions: tuple[str, ...] = ()
    explained_by: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        return to_plain(self.text)


class UnevaluatedReplicas(NamedTuple):
    """Replicas that do not report what a rule needs. With a `reason` none was evaluated; without replicas it is n/a."""

    replicas: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Suppression:
    """An entry under `suppress` in `file`, else in fleet.yaml. `number` is its position there, from 1."""

    rule: str
    owner: str
    reason: str
    until: date
    pool: str | None = None  # a glob
    replicas: tuple[str, ...] = ()  # globs over names and ids
    labels: Mapping[str, str] = field(default_factory=dict)
    number: int = 0
    file: str = ""
    author: str = ""  # who saved it on a page; empty without a sign-in


class CohortShare(NamedTuple):
    """The ids of a finding's replicas in one cohort. The letter is empty for replicas without a document."""

    pool: str
    letter: str
    replicas: tuple[str, ...]

    @property
    def number(self) -> int:
        return len(self.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Draft):
    """One problem: where it is, what it breaks, what to do.

    `id` is the same in every poll while rule, pools and values are. `unknown` counts the replicas of the subject that
    do not report the settings that it names. `expired` is a suppression that ended. `context` is the impact context of
    `why`. `severity_behind` lists the routers behind which it would be worse, where the pool's router is not declared.
    `seen_at` is the last poll that found it, where this one cannot prove its end; None: this one found it.
    """

    id: str
    rule: str
    severity: Severity
    why: str
    subject: str
    pools: tuple[str, ...]
    cohorts: tuple[CohortShare, ...]
    unknown: int = 0
    total: int = 0
    is_rollout: bool = False
    suppression: Suppression | None = None
    expired: Suppression | None = None
    context: ImpactContext | None = None
    severity_behind: tuple[tuple[ImpactContext, Severity], ...] = ()
    seen_at: datetime | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.path for each in self.evidence))

    @property
    def is_effect(self) -> bool:
        """Return whether it is what traffic showed: no setting is wrong where no other finding says so."""
        return FAMILIES.get(self.rule[:2]) is Family.EFFECT

    @property
    def is_of_prefixes(self) -> bool:
        """Return whether it says that a replica's own cache is not hit: by a setting or hash, or by a low hit rate.

        Those on stores do not: what a store had is counted apart.
        """
        return self.rule == LOW_HIT_RATE or FAMILIES.get(self.rule[:2]) is Family.ROUTING

    @property
    def fingerprint(self) -> str:
        """Return the digest of rule, pools and settings: the same when values change."""
        content = json.dumps([self.rule, sorted(self.pools), sorted(self.paths)])
        return hashlib.sha256(content.encode()).hexdigest()[:FINGERPRINT_DIGITS]


class OutcomeKind(StrEnum):
    """The result of one rule on one subject."""

    FAILED = "failed"
    ERROR = "error"  # the rule raised
    SKIPPED = "skipped"  # what it needs is not reported
    NOT_APPLICABLE = "not applicable"  # nothing to evaluate, or disabled
    PASSED = "passed"


NOT_EVALUATED = frozenset({OutcomeKind.SKIPPED, OutcomeKind.ERROR})


class Outcome(NamedTuple):
    """One rule on one subject: a pool, a pair `prefill + decode`, or the whole fleet.

    `reason` is why it was skipped or what it raised; `unknown` of `total` replicas do not report what it needs, among
    them the `unread` ones, which have no current data.
    """

    rule: str
    subject: str
    pools: tuple[str, ...]
    kind: OutcomeKind
    findings: int = 0
    reason: str = ""
    unknown: int = 0
    total: int = 0
    unread: int = 0

    @property
    def is_evaluated(self) -> bool:
        return self.kind in {OutcomeKind.PASSED, OutcomeKind.FAILED}

    @property
    def silent(self) -> int:
        """Return how many replicas were read and do not report what the rule needs."""
        return max(0, self.unknown - self.unread)


class Tally(NamedTuple):
    """Findings by severity, and how much was not evaluated."""

    critical: int = 0
    warning: int = 0
    info: int = 0
    unknown: int = 0

    @property
    def worst(self) -> Severity | None:
        return next((severity for severity in Severity if getattr(self, severity)), None)


SubjectKey = tuple[str, str]  # scope and name of what rules evaluate


class Evaluation(NamedTuple):
    """The results of all rules for one subject, what they depend on, and what they read of it."""

    inputs: tuple[object, ...]
    replicas: tuple[Replica, ...]
    outcomes: tuple[Outcome, ...]
    findings: tuple[Finding, ...]
    reads: dict[tuple[str, Hashable], Any]


@dataclass(frozen=True)
class Inspection:
    """The results of all rules for one fleet. Findings are sorted, the worst first.

    `notes` are sentences on options and baselines that match nothing. `domains` and `rollouts` are by pool.
    """

    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    domains: Mapping[str, Domain] = field(default_factory=dict)
    rollouts: Mapping[str, Rollout] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    evaluated: Mapping[SubjectKey, Evaluation] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def tally(self) -> Tally:
        """The active findings, and as unknown the rules that were skipped or raised on some subject."""
        return _tally(self.findings, len({each.rule for each in self._not_evaluated}))

    @cached_property
    def tallies(self) -> Mapping[str, Tally]:
        """The same of each pool."""
        found = grouped((pool, finding) for finding in self.findings for pool in finding.pools)
        unknown = Counter(pool for outcome in self._not_evaluated for pool in outcome.pools)
        return {pool: _tally(found.get(pool, ()), unknown[pool]) for pool in self.domains}

    @property
    def _not_evaluated(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.kind in NOT_EVALUATED]

    @property
    def unconfirmed(self) -> tuple[Finding, ...]:
        """Return the findings that last although this poll could not see them."""
        return tuple(each for each in (*self.findings, *self.suppressed) if each.seen_at is not None)


@dataclass(frozen=True, slots=True)
class FindingLife:
    """The life of the findings with one fingerprint: see `analysis/lifecycle.py`, which alone advances it.

    `findings` are those of the last poll that could see them. `replicas` are the ids of theirs, and of those that were
    not read since. `sighting` has its begin, since when it lasts, and the last poll without it. `extent` is None while
    a pool of it is in a rollout. `times` are the polls at which it lately came to each replica, under "" where it has
    none. `ended` is the first poll without it; None while it lasts.
    """

    rule: str
    pools: tuple[str, ...]
    replicas: frozenset[str]
    findings: tuple[Finding, ...]
    sighting: Sighting
    extent: Extent | None = None
    times: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class FindingLives:
    """The lives of findings by fingerprint, after the poll `at` with this rule set: those that last, or came lately."""

    at: datetime | None = None
    rule_set: int = 0
    lives: Mapping[str, FindingLife] = field(default_factory=dict)


def tally_replicas(inspection: Inspection, replicas: Iterable[Replica]) -> Mapping[str, Tally]:
    """Count active findings per replica; unknown is 1 for a replica that is stale or unreachable."""
    found = grouped((replica, finding) for finding in inspection.findings for replica in finding.replicas)
    return {each.id: _tally(found.get(each.id, ()), int(not each.fresh)) for each in replicas}


def _tally(findings: Iterable[Finding], unknown: int) -> Tally:
    counts = Counter(each.severity for each in findings)
    return Tally(**{str(severity): number for severity, number in counts.items()}, unknown=unknown)
