"""What changes of settings end, and what they bring: a what-if of each, equal parts of a fleet evaluated once."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet, by_pool
from dashboard.analysis.causes import Fix, Gain
from dashboard.analysis.parts import with_local_rules
from dashboard.analysis.patch import ChangeGroup, patch_of
from dashboard.analysis.whatif import change_of_tokens, concerns_other_pools, known_effect, restarted_fleet
from dashboard.analysis.whatif.after import (
    VERSION,
    PoolRestart,
    document_after,
    forecast_ranks,
    with_derived,
)
from dashboard.compare.encoding import lookup_value
from dashboard.compare.equality import NOT_SET
from dashboard.compare.sharing_counts import count_sharing
from dashboard.fleet import Document, Replica, Setting, SettingChange, SettingValue
from dashboard.fleet.grouping import grouped
from dashboard.rules.apply_method import apply_methods
from dashboard.rules.capacity.graphs import are_derived_sizes
from dashboard.rules.catalogue import ALL_RULES, BY_ID, LOCAL_RULES
from dashboard.rules.findings import Finding
from dashboard.rules.registry import Scope

Wanted = dict[str, dict[str, SettingValue]]  # the values to set by replica and path
Applied = dict[object, tuple[tuple[SettingChange, ...], Document]]  # changes of a document, and it afterwards


class PoolGroup(NamedTuple):
    """Pools that are evaluated together, with their findings. Where `content` is equal, equal changes do the same."""

    pools: tuple[str, ...]
    findings: tuple[Finding, ...]
    content: tuple[object, ...]


class PlannedChange(NamedTuple):
    """One change to price: what is wanted and restarts, by pool; parts that are equal and change equally.

    `proposing` are the ids of its findings.
    """

    wanted: Mapping[str, Wanted]
    restarts: Mapping[str, PoolRestart]
    alike: Sequence[Sequence[PoolGroup]]
    proposing: Collection[str]


class Prediction(NamedTuple):
    """Findings that end, new ones, and those of which only the restart tells; replicas gained by pool."""

    ended: list[Finding]
    new: list[Finding]
    open: list[Finding]
    gained: Counter[str]

    @property
    def findings(self) -> Sequence[list[Finding]]:
        return self.ended, self.new, self.open


def without_effects(fleet: Fleet) -> list[Finding]:
    return [each for each in fleet.inspection.findings if not each.is_effect]


def parts_of(fleet: Fleet) -> list[PoolGroup]:
    """Return the pools of a fleet, those that prefill and decode together as one part."""
    together: dict[str, set[str]] = {pool.name: {pool.name} for pool in fleet.pools}
    for outcome in fleet.inspection.outcomes:
        if outcome.rule in BY_ID and BY_ID[outcome.rule].scope is Scope.PAIR:  # a saved fleet may have other rules
            both = set().union(*(together[pool] for pool in outcome.pools if pool in together))
            together |= dict.fromkeys(both, both)
    replicas = by_pool(fleet.replicas)
    found = grouped((pool, finding) for finding in without_effects(fleet) for pool in finding.pools)
    parts = []
    for pools in {min(each): sorted(each) for each in together.values()}.values():
        findings = {each.id: each for pool in pools for each in found[pool]}.values()
        content = tuple(
            (
                fleet.inspection.domains.get(pool),
                tuple(sorted(Counter((str(each.document), each.fresh) for each in replicas[pool]).items())),
                tuple((each.rule, each.severity, each.paths, len(each.replicas)) for each in found[pool]),
            )
            for pool in pools
        )
        parts.append(PoolGroup(tuple(pools), tuple(findings), content))
    return parts


def change_of(
    fleet: Fleet, parts: Sequence[PoolGroup], wanted: Mapping[str, Wanted], proposing: Collection[str]
) -> PlannedChange:
    restarts: dict[str, PoolRestart] = {}
    known: Applied = {}
    members = by_pool(fleet.replicas)
    alike: dict[object, list[PoolGroup]] = defaultdict(list)
    for part in parts:
        own = {pool: _restart(fleet, members[pool], wanted[pool], known) for pool in part.pools if pool in wanted}
        if own:
            restarts |= own
            alike[part.content, tuple(_shape(own.get(pool)) for pool in part.pools)].append(part)
    return PlannedChange(wanted, restarts, list(alike.values()), proposing)


def fix_of(fleet: Fleet, change: PlannedChange, effect: Prediction) -> Fix:
    gains = {}
    for pool, restart in change.restarts.items():
        forecasts = forecast_ranks(restart, fleet.documents)
        unknown = sum(rank.before is None or rank.after is None for own in forecasts.values() for rank in own)
        gains[pool] = Gain(effect.gained[pool], *change_of_tokens(forecasts, fleet), unknown)
    return Fix(
        groups=tuple(_groups(change)),
        fixed=tuple(effect.ended),
        new=tuple(effect.new),
        open=tuple(effect.open),
        gains=gains,
    )


def predictions(fleet: Fleet, changes: Sequence[PlannedChange]) -> list[Prediction]:
    """Return the effect of each change.

    Of parts of the fleet that are equal and change equally, one is evaluated: what ends there, ends in the others. The
    rest of the fleet is left out unless the change concerns it.
    Changes of different parts are evaluated together. One that brings new findings, or ends some that are in several
    parts, is evaluated once more, whole and alone.
    """
    found: dict[int, Prediction] = {}
    for batch in _batches(changes):
        together = [own for number, pools in batch for pool, own in changes[number].restarts.items() if pool in pools]
        proposing = {each for number, _ in batch for each in changes[number].proposing}
        effect = _evaluated(fleet, together, proposing, {pool for _, pools in batch for pool in pools})
        for number, pools in batch:
            change = changes[number]
            ended, new, unknown = ([each for each in side if pools.issuperset(each.pools)] for side in effect.findings)
            gained = Counter({pool: effect.gained[pool] for pool in pools})
            mine = Prediction(ended, new, unknown, gained)
            spanning = (each for side in effect.findings for each in side if not pools.issuperset(each.pools))
            if mine.new or any(not pools.isdisjoint(each.pools) for each in spanning):
                every = {pool for parts in change.alike for part in parts for pool in part.pools}
                found[number] = _evaluated(fleet, change.restarts.values(), change.proposing, every)
            else:
                found[number] = _in_others(mine, change.alike, pools)
    return [found[number] for number in range(len(changes))]


def _batches(changes: Sequence[PlannedChange]) -> list[list[tuple[int, set[str]]]]:
    """Return changes that can be evaluated together, by number, each with the pools of one part of those alike."""
    batches: list[tuple[set[str], list[tuple[int, set[str]]]]] = []
    for number, change in enumerate(changes):
        for used, batch in (*batches, (set[str](), list[tuple[int, set[str]]]())):
            free = [next((each for each in parts if used.isdisjoint(each.pools)), None) for parts in change.alike]
            if None in free:
                continue
            pools = {pool for part in free if part is not None for pool in part.pools}
            if not batch:
                batches.append((used, batch))
            batch.append((number, pools))
            used.update(pools)
            break
    return [batch for _, batch in batches]


def _in_others(effect: Prediction, alike: Iterable[Sequence[PoolGroup]], pools: Collection[str]) -> Prediction:
    """Return the effect in all parts, given that in those with these pools."""
    twins: dict[str, list[Finding]] = defaultdict(list)
    gained = Counter[str]()
    for parts in alike:
        evaluated = next(each for each in parts if each.pools[0] in pools)
        for part in parts:
            for own, same in zip(evaluated.findings, part.findings, strict=True):
                twins[own.id].append(same)
            for own_pool, same_pool in zip(evaluated.pools, part.pools, strict=True):
                gained[same_pool] = effect.gained[own_pool]
    ended, new, unknown = ([twin for each in side for twin in twins[each.id]] for side in effect.findings)
    return Prediction(ended, new, unknown, gained)


def _shape(restart: PoolRestart | None) -> object:
    """Return what a restart changes, the same for pools that change equally."""
    if restart is None:
        return None
    numbers = Counter((str(each.document), restart.documents[each.id].id) for each in restart.restarting)
    return tuple(sorted(numbers.items()))


def _evaluated(
    fleet: Fleet, restarts: Iterable[PoolRestart], proposing: Collection[str], pools: Collection[str]
) -> Prediction:
    every = list(restarts)
    is_local = not concerns_other_pools(fleet, every)
    before, rules = (with_local_rules(fleet, pools), LOCAL_RULES) if is_local else (fleet, ALL_RULES)
    after = restarted_fleet(before, every, rules)
    ids = {each.id for restart in every for each in restart.restarting}
    gained = Counter({each: _gained(fleet, after, each) for restart in every if (each := restart.restarting[0].pool)})
    return Prediction(*known_effect(before, after, ids, proposing), gained)


def _gained(fleet: Fleet, after: Fleet, pool: str) -> int:
    """Return how many fewer replicas of a pool are known not to share prefixes with it."""
    verdict = after.sharing[pool]
    members = [after.by_id[each] for each in verdict.pool.replicas]
    then = count_sharing(verdict, members, is_used=after.uses_prefixes(pool))
    return fleet.sharing_counts[pool].not_sharing - then.not_sharing


def _restart(fleet: Fleet, members: Sequence[Replica], wanted: Wanted, known: Applied) -> PoolRestart:
    """Return the restart of some replicas of a pool. Equal documents of pools with equal documents change once."""
    documents = {key: fleet.documents[key] for key in sorted({each.document for each in members if each.document})}
    pool = tuple(documents)
    changes: dict[str, tuple[SettingChange, ...]] = {}
    after: dict[str, Document] = {}
    for each in members:
        if each.id not in wanted:
            continue
        values = tuple(sorted(wanted[each.id].items()))
        key = (each.document, values, pool)
        if key not in known:
            document = documents[str(each.document)]
            own = tuple(_change(document, path, value, documents.values()) for path, value in values)
            known[key] = _applied(document, own, documents.values())
        changes[each.id], after[each.id] = known[key]
    return PoolRestart(
        tuple(each for each in members if each.id in wanted),
        tuple(each for each in members if each.id not in wanted),
        changes,
        after,
    )


def _change(document: Document, path: str, wanted: SettingValue, others: Iterable[Document]) -> SettingChange:
    """Return the change of a setting, its value as other replicas of the pool spell it."""
    spelled = (lookup_value(each.settings, path) for each in others)
    after = next((each for each in spelled if is_same(each, wanted)), wanted)
    return SettingChange(path, lookup_value(document.settings, path) or NOT_SET, after or wanted)


def _applied(
    document: Document, changes: Sequence[SettingChange], others: Collection[Document]
) -> tuple[tuple[SettingChange, ...], Document]:
    """Return all changes of a document, with those of derived settings, and the document afterwards."""
    changed = {each.path for each in changes}
    like = (each for each in others if all(lookup_value(each.settings, own.path) == own.after for own in changes))
    unlike: Mapping[str, Setting] = {} if VERSION in changed else document.settings
    target = next((each.settings for each in like), unlike)
    after = with_derived(document, document_after(document, changes, target), changed, others)
    derived = [
        SettingChange(path, own, new)
        for path, setting in after.settings.items()
        if path not in changed
        and document.settings.get(path) != setting
        and (own := lookup_value(document.settings, path)) is not None
        and (new := lookup_value(after.settings, path)) is not None
        and own != new
    ]
    return tuple(sorted([*changes, *derived])), after


def _groups(change: PlannedChange) -> Iterator[ChangeGroup]:
    """Yield groups of replicas for which the same is wanted, of whatever pools, the largest first.

    What vLLM derives is no part of what to change.
    """
    grouped: dict[tuple[SettingChange, ...], list[str]] = defaultdict(list)
    derives: dict[tuple[SettingChange, ...], bool] = {}
    for pool, restart in change.restarts.items():
        for each in restart.restarting:
            wanted = change.wanted[pool][each.id]
            own = tuple(one for one in restart.changes[each.id] if one.path in wanted)
            grouped[own].append(each.id)
            if own not in derives:
                derives[own] = are_derived_sizes(restart.documents[each.id].settings)
    for changes, replicas in sorted(grouped.items(), key=lambda item: (-len(item[1]), sorted(item[1]))):
        methods = apply_methods({each.path: each.after for each in changes}, derives_sizes=derives[changes])
        yield ChangeGroup(tuple(sorted(replicas)), changes, methods, patch_of(changes, methods))


def is_same(own: SettingValue | None, wanted: SettingValue) -> bool:
    """Return whether a reported value is the wanted one; a variable may be reported as a number or as text."""
    return own is not None and own.state is wanted.state and own.value.strip('"') == wanted.value.strip('"')
