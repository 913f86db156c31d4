"""What would change if a pool converged to one of its cohorts or to its baseline. Nothing is ever applied."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from dashboard.analysis.assembly import Fleet, assemble
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.models import Changes, PersistingFinding, PoolCapacityChange
from dashboard.analysis.paste import ChangeGroup, in_turn
from dashboard.analysis.whatif.after import VERSION, RankForecast, document_after, forecast_ranks, replica_after
from dashboard.analysis.whatif.findings import known_changes, router_changes
from dashboard.capacity.sums import capacity_of
from dashboard.compare.baseline import agreed_paths, agreed_settings, deviations, usual_values
from dashboard.compare.cohorts import merge_rows
from dashboard.compare.encoding import NULL, lookup_value
from dashboard.fleet import (
    Baseline,
    Cohort,
    Document,
    Pool,
    Replica,
    SettingChange,
    SettingValue,
    cohort_letters,
)
from dashboard.fleet.formatting import count
from dashboard.fleet.history import RecentEvents, SeenRollout
from dashboard.rules.apply_method import ApplyMethod, apply_methods, manual_methods
from dashboard.rules.capacity.graphs import are_derived_sizes
from dashboard.rules.findings import Finding, Rollout
from dashboard.rules.identity.coverage import vllm_version_differs


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would change if a pool converged to a target.

    `changes` lead to the fleet afterwards, with the changes of findings as far as they are known before the restart.
    `capacity` is the KV cache of the pool, `ranks` are those that may change. `silent` replicas do not contradict the
    target but do not report every setting that others change; `unread` were never read. `unreported` settings differ in
    the pool and are not reported by the target. `notes` are sentences on what is unknown. `reverted` is a rollout that
    would be reverted. `router` is what the router must know and no rule reports.
    """

    pool: str
    target: Cohort | Baseline
    groups: tuple[ChangeGroup, ...]
    changes: Changes
    capacity: PoolCapacityChange
    ranks: tuple[RankForecast, ...] = ()
    silent: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    unreported: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reverted: Rollout | None = None
    router: tuple[SettingChange, ...] = ()

    @property
    def total(self) -> int:
        """The number of replicas of the pool."""
        return sum(each.pool == self.pool for each in self.changes.before.replicas)

    @property
    def restarts(self) -> tuple[str, ...]:
        return tuple(sorted(replica for group in self.groups for replica in group.replicas))

    @property
    def spread(self) -> tuple[Finding, ...]:
        """The findings on more replicas."""
        return tuple(each.after for each in self.changes.findings.persisting if each.joined)

    @property
    def reduced(self) -> tuple[Finding, ...]:
        """The findings that are known to be fixed on some of their replicas."""
        return tuple(each.after for each in self.changes.findings.persisting if _is_reduced(each))

    @property
    def unchanged(self) -> int:
        """The number of other findings of the pool."""
        return sum(
            self.pool in each.before.pools and not (each.joined or _is_reduced(each))
            for each in self.changes.findings.persisting
        )

    @property
    def change_of_tokens(self) -> tuple[int, int]:
        """The least and the most change of the pool's tokens, on ranks that are known on both sides."""
        return change_of_tokens(self.ranks, self.changes.before)


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


def _is_reduced(finding: PersistingFinding) -> bool:
    return bool(finding.left) and not finding.unread


class PoolRestart(NamedTuple):
    """Replicas of one pool that restart with other settings, and those that stay.

    The `changes`, and the `documents` afterwards, are by the ids of the documents now.
    """

    restarting: tuple[Replica, ...]
    staying: tuple[Replica, ...]
    changes: Mapping[str, tuple[SettingChange, ...]]
    documents: Mapping[str, Document]


class _Goal(NamedTuple):
    """What a pool converges to. `usual` are the values of most of it within the ranges of a baseline."""

    fleet: Fleet
    pool: Pool
    members: tuple[Replica, ...]
    target: Cohort | Baseline
    restart: PoolRestart
    usual: Mapping[str, SettingValue]

    @property
    def changes(self) -> Mapping[str, tuple[SettingChange, ...]]:
        return self.restart.changes

    @property
    def documents(self) -> Mapping[str, Document]:
        return self.restart.documents

    @property
    def restarting(self) -> tuple[Replica, ...]:
        return self.restart.restarting


def converge(fleet: Fleet, pool: str, target: str | Baseline) -> WhatIf:
    """Return what would change if all replicas of a pool had the settings of a cohort or a baseline.

    `target` is a cohort's letter or a baseline. Stale replicas count with their last settings. The fleet is not
    modified. Raises KeyError: no such pool, or no such cohort in it.
    """
    plan = _target(fleet, pool, target)
    restarting = plan.restarting
    after, ranks = restarted_fleet(fleet, [plan.restart])
    reverted = _reverted(plan)
    changes = changes_between(fleet, after)
    found = known_changes(changes.findings, fleet, after, {each.id for each in restarting})
    if reverted:  # a rollout that is reverted is not fixed
        gone = (each for each in found.no_longer_found if each.finding.rule != vllm_version_differs.id)
        found = replace(found, no_longer_found=tuple(gone))
    return WhatIf(
        pool=pool,
        target=plan.target,
        groups=tuple(_groups(plan)),
        changes=replace(changes, findings=found),
        capacity=_capacity(plan, ranks, changes),
        ranks=tuple(rank for each in restarting if each.is_counted for rank in ranks[each.id]),
        silent=_silent(plan),
        unread=tuple(each.id for each in plan.members if each.document is None),
        unreported=_unreported(plan),
        notes=tuple(_notes(plan, after)),
        reverted=reverted,
        router=router_changes(fleet, after, pool),
    )


def _target(fleet: Fleet, name: str, chosen: str | Baseline) -> _Goal:
    pool = next((each for each in fleet.pools if each.name == name), None)
    if pool is None:
        raise KeyError(f"There is no pool {name}.")
    members = tuple(each for each in fleet.replicas if each.pool == name)
    documents = {key: fleet.documents[key] for key in pool.documents}
    usual: Mapping[str, SettingValue] = {}
    target: Cohort | Baseline
    if isinstance(chosen, Baseline):
        read = [each for each in members if each.document is not None]
        lately = [each for each in read if each.fresh] or read
        usual = usual_values(chosen, (fleet.documents[str(each.document)].settings for each in lately))
        target, settings = chosen, agreed_settings(chosen)
        found = {
            key: [
                SettingChange(each.path, each.own, each.wanted) for each in deviations(chosen, document.settings, usual)
            ]
            for key, document in documents.items()
        }
    else:
        cohort = next((each for each in pool.cohorts if each.letter == chosen), None)
        if cohort is None:
            raise KeyError(f"Pool {name} has no cohort {chosen}.")
        target, settings = cohort, cohort.settings
        found = _changes_to_cohort(pool, cohort)
    changes = {
        key: tuple(sorted(each for each in own if not any(fnmatchcase(each.path, glob) for glob in fleet.ignored)))
        for key, own in found.items()
    }
    after = {key: document_after(documents[key], each, settings) for key, each in changes.items()}
    restarting = tuple(each for each in members if changes.get(str(each.document)))
    staying = tuple(each for each in members if not changes.get(str(each.document)))
    return _Goal(fleet, pool, members, target, PoolRestart(restarting, staying, changes, after), usual)


def _changes_to_cohort(pool: Pool, target: Cohort) -> dict[str, list[SettingChange]]:
    """Compare as pools are compared: a setting that only one of them reports is no change."""
    table = pool.table
    wanted = merge_rows(table.codes[[pool.documents.index(key) for key in target.documents]])
    found = {}
    for key, own in zip(pool.documents, table.codes, strict=True):
        columns = np.flatnonzero((own >= NULL) & (wanted >= NULL) & (own != wanted)).tolist()
        found[key] = [
            SettingChange(table.paths[column], table.values[own[column]], table.values[wanted[column]])
            for column in columns
        ]
    return found


def forecast(fleet: Fleet, restart: PoolRestart) -> Mapping[str, Sequence[RankForecast]]:
    """Return the forecast of each rank that may change, by replica."""
    return forecast_ranks(restart.restarting, restart.staying, fleet.documents, restart.documents, restart.changes)


def restarted_fleet(
    fleet: Fleet, restarts: Iterable[PoolRestart]
) -> tuple[Fleet, Mapping[str, Sequence[RankForecast]]]:
    """Return the fleet after restarts in some pools, and the forecast of each rank by replica."""
    ranks: dict[str, Sequence[RankForecast]] = {}
    restarted: dict[str, Replica] = {}
    known = dict(fleet.documents)
    for restart in restarts:
        ranks |= forecast(fleet, restart)
        known |= {each.id: each for each in restart.documents.values()}
        for each in restart.restarting:
            key = str(each.document)
            restarted[each.id] = replica_after(each, restart.documents[key], restart.changes[key], ranks[each.id])
    if fleet.polled_at is None or not restarted:
        return fleet, ranks
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
    return assemble(after, fleet.polled_at, before=fleet), ranks


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


def _groups(plan: _Goal) -> Iterator[ChangeGroup]:
    """Yield groups of replicas with the same changes, the largest first."""
    letters = cohort_letters([plan.pool])
    grouped: dict[tuple[SettingChange, ...], list[Replica]] = defaultdict(list)
    for each in plan.restarting:
        grouped[plan.changes[str(each.document)]].append(each)
    for found, replicas in sorted(grouped.items(), key=lambda item: (-len(item[1]), [each.id for each in item[1]])):
        derives = are_derived_sizes(plan.documents[str(replicas[0].document)].settings)
        wanted = {each.path: each.after for each in found}
        methods = apply_methods(wanted, derives_sizes=derives, left=_undecided(plan, found))
        cohorts = tuple(dict.fromkeys(letters[each.id] for each in replicas))
        yield ChangeGroup(tuple(each.id for each in replicas), cohorts, found, methods, *in_turn(found, methods))


def _undecided(plan: _Goal, found: Sequence[SettingChange]) -> Mapping[str, ApplyMethod]:
    """Return the changes that need a decision; none for a cohort."""
    if not isinstance(plan.target, Baseline):
        return {}
    settings = [plan.fleet.documents[key].settings for key in plan.changes]

    def values(path: str) -> set[SettingValue]:
        return {own for each in settings if (own := lookup_value(each, path)) is not None}

    return manual_methods(plan.target, plan.usual, values, [each.path for each in found])


def _reverted(plan: _Goal) -> Rollout | None:
    rollout = plan.fleet.inspection.rollouts.get(plan.pool.name)
    if rollout is None:
        return None
    moved = [each for each in plan.restarting if each.id in rollout.replicas]
    return rollout if any(plan.documents[str(each.document)].version == rollout.old for each in moved) else None


def _silent(plan: _Goal) -> tuple[str, ...]:
    """Return the replicas that need no restart but do not report all settings that others change."""
    changed = {change.path for found in plan.changes.values() for change in found}
    silent = {
        key
        for key, found in plan.changes.items()
        if not found and any(lookup_value(plan.fleet.documents[key].settings, path) is None for path in changed)
    }
    return tuple(each.id for each in plan.members if each.document in silent)


def _unreported(plan: _Goal) -> tuple[str, ...]:
    """Return the settings that differ in the pool and that the target does not report."""
    paths = [each.path for each in plan.pool.differences]
    if isinstance(plan.target, Baseline):
        return tuple(path for path in paths if path not in agreed_paths(plan.target))
    return tuple(path for path in paths if lookup_value(plan.target.settings, path) is None)


def _notes(plan: _Goal, after: Fleet) -> Iterator[str]:
    if loaded := [each for each in plan.restarting if each.adapters]:
        these = "a replica" if len(loaded) == 1 else f"{count(len(loaded), 'replica')}"
        yield f"LoRA adapters of {these} must be loaded again."
    if any(change.path == VERSION for found in plan.changes.values() for change in found):
        yield (
            "A different version has different defaults: settings that the target does not report are unknown until "
            "the restart."
        )
    versions = {each.version for each in after.replicas if each.pool == plan.pool.name and each.version}
    if plan.fleet.inspection.rollouts.get(plan.pool.name) and plan.restarting and len(versions) > 1:
        yield "The state of the rollout is unknown until the restart."


def _capacity(plan: _Goal, ranks: Mapping[str, Sequence[RankForecast]], changes: Changes) -> PoolCapacityChange:
    """Return the KV cache of the pool before and after; a replica without engine data counts as one unknown rank.

    The sum after is an upper bound where that of the unchanged ranks is one: a forecast is a median.
    """
    found = next(each for each in changes.capacity.pools if each.pool == plan.pool.name)
    missing = sum(each.is_counted and not each.engines and bool(ranks[each.id]) for each in plan.restarting)
    same = capacity_of(each for each in plan.members if not ranks.get(each.id))
    tokens = found.after.tokens._replace(at_most=same.tokens.at_most)
    return found._replace(
        before=found.before._replace(ranks=found.before.ranks + missing),
        after=found.after._replace(ranks=found.after.ranks + missing, tokens=tokens),
    )
