"""Says how the fleet is, in a sentence: what is wrong first."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Pool, Replica, ReplicaState, formatting
from dashboard.report.findings.head import tally_words
from dashboard.report.findings.rule_coverage import rule_coverage
from dashboard.rules.findings import Inspection, Rollout, Severity, Tally, tally_fleet, tally_pools

MOST_NAMES = 3  # pools that a sentence names before it counts the rest


class FleetSummary(NamedTuple):
    """What is counted of a fleet. `read` are the pools of which anything was, `unread` the replicas not read whole."""

    replicas: int
    down: int
    partial: int
    pools: int
    read: int
    split: tuple[str, ...]
    unread: tuple[Replica, ...]
    found: Tally
    by_pool: Mapping[str, Tally]


def standing(fleet: Fleet) -> FleetSummary:
    """Count what the headline and the cards speak of."""
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
        found=tally_fleet(fleet.inspection),
        by_pool=tally_pools(fleet.inspection),
    )


def is_split(pool: Pool) -> bool:
    """Say whether a pool's replicas contradict each other."""
    return len(pool.cohorts) > 1


def title(now: FleetSummary) -> str:
    """Say in one sentence how the fleet is: `2 pools have critical findings; 1 replica is down`."""
    if now.down == now.replicas:
        return "No replica answers"
    bad, odd = (worst_in(now, severity) for severity in (Severity.CRITICAL, Severity.WARNING))
    down = f"; {formatting.count(now.down, 'replica is', 'replicas are')} down" if now.down else ""
    if bad:
        return f"{formatting.count(len(bad), 'pool has', 'pools have')} critical findings{down}"
    if odd or now.found.warning:
        where = f" in {formatting.count(len(odd), 'pool')}" if odd else ""
        calm = "Nothing critical" if now.read else "Nothing could be compared"
        return f"{calm}, {formatting.count(now.found.warning, 'warning')}{where}{down}"
    if not now.pools:
        return f"Nothing can be compared yet{down}"
    return f"{'Nothing needs attention' if now.read else 'Nothing could be judged'}{down}"


def replicas_title(now: FleetSummary) -> str:
    """Say how many replicas there are and how they stand: `40 replicas: 1 down and 2 read in part`."""
    words = [f"{now.down:,} down" if now.down else "", f"{now.partial:,} read in part" if now.partial else ""]
    wrong = formatting.joined([word for word in words if word])
    number = formatting.count(now.replicas, "replica")
    return f"{number}: {wrong}" if wrong else f"{number}, all read"


def more(
    now: FleetSummary,
    unshared: Sequence[str],
    inspection: Inspection,
    *,
    doubtful: Sequence[str] = (),
    suppressed: AbstractSet[str] = frozenset(),
) -> str:
    """Say what was found, and what follows from it.

    `unshared`: the pools in which not all can share prefixes, but should; `doubtful`: in which perhaps not all can;
    `suppressed`: of which the reason is suppressed.
    """
    if now.down == now.replicas:
        return "Every replica was asked, and none gave a usable answer."
    sentences = [f"{tally_words(now.found)}."] if tally_words(now.found) else []
    sentences += [_apart(unshared, doubtful, suppressed)] if unshared else []
    sentences += [_moving(inspection.rollouts)] if inspection.rollouts else []
    if now.pools and not now.read:
        sentences.append("No replica in any pool tells its settings, so no rule could compare them.")
    if sentences:
        return " ".join(sentences)
    if not now.pools:
        return "No replica told which model it serves, so none stands in a pool, and no rule compares them."
    return "No finding in what was read." if now.unread or now.found.unknown else "No finding."


def calm(now: FleetSummary, fleet: Fleet) -> list[str]:
    """Say in sentences what stands where no rule found anything: what was judged, and what that leaves open.

    The first is how many rules looked; the others are what differs though no rule is about it, and what was not read.
    """
    silent = f"{formatting.count(rule_coverage(fleet.inspection).evaluated, 'rule')} found nothing."
    differ = sum(len(pool.differences) for pool in fleet.pools)
    said = f"{formatting.count(differ, 'setting differs', 'settings differ')} that no rule is about: see Compare."
    unread = "What was not read is not counted." if now.unread or now.found.unknown else ""
    return [silent, *([said] if differ else []), *([unread] if unread else [])]


def worst_in(now: FleetSummary, severity: Severity) -> list[str]:
    """Return the pools whose worst finding has this severity."""
    return [pool for pool, tally in now.by_pool.items() if tally.worst is severity]


def _apart(unshared: Sequence[str], doubtful: Sequence[str], suppressed: AbstractSet[str]) -> str:
    """Say in which pools not all can share prefixes, and in which perhaps not, and where the reason is suppressed."""
    doubt = f"; in {_pools(doubtful, suppressed)} it is doubtful" if doubtful else ""
    return f"In {_pools(unshared, suppressed)}, not all replicas can share prefixes{doubt}."


def _moving(rollouts: Mapping[str, Rollout]) -> str:
    """Say which pools are in a rollout and how far: `a is moving from 1 to 2: 3 of 4 are there; b from …`."""
    words: list[str] = []
    for pool, each in list(rollouts.items())[:MOST_NAMES]:
        is_moving, are_there = ("", "") if words else (" is moving", " are there")
        far = f"{len(each.replicas):,} of {each.total:,}{are_there}"
        words.append(f"{pool}{is_moving} from {each.old} to {each.new}: {far}")
    more = len(rollouts) - MOST_NAMES
    words += [f"{formatting.count(more, 'more pool is', 'more pools are')} moving too"] if more > 0 else []
    return f"{'; '.join(words)}."


def _pools(names: Sequence[str], suppressed: AbstractSet[str]) -> str:
    """Name pools, of many the first ones and how many more pools there are: `a, b (suppressed), c and 2 more pools`."""
    first, rest = names[:MOST_NAMES], names[MOST_NAMES:]
    told = [f"{name} (suppressed)" if name in suppressed else name for name in first]
    hushed = sum(name in suppressed for name in rest)
    more = f"{formatting.count(len(rest), 'more pool')}{f' ({hushed:,} suppressed)' if hushed else ''}"
    return formatting.joined([*told, *([more] if rest else [])])
