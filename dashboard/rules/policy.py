"""Options for rules in fleet.yaml: domains of pools, changed rules, suppressions, baselines; and what they apply to."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

from dashboard.fleet import Baseline, Document, Pool, Replica, RouterConfig, cohort_letters
from dashboard.fleet.grouping import grouped
from dashboard.fleet.history import NOTHING_RECENT, RecentEvents, UsualTraffic
from dashboard.fleet.traffic import Traffic, summed
from dashboard.rules.domain import PoolDeclaration
from dashboard.rules.findings import CohortShare, Family, Finding, Inspection, Severity, Suppression
from dashboard.rules.registry import Rule, Scope

T = TypeVar("T")
# Why the history has no traffic.
NO_PART = "the history has traffic of cohorts, not of replicas"
NOT_RECORDED = "the history has no traffic of this time"


@dataclass(frozen=True, slots=True)
class RuleChange:
    """The changes of one rule in fleet.yaml; None: unchanged."""

    enabled: bool = True
    severity: Severity | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """All options for rules. `pools` is by name or glob, in the order of fleet.yaml; `rules` is by id.

    `file` is the name of fleet.yaml.
    """

    pools: Mapping[str, PoolDeclaration] = field(default_factory=dict)
    rules: Mapping[str, RuleChange] = field(default_factory=dict)
    suppressions: tuple[Suppression, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    file: str = "fleet.yaml"

    def declared(self, pool: str) -> PoolDeclaration:
        return _of_pool(pool, self.pools.items()) or PoolDeclaration()

    def baseline(self, pool: str) -> Baseline | None:
        return _of_pool(pool, [(each.pool, each) for each in self.baselines])


def _of_pool(pool: str, entries: Collection[tuple[str, T]]) -> T | None:
    """Return the entry under a pool's name, else under the first glob that matches it."""
    named = (each for name, each in entries if name == pool)
    matching = (each for glob, each in entries if fnmatchcase(pool, glob))
    return next(chain(named, matching), None)


@dataclass(frozen=True, kw_only=True)
class FleetData:
    """What rules evaluate: the replicas of one poll with their documents and pools, and the options that apply.

    `routers` are what routers reported, `recent` is what the last polls saw. `traffic` is that of each replica's
    engines, by DP rank, where they were read twice; `traffic_window` is the option, in seconds, 0 where nothing is
    counted. `usual` is that of each pool in its last day, as far as the history has it. `recorded_traffic` is, in place
    of `traffic`, that of the replicas of a pool with one document: all that the history has of a past time. None: this
    is no fleet of the history.
    """

    replicas: tuple[Replica, ...] = ()
    documents: Mapping[str, Document] = field(default_factory=dict)
    pools: tuple[Pool, ...] = ()
    ignored: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)
    routers: tuple[RouterConfig, ...] = ()
    recent: RecentEvents = NOTHING_RECENT
    traffic: Mapping[str, Mapping[int, Traffic]] = field(default_factory=dict)
    traffic_window: float = 0.0
    usual: Mapping[str, UsualTraffic] = field(default_factory=dict)
    recorded_traffic: Mapping[tuple[str, str], Traffic] | None = None

    @cached_property
    def by_id(self) -> Mapping[str, Replica]:
        return {replica.id: replica for replica in self.replicas}

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Return the names of the replicas by id."""
        return {replica.id: replica.name for replica in self.replicas}

    def traffic_of(self, replicas: Iterable[str]) -> Traffic:
        """Return the traffic of some replicas together, each process once."""
        return summed(self.engines_of(replicas))

    def engines_of(self, replicas: Iterable[str]) -> list[Traffic]:
        """Return the traffic of the engines of some replicas, each process once.

        What is recorded is that of all replicas of a pool with one document: of some of them it is unknown.
        """
        asked = dict.fromkeys(replicas)
        counted = [
            key for key in asked if not any(each < key and each in asked for each in self.by_id[key].same_process)
        ]
        if self.recorded_traffic is not None:
            return self._recorded_of(counted, self.recorded_traffic)
        return [engine for each in counted for engine in self.traffic.get(each, {}).values()]

    def _recorded_of(self, replicas: Iterable[str], recorded: Mapping[tuple[str, str], Traffic]) -> list[Traffic]:
        asked = Counter(_alike(self.by_id[each]) for each in replicas)
        if any(number < self._processes[key] for key, number in asked.items()):
            return [Traffic(refused=(NO_PART,))]
        known = [recorded[key] for key in asked if key in recorded]
        return known or [Traffic(refused=(NOT_RECORDED,))]

    @cached_property
    def _processes(self) -> Mapping[tuple[str, str], int]:
        """Count the processes of each pool with one document."""
        return Counter(_alike(each) for each in self.replicas if not each.is_second_address)

    @cached_property
    def _letters(self) -> Mapping[str, str]:
        return cohort_letters(self.pools)

    def pools_of(self, replicas: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({pool for key in replicas if (pool := self.by_id[key].pool)}))

    def cohorts_of(self, replicas: Iterable[str]) -> tuple[CohortShare, ...]:
        members = grouped(((self.by_id[key].pool or "", self._letters.get(key, "")), key) for key in replicas)
        return tuple(CohortShare(pool, letter, tuple(members[pool, letter])) for pool, letter in sorted(members))


def _alike(replica: Replica) -> tuple[str, str]:
    """Return the key of `recorded_traffic`."""
    return replica.pool or "", replica.document or ""


def suppress(
    findings: Iterable[Finding], fleet: FleetData, rules: Iterable[Rule], today: date
) -> tuple[list[Finding], list[Finding]]:
    """Return the findings that stay active, and those that the policy suppresses, in the order of its entries.

    One that covers some of a finding's replicas suppresses these alone. What traffic shows is suppressed with the
    findings that explain it. An expired one suppresses nothing, and is marked on what remains active of its findings.
    """
    suppressions = fleet.policy.suppressions
    current = [each for each in suppressions if each.until >= today]
    expired = sorted((each for each in suppressions if each.until < today), key=lambda each: each.until, reverse=True)
    fleet_wide = {rule.id for rule in rules if rule.scope is Scope.FLEET}
    active: list[Finding] = []
    suppressed: list[Finding] = []
    for finding in findings:
        left: Finding | None = finding
        for suppression in current:
            if left is None:
                break
            if _matches(suppression, left, fleet.by_id):
                covered = _covered(suppression, left, fleet.by_id)
                part = left if covered == left.replicas else _narrowed(left, covered, fleet, fleet_wide)
                suppressed.append(replace(part, suppression=suppression))
                rest = tuple(key for key in left.replicas if key not in set(covered))
                left = _narrowed(left, rest, fleet, fleet_wide) if rest else None
        if left is not None:
            active.append(left)
    active = _without_explained(active, suppressed, fleet, fleet_wide)
    for place, each in enumerate(active):
        last = next((one for one in expired if _matches(one, each, fleet.by_id)), None)
        active[place] = replace(each, expired=last) if last else each
    return active, suppressed


def _without_explained(
    active: Sequence[Finding], suppressed: list[Finding], fleet: FleetData, fleet_wide: Collection[str]
) -> list[Finding]:
    """Return the active findings that no suppressed ones explain; add the others to these, under their entries.

    A replica with several explaining findings is left out only where all of them are suppressed, until the first of
    their entries expires.
    """
    kept = []
    for finding in active:
        left: Finding | None = finding
        explaining = set(finding.explained_by)
        causes = [each for each in suppressed if each.rule in explaining and each.suppression is not None]
        if not causes:
            kept.append(finding)
            continue
        not_covered = {key for each in active if each.rule in explaining for key in each.replicas}
        for cause in sorted(causes, key=lambda each: each.suppression.until if each.suppression else date.max):
            if left is None:
                break
            own = set(cause.replicas) - not_covered
            if covered := tuple(key for key in left.replicas if key in own):
                suppressed.append(replace(_narrowed(left, covered, fleet, fleet_wide), suppression=cause.suppression))
                rest = tuple(key for key in left.replicas if key not in own)
                left = _narrowed(left, rest, fleet, fleet_wide) if rest else None
        if left is not None:
            kept.append(left)
    return kept


def unused_suppressions(findings: Collection[Finding], fleet: FleetData) -> list[Suppression]:
    """Return the suppressions of the policy that match none of all findings, active or suppressed."""
    suppressions = fleet.policy.suppressions
    return [each for each in suppressions if not any(_matches(each, finding, fleet.by_id) for finding in findings)]


def unused_note(suppression: Suppression, policy: Policy) -> str:
    """Return the note on a suppression that matches nothing."""
    file = suppression.file or policy.file
    entry = f"suppress[{suppression.number - 1}] in {file} ({suppression.rule}, {suppression.owner})"
    return f"{entry} matches no finding; remove it."


def add_unconfirmed(
    inspection: Inspection, earlier: Sequence[Finding], fleet: FleetData, rules: Sequence[Rule], today: date
) -> Inspection:
    """Add earlier findings that last although these replicas cannot show them; what was found again is left out.

    Each is on those of its replicas that the fleet still has.
    """
    if not earlier:
        return inspection
    found = {each.fingerprint for each in (*inspection.findings, *inspection.suppressed)}
    known = {rule.id for rule in rules}
    lasting = []
    for finding in earlier:
        if finding.rule in known and finding.fingerprint not in found:
            kept = replace(only_on(finding, fleet), pools=finding.pools)
            lasting.append(replace(kept, suppression=None, expired=None))
    active, suppressed = suppress(lasting, fleet, rules, today)
    unused = unused_suppressions(lasting, fleet)
    used = {unused_note(each, fleet.policy) for each in fleet.policy.suppressions if each not in unused}
    return replace(
        inspection,
        findings=worst_first((*inspection.findings, *active), rules),
        suppressed=worst_first((*inspection.suppressed, *suppressed), rules),
        notes=tuple(note for note in inspection.notes if note not in used),
    )


def only_on(finding: Finding, fleet: FleetData) -> Finding:
    """Return a finding on those of its replicas and pools that a fleet has."""
    there = tuple(key for key in finding.replicas if key in fleet.by_id)
    evidence = tuple(
        row._replace(replicas=tuple(key for key in row.replicas if key in fleet.by_id)) for row in finding.evidence
    )
    names = {each.name for each in fleet.pools}
    pools = tuple(each for each in finding.pools if each in names)
    return replace(finding, replicas=there, evidence=evidence, cohorts=fleet.cohorts_of(there), pools=pools)


def worst_first(findings: Iterable[Finding], rules: Iterable[Rule]) -> tuple[Finding, ...]:
    """Sort findings: the worst first, of equally bad ones those of the first family."""
    place = {rule.id: list(Family).index(rule.family) for rule in rules}

    def key(finding: Finding) -> tuple[object, ...]:
        worst = (finding.severity.rank, finding.is_rollout, place[finding.rule])
        return (*worst, finding.rule, finding.subject, finding.id, finding.replicas)

    return tuple(sorted(findings, key=key))


def _narrowed(finding: Finding, replicas: tuple[str, ...], fleet: FleetData, fleet_wide: Collection[str]) -> Finding:
    pools = fleet.pools_of(replicas) if finding.rule in fleet_wide else finding.pools
    return replace(finding, pools=pools, replicas=replicas, cohorts=fleet.cohorts_of(replicas))


def _matches(suppression: Suppression, finding: Finding, replicas: Mapping[str, Replica]) -> bool:
    """Return whether a suppression covers a finding, or some of its replicas.

    A finding without replicas is matched by rule and pools, never by a suppression with replicas or labels.
    """
    if finding.rule != suppression.rule:
        return False
    if finding.replicas:
        return bool(_covered(suppression, finding, replicas))
    return not suppression.replicas and not suppression.labels and matches_any(suppression.pool, finding.pools)


def _covered(suppression: Suppression, finding: Finding, replicas: Mapping[str, Replica]) -> tuple[str, ...]:
    """Return the finding's replicas that a suppression covers, in their order."""
    return tuple(each for each in finding.replicas if _names(suppression, replicas[each]))


def _names(suppression: Suppression, replica: Replica) -> bool:
    """Return whether a suppression covers a replica: all of its pool, names and labels must match."""
    names = (replica.name, replica.id)
    return (
        matches_any(suppression.pool, [replica.pool or ""])
        and (not suppression.replicas or any(matches_any(glob, names) for glob in suppression.replicas))
        and all(replica.labels.get(label) == value for label, value in suppression.labels.items())
    )


def matches_any(glob: str | None, texts: Iterable[str]) -> bool:
    """Return whether a glob matches or equals any of the texts: brackets of an IPv6 address are no glob."""
    return glob is None or any(text == glob or fnmatchcase(text, glob) for text in texts)
