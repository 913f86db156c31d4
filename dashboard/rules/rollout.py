"""A rollout in progress, told apart from drift by when replicas started."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from dashboard.fleet import Replica
from dashboard.rules.findings import Draft, Remedy, Rollout
from dashboard.rules.subject import Holders
from dashboard.vllm.versions import build

VERSIONS = 2  # more of them at one time are no rollout but a mixture
STUCK_AFTER = timedelta(hours=6)  # without a new start; a proposal, no source gives one
# Starts that lie no further apart are those of one deployment: nothing replaces what came up with it. Nor could they be
# put in order: some replicas tell when their API process started, others when their engine did, which is up to a minute
# or two later, and the clocks of machines differ.
TOGETHER = timedelta(minutes=5)


def rollout_of(pool: str, members: Sequence[Replica], now: datetime) -> Rollout | None:
    """Return the rollout that a pool is in: two versions, one of which replaces the other.

    The new one is that whose first replica started last. Most of the old replicas, or half of them, started well
    before it; the others have restarted since, after a crash for instance. None where more of them have, where both
    versions were started TOGETHER, where the last start of the new one is so long ago that the rollout no longer goes
    on, and where a start time is not known.
    """
    started: dict[str, list[datetime]] = defaultdict(list)
    for member in members:
        if member.version is None or build(member.version) is None:
            continue
        if member.started_at is None:
            return None
        started[member.version].append(member.started_at)
    if len(started) != VERSIONS:
        return None
    old, new = sorted(started, key=lambda version: min(started[version]))
    began, last = min(started[new]), max(started[new])
    settled = sum(began - each > TOGETHER for each in started[old])
    if 2 * settled < len(started[old]) or now - last > STUCK_AFTER:
        return None
    moved = tuple(sorted(each.id for each in members if each.version == new))
    return Rollout(pool, old, new, moved, sum(map(len, started.values())), began, last)


def remedy_along(rollout: Rollout, draft: Draft) -> Remedy:
    """Return the remedy of a difference that runs along a rollout: never one that gives new replicas an old value."""
    new = set(draft.replicas) & set(rollout.replicas)
    state = f"Rollout {rollout.old} -> {rollout.new} ({len(rollout.replicas):,}/{rollout.total:,})"
    if not new:
        sentence = f"{state}: these replicas run the old version. Let it finish; if it stopped, update them."
        return draft.remedy._replace(sentence=sentence)
    who = "these replicas run" if len(new) == len(set(draft.replicas)) else f"{len(new):,} of these replicas run"
    return Remedy(
        f"{state}: {who} the new version. Let it finish: the difference ends with it. If the new value is not "
        "intended, change it in the new revision."
    )


def is_explained(told: Iterable[Holders], rollout: Rollout, members: Sequence[Replica]) -> bool:
    """Tell whether settings differ along the rollout: each value is told on one of its two versions alone.

    `told` are the values of each setting with who tells them. Who tells nothing does not count, nor does a setting
    that is the same on all.
    """
    version = {each.id: each.version for each in members}
    differences = [
        [{version[replica] for replica in replicas} for replicas in holders.values()]
        for holders in told
        if len(holders) > 1
    ]
    along = ([{rollout.old}, {rollout.new}], [{rollout.new}, {rollout.old}])
    return bool(differences) and all(sides in along for sides in differences)
