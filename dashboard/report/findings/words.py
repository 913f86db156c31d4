"""Findings in words, the same in every format. Foreign text in them is escaped by the format."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import ReplicaState
from dashboard.fleet.formatting import count, first_of, iso
from dashboard.report.findings.cohorts import named_cohorts, room_for
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.domain import Basis, assumed_router
from dashboard.rules.findings import (
    CohortShare,
    Confidence,
    Finding,
    Inspection,
    OutcomeKind,
    Remedy,
    Severity,
)
from dashboard.rules.registry import Scope

MOST_NAMES = 4  # replicas or pools that a line names before it counts the rest
GLYPHS = {Severity.CRITICAL: "✖", Severity.WARNING: "▲", Severity.INFO: "●"}
DERIVED = "Derived from reported settings."
OR = "or"  # between snippets of which one is enough


class Described(NamedTuple):
    """A finding in words: the rule, where and on which replicas, what, why, what to do, and further remarks."""

    finding: Finding
    rule: str
    where: str
    who: str
    sentence: str
    why: str
    action: str
    paste: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def is_either(self) -> bool:
        """Whether one of several snippets is enough."""
        return self.finding.remedy.any_of and len(self.finding.remedy.snippets) > 1


def describe(finding: Finding, names: Mapping[str, str]) -> Described:
    """Return a finding in words. `names` is by the replicas' ids."""
    return Described(
        finding=finding,
        rule=f"{finding.rule} {BY_ID[finding.rule].name}",
        where=where(finding),
        who=who(finding, names),
        sentence=finding.sentence,
        why=finding.why,
        action=finding.remedy.sentence,
        paste=pasteable(finding.remedy),
        remarks=tuple(remarks(finding)),
    )


def answered(fleet: Fleet) -> str:
    """Write how many could be read: `39 of 40 answered`."""
    counts = fleet.coverage
    return f"{counts.answered:,} of {counts.targets:,} answered"


def counted(findings: Iterable[Finding]) -> str:
    """Write `2 critical, 1 warning, 0 info`."""
    counts = Counter(each.severity for each in findings)
    return ", ".join(f"{counts[severity]:,} {severity}" for severity in Severity)


def named(names: Iterable[str], most: int = MOST_NAMES) -> str:
    """Write `a, b and c`, of many the first few: `a, b, c, d and 12 more`."""
    return first_of(names, most)


def shares(finding: Finding) -> str:
    """Write the replicas of a finding as cohorts: `B x2`; of several pools with the pool's name."""
    several = are_several(finding.cohorts)
    return ", ".join(_share(share, several=several) for share in finding.cohorts)


def who(finding: Finding, names: Mapping[str, str]) -> str:
    """Write each cohort with its names: `B x2 (chat-16 and chat-17), C x1 (chat-18)`; of many the first few.

    `names` is by the replicas' ids.
    """
    several = are_several(finding.cohorts)
    cohorts = named_cohorts(finding, names)
    cohorts_with_names = [
        f"{_share(each.share, several=several)}{f' ({named(each.names, most)})' if most else ''}"
        for each, most in zip(cohorts, room_for(cohorts, MOST_NAMES), strict=True)
    ]
    return ", ".join(cohorts_with_names) or "no replica"


def places(finding: Finding) -> tuple[str, ...]:
    """Return the pool or the pair of a finding; of a rule on the whole fleet the pools in which it found something."""
    is_fleet_wide = BY_ID[finding.rule].scope is Scope.FLEET
    return finding.pools if is_fleet_wide and finding.pools else (finding.subject,)


def where(finding: Finding) -> str:
    """Write where a finding is: `chat`, `a and b`."""
    return named(places(finding))


def assumed(finding: Finding) -> str:
    """Write what a finding assumes: `Assumed: router is approximate.`; nothing where it assumes nothing."""
    return f"Assumed: {'; '.join(finding.assumptions)}." if finding.assumptions else ""


def undeclared(finding: Finding) -> str:
    """Write `Router not declared: critical behind prefix-hash or kv-events.`; nothing where that changes nothing."""
    by_severity: dict[Severity, list[str]] = {}
    for context, severity in finding.severity_behind:
        by_severity.setdefault(severity, []).append(context)
    worse = ", ".join(f"{severity} behind {' or '.join(routers)}" for severity, routers in by_severity.items())
    return f"Router not declared: {worse}." if worse else ""


def how_sure(finding: Finding) -> list[str]:
    """Return what a finding assumes, or that it is derived, and which other router would make it worse."""
    basis = DERIVED if finding.confidence is Confidence.DERIVED else assumed(finding)
    return [*filter(None, [basis, undeclared(finding)])]


def assumptions(inspection: Inspection) -> list[str]:
    """Return the pools of which findings depend on an undeclared router, with the router that is assumed."""
    routers = {
        pool: assumed_router(each.router)
        for pool, each in inspection.domains.items()
        if each.router_basis is not Basis.DECLARED
    }
    resting = {
        (pool, routers[pool])
        for finding in inspection.findings
        for pool in routers.keys() & finding.pools
        if routers[pool] in finding.assumptions or finding.severity_behind
    }
    return [f"{pool}: {each} (assumed); declare it under pools in fleet.yaml." for pool, each in sorted(resting)]


def pasteable(remedy: Remedy) -> tuple[str, ...]:
    """Return what can be pasted, with "or" between where one is enough."""
    texts = tuple(each.text for each in remedy.snippets)
    return tuple(line for text in texts for line in (OR, text))[1:] if remedy.any_of else texts


def remarks(finding: Finding) -> list[str]:
    """Return a sentence each on expiry, rollout, confidence, and replicas that were not evaluated."""
    sentences = []
    if (ended := finding.expired) is not None:
        sentences.append(f"Suppression by {ended.owner} expired on {ended.until} ({ended.reason}).")
    if finding.is_rollout:
        sentences.append("Follows the rollout in this pool: one severity lower.")
    sentences += how_sure(finding)
    if finding.unknown:
        replicas = f"{finding.unknown:,} of {count(finding.total, 'replica')}"
        sentences.append(f"Not evaluated on {replicas} (setting not reported).")
    return sentences


def as_in(finding: Finding, earlier: Finding, names: Mapping[str, str]) -> str:
    """Return which earlier finding has the same cause and fix: by its pool, in the same pool by its replicas."""
    other = where(earlier)
    if other == where(finding):
        other = who(earlier, names)
        other = f"{earlier.rule} above" if other == who(finding, names) else f"{earlier.rule} on {other}"
    return f"Same cause and fix as {other}."


def with_earlier(findings: Iterable[Finding]) -> Iterator[tuple[Finding, Finding | None]]:
    """Yield each finding with the first earlier one of the same rule, cause and fix, if there is one."""
    first: dict[tuple[str, str, Remedy], Finding] = {}
    for finding in findings:
        kind = (finding.rule, finding.why, finding.remedy)
        yield finding, first.get(kind)
        first.setdefault(kind, finding)


def suppressed(inspection: Inspection, names: Mapping[str, str]) -> list[str]:
    """Return a line for each suppressed finding: owner, expiry and reason."""
    return [
        f"{each.severity} {each.rule} in {where(each)}, {who(each, names)}: {suppressions([each])}"
        for each in inspection.suppressed
    ]


def suppressions(findings: Iterable[Finding]) -> str:
    """Return the suppressions of findings: `suppressed until 2026-04-30 by ann: canary`."""
    entries = dict.fromkeys(
        (each.owner, each.until, each.reason) for finding in findings if (each := finding.suppression)
    )
    return "; ".join(f"suppressed until {until} by {owner}: {reason}" for owner, until, reason in entries)


def raised(inspection: Inspection) -> list[str]:
    """Return the rules that raised an error, by error."""
    return _by_reason(inspection, OutcomeKind.ERROR)


def skipped(inspection: Inspection) -> list[str]:
    """Return the rules that were skipped, by reason."""
    return _by_reason(inspection, OutcomeKind.SKIPPED)


def rollouts(inspection: Inspection) -> list[str]:
    """Return the rollouts in progress: `chat: rollout 0.32.0 -> 0.32.1 (1/7) since 2026-04-30T12:00:00Z`."""
    return [
        f"{each.pool}: rollout {each.old} -> {each.new} ({len(each.replicas):,}/{each.total:,}) since {iso(each.began)}"
        for each in inspection.rollouts.values()
    ]


def unread(fleet: Fleet) -> list[str]:
    """Return each replica that is down with the cause."""
    return [
        f"{each.name}: {each.failure.detail if each.failure else 'no usable reply'}"
        for each in fleet.replicas
        if each.state is ReplicaState.DOWN
    ]


def are_several(cohorts: Iterable[CohortShare]) -> bool:
    """Tell whether cohorts are of several pools."""
    return len({share.pool for share in cohorts}) > 1


def _share(share: CohortShare, *, several: bool) -> str:
    text = f"{share.letter} x{share.number:,}" if share.letter else f"{share.number:,} not read"
    return f"{share.pool} {text}" if several and share.pool else text


def _by_reason(inspection: Inspection, kind: OutcomeKind) -> list[str]:
    subjects: dict[tuple[str, str], list[str]] = defaultdict(list)
    for outcome in inspection.outcomes:
        if outcome.kind is kind:
            subjects[outcome.rule, outcome.reason].append(outcome.subject)
    return [f"{rule} in {named(where)}: {reason}" for (rule, reason), where in subjects.items()]
