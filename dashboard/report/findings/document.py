"""The JSON document of what rules find: what /api/v1/findings answers and `check --format json` prints.

The models are the contract: docs/findings.schema.json is made of them; the fleet document carries the same parts.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from pydantic import Field

from dashboard import __version__
from dashboard.analysis.assembly import Fleet
from dashboard.compare import pool_sharing, sharing_sentence
from dashboard.fleet import Pool, Replica
from dashboard.report.findings.document_parts import (
    CohortSharePart,
    DisaggregatedPart,
    DomainPart,
    EvidencePart,
    ExpectationsPart,
    FindingPart,
    JudgedPoolPart,
    OutcomesPart,
    RemedyPart,
    ReplicaName,
    RolloutPart,
    RouterPart,
    SharesPrefixes,
    SnippetPart,
    StorePart,
    SuppressionPart,
    TallyPart,
)
from dashboard.report.parts import Coverage, Many, Part, Time, coverage, native
from dashboard.rules import domain, findings
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import OutcomeKind
from dashboard.rules.rollup import by_pool, of_fleet
from dashboard.views.names import replica_names

SCHEMA_VERSION = 1


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
    notes: Many[str] = Field(description="entries of the options and of baselines that match nothing")


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
    replicas = {each.id: each for each in fleet.replicas}
    return {
        pool.name: JudgedPoolPart(
            pool=pool.name,
            replicas=len(pool.replicas),
            tally=_tally(tallies[pool.name]),
            domain=_domain(inspection.domains[pool.name]),
            rollout=_rollout(inspection.rollouts.get(pool.name)),
            shares_prefixes=_shares_prefixes(pool, fleet, replicas),
        )
        for pool in fleet.pools
    }


def _shares_prefixes(pool: Pool, fleet: Fleet, replicas: Mapping[str, Replica]) -> SharesPrefixes:
    share = sharing_sentence(pool, pool_sharing(pool, replicas), fleet.documents, replicas).share
    return cast("SharesPrefixes", share.value)


def finding_parts(fleet: Fleet, found: Sequence[findings.Finding]) -> tuple[FindingPart, ...]:
    """Return findings as parts of a document, in the same order."""
    names = replica_names(fleet)
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
        assumptions=finding.assumptions,
        severity_behind=dict(finding.severity_behind),
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
