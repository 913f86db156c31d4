"""What would change if replicas restarted with other settings. Nothing is ever applied."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet, assemble
from dashboard.analysis.whatif.after import RankForecast, forecast_ranks, replica_after
from dashboard.fleet import Document, Replica, SettingChange
from dashboard.fleet.history import RecentEvents, SeenRollout


class PoolRestart(NamedTuple):
    """Replicas of one pool that restart with other settings, and those that stay.

    The `changes`, and the `documents` afterwards, are by the ids of the replicas.
    """

    restarting: tuple[Replica, ...]
    staying: tuple[Replica, ...]
    changes: Mapping[str, tuple[SettingChange, ...]]
    documents: Mapping[str, Document]


def forecast(fleet: Fleet, restart: PoolRestart) -> Mapping[str, Sequence[RankForecast]]:
    """Return the forecast of each rank that may change, by replica."""
    return forecast_ranks(restart.restarting, restart.staying, fleet.documents, restart.documents, restart.changes)


def change_of_tokens(ranks: Iterable[RankForecast], before: Fleet) -> tuple[int, int]:
    """Return the least and the most change of the tokens of a fleet, on ranks that are known on both sides."""
    replicas = before.by_id
    least = most = 0
    for rank in ranks:
        if rank.before is None or rank.least is None or rank.most is None:
            continue
        if any(engine.dp_rank == rank.dp_rank for engine in replicas[rank.replica].adding_engines):
            least += rank.least - rank.before
            most += rank.most - rank.before
    return least, most


def restarted_fleet(fleet: Fleet, restarts: Iterable[PoolRestart]) -> Fleet:
    """Return the fleet after restarts in some pools."""
    restarted: dict[str, Replica] = {}
    known = dict(fleet.documents)
    for restart in restarts:
        ranks = forecast(fleet, restart)
        known |= {each.id: each for each in restart.documents.values()}
        for each in restart.restarting:
            document, changes = restart.documents[each.id], restart.changes[each.id]
            restarted[each.id] = replica_after(each, document, changes, ranks[each.id])
    if fleet.polled_at is None or not restarted:
        return fleet
    replicas = [restarted.get(each.id, each) for each in fleet.replicas]
    documents = {key: known[key] for key in sorted({each.document for each in replicas if each.document})}
    after = Fleet(
        fleet.name,
        fleet.generation,
        fleet.polled_at,
        replicas=tuple(replicas),
        documents=documents,
        ignored=fleet.ignored,
        policy=fleet.policy,
        recent=_recent(fleet, restarted.values(), replicas),
        snapshot=fleet.snapshot,
        past=fleet.past,
        letters=fleet.letters,
        inspection=fleet.inspection,  # what it cannot see stays
    )
    return assemble(after, fleet.polled_at, before=fleet)


def _recent(fleet: Fleet, restarted: Iterable[Replica], after: Iterable[Replica]) -> RecentEvents:
    """Return what happened lately, with the rollouts that go on: some are seen by start times, unknown afterwards."""
    rollouts = dict(fleet.recent.rollouts)
    versions: dict[str | None, set[str | None]] = defaultdict(set)
    for replica in after:
        versions[replica.pool].add(replica.version)
    changed = {each.pool for each in restarted}
    for pool, own in fleet.inspection.rollouts.items():
        if pool not in changed:
            continue
        rollouts.pop(pool, None)
        if versions[pool] >= {own.old, own.new}:
            rollouts[pool] = SeenRollout(own.old, own.new, own.began, own.last)
    return replace(fleet.recent, rollouts=rollouts)
