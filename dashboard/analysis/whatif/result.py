"""What would change if a pool converged to one of its cohorts or to its baseline. Nothing is ever applied."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from dashboard.analysis.assembly import Fleet, assemble
from dashboard.analysis.whatif.after import VERSION, EngineForecasts, RankForecast, document_after, replica_after
from dashboard.analysis.whatif.findings import FindingForecast, RouterChange, forecast_findings, router_changes
from dashboard.analysis.whatif.paste import ChangeGroup, in_turn, planned_changes
from dashboard.capacity.sums import NO_SUM, Sum, capacity_of
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
from dashboard.rules.apply_method import ApplyMethod, manual_methods
from dashboard.rules.capacity.graphs import are_derived_sizes
from dashboard.rules.findings import Rollout
from dashboard.rules.identity.coverage import vllm_version_differs


@dataclass(frozen=True, slots=True)
class CapacityForecast:
    """KV cache of a pool in tokens. `ranks` are those that may change, `unchanged` counts the others.

    `before` and `after` are sums over known ranks; `unknown_before` and `unknown_after` count the others. The sum after
    is an upper bound where that of the unchanged ranks is one: a forecast is a median. `least` and `most` bound the
    change of ranks that are known on both sides.
    """

    ranks: tuple[RankForecast, ...] = ()
    unchanged: int = 0
    before: Sum = NO_SUM
    after: Sum = NO_SUM
    unknown_before: int = 0
    unknown_after: int = 0
    least: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would change if a pool converged to a target: a cohort, by its letter, or a baseline, by its name.

    `fleet` is the fleet afterwards, as far as it can be known. `silent` replicas do not contradict the target but do
    not report every setting that others change; `unread` were never read. `unreported` settings differ in the pool and
    are not reported by the target. `notes` are sentences on what is unknown. `reverted` is a rollout that would be
    reverted. `router` is what the router must know and no rule reports. `matching` counts the replicas of the cohort
    now; None for a baseline.
    """

    pool: str
    target: str
    is_baseline: bool
    total: int
    groups: tuple[ChangeGroup, ...]
    findings: FindingForecast
    capacity: CapacityForecast
    fleet: Fleet
    silent: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    unreported: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reverted: Rollout | None = None
    router: tuple[RouterChange, ...] = ()
    matching: int | None = None

    @property
    def restarts(self) -> tuple[str, ...]:
        return tuple(sorted(replica for group in self.groups for replica in group.replicas))


class _Plan(NamedTuple):
    """A pool and its documents after the restart. `changes` and `documents` are by the ids of the documents now.

    `usual` are the values of most of the pool within the ranges of a baseline.
    """

    fleet: Fleet
    pool: Pool
    members: tuple[Replica, ...]
    target: Cohort | Baseline
    changes: Mapping[str, tuple[SettingChange, ...]]
    documents: Mapping[str, Document]
    usual: Mapping[str, SettingValue]

    @property
    def restarting(self) -> tuple[Replica, ...]:
        return tuple(each for each in self.members if self.changes.get(str(each.document)))


def converge(fleet: Fleet, pool: str, target: str | Baseline) -> WhatIf:
    """Return what would change if all replicas of a pool had the settings of a cohort or a baseline.

    `target` is a cohort's letter or a baseline. Stale replicas count with their last settings. The fleet is not
    modified. Raises KeyError: no such pool, or no such cohort in it.
    """
    plan = _plan(fleet, pool, target)
    ranks = _ranks(plan)
    restarted = {
        each.id: replica_after(each, plan.documents[key], plan.changes[key], ranks[each.id])
        for each in plan.restarting
        for key in [str(each.document)]
    }
    after = _fleet_after(plan, restarted)
    reverted = _reverted(plan)
    found = forecast_findings(fleet, after, pool, [each.id for each in plan.restarting])
    if reverted:  # a rollout that is reverted is not fixed
        found = replace(found, fixed=tuple(each for each in found.fixed if each.rule != vllm_version_differs.id))
    return WhatIf(
        pool=pool,
        target=plan.target.name if isinstance(plan.target, Baseline) else plan.target.letter,
        is_baseline=isinstance(plan.target, Baseline),
        total=len(plan.members),
        groups=tuple(_groups(plan)),
        findings=found,
        capacity=_capacity(plan.members, ranks, restarted),
        fleet=after,
        silent=_silent(plan),
        unread=tuple(each.id for each in plan.members if each.document is None),
        unreported=_unreported(plan),
        notes=tuple(_notes(plan, after)),
        reverted=reverted,
        router=router_changes(fleet, after, pool),
        matching=None if isinstance(plan.target, Baseline) else len(plan.target.replicas),
    )


def _plan(fleet: Fleet, name: str, chosen: str | Baseline) -> _Plan:
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
    return _Plan(fleet, pool, members, target, changes, after, usual)


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


def _ranks(plan: _Plan) -> Mapping[str, Sequence[RankForecast]]:
    """Return the forecasts of the ranks of each replica that restarts; nothing where its KV cache stays."""
    keys = {each.id: str(each.document) for each in plan.restarting}
    expected = EngineForecasts((each for each in plan.members if each.id not in keys), plan.fleet.documents)
    return {
        each.id: expected.ranks(each, plan.documents[keys[each.id]], plan.changes[keys[each.id]])
        for each in plan.restarting
    }


def _fleet_after(plan: _Plan, restarted: Mapping[str, Replica]) -> Fleet:
    fleet = plan.fleet
    if fleet.polled_at is None or not restarted:
        return fleet
    replicas = [restarted.get(each.id, each) for each in fleet.replicas]
    known = {**fleet.documents, **{each.id: each for each in plan.documents.values()}}
    documents = {key: known[key] for key in sorted({each.document for each in replicas if each.document})}
    after = Fleet(fleet.name, fleet.generation, fleet.polled_at, tuple(replicas), documents, ())
    after = replace(after, ignored=fleet.ignored, policy=fleet.policy, snapshot=fleet.snapshot, past=fleet.past)
    after = replace(after, inspection=fleet.inspection)  # what it cannot see stays
    return assemble(after, fleet.polled_at, before=fleet)


def _groups(plan: _Plan) -> Iterator[ChangeGroup]:
    """Yield groups of replicas with the same changes, the largest first."""
    letters = cohort_letters([plan.pool])
    grouped: dict[tuple[SettingChange, ...], list[Replica]] = defaultdict(list)
    for each in plan.restarting:
        grouped[plan.changes[str(each.document)]].append(each)
    for found, replicas in sorted(grouped.items(), key=lambda item: (-len(item[1]), [each.id for each in item[1]])):
        derives = are_derived_sizes(plan.documents[str(replicas[0].document)].settings)
        changes = planned_changes(found, derives_sizes=derives, left=_undecided(plan, found))
        cohorts = tuple(dict.fromkeys(letters[each.id] for each in replicas))
        yield ChangeGroup(tuple(each.id for each in replicas), cohorts, changes, *in_turn(changes))


def _undecided(plan: _Plan, found: Sequence[SettingChange]) -> Mapping[str, ApplyMethod]:
    """Return the changes that need a decision; none for a cohort."""
    if not isinstance(plan.target, Baseline):
        return {}
    settings = [plan.fleet.documents[key].settings for key in plan.changes]

    def values(path: str) -> set[SettingValue]:
        return {own for each in settings if (own := lookup_value(each, path)) is not None}

    return manual_methods(plan.target, plan.usual, values, [each.path for each in found])


def _reverted(plan: _Plan) -> Rollout | None:
    rollout = plan.fleet.inspection.rollouts.get(plan.pool.name)
    if rollout is None:
        return None
    moved = [each for each in plan.restarting if each.id in rollout.replicas]
    return rollout if any(plan.documents[str(each.document)].version == rollout.old for each in moved) else None


def _silent(plan: _Plan) -> tuple[str, ...]:
    """Return the replicas that need no restart but do not report all settings that others change."""
    changed = {change.path for found in plan.changes.values() for change in found}
    silent = {
        key
        for key, found in plan.changes.items()
        if not found and any(lookup_value(plan.fleet.documents[key].settings, path) is None for path in changed)
    }
    return tuple(each.id for each in plan.members if each.document in silent)


def _unreported(plan: _Plan) -> tuple[str, ...]:
    """Return the settings that differ in the pool and that the target does not report."""
    paths = [each.path for each in plan.pool.differences]
    if isinstance(plan.target, Baseline):
        return tuple(path for path in paths if path not in agreed_paths(plan.target))
    return tuple(path for path in paths if lookup_value(plan.target.settings, path) is None)


def _notes(plan: _Plan, after: Fleet) -> Iterator[str]:
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


def _capacity(
    members: Sequence[Replica], ranks: Mapping[str, Sequence[RankForecast]], restarted: Mapping[str, Replica]
) -> CapacityForecast:
    """Add up a pool before and after. Both arguments are by replica; stale ones and second addresses add nothing."""
    counted = [each for each in members if each.is_counted]
    changed = [rank for each in counted for rank in ranks.get(each.id, ())]
    same = capacity_of(each for each in counted if not ranks.get(each.id))
    after = capacity_of(restarted.get(each.id, each) for each in counted).tokens
    adding = {(each.id, engine.dp_rank) for each in counted for engine in each.adding_engines}
    spans = [
        (rank.least - rank.before, rank.most - rank.before)
        for rank in changed
        if (rank.replica, rank.dp_rank) in adding
        if rank.before is not None and rank.least is not None and rank.most is not None
    ]
    return CapacityForecast(
        ranks=tuple(changed),
        unchanged=same.ranks,
        before=capacity_of(counted).tokens,
        after=after._replace(at_most=same.tokens.at_most),
        unknown_before=same.unknown + sum(rank.before is None for rank in changed),
        unknown_after=same.unknown + sum(rank.after is None for rank in changed),
        least=sum(least for least, _ in spans),
        most=sum(most for _, most in spans),
    )
