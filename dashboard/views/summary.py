"""The state of a fleet in a headline and a lead, the worst first; findings by severity, and rules by outcome."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.parts import only_pool
from dashboard.compare import SharingCounts
from dashboard.fleet import Pool, Replica, ReplicaState
from dashboard.fleet.formatting import count, duration, joined, share, uncapitalized
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.effect.symptoms import WHOLE
from dashboard.rules.findings import FAMILIES, Family, Finding, Inspection, Outcome, OutcomeKind, Severity, Tally
from dashboard.rules.identity.flapping import ONE_POLL
from dashboard.rules.registry import Scope
from dashboard.views import pages
from dashboard.views.blocks import View
from dashboard.views.finding_text import answered
from dashboard.views.names import brief

NO_PAIR = "No prefill pool has a decode pool of the same model."
NO_REPLICA = "No replica reports its configuration."
NO_RULE = "No rule was evaluated"
SEVERITY_TERMS = {Severity.CRITICAL: "critical finding", Severity.WARNING: "warning", Severity.INFO: "info finding"}


class RuleCoverage(NamedTuple):
    """Rules by outcome. Of the `evaluated` ones, `partially` were skipped or failed somewhere, or lack settings there.

    `errors` raised an error, `skipped` lack reported settings, `not_applicable` have no subject.
    """

    evaluated: int
    partially: int
    skipped: int
    errors: int
    not_applicable: int


def incomplete_replicas(fleet: Fleet) -> list[Replica]:
    """Return the replicas that are down, then those that are partial, by name."""
    unread = [replica for replica in fleet.replicas if replica.state is not ReplicaState.UP]
    return sorted(unread, key=lambda replica: (replica.state is not ReplicaState.DOWN, replica.name))


def count_read(fleet: Fleet) -> int:
    """Count the pools that report settings."""
    return sum(bool(pool.cohorts) for pool in fleet.pools)


def is_incomplete(fleet: Fleet) -> bool:
    """Return whether replicas were not read in full, or rules were skipped."""
    return fleet.coverage.up < fleet.coverage.targets or bool(fleet.inspection.tally.unknown)


def is_split(pool: Pool) -> bool:
    return len(pool.cohorts) > 1


def fleet_title(fleet: Fleet) -> str:
    """Return the headline: `2 pools have critical findings; 1 replica is down`."""
    counts, tally = fleet.coverage, fleet.inspection.tally
    if counts.down == counts.targets:
        return "No replica answered"
    critical, warned = (
        [pool for pool, own in fleet.inspection.tallies.items() if own.worst is severity]
        for severity in (Severity.CRITICAL, Severity.WARNING)
    )
    read = count_read(fleet)
    if critical:
        title = f"{count(len(critical), 'pool has', 'pools have')} critical findings"
    elif tally.warning:
        where = f" in {count(len(warned), 'pool')}" if warned else ""
        title = f"{count(tally.warning, 'warning')}{where}" + ("" if read else ", no settings compared")
    elif not fleet.pools:
        title = "No pools to compare"
    else:
        title = "No critical findings or warnings" if read else NO_RULE
    return f"{title}; {count(counts.down, 'replica is', 'replicas are')} down" if counts.down else title


def shared_text(counts: SharingCounts) -> str:
    """Write how many of the counted replicas share prefixes: `14 of 22 replicas (64%)`."""
    return f"{counts.sharing:,} of {count(counts.counted, 'replica')} ({share(counts.ratio or 0.0)})"


def counts_text(counts: SharingCounts) -> str:
    """Write how many replicas share prefixes: `14 of 16 share, 1 unknown`, or `all 16 share`."""
    if not counts.counted:
        return "not counted"
    if counts.sharing == counts.counted:
        return f"all {counts.counted:,} share"
    if counts.unknown == counts.counted:
        return f"unknown for {counts.unknown:,}"
    unknown = f", {counts.unknown:,} unknown" if counts.unknown else ""
    return f"{counts.sharing:,} of {counts.counted:,} share{unknown}"


def is_consistent(fleet: Fleet) -> bool:
    """Return whether all is read, each pool has one cohort, no rule finds anything, and no replica is known apart."""
    return (
        is_clean(fleet)
        and fleet.coverage.up == fleet.coverage.targets
        and not fleet.inspection.findings
        and not any(map(is_split, fleet.pools))
        and not fleet.prefix_sharing.not_sharing
    )


def sharing_title(fleet: Fleet) -> str:
    """Return the headline of Overview: `9 of 14 replicas (64%) share prefixes with their pool`, or what replaces it."""
    counts = fleet.prefix_sharing
    if is_consistent(fleet):
        replicas = count(fleet.coverage.targets, "replica")
        return f"Fleet is consistent: {replicas}, {count(len(fleet.pools), 'pool')}"
    if not counts.counted or counts.unknown == counts.counted:
        return fleet_title(fleet)
    return f"{shared_text(counts)} share prefixes with their pool"


def fleet_lead(fleet: Fleet) -> str:
    """Return the counts of findings, who does not share prefixes, and what is down, not counted or not compared."""
    counts, tally = fleet.prefix_sharing, fleet.inspection.tally
    if fleet.coverage.down == fleet.coverage.targets:
        return "All replicas were polled; none returned a usable reply."
    has_share = counts.unknown < counts.counted  # the headline is the share, without what it leaves out
    sentences = []
    if tally.worst:
        sentences.append(f"{tally_text(tally)}.")
    elif not fleet.pools:
        sentences.append("No rule was evaluated: no replica reports a model, so there are no pools.")
    elif count_read(fleet):
        sentences.append(f"No findings{' in the reported data' if is_incomplete(fleet) else ''}.")
    else:
        sentences.append("No settings compared: no pool reports its configuration.")
    if counts.not_sharing:
        apart = sum(bool(each.not_sharing) for each in fleet.sharing_counts.values())
        verb = "does" if counts.not_sharing == 1 else "do"
        sentences.append(f"{count(counts.not_sharing, 'replica')} in {count(apart, 'pool')} {verb} not share.")
    if counts.counted and counts.sharing == counts.counted:
        sentences.append("All replicas share prefixes with their pool.")
    if counts.unknown:
        sentences.append(f"Prefix sharing is unknown for {count(counts.unknown, 'replica')}.")
    if counts.excluded and has_share:
        sentences.append(f"{count(counts.excluded, 'replica')} excluded (alone in the pool, or prefixes not used).")
    if fleet.coverage.down and has_share:
        sentences.append(f"{count(fleet.coverage.down, 'replica is', 'replicas are')} down.")
    return " ".join(sentences)


def replicas_title(fleet: Fleet, pool: str | None = None) -> str:
    """Return the replicas by state: `40 replicas: 1 down and 2 partial`; `pool` is the one that the fleet is."""
    counts = fleet.coverage
    states = [f"{counts.down:,} down" if counts.down else "", f"{counts.partial:,} partial" if counts.partial else ""]
    incomplete = joined(list(filter(None, states)))
    where = f" in {brief(pool)}" if pool else ""
    return f"{count(counts.targets, 'replica')}{where}{f': {incomplete}' if incomplete else ', all up'}"


def no_findings_sentences(fleet: Fleet) -> list[str]:
    """Return what "no findings" is based on: rules evaluated, differences without a rule, missing data."""
    differences = sum(len(pool.differences) for pool in fleet.pools)
    sentences = [f"No findings from {count(rule_coverage(fleet.inspection).evaluated, 'rule')}."]
    sentences += [f"{count(differences, 'difference')} without a rule: see Compare."] if differences else []
    sentences += ["Replicas with incomplete data are not counted."] if is_incomplete(fleet) else []
    return sentences


def rule_coverage(inspection: Inspection) -> RuleCoverage:
    """Count all rules. A rule without an outcome, such as one on pairs where there is no pair, is not applicable."""
    kinds: dict[str, set[OutcomeKind]] = defaultdict(set)
    for outcome in inspection.outcomes:
        kinds[outcome.rule].add(outcome.kind)
    evaluated = {each.rule for each in inspection.outcomes if each.is_evaluated}
    lacking = {each.rule for each in inspection.outcomes if each.is_evaluated and each.silent}
    errors = {rule for rule, own in kinds.items() if OutcomeKind.ERROR in own}
    skipped = {rule for rule, own in kinds.items() if OutcomeKind.SKIPPED in own}
    return RuleCoverage(
        evaluated=len(evaluated),
        partially=len(lacking | evaluated & (errors | skipped)),
        skipped=len(skipped_rules(inspection)),
        errors=len(errors - evaluated),
        not_applicable=len(ALL_RULES) - len(evaluated | errors | skipped),
    )


def skipped_rules(inspection: Inspection) -> set[str]:
    """Return the ids of the rules that were skipped everywhere."""
    skipped = {each.rule for each in inspection.outcomes if each.kind is OutcomeKind.SKIPPED}
    return skipped - {each.rule for each in inspection.outcomes if each.is_evaluated or each.kind is OutcomeKind.ERROR}


def every_outcome(inspection: Inspection) -> tuple[Outcome, ...]:
    """Return all outcomes, with n/a for each rule that has none."""
    known = {each.rule for each in inspection.outcomes}
    missing = (
        Outcome(
            rule.id,
            "fleet",
            (),
            OutcomeKind.NOT_APPLICABLE,
            reason=NO_PAIR if rule.scope is Scope.PAIR else NO_REPLICA,
        )
        for rule in ALL_RULES
        if rule.id not in known
    )
    return (*inspection.outcomes, *missing)


def rules_text(inspection: Inspection) -> str:
    """Return `68 rules: 61 evaluated (10 partially), 1 skipped, 6 n/a (4 need the history)`."""
    counts = rule_coverage(inspection)
    partially = f" ({counts.partially:,} partially)" if counts.partially else ""
    parts = [f"{counts.evaluated:,} evaluated{partially}"]
    parts += [f"{counts.skipped:,} skipped"] if counts.skipped else []
    parts += [count(counts.errors, "error")] if counts.errors else []
    past = len({each.rule for each in inspection.outcomes if each.reason == ONE_POLL})
    need = f" ({past:,} {'needs' if past == 1 else 'need'} the history)" if past else ""
    parts += [f"{counts.not_applicable:,} n/a{need}"] if counts.not_applicable else []
    return f"{count(len(ALL_RULES), 'rule')}: {', '.join(parts)}"


def incomplete_text(inspection: Inspection) -> str:
    """Return `10 rules partially evaluated, 1 skipped`; empty where every rule was evaluated on all of its subjects."""
    counts = rule_coverage(inspection)
    found = ((counts.partially, "partially evaluated"), (counts.skipped, "skipped"), (counts.errors, "raised an error"))
    parts = [(number, what) for number, what in found if number]
    texts = [
        f"{f'{number:,}' if place else count(number, 'rule')} {what}" for place, (number, what) in enumerate(parts)
    ]
    return ", ".join(texts)


def tally_text(tally: Tally) -> str:
    """Return the counts by severity, the worst first: `2 critical, 3 warnings`; empty without findings."""
    return ", ".join(tally_texts(tally).values())


def found_text(findings: Iterable[Finding]) -> str:
    """Return the same of some findings."""
    counts = Counter(each.severity for each in findings)
    return tally_text(Tally(counts[Severity.CRITICAL], counts[Severity.WARNING], counts[Severity.INFO]))


def tally_texts(tally: Tally) -> dict[Severity, str]:
    """Return the counts of the severities with findings, the worst first: `2 critical`, `3 warnings`."""
    texts = {
        Severity.CRITICAL: f"{tally.critical:,} critical",
        Severity.WARNING: count(tally.warning, "warning"),
        Severity.INFO: f"{tally.info:,} info",
    }
    return {severity: text for severity, text in texts.items() if getattr(tally, severity)}


def findings_title(inspection: Inspection, *, are_new: bool = False) -> str:
    """Return the counts by severity; without findings, or new ones, whether any rule was evaluated."""
    if inspection.findings:
        return tally_text(inspection.tally)
    return f"No {'new ' if are_new else ''}findings" if rule_coverage(inspection).evaluated else NO_RULE


def findings_lead(fleet: Fleet) -> str:
    inspection = fleet.inspection
    parts = [rules_text(inspection), answered(fleet)]
    parts += [f"{len(inspection.suppressed):,} suppressed"] if inspection.suppressed else []
    parts += [count(len(inspection.notes), "configuration warning")] if inspection.notes else []
    seconds = max((each.seconds for own in fleet.traffic.values() for each in own.values()), default=0.0)
    if 0 < seconds < (whole := fleet.traffic_window * WHOLE) and not fleet.snapshot:
        parts.append(f"traffic rules start in {duration(whole - seconds)}")
    return " · ".join(parts)


def is_clean(fleet: Fleet) -> bool:
    """Return whether a fleet without findings is good news: rules were evaluated, and a pool reports settings."""
    return bool(rule_coverage(fleet.inspection).evaluated) and count_read(fleet) > 0


def no_findings_text(fleet: Fleet) -> str:
    incomplete, down = incomplete_text(fleet.inspection), fleet.coverage.down
    sentences = [f"{count(rule_coverage(fleet.inspection).evaluated, 'rule')} evaluated."]
    sentences += [f"{incomplete}."] if incomplete else []
    sentences += [f"{count(down, 'replica')} did not answer."] if down else []
    return " ".join(sentences)


def only_scope(fleet: Fleet, pool: str) -> Fleet:
    """Return one pool as a fleet, with every finding on it, also those that span pools."""
    part = only_pool(fleet, pool)
    found, suppressed = (
        tuple(each for each in listed if pool in each.pools)
        for listed in (fleet.inspection.findings, fleet.inspection.suppressed)
    )
    return replace(part, inspection=replace(part.inspection, findings=found, suppressed=suppressed))


def scoped_title(title: str, pool: str | None) -> str:
    """Return a headline with the pool that it is about: `chat: two ranks have less KV cache than their peers`."""
    if pool is None:
        return title
    name, whole, share = brief(pool), "Fleet is consistent", "share prefixes with their pool"
    if whole in title or share in title:
        return title.replace(whole, f"{name} is consistent").replace(share, f"of {name} share prefixes")
    is_name = title.startswith("KV")
    return f"{name}: {title if is_name else uncapitalized(title)}"


def name_scope(view: View, fleet: Fleet, pool: str, page: str) -> View:
    """Return the view of a page that is limited to a pool, for an export: its lead begins with what that leaves out."""
    outside = f"Only pool {brief(pool)}. Other pools: {outside_text(fleet, pool, page)}."
    return replace(view, lead=f"{outside} {view.lead}".strip())


def outside_text(fleet: Fleet, pool: str, page: str) -> str:
    """Return what a page would also show of other pools: `3 critical, 2 warnings`."""
    if page == pages.CHANGES:
        pools = [each for each in fleet.pools if each.name != pool]
        replicas = count(sum(len(each.replicas) for each in pools), "replica")
        return f"{replicas} in {count(len(pools), 'pool')}, not compared"
    if page == pages.REPLICAS:
        states = Counter(each.state for each in fleet.replicas if each.pool != pool)
        named = [(states[each], str(each)) for each in (ReplicaState.DOWN, ReplicaState.PARTIAL)]
        total = count(states.total(), "replica")
        return ", ".join([total, *(f"{number:,} {state}" for number, state in named if number)])
    if page == pages.SETTINGS:
        paths = {each.path for other in fleet.pools if other.name != pool for each in other.differences}
        return f"{count(len(paths), 'setting')} with different values"
    others = [each for each in fleet.inspection.findings if pool not in each.pools]
    if page == pages.CAPACITY:
        others = [each for each in others if FAMILIES[each.rule[:2]] is Family.CAPACITY]
        return f"capacity findings: {found_text(others)}" if others else "no capacity findings"
    return found_text(others) or "no findings"
