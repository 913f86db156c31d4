"""The JSON document of what rules find: what /api/v1/findings answers and `check --format json` prints.

The models below are the contract: docs/findings.schema.json is made of them; the fleet document carries the same parts.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from pydantic import Field

from dashboard import __version__
from dashboard.models import State
from dashboard.report.parts import Coverage, Many, NativeValue, Part, Time, coverage, native
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.domain import Basis, Router, SeedPolicy, Store
from dashboard.rules.findings import Confidence, Family, OutcomeKind, Severity
from dashboard.rules.rollup import by_pool, of_fleet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dashboard.fleet import Fleet
    from dashboard.rules import domain, findings

SCHEMA_VERSION = 1


class ReplicaName(Part):
    """A replica by its id and its name."""

    replica: str = Field(description="scheme://host:port")
    name: str


class CohortSharePart(Part):
    """How many replicas of a finding stand in one cohort of a pool; null: nothing was read of them."""

    pool: str | None
    cohort: str | None
    count: int


class EvidencePart(Part):
    """One value that a finding rests on, and who told it."""

    path: str
    value: NativeValue
    state: State
    count: int = Field(description="how many replicas tell it")
    replicas: tuple[str, ...] | None = Field(description="their ids; null for the reference, which most tell")
    holder: str | None = Field(description="`router`, a pool or a file, where that is not simply these replicas")
    is_reference: bool = Field(description="what the others are held against")
    comment: str | None = Field(default=None, description="what people wrote beside it in a baseline")


class SnippetPart(Part):
    """Something to paste."""

    kind: str = Field(description="flag, env, yaml or shell")
    text: str


class RemedyPart(Part):
    """What to do: paste all snippets, or with `any_of` one of them."""

    sentence: str
    snippets: Many[SnippetPart]
    any_of: bool = False  # polls that were saved before do not have it


class SuppressionPart(Part):
    """Who answers for a finding, why, and until which day; `number` is its place in fleet.yaml, from 1."""

    owner: str
    reason: str
    until: date
    number: int


class FindingPart(Part):
    """One thing that is wrong, on which replicas, what it breaks, what to do.

    `unknown` of the `total` replicas looked at do not tell what the rule needs.
    """

    id: str = Field(description="the same in every poll while rule, pools and values are")
    rule: str
    name: str
    family: Family
    severity: Severity
    confidence: Confidence
    subject: str = Field(description="a pool, a pair `prefill + decode`, or `fleet`")
    pools: Many[str]
    replicas: Many[ReplicaName]
    cohorts: Many[CohortSharePart]
    sentence: str
    why: str
    remedy: RemedyPart
    evidence: Many[EvidencePart]
    unknown: int
    total: int
    is_rollout: bool = Field(description="runs along a rollout in progress, and is one step milder for it")
    suppression: SuppressionPart | None = Field(description="set on what is suppressed")
    expired: SuppressionPart | None = Field(description="the suppression that ended")


class TallyPart(Part):
    """Findings by severity, and beside them how many rules could not be judged."""

    critical: int
    warning: int
    info: int
    unknown: int


class RouterPart(Part):
    """How requests find their replica, and how that is known."""

    value: Router
    basis: Basis


class StorePart(Part):
    """Where replicas put KV cache that others read, and how that is known."""

    value: Store
    basis: Basis


class DisaggregatedPart(Part):
    """Whether prefill and decode are apart, and how that is known."""

    value: bool
    basis: Basis


class ExpectationsPart(Part):
    """What the router was configured with; null: nobody said."""

    block_size: int | None
    hash_algorithm: str | None
    seed_policy: SeedPolicy | None
    event_topic: str | None


class DomainPart(Part):
    """What the replicas of a pool share: it decides how bad a difference is."""

    router: RouterPart
    kv_store: StorePart
    disaggregated: DisaggregatedPart
    expects: ExpectationsPart


class RolloutPart(Part):
    """One version of a pool replacing another; `moved` of `total` replicas are on the new one."""

    old: str
    new: str
    moved: int
    total: int
    began: Time
    last: Time


class JudgedPoolPart(Part):
    """One pool, and how it stands with the rules."""

    pool: str
    replicas: int
    tally: TallyPart
    domain: DomainPart
    rollout: RolloutPart | None


class OutcomesPart(Part):
    """What became of one rule, on all subjects where the same became of it for the same reason."""

    rule: str
    kind: OutcomeKind
    reason: str | None
    subjects: Many[str]
    unknown: dict[str, int] = Field(
        description="by subject, how many replicas do not tell what the rule needs, where there are any"
    )


class FindingsDocument(Part):
    """All that the rules say of a fleet at one time. The worst findings stand first."""

    schema_version: int
    program_version: str
    generated_at: Time
    data_as_of: Time = Field(description="when the poll ended")
    fleet: str
    coverage: Coverage
    tally: TallyPart
    pools: Many[JudgedPoolPart]
    findings: Many[FindingPart]
    suppressed: Many[FindingPart]
    outcomes: Many[OutcomesPart]
    notes: Many[str] = Field(description="options that match nothing")


def findings_document(fleet: Fleet, generated_at: datetime) -> FindingsDocument:
    """Return the document of what the rules say of a fleet that was polled."""
    inspection = fleet.inspection
    judged = judged_pools(fleet)
    return FindingsDocument(
        schema_version=SCHEMA_VERSION,
        program_version=__version__,
        generated_at=generated_at,
        data_as_of=fleet.polled_at,
        fleet=fleet.name,
        coverage=coverage(fleet),
        tally=fleet_tally(fleet),
        pools=tuple(judged[pool.name] for pool in fleet.pools),
        findings=finding_parts(fleet, inspection.findings),
        suppressed=finding_parts(fleet, inspection.suppressed),
        outcomes=_outcomes(inspection.outcomes),
        notes=inspection.notes,
    )


def findings_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    return FindingsDocument.model_json_schema(mode="serialization")


def fleet_tally(fleet: Fleet) -> TallyPart:
    """Count the findings that stand in the whole fleet."""
    return _tally(of_fleet(fleet.inspection))


def judged_pools(fleet: Fleet) -> Mapping[str, JudgedPoolPart]:
    """Return by pool how it stands with the rules."""
    tallies, inspection = by_pool(fleet.inspection), fleet.inspection
    return {
        pool.name: JudgedPoolPart(
            pool=pool.name,
            replicas=len(pool.replicas),
            tally=_tally(tallies[pool.name]),
            domain=_domain(inspection.domains[pool.name]),
            rollout=_rollout(inspection.rollouts.get(pool.name)),
        )
        for pool in fleet.pools
    }


def finding_parts(fleet: Fleet, found: Sequence[findings.Finding]) -> tuple[FindingPart, ...]:
    """Return findings as parts of a document, in the same order."""
    names = {replica.id: replica.name for replica in fleet.replicas}
    return tuple(_finding(finding, names) for finding in found)


def _finding(finding: findings.Finding, names: Mapping[str, str]) -> FindingPart:
    rule = BY_ID[finding.rule]
    remedy = finding.remedy
    return FindingPart(
        id=finding.id,
        rule=rule.id,
        name=rule.name,
        family=rule.family,
        severity=finding.severity,
        confidence=finding.confidence,
        subject=finding.subject,
        pools=finding.pools,
        replicas=tuple(ReplicaName(replica=each, name=names[each]) for each in finding.replicas),
        cohorts=tuple(
            CohortSharePart(pool=each.pool or None, cohort=each.letter or None, count=each.number)
            for each in finding.cohorts
        ),
        sentence=finding.sentence,
        why=finding.why,
        remedy=RemedyPart(
            sentence=remedy.sentence,
            snippets=tuple(SnippetPart(kind=each.kind, text=each.text) for each in remedy.snippets),
            any_of=remedy.any_of,
        ),
        evidence=tuple(map(_evidence, finding.evidence)),
        unknown=finding.unknown,
        total=finding.total,
        is_rollout=finding.is_rollout,
        suppression=_suppression(finding.suppression),
        expired=_suppression(finding.expired),
    )


def _evidence(evidence: findings.Evidence) -> EvidencePart:
    return EvidencePart(
        path=evidence.path,
        value=native(evidence.value),
        state=evidence.state,
        count=len(evidence.replicas),
        replicas=None if evidence.is_reference else evidence.replicas,
        holder=evidence.holder or None,
        is_reference=evidence.is_reference,
        comment=evidence.comment or None,
    )


def _suppression(told: findings.Suppression | None) -> SuppressionPart | None:
    if told is None:
        return None
    return SuppressionPart(owner=told.owner, reason=told.reason, until=told.until, number=told.number)


def _tally(told: findings.Tally) -> TallyPart:
    return TallyPart(**told._asdict())


def _domain(told: domain.Domain) -> DomainPart:
    expects = told.expects
    return DomainPart(
        router=RouterPart(value=told.router, basis=told.router_basis),
        kv_store=StorePart(value=told.kv_store, basis=told.kv_store_basis),
        disaggregated=DisaggregatedPart(value=told.disaggregated, basis=told.disaggregated_basis),
        expects=ExpectationsPart(
            block_size=expects.block_size,
            hash_algorithm=expects.hash_algorithm,
            seed_policy=expects.seed_policy,
            event_topic=expects.event_topic,
        ),
    )


def _rollout(told: findings.Rollout | None) -> RolloutPart | None:
    if told is None:
        return None
    moved = len(told.replicas)
    return RolloutPart(old=told.old, new=told.new, moved=moved, total=told.total, began=told.began, last=told.last)


def _outcomes(outcomes: Sequence[findings.Outcome]) -> tuple[OutcomesPart, ...]:
    """Put the subjects together on which the same became of a rule: most pass on all pools, or apply to none."""
    alike: dict[tuple[str, OutcomeKind, str], list[findings.Outcome]] = defaultdict(list)
    for outcome in outcomes:
        alike[outcome.rule, outcome.kind, outcome.reason].append(outcome)
    kinds = list(OutcomeKind)
    return tuple(
        OutcomesPart(
            rule=rule,
            kind=kind,
            reason=reason or None,
            subjects=tuple(each.subject for each in alike[rule, kind, reason]),
            unknown={each.subject: each.unknown for each in alike[rule, kind, reason] if each.unknown},
        )
        for rule, kind, reason in sorted(alike, key=lambda key: (key[0], kinds.index(key[1]), key[2]))
    )
