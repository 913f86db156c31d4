"""The fix plan of a fleet: findings with one remedy are one cause, priced by the what-if. Nothing is ever applied."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet, by_pool
from dashboard.analysis.causes import Cause, Fix, Plan
from dashboard.analysis.patch import ChangeGroup, patch_of
from dashboard.analysis.whatif import change_of_tokens, known_effect, restarted_fleet
from dashboard.analysis.whatif.after import VERSION, PoolRestart, document_after, forecast_ranks, with_derived
from dashboard.compare.encoding import lookup_value
from dashboard.compare.equality import NOT_SET
from dashboard.compare.sharing_counts import count_sharing
from dashboard.fleet import Document, Replica, Setting, SettingChange, SettingValue, has_same_content
from dashboard.rules.apply_method import ApplyMethod, apply_methods
from dashboard.rules.capacity.graphs import are_derived_sizes
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Finding, Way
from dashboard.rules.registry import Scope

MOST_CHOICES = 3  # of one cause
# Ways in which a setting gets its value; without one of them there is nothing to change.
CHANGED_BY = frozenset(ApplyMethod) - {ApplyMethod.FOLLOWS, ApplyMethod.MISFIT, ApplyMethod.OPEN}

Wanted = dict[str, dict[str, SettingValue]]  # the values to set by replica and path
Applied = dict[object, tuple[tuple[SettingChange, ...], Document]]  # changes of a document, and it afterwards


class _Proposal(NamedTuple):
    """What findings propose for one set of settings: choices by pool, and the ids of these findings."""

    choices: dict[str, list[Wanted]]
    findings: set[str]

    def at(self, number: int) -> Mapping[str, Wanted]:
        """Return one choice of all pools; a pool with fewer choices stays at its recommended one."""
        return {pool: (own[number] if number < len(own) else own[0]) for pool, own in self.choices.items()}


class _PoolGroup(NamedTuple):
    """Pools that are evaluated together, with their findings. Where `content` is equal, equal changes do the same."""

    pools: tuple[str, ...]
    findings: tuple[Finding, ...]
    content: tuple[object, ...]


class _Change(NamedTuple):
    """One change to price: what is wanted and restarts, by pool; parts that are equal and change equally.

    `proposing` are the ids of its findings.
    """

    wanted: Mapping[str, Wanted]
    restarts: Mapping[str, PoolRestart]
    alike: Sequence[Sequence[_PoolGroup]]
    proposing: Collection[str]


class _Prediction(NamedTuple):
    """Findings that end, new ones, and those of which only the restart tells; replicas gained by pool."""

    ended: list[Finding]
    new: list[Finding]
    open: list[Finding]
    gained: Counter[str]

    @property
    def findings(self) -> Sequence[list[Finding]]:
        return self.ended, self.new, self.open


def planned(fleet: Fleet, before: Fleet | None = None) -> Fleet:
    """Return the fleet with its fix plan: the causes of `before`, if only what traffic shows changed since."""
    is_same = before is not None and before.polled_at is not None and _has_same_causes(fleet, before)
    return replace(fleet, plan=_made(fleet, plan_of(before) if is_same and before else None))


def plan_of(fleet: Fleet) -> Plan:
    """Return the fix plan of a fleet. That of a snapshot or a past time is made and kept when it is first needed."""
    plan = fleet.plan
    if plan is None:
        plan = _made(fleet)
        object.__setattr__(fleet, "plan", plan)  # as a cached property does: it follows from the other fields
    return plan


def _has_same_causes(fleet: Fleet, before: Fleet) -> bool:
    names = ("policy", "ignored", "routers", "inspection.domains", "inspection.rollouts")
    is_same = all(attrgetter(name)(fleet) == attrgetter(name)(before) for name in names)
    return (
        is_same
        and _without_effects(fleet) == _without_effects(before)
        and has_same_content(fleet.replicas, before.replicas)
    )


def _without_effects(fleet: Fleet) -> list[Finding]:
    return [each for each in fleet.inspection.findings if not each.is_effect]


def suppressed_of(fleet: Fleet, key: str) -> list[Finding]:
    """Return the suppressed findings that would make the cause with this key."""
    found = fleet.inspection.suppressed
    return [each for each in found if key in (each.rule, "+".join(_paths(_ways(fleet, each))))]


def _made(fleet: Fleet, known: Plan | None = None) -> Plan:
    """Make the plan: of equally bad causes first those that let more replicas share per restart.

    What traffic shows is no cause where another finding explains it or it passes by itself, else the last of its
    severity. The other causes are those of the `known` plan.
    """
    if fleet.polled_at is None:
        return Plan()
    found = fleet.inspection.findings
    causes = _causes(fleet) if known is None else [each for each in known.causes if not each.findings[0].is_effect]
    causes += _actions(
        each for each in found if each.is_effect and not (each.remedy.is_wait or _is_explained(each, found))
    )
    return Plan(tuple(sorted(causes, key=_place)))


def _causes(fleet: Fleet) -> list[Cause]:
    """Return the causes of all findings but those on traffic.

    A finding belongs to each cause that ends it. A cause whose findings all end with others is left out.
    """
    active = {each.id: each for each in _without_effects(fleet)}
    proposals, parts = _proposals(fleet), _parts(fleet)
    changes = {
        (paths, number): _change_of(fleet, parts, proposal.at(number), proposal.findings)
        for paths, proposal in proposals.items()
        for number in range(min(max(map(len, proposal.choices.values())), MOST_CHOICES))
    }
    effects = dict(zip(changes, _effects(fleet, list(changes.values())), strict=True))
    causes = []
    for paths in proposals:
        own = [(changes[key], effect) for key, effect in effects.items() if key[0] == paths and effect.ended]
        if own:
            ids = {each.id for _, effect in own for each in effect.ended}
            ended = tuple(each for each in active.values() if each.id in ids)
            causes.append(Cause("+".join(paths), ended, tuple(_fix(fleet, *each) for each in own)))
    kept = _needed(causes)
    left = active.keys() - {each.id for cause in kept for each in cause.findings}
    return [*kept, *_actions(each for each in active.values() if each.id in left)]


def _is_explained(effect: Finding, findings: Iterable[Finding]) -> bool:
    """Return whether an active finding on the same replicas explains what traffic shows."""
    explaining = (each for each in findings if each.rule in effect.explained_by)
    return any(not set(each.replicas).isdisjoint(effect.replicas) for each in explaining)


def _needed(causes: Iterable[Cause]) -> list[Cause]:
    """Return the causes without those whose findings all end with others that end more of them, or by less."""
    kept: list[Cause] = []
    covered: set[str] = set()
    for cause in sorted(causes, key=lambda each: (each.severity.rank, -len(each.findings), len(each.replicas))):
        own = {each.id for each in cause.findings}
        if not own <= covered:
            kept.append(cause)
            covered |= own
    return kept


def _place(cause: Cause) -> tuple[object, ...]:
    gained = cause.fixes[0].gained_in("") / len(cause.fixes[0].replicas) if cause.fixes else 0.0
    return (cause.severity.rank, cause.findings[0].is_effect, -gained, cause.key)


def _actions(findings: Iterable[Finding]) -> Iterator[Cause]:
    """Yield what no change of settings ends, by rule."""
    by_rule: dict[str, list[Finding]] = defaultdict(list)
    for each in findings:
        by_rule[each.rule].append(each)
    for rule, found in by_rule.items():
        yield Cause(rule, tuple(found))


def _proposals(fleet: Fleet) -> Mapping[tuple[str, ...], _Proposal]:
    """Return what the remedies of findings set, by the settings of the recommended way. Equal ones are one."""
    found: dict[tuple[str, ...], _Proposal] = {}
    members = by_pool(fleet.replicas)
    for finding in _without_effects(fleet):
        ways = _ways(fleet, finding)
        if not ways:
            continue
        paths = _paths(ways)
        proposal = found.setdefault(paths, _Proposal(defaultdict(list), set()))
        proposal.findings.add(finding.id)
        ids = set(finding.replicas)
        for pool in finding.pools:
            for number, way in enumerate(ways):
                concerned = [each for each in members.get(pool, ()) if way.is_everywhere or each.id in ids]
                if wanted := {each.id: dict(own) for each in concerned if (own := _missing(fleet, each, way))}:
                    _add(proposal.choices[pool], number, wanted)
    return {paths: each for paths, each in found.items() if each.choices}


def _ways(fleet: Fleet, finding: Finding) -> list[Way]:
    return [each for each in finding.remedy.ways if _can_be_set(fleet, each)]


def _paths(ways: Sequence[Way]) -> tuple[str, ...]:
    """Return the settings of the recommended way; none without ways."""
    return tuple(sorted(path for way in ways[:1] for path, _ in way.settings))


def _can_be_set(fleet: Fleet, way: Way) -> bool:
    """Return whether a setting of a way has a flag, a variable or an image, and none of them is ignored."""
    if any(fnmatchcase(path, glob) for path, _ in way.settings for glob in fleet.ignored):
        return False
    return not CHANGED_BY.isdisjoint(apply_methods(dict(way.settings), derives_sizes=False).values())


def _missing(fleet: Fleet, replica: Replica, way: Way) -> Mapping[str, SettingValue]:
    """Return the values of a way that a replica does not have; none for one whose settings were never read."""
    if replica.document is None:
        return {}
    settings = fleet.documents[replica.document].settings
    own = {path: lookup_value(settings, path) for path, _ in way.settings}
    return {path: value for path, value in way.settings if not _is_same(own[path], value)}


def _is_same(own: SettingValue | None, wanted: SettingValue) -> bool:
    """Return whether a reported value is the wanted one; a variable may be reported as a number or as text."""
    return own is not None and own.state is wanted.state and own.value.strip('"') == wanted.value.strip('"')


def _add(choices: list[Wanted], number: int, wanted: Wanted) -> None:
    """Add the values of the way with this number to the first choice from there that they do not contradict."""
    for choice in choices[number:]:
        both = choice.keys() & wanted.keys()
        if all(choice[each].get(path, value) == value for each in both for path, value in wanted[each].items()):
            for each, values in wanted.items():
                choice.setdefault(each, {}).update(values)
            return
    choices.append(wanted)


def _parts(fleet: Fleet) -> list[_PoolGroup]:
    """Return the pools of a fleet, those that prefill and decode together as one part."""
    together: dict[str, set[str]] = {pool.name: {pool.name} for pool in fleet.pools}
    for outcome in fleet.inspection.outcomes:
        if outcome.rule in BY_ID and BY_ID[outcome.rule].scope is Scope.PAIR:  # a saved fleet may have other rules
            both = set().union(*(together[pool] for pool in outcome.pools if pool in together))
            together |= dict.fromkeys(both, both)
    replicas, found = by_pool(fleet.replicas), defaultdict(list)
    for finding in _without_effects(fleet):
        for pool in () if finding.is_effect else finding.pools:
            found[pool].append(finding)
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
        parts.append(_PoolGroup(tuple(pools), tuple(findings), content))
    return parts


def _change_of(
    fleet: Fleet, parts: Sequence[_PoolGroup], wanted: Mapping[str, Wanted], proposing: Collection[str]
) -> _Change:
    restarts: dict[str, PoolRestart] = {}
    known: Applied = {}
    members = by_pool(fleet.replicas)
    alike: dict[object, list[_PoolGroup]] = defaultdict(list)
    for part in parts:
        own = {pool: _restart(fleet, members[pool], wanted[pool], known) for pool in part.pools if pool in wanted}
        if own:
            restarts |= own
            alike[part.content, tuple(_shape(own.get(pool)) for pool in part.pools)].append(part)
    return _Change(wanted, restarts, list(alike.values()), proposing)


def _fix(fleet: Fleet, change: _Change, effect: _Prediction) -> Fix:
    restarts = change.restarts.values()
    ranks = [rank for each in restarts for own in forecast_ranks(each, fleet.documents).values() for rank in own]
    return Fix(
        groups=tuple(_groups(change)),
        fixed=tuple(effect.ended),
        new=tuple(effect.new),
        open=tuple(effect.open),
        tokens=change_of_tokens(ranks, fleet),
        unknown_ranks=sum(rank.before is None or rank.after is None for rank in ranks),
        gained=effect.gained,
    )


def _effects(fleet: Fleet, changes: Sequence[_Change]) -> list[_Prediction]:
    """Return the effect of each change.

    Of parts of the fleet that are equal and change equally, one is evaluated: what ends there, ends in the others.
    Changes of different parts are evaluated together. One that brings new findings, or ends some that are in several
    parts, is evaluated once more, whole and alone.
    """
    found: dict[int, _Prediction] = {}
    for batch in _batches(changes):
        together = [own for number, pools in batch for pool, own in changes[number].restarts.items() if pool in pools]
        effect = _evaluated(fleet, together, {each for number, _ in batch for each in changes[number].proposing})
        for number, pools in batch:
            change = changes[number]
            ended, new, unknown = ([each for each in side if pools.issuperset(each.pools)] for side in effect.findings)
            gained = Counter({pool: effect.gained[pool] for pool in pools})
            mine = _Prediction(ended, new, unknown, gained)
            spanning = (each for side in effect.findings for each in side if not pools.issuperset(each.pools))
            if mine.new or any(not pools.isdisjoint(each.pools) for each in spanning):
                found[number] = _evaluated(fleet, change.restarts.values(), change.proposing)
            else:
                found[number] = _in_others(mine, change.alike, pools)
    return [found[number] for number in range(len(changes))]


def _batches(changes: Sequence[_Change]) -> list[list[tuple[int, set[str]]]]:
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


def _in_others(effect: _Prediction, alike: Iterable[Sequence[_PoolGroup]], pools: Collection[str]) -> _Prediction:
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
    return _Prediction(ended, new, unknown, gained)


def _shape(restart: PoolRestart | None) -> object:
    """Return what a restart changes, the same for pools that change equally."""
    if restart is None:
        return None
    numbers = Counter((str(each.document), restart.documents[each.id].id) for each in restart.restarting)
    return tuple(sorted(numbers.items()))


def _evaluated(fleet: Fleet, restarts: Iterable[PoolRestart], proposing: Collection[str]) -> _Prediction:
    every = list(restarts)
    after = restarted_fleet(fleet, every)
    ids = {each.id for restart in every for each in restart.restarting}
    gained = Counter({each: _gained(fleet, after, each) for restart in every if (each := restart.restarting[0].pool)})
    return _Prediction(*known_effect(fleet, after, ids, proposing), gained)


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
    after = next((each for each in spelled if _is_same(each, wanted)), wanted)
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


def _groups(change: _Change) -> Iterator[ChangeGroup]:
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
