"""Rollouts in progress, distinguished from drift by start times."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from dashboard.compare.holders import Holders
from dashboard.fleet import Replica
from dashboard.fleet.history import Rollout, SeenRollout
from dashboard.rules.findings import Draft, Remedy
from dashboard.vllm.versions import build

VERSIONS = 2  # with more versions it is a mixture, not a rollout
STUCK_AFTER = timedelta(hours=6)  # without a new start; an estimate, no source gives one
# Starts within this time are one deployment. Their order is unknown: some replicas report the start of the API process,
# others that of the engine, up to two minutes later, and clocks differ.
TOGETHER = timedelta(minutes=5)


def rollout_of(
    pool: str, members: Sequence[Replica], now: datetime, seen: SeenRollout | None = None
) -> tuple[Rollout | None, bool]:
    """Return the rollout of a pool, and whether it stands still: nothing moved for STUCK_AFTER. None: there is none.

    A rollout that polls have `seen` goes on until one version is left: which replicas restart does not matter. Else
    start times show one; see `_started_rollout`.
    """
    if seen is None:
        return _started_rollout(pool, members, now), False
    moved = tuple(sorted(each.id for each in members if each.version == seen.new))
    total = sum(each.version in {seen.old, seen.new} for each in members)
    return Rollout(pool, seen.old, seen.new, moved, total, seen.began, seen.last), now - seen.last > STUCK_AFTER


def _started_rollout(pool: str, members: Sequence[Replica], now: datetime) -> Rollout | None:
    """Return a rollout that start times show: two versions, one of which replaces the other; None where it is none.

    The new version is the one whose first replica started last. At least half of the old replicas started more than
    TOGETHER before it; the others restarted since. None also where the newest start is older than STUCK_AFTER, and
    where a start time is unknown.
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
    """Return the remedy of a difference along a rollout: it never sets an old value on new replicas."""
    new = set(draft.replicas) & set(rollout.replicas)
    state = f"Rollout {rollout.old} -> {rollout.new} ({len(rollout.replicas):,}/{rollout.total:,})"
    if not new:
        sentence = f"{state}: these replicas run the old version. Wait for the rollout; if it stopped, update them."
        return draft.remedy._replace(sentence=sentence)
    who = "these replicas run" if len(new) == len(set(draft.replicas)) else f"{len(new):,} of these replicas run"
    return Remedy(
        f"{state}: {who} the new version. Wait for the rollout. If the new value is not intended, change it in the new "
        "revision."
    )


def is_along(settings: Iterable[Holders], rollout: Rollout, members: Sequence[Replica]) -> bool:
    """Return whether settings differ along the rollout: replicas of one version report each value.

    `settings` has the values of each setting with their replicas. Equal settings do not count.
    """
    version = {each.id: each.version for each in members}
    differences = [
        [{version[replica] for replica in replicas} for replicas in holders.values()]
        for holders in settings
        if len(holders) > 1
    ]
    along = ([{rollout.old}, {rollout.new}], [{rollout.new}, {rollout.old}])
    return bool(differences) and all(sides in along for sides in differences)
