"""Findings in words, for every text that the command line prints. What is foreign in them is escaped by the format."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter

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
    Snippet,
)
from dashboard.rules.registry import Scope

MOST_NAMES = 4  # replicas or pools that a line names before it counts the rest
GLYPHS = {Severity.CRITICAL: "✖", Severity.WARNING: "▲", Severity.INFO: "●"}
DERIVED = "Derived from reported settings."
OR = "or"  # stands between snippets of which one is enough


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
    told = [
        f"{_share(each.share, several=several)}{f' ({named(each.names, most)})' if most else ''}"
        for each, most in zip(cohorts, room_for(cohorts, MOST_NAMES), strict=True)
    ]
    return ", ".join(told) or "no replica"


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
    for facet, severity in finding.severity_behind:
        by_severity.setdefault(severity, []).append(facet)
    worse = ", ".join(f"{severity} behind {' or '.join(routers)}" for severity, routers in by_severity.items())
    return f"Router not declared: {worse}." if worse else ""


def how_sure(finding: Finding) -> list[str]:
    """Say what a finding assumes, or that it is derived, and whether another router would make it worse."""
    basis = DERIVED if finding.confidence is Confidence.DERIVED else assumed(finding)
    return [*filter(None, [basis, undeclared(finding)])]


def assumptions(inspection: Inspection) -> list[str]:
    """Write for each pool with findings that an undeclared router decides which it is, and where to declare it."""
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
    return [f"{pool}: {each}; if not, declare it under pools in fleet.yaml." for pool, each in sorted(resting)]


def pasteable(remedy: Remedy, written: Callable[[Snippet], str] = attrgetter("text")) -> list[str]:
    """Return what can be pasted, each `written` by a format; with "or" between where one is enough."""
    texts = [written(each) for each in remedy.snippets]
    return [line for text in texts for line in (OR, text)][1:] if remedy.any_of else texts


def remarks(finding: Finding) -> list[str]:
    """Say what else holds of a finding, a sentence each: expired, in a rollout, not sure, not known everywhere."""
    told = []
    if (ended := finding.expired) is not None:
        told.append(f"Was suppressed by {ended.owner} until {ended.until} ({ended.reason}): expired, it counts again.")
    if finding.is_rollout:
        told.append("Runs along the rollout in this pool, and is therefore one step milder.")
    told += how_sure(finding)
    if finding.unknown:
        told.append(f"Not known on {finding.unknown:,} of {count(finding.total, 'replica')}.")
    return told


def as_in(finding: Finding, earlier: Finding, names: Mapping[str, str]) -> str:
    """Say which finding the reason and the remedy were told with: its pool, in the same pool its replicas."""
    told = where(earlier)
    if told == where(finding):
        told = who(earlier, names)
        told = f"the {earlier.rule} above" if told == who(finding, names) else f"{earlier.rule} on {told}"
    return f"Why and what to do: as in {told}."


def with_earlier(findings: Iterable[Finding]) -> Iterator[tuple[Finding, Finding | None]]:
    """Yield each finding with the first one before it of the same rule, reason and remedy: these need no repeating."""
    first: dict[tuple[str, str, Remedy], Finding] = {}
    for finding in findings:
        kind = (finding.rule, finding.why, finding.remedy)
        yield finding, first.get(kind)
        first.setdefault(kind, finding)


def suppressed(inspection: Inspection, names: Mapping[str, str]) -> list[str]:
    """Say of each suppressed finding who answers for it, until when, and why."""
    return [
        f"{each.severity} {each.rule} in {where(each)}, {who(each, names)}: {suppressions([each])}"
        for each in inspection.suppressed
    ]


def suppressions(findings: Iterable[Finding]) -> str:
    """Write who answers for findings: `suppressed by ann until 2026-04-30: canary`; nothing where nobody does."""
    entries = dict.fromkeys(
        (each.owner, each.until, each.reason) for finding in findings if (each := finding.suppression)
    )
    return "; ".join(f"suppressed by {owner} until {until}: {reason}" for owner, until, reason in entries)


def raised(inspection: Inspection) -> list[str]:
    """Say of each rule that raised what it raised."""
    return _by_reason(inspection, OutcomeKind.ERROR)


def skipped(inspection: Inspection) -> list[str]:
    """Say of each rule that was skipped what was missing; pools with the same reason stand together."""
    return _by_reason(inspection, OutcomeKind.SKIPPED)


def rollouts(inspection: Inspection) -> list[str]:
    """Say which pools are in a rollout."""
    return [
        f"{each.pool} is in a rollout: vLLM {each.old} is being replaced by {each.new}, "
        f"{len(each.replicas):,} of {count(each.total, 'replica')} since {iso(each.began)}."
        for each in inspection.rollouts.values()
    ]


def unread(fleet: Fleet) -> list[str]:
    """Say of each replica that did not answer why."""
    return [
        f"{each.name}: {each.failure.detail if each.failure else 'no usable answer'}"
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
