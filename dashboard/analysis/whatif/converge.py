"""What would change if a pool converged to a cohort or a baseline: the fleet before and after, side by side."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet, assembled
from dashboard.analysis.whatif.after import VERSION, document_after, replica_after
from dashboard.analysis.whatif.capacity import Expected, engines_after, summed
from dashboard.analysis.whatif.judged import judged
from dashboard.analysis.whatif.nouns import Group, RankChange, WhatIf
from dashboard.analysis.whatif.paste import changes_of, in_turn
from dashboard.analysis.whatif.router import router_changes
from dashboard.analysis.whatif.target import Contrasts, Target, contrasts, target_of, told_by, told_of
from dashboard.analysis.whatif.verdicts import verdicts, without_rollout
from dashboard.compare.baseline import agreed_settings, usual_values
from dashboard.fleet import Baseline, Document, Pool, Replica, Setting, SettingValue, cohort_letters
from dashboard.fleet.formatting import count
from dashboard.rules.capacity.graph_sizes import follow
from dashboard.rules.findings import Rollout
from dashboard.rules.settable import How, left_to_people


class _Plan(NamedTuple):
    """A pool and what its documents would become. `contrasts` and `documents` are by the ids of the documents now.

    `usual` is what most of the pool has of ranges that a baseline tolerates.
    """

    pool: Pool
    members: tuple[Replica, ...]
    target: Target
    contrasts: Mapping[str, Contrasts]
    documents: Mapping[str, Document]
    usual: Mapping[str, SettingValue]

    @property
    def restarting(self) -> tuple[Replica, ...]:
        """Return the members that contradict the target."""
        return tuple(each for each in self.members if self.contrasts.get(str(each.document)))


def converge(fleet: Fleet, pool: str, target: str | Baseline) -> WhatIf:
    """Return what would change if the replicas of a pool told what a cohort tells, or what a baseline agrees on.

    `target` is a cohort's letter or a baseline. Replicas that were not read lately count with what they last told.
    The fleet is not modified, and nothing is applied. Raises KeyError: no such pool, or no such cohort in it.
    """
    plan = _plan(fleet, pool, target)
    ranks = _ranks(fleet, plan)
    after = _fleet_after(fleet, plan, ranks)
    back = _goes_back(fleet, plan)
    told = verdicts(fleet, after, pool, [each.id for each in plan.restarting])
    return WhatIf(
        pool=pool,
        target=plan.target.name if isinstance(plan.target, Baseline) else plan.target.letter,
        is_baseline=isinstance(plan.target, Baseline),
        total=len(plan.members),
        groups=tuple(_groups(fleet, plan)),
        verdicts=without_rollout(told) if back else told,
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
    told = told_by(plan.target, paths)
    return tuple(path for path in paths if path not in told)


def _plan(fleet: Fleet, name: str, chosen: str | Baseline) -> _Plan:
    pool = next((each for each in fleet.pools if each.name == name), None)
    if pool is None:
        raise KeyError(f"There is no pool {name}.")
    target = target_of(pool, chosen)
    members = tuple(each for each in fleet.replicas if each.pool == name)
    usual = _usual(members, fleet.documents, target)
    told = contrasts(pool, fleet.documents, target, fleet.ignored, usual)
    settings = _settings(target)
    documents = {key: document_after(fleet.documents[key], each, settings) for key, each in told.items()}
    return _Plan(pool, members, target, told, documents, usual)


def _settings(target: Target) -> Mapping[str, Setting]:
    return agreed_settings(target) if isinstance(target, Baseline) else target.settings


def _ranks(fleet: Fleet, plan: _Plan) -> Mapping[str, Sequence[RankChange]]:
    """Return what the ranks of each replica that restarts would hold; nothing where they hold what they hold."""
    restarting = plan.restarting
    known = {each.id for each in restarting}
    expected = Expected((each for each in plan.members if each.id not in known), fleet.documents)
    keys = {each.id: str(each.document) for each in restarting}
    return {
        each.id: expected.ranks(each, plan.documents[keys[each.id]], plan.contrasts[keys[each.id]])
        for each in restarting
    }


def _fleet_after(fleet: Fleet, plan: _Plan, ranks: Mapping[str, Sequence[RankChange]]) -> Fleet:
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
    return judged(fleet, after, plan.pool.name, fleet.polled_at)


def _replica_after(replica: Replica, plan: _Plan, ranks: Sequence[RankChange]) -> Replica:
    key = str(replica.document)
    document = plan.documents[key]
    after = replica_after(replica, document, plan.contrasts[key], engines_after(replica, ranks, document))
    return replace(after, kv_cache_groups=()) if ranks else after


def _groups(fleet: Fleet, plan: _Plan) -> Iterator[Group]:
    """Yield replicas that change the same, most replicas first."""
    letters = cohort_letters([plan.pool])
    held: dict[Contrasts, list[str]] = defaultdict(list)
    for each in plan.restarting:
        held[plan.contrasts[str(each.document)]].append(each.id)
    for told, replicas in sorted(held.items(), key=lambda each: (-len(each[1]), each[1])):
        key = next(each for each, own in plan.contrasts.items() if own == told)
        derives = follow(plan.documents[key].settings)
        changes = changes_of(told, derives_sizes=derives, left=_left(fleet, plan, told))
        cohorts = tuple(dict.fromkeys(letters[each] for each in replicas))
        yield Group(tuple(replicas), cohorts, changes, *in_turn(changes))


def _usual(members: Sequence[Replica], documents: Mapping[str, Document], target: Target) -> Mapping[str, SettingValue]:
    """Return what most of the pool has of each range that a baseline tolerates, of those read lately if there are."""
    if not isinstance(target, Baseline):
        return {}
    read = [each for each in members if each.document is not None]
    lately = [each for each in read if each.fresh] or read
    return usual_values(target, (documents[str(each.document)].settings for each in lately))


def _left(fleet: Fleet, plan: _Plan, told: Contrasts) -> Mapping[str, How]:
    """Return what is left to people of what some replicas change; nothing where they follow a cohort."""
    if not isinstance(plan.target, Baseline):
        return {}
    held = [fleet.documents[key].settings for key in plan.contrasts]

    def values(path: str) -> set[SettingValue]:
        return {own for settings in held if (own := told_of(settings, path)) is not None}

    return left_to_people(plan.target, plan.usual, values, [each.path for each in told])


def _goes_back(fleet: Fleet, plan: _Plan) -> Rollout | None:
    """Return the rollout of the pool where some replicas that have its new version would have the old one again."""
    rollout = fleet.inspection.rollouts.get(plan.pool.name)
    if rollout is None:
        return None
    moved = [each for each in plan.restarting if each.id in rollout.replicas]
    back = (plan.documents[str(each.document)].version == rollout.old for each in moved)
    return rollout if any(back) else None


def _silent(fleet: Fleet, plan: _Plan) -> Iterator[str]:
    """Yield who need not restart but does not tell all settings that others would change."""
    changed = {contrast.path for told in plan.contrasts.values() for contrast in told}
    quiet = {
        key
        for key, told in plan.contrasts.items()
        if not told and any(told_of(fleet.documents[key].settings, path) is None for path in changed)
    }
    return (each.id for each in plan.members if each.document in quiet)


def _notes(fleet: Fleet, plan: _Plan, after: Fleet) -> Iterator[str]:
    """Yield sentences on what is not known after the restart."""
    restarting = plan.restarting
    if loaded := [each for each in restarting if each.adapters]:
        these = "a replica" if len(loaded) == 1 else f"{count(len(loaded), 'replica')}"
        yield f"LoRA adapters that {these} loaded while running have to be loaded again."
    if any(contrast.path == VERSION for told in plan.contrasts.values() for contrast in told):
        yield (
            "Another version has other defaults and other settings: what the target does not tell is not known until "
            "the replicas have restarted."
        )
    rollout = fleet.inspection.rollouts.get(plan.pool.name)
    if rollout is not None and restarting and len(_versions(after, plan.pool.name)) > 1:
        yield "Whether the rollout of this pool goes on is known only after the restart."


def _versions(fleet: Fleet, pool: str) -> set[str]:
    return {each.version for each in fleet.replicas if each.pool == pool and each.version}
