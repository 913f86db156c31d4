"""What would change if a pool converged to one of its cohorts or to its baseline."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from dashboard.analysis.assembly import Fleet, assembled
from dashboard.analysis.whatif.after import VERSION, Changes, document_after, inspect_again, replica_after
from dashboard.analysis.whatif.capacity import Expected, engines_after, summed
from dashboard.analysis.whatif.findings import forecast_findings, router_changes, without_rollout
from dashboard.analysis.whatif.models import Group, RankForecast, WhatIf
from dashboard.analysis.whatif.paste import in_turn, planned_changes
from dashboard.compare.baseline import agreed_paths, agreed_settings, deviations, usual_values
from dashboard.compare.encoding import NULL, encode, lookup_value
from dashboard.fleet import (
    Baseline,
    Cohort,
    Document,
    Pool,
    Replica,
    Setting,
    SettingChange,
    SettingValue,
    cohort_letters,
)
from dashboard.fleet.formatting import count
from dashboard.rules.apply_method import ApplyMethod, manual_methods
from dashboard.rules.capacity.graphs import are_derived_sizes
from dashboard.rules.findings import Rollout

Target = Cohort | Baseline


class _Plan(NamedTuple):
    """A pool and its documents after the restart. `changes` and `documents` are by the ids of the documents now.

    `usual` are the values of most of the pool within the ranges of a baseline.
    """

    pool: Pool
    members: tuple[Replica, ...]
    target: Target
    changes: Mapping[str, Changes]
    documents: Mapping[str, Document]
    usual: Mapping[str, SettingValue]

    @property
    def restarting(self) -> tuple[Replica, ...]:
        """Return the members that differ from the target."""
        return tuple(each for each in self.members if self.changes.get(str(each.document)))


def converge(fleet: Fleet, pool: str, target: str | Baseline) -> WhatIf:
    """Return what would change if all replicas of a pool had the settings of a cohort or a baseline.

    `target` is a cohort's letter or a baseline. Stale replicas count with their last settings. The fleet is not
    modified. Raises KeyError: no such pool, or no such cohort in it.
    """
    plan = _plan(fleet, pool, target)
    ranks = _ranks(fleet, plan)
    after = _fleet_after(fleet, plan, ranks)
    back = _goes_back(fleet, plan)
    found = forecast_findings(fleet, after, pool, [each.id for each in plan.restarting])
    return WhatIf(
        pool=pool,
        target=plan.target.name if isinstance(plan.target, Baseline) else plan.target.letter,
        is_baseline=isinstance(plan.target, Baseline),
        total=len(plan.members),
        groups=tuple(_groups(fleet, plan)),
        verdicts=without_rollout(found) if back else found,
        capacity=summed(plan.members, ranks),
        fleet=after,
        silent=tuple(_silent(fleet, plan)),
        unread=tuple(each.id for each in plan.members if each.document is None),
        untold=_untold(plan),
        notes=tuple(_notes(fleet, plan, after)),
        goes_back=back,
        router=router_changes(fleet, after, pool),
        alike=None if isinstance(plan.target, Baseline) else len(plan.target.replicas),
    )


def _untold(plan: _Plan) -> tuple[str, ...]:
    paths = [each.path for each in plan.pool.differences]
    found = paths_of(plan.target, paths)
    return tuple(path for path in paths if path not in found)


def _plan(fleet: Fleet, name: str, chosen: str | Baseline) -> _Plan:
    pool = next((each for each in fleet.pools if each.name == name), None)
    if pool is None:
        raise KeyError(f"There is no pool {name}.")
    target = target_of(pool, chosen)
    members = tuple(each for each in fleet.replicas if each.pool == name)
    usual = _usual(members, fleet.documents, target)
    found = changes_to(pool, fleet.documents, target, fleet.ignored, usual)
    settings = _settings(target)
    documents = {key: document_after(fleet.documents[key], each, settings) for key, each in found.items()}
    return _Plan(pool, members, target, found, documents, usual)


def _settings(target: Target) -> Mapping[str, Setting]:
    return agreed_settings(target) if isinstance(target, Baseline) else target.settings


def _ranks(fleet: Fleet, plan: _Plan) -> Mapping[str, Sequence[RankForecast]]:
    """Return the forecasts of the ranks of each replica that restarts; nothing where its KV cache stays."""
    restarting = plan.restarting
    known = {each.id for each in restarting}
    expected = Expected((each for each in plan.members if each.id not in known), fleet.documents)
    keys = {each.id: str(each.document) for each in restarting}
    return {
        each.id: expected.ranks(each, plan.documents[keys[each.id]], plan.changes[keys[each.id]]) for each in restarting
    }


def _fleet_after(fleet: Fleet, plan: _Plan, ranks: Mapping[str, Sequence[RankForecast]]) -> Fleet:
    changed = {each.id: _replica_after(each, plan, ranks[each.id]) for each in plan.restarting}
    if fleet.polled_at is None or not changed:
        return fleet
    replicas = [changed.get(each.id, each) for each in fleet.replicas]
    known = {**fleet.documents, **{each.id: each for each in plan.documents.values()}}
    documents = {key: known[key] for key in sorted({each.document for each in replicas if each.document})}
    after = assembled(
        fleet.name,
        replicas,
        documents,
        polled_at=fleet.polled_at,
        ignore=fleet.ignored,
        generation=fleet.generation,
        before=fleet,
    )
    after = replace(after, policy=fleet.policy, snapshot=fleet.snapshot)
    return inspect_again(fleet, after, plan.pool.name, fleet.polled_at)


def _replica_after(replica: Replica, plan: _Plan, ranks: Sequence[RankForecast]) -> Replica:
    key = str(replica.document)
    document = plan.documents[key]
    after = replica_after(replica, document, plan.changes[key], engines_after(replica, ranks, document))
    return replace(after, kv_cache_groups=()) if ranks else after


def _groups(fleet: Fleet, plan: _Plan) -> Iterator[Group]:
    """Yield groups of replicas with the same changes, the largest first."""
    letters = cohort_letters([plan.pool])
    held: dict[Changes, list[str]] = defaultdict(list)
    for each in plan.restarting:
        held[plan.changes[str(each.document)]].append(each.id)
    for found, replicas in sorted(held.items(), key=lambda each: (-len(each[1]), each[1])):
        key = next(each for each, own in plan.changes.items() if own == found)
        derives = are_derived_sizes(plan.documents[key].settings)
        changes = planned_changes(found, derives_sizes=derives, left=_left(fleet, plan, found))
        cohorts = tuple(dict.fromkeys(letters[each] for each in replicas))
        yield Group(tuple(replicas), cohorts, changes, *in_turn(changes))


def _usual(members: Sequence[Replica], documents: Mapping[str, Document], target: Target) -> Mapping[str, SettingValue]:
    """Return the values of most of the pool within the ranges of a baseline; of fresh replicas if there are any."""
    if not isinstance(target, Baseline):
        return {}
    read = [each for each in members if each.document is not None]
    lately = [each for each in read if each.fresh] or read
    return usual_values(target, (documents[str(each.document)].settings for each in lately))


def _left(fleet: Fleet, plan: _Plan, found: Changes) -> Mapping[str, ApplyMethod]:
    """Return the changes that need a decision; none for a cohort."""
    if not isinstance(plan.target, Baseline):
        return {}
    held = [fleet.documents[key].settings for key in plan.changes]

    def values(path: str) -> set[SettingValue]:
        return {own for settings in held if (own := lookup_value(settings, path)) is not None}

    return manual_methods(plan.target, plan.usual, values, [each.path for each in found])


def _goes_back(fleet: Fleet, plan: _Plan) -> Rollout | None:
    """Return the rollout that some replicas would revert."""
    rollout = fleet.inspection.rollouts.get(plan.pool.name)
    if rollout is None:
        return None
    moved = [each for each in plan.restarting if each.id in rollout.replicas]
    back = (plan.documents[str(each.document)].version == rollout.old for each in moved)
    return rollout if any(back) else None


def _silent(fleet: Fleet, plan: _Plan) -> Iterator[str]:
    """Yield the replicas that need no restart but do not report all settings that others change."""
    changed = {change.path for found in plan.changes.values() for change in found}
    quiet = {
        key
        for key, found in plan.changes.items()
        if not found and any(lookup_value(fleet.documents[key].settings, path) is None for path in changed)
    }
    return (each.id for each in plan.members if each.document in quiet)


def _notes(fleet: Fleet, plan: _Plan, after: Fleet) -> Iterator[str]:
    """Yield sentences on what is unknown until the restart."""
    restarting = plan.restarting
    if loaded := [each for each in restarting if each.adapters]:
        these = "a replica" if len(loaded) == 1 else f"{count(len(loaded), 'replica')}"
        yield f"LoRA adapters of {these} must be loaded again."
    if any(change.path == VERSION for found in plan.changes.values() for change in found):
        yield (
            "Another version has other defaults: settings that the target does not report are unknown until the "
            "restart."
        )
    rollout = fleet.inspection.rollouts.get(plan.pool.name)
    if rollout is not None and restarting and len(_versions(after, plan.pool.name)) > 1:
        yield "The state of the rollout is unknown until the restart."


def _versions(fleet: Fleet, pool: str) -> set[str]:
    return {each.version for each in fleet.replicas if each.pool == pool and each.version}


def target_of(pool: Pool, chosen: str | Baseline) -> Target:
    """Return the cohort with a letter, or the baseline itself. Raises KeyError: there is no such cohort."""
    if isinstance(chosen, Baseline):
        return chosen
    cohort = next((each for each in pool.cohorts if each.letter == chosen), None)
    if cohort is None:
        raise KeyError(f"Pool {pool.name} has no cohort {chosen}.")
    return cohort


def changes_to(
    pool: Pool,
    documents: Mapping[str, Document],
    target: Target,
    ignored: Sequence[str] = (),
    usual: Mapping[str, SettingValue] | None = None,
) -> Mapping[str, Changes]:
    """Return the changes of each document of a pool to the target. A setting that only one of them reports is none.

    `ignored` are globs over paths; `usual` is of `usual_values` of the baseline.
    """
    held = {key: documents[key] for cohort in pool.cohorts for key in cohort.documents}
    if isinstance(target, Cohort):
        found = _changes_to_cohort(held, target)
    else:
        found = {
            key: [
                SettingChange(each.path, each.own, each.wanted) for each in deviations(target, document.settings, usual)
            ]
            for key, document in held.items()
        }
    return {
        key: tuple(sorted(each for each in found if not any(fnmatchcase(each.path, glob) for glob in ignored)))
        for key, found in found.items()
    }


def paths_of(target: Target, paths: Iterable[str]) -> frozenset[str]:
    """Return those of some paths that the target has a value of."""
    if isinstance(target, Baseline):
        return frozenset(agreed_paths(target)).intersection(paths)
    return frozenset(path for path in paths if lookup_value(target.settings, path) is not None)


def _changes_to_cohort(held: Mapping[str, Document], target: Cohort) -> Mapping[str, list[SettingChange]]:
    """Compare as pools are compared, with the same differences."""
    table = encode([*(document.settings for document in held.values()), target.settings])
    wanted = table.codes[-1]
    found = {}
    for key, own in zip(held, table.codes[:-1], strict=True):
        columns = np.flatnonzero((own >= NULL) & (wanted >= NULL) & (own != wanted)).tolist()
        found[key] = [
            SettingChange(table.paths[column], table.values[own[column]], table.values[wanted[column]])
            for column in columns
        ]
    return found
