"""A rollout in progress, told apart from drift by when replicas started."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

from dashboard.normalize.versions import release
from dashboard.rules.findings import Rollout

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from dashboard.models import Replica
    from dashboard.rules.subject import Holders

VERSIONS = 2  # more of them at one time are no rollout but a mixture
STUCK_AFTER = timedelta(hours=6)  # without a new start; a proposal, no source gives one
# Starts that lie no further apart are those of one deployment: nothing replaces what came up with it. Nor could they be
# put in order: some replicas tell when their API process started, others when their engine did, which is up to a minute
# or two later, and the clocks of machines differ.
TOGETHER = timedelta(minutes=5)


def rollout_of(pool: str, members: Sequence[Replica], now: datetime) -> Rollout | None:
    """Return the rollout that a pool is in: two versions, and every replica of one started well after all of the other.

    None also when both were started TOGETHER, when the last start is so long ago that it no longer goes on, or when a
    start time is not known.
    """
    started: dict[str, list[datetime]] = defaultdict(list)
    for member in members:
        version = release(member.version or "")
        if version is None:
            continue
        if member.started_at is None:
            return None
        started[version].append(member.started_at)
    if len(started) != VERSIONS:
        return None
    old, new = sorted(started, key=lambda version: max(started[version]))
    last = max(started[new])
    if min(started[new]) - max(started[old]) <= TOGETHER or now - last > STUCK_AFTER:
        return None
    moved = tuple(sorted(each.id for each in members if release(each.version or "") == new))
    total = sum(map(len, started.values()))
    return Rollout(pool, old, new, moved, total, min(started[new]), last)


def is_explained(told: Iterable[Holders], rollout: Rollout, members: Sequence[Replica]) -> bool:
    """Tell whether settings differ along the rollout: each value is told on one of its two versions alone.

    `told` are the values of each setting with who tells them. Who tells nothing does not count, nor does a setting
    that is the same on all.
    """
    version = {each.id: release(each.version or "") for each in members}
    differences = [
        [{version[replica] for replica in replicas} for replicas in holders.values()]
        for holders in told
        if len(holders) > 1
    ]
    along = ([{rollout.old}, {rollout.new}], [{rollout.new}, {rollout.old}])
    return bool(differences) and all(sides in along for sides in differences)
