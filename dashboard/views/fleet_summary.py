"""The state of a fleet in a headline and a lead, the worst first."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Pool, Replica, ReplicaState
from dashboard.fleet.formatting import count, joined
from dashboard.rules.findings import Inspection, Rollout, Severity, Tally
from dashboard.views.findings_summary import NO_RULE, rule_coverage, tally_text

MOST_NAMES = 3  # pools of a sentence by name


class FleetSummary(NamedTuple):
    """Counts of a fleet. `read`: pools that report settings; `unread`: replicas that are down or partial."""

    replicas: int
    down: int
    partial: int
    pools: int
    read: int
    split: tuple[str, ...]
    unread: tuple[Replica, ...]
    found: Tally
    by_pool: Mapping[str, Tally]

    @property
    def is_incomplete(self) -> bool:
        """Return whether data of some replica is missing."""
        return bool(self.unread or self.found.unknown)


def summarize(fleet: Fleet) -> FleetSummary:
    """Return the counts of headline and figures."""
    states = [replica.state for replica in fleet.replicas]
    unread = [replica for replica in fleet.replicas if replica.state is not ReplicaState.UP]
    return FleetSummary(
        replicas=len(states),
        down=states.count(ReplicaState.DOWN),
        partial=states.count(ReplicaState.PARTIAL),
        pools=len(fleet.pools),
        read=sum(bool(pool.cohorts) for pool in fleet.pools),
        split=tuple(pool.name for pool in fleet.pools if is_split(pool)),
        unread=tuple(sorted(unread, key=lambda replica: (replica.state is not ReplicaState.DOWN, replica.name))),
        found=fleet.inspection.tally,
        by_pool=fleet.inspection.tallies,
    )


def is_split(pool: Pool) -> bool:
    """Return whether a pool has several cohorts."""
    return len(pool.cohorts) > 1


def fleet_title(now: FleetSummary) -> str:
    """Return the headline: `2 pools have critical findings; 1 replica is down`."""
    if now.down == now.replicas:
        return "No replica answered"
    critical, warned = (
        [pool for pool, tally in now.by_pool.items() if tally.worst is severity]
        for severity in (Severity.CRITICAL, Severity.WARNING)
    )
    if critical:
        title = f"{count(len(critical), 'pool has', 'pools have')} critical findings"
    elif now.found.warning:
        where = f" in {count(len(warned), 'pool')}" if warned else ""
        title = f"{count(now.found.warning, 'warning')}{where}" + ("" if now.read else ", no settings compared")
    elif not now.pools:
        title = "No pools to compare"
    else:
        title = "No critical findings or warnings" if now.read else NO_RULE
    return f"{title}; {count(now.down, 'replica is', 'replicas are')} down" if now.down else title


def replicas_title(now: FleetSummary) -> str:
    """Return the replicas by state: `40 replicas: 1 down and 2 partial`."""
    states = [f"{now.down:,} down" if now.down else "", f"{now.partial:,} partial" if now.partial else ""]
    incomplete = joined(list(filter(None, states)))
    return f"{count(now.replicas, 'replica')}{f': {incomplete}' if incomplete else ', all up'}"


def fleet_lead(
    now: FleetSummary,
    unshared: Sequence[str],
    inspection: Inspection,
    *,
    doubtful: Sequence[str] = (),
    suppressed: AbstractSet[str] = frozenset(),
) -> str:
    """Return the counts of findings, the pools that do not share prefixes, and rollouts.

    `unshared`: pools in which it is certain that not all replicas share prefixes; `doubtful`: in which it is possible;
    `suppressed`: whose findings on that are suppressed.
    """
    if now.down == now.replicas:
        return "All replicas were polled; none returned a usable reply."
    sentences = [f"{tally_text(now.found)}."] if now.found.worst else []
    if unshared:
        maybe = f"; possibly also in {_pools(doubtful, suppressed)}" if doubtful else ""
        sentences.append(f"Not all replicas share prefixes in {_pools(unshared, suppressed)}{maybe}.")
    sentences += [_rollouts(inspection.rollouts)] if inspection.rollouts else []
    if now.pools and not now.read:
        sentences.append("No settings compared: no pool reports its configuration.")
    if sentences:
        return " ".join(sentences)
    if not now.pools:
        return "No rule was evaluated: no replica reports a model, so there are no pools."
    return f"No findings{' in the reported data' if now.is_incomplete else ''}."


def no_findings_sentences(now: FleetSummary, fleet: Fleet) -> list[str]:
    """Return what "no findings" is based on: rules evaluated, differences without a rule, missing data."""
    differences = sum(len(pool.differences) for pool in fleet.pools)
    sentences = [f"No findings from {count(rule_coverage(fleet.inspection).evaluated, 'rule')}."]
    sentences += [f"{count(differences, 'difference')} without a rule: see Compare."] if differences else []
    sentences += ["Replicas with incomplete data are not counted."] if now.is_incomplete else []
    return sentences


def _rollouts(rollouts: Mapping[str, Rollout]) -> str:
    """Return `a rollout 1 → 2 (3/4), b rollout …`."""
    shown = list(rollouts.items())[:MOST_NAMES]
    texts = [f"{pool} rollout {each.old} → {each.new} ({len(each.replicas):,}/{each.total:,})" for pool, each in shown]
    more = len(rollouts) - MOST_NAMES
    return f"{', '.join([*texts, *([count(more, 'more rollout')] if more > 0 else [])])}."


def _pools(names: Sequence[str], suppressed: AbstractSet[str]) -> str:
    """Return `a, b (suppressed), c and 2 more pools`."""
    first, rest = names[:MOST_NAMES], names[MOST_NAMES:]
    shown = [f"{name} (suppressed)" if name in suppressed else name for name in first]
    number = sum(name in suppressed for name in rest)
    more = f"{count(len(rest), 'more pool')}{f' ({number:,} suppressed)' if number else ''}"
    return joined([*shown, *([more] if rest else [])])
