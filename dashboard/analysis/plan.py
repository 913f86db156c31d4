"""The fix plan of a fleet: findings with one remedy are one cause, priced by the what-if. Nothing is ever applied."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet, by_pool
from dashboard.analysis.causes import Cause, Plan
from dashboard.analysis.pricing import Wanted, change_of, fix_of, is_same, parts_of, predictions, without_effects
from dashboard.compare.encoding import lookup_value
from dashboard.fleet import Replica, SettingValue, has_same_content
from dashboard.fleet.grouping import grouped
from dashboard.rules.apply_method import ApplyMethod, apply_methods
from dashboard.rules.findings import Finding, Way

MOST_CHOICES = 3  # of one cause
# Ways in which a setting gets its value; without one of them there is nothing to change.
CHANGED_BY = frozenset(ApplyMethod) - {ApplyMethod.FOLLOWS, ApplyMethod.MISFIT, ApplyMethod.OPEN}


class _Proposal(NamedTuple):
    """What findings propose for one set of settings: choices by pool, and the ids of these findings."""

    choices: dict[str, list[Wanted]]
    findings: set[str]

    def at(self, number: int) -> Mapping[str, Wanted]:
        """Return one choice of all pools; a pool with fewer choices stays at its recommended one."""
        return {pool: (own[number] if number < len(own) else own[0]) for pool, own in self.choices.items()}


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
    """Return whether the causes are equal: when a replica started is part of none."""
    names = ("policy", "ignored", "routers", "inspection.domains", "inspection.rollouts")
    is_same = all(attrgetter(name)(fleet) == attrgetter(name)(before) for name in names)
    return (
        is_same
        and without_effects(fleet) == without_effects(before)
        and has_same_content(fleet.replicas, before.replicas, but_starts=True)
    )


def suppressed_of(fleet: Fleet, key: str) -> list[Finding]:
    """Return the suppressed findings that would make the cause with this key."""
    found = fleet.inspection.suppressed
    return [each for each in found if key in (each.rule, _key(_ways(fleet, each)))]


def _made(fleet: Fleet, known: Plan | None = None) -> Plan:
    """Make the plan.

    What traffic shows is no cause where another finding explains it or it passes by itself, else the last of its
    severity. The other causes are those of the `known` plan.
    """
    if fleet.polled_at is None:
        return Plan()
    found = fleet.inspection.findings
    causes = _causes(fleet) if known is None else [each for each in known.causes if not each.findings[0].is_effect]
    causes += _actions(
        each for each in found if each.is_effect and not (each.remedy.is_wait or is_explained(each, found))
    )
    return ordered(causes)


def ordered(causes: Iterable[Cause]) -> Plan:
    """Return causes as a plan: of equally bad ones first those that let more replicas share per restart."""
    return Plan(tuple(sorted(causes, key=_place)))


def _causes(fleet: Fleet) -> list[Cause]:
    """Return the causes of all findings but those on traffic.

    A finding belongs to each cause that ends it. A cause whose findings all end with others is left out.
    """
    active = {each.id: each for each in without_effects(fleet)}
    proposals, parts = _proposals(fleet), parts_of(fleet)
    changes = {
        (key, number): change_of(fleet, parts, proposal.at(number), proposal.findings)
        for key, proposal in proposals.items()
        for number in range(min(max(map(len, proposal.choices.values())), MOST_CHOICES))
    }
    effects = dict(zip(changes, predictions(fleet, list(changes.values())), strict=True))
    causes = []
    for key in proposals:
        own = [(changes[each], effect) for each, effect in effects.items() if each[0] == key and effect.ended]
        if own:
            ids = {each.id for _, effect in own for each in effect.ended}
            ended = tuple(each for each in active.values() if each.id in ids)
            causes.append(Cause(key, ended, tuple(fix_of(fleet, *each) for each in own)))
    kept = _needed(causes)
    left = active.keys() - {each.id for cause in kept for each in cause.findings}
    return [*kept, *_actions(each for each in active.values() if each.id in left)]


def is_explained(effect: Finding, findings: Iterable[Finding]) -> bool:
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
    gained = cause.fixes[0].gained_in("").sharing / len(cause.fixes[0].replicas) if cause.fixes else 0.0
    return (cause.severity.rank, cause.findings[0].is_effect, -gained, cause.key)


def _actions(findings: Iterable[Finding]) -> Iterator[Cause]:
    """Yield what no change of settings ends, by rule."""
    for rule, found in grouped((each.rule, each) for each in findings).items():
        yield Cause(rule, tuple(found))


def _proposals(fleet: Fleet) -> Mapping[str, _Proposal]:
    """Return what the remedies of findings set, by the key of their cause. Equal ones are one."""
    found: dict[str, _Proposal] = {}
    members = by_pool(fleet.replicas)
    for finding in without_effects(fleet):
        ways = _ways(fleet, finding)
        if not ways:
            continue
        proposal = found.setdefault(_key(ways), _Proposal(defaultdict(list), set()))
        proposal.findings.add(finding.id)
        ids = set(finding.replicas)
        for pool in finding.pools:
            for number, way in enumerate(ways):
                concerned = [each for each in members.get(pool, ()) if way.is_everywhere or each.id in ids]
                if wanted := {each.id: dict(own) for each in concerned if (own := _missing(fleet, each, way))}:
                    _add(proposal.choices[pool], number, wanted)
    return {key: each for key, each in found.items() if each.choices}


def _ways(fleet: Fleet, finding: Finding) -> list[Way]:
    return [each for each in finding.remedy.ways if _can_be_set(fleet, each)]


def _key(ways: Sequence[Way]) -> str:
    """Return the key of the cause that the recommended way ends: its settings; empty without ways."""
    return "+".join(sorted(path for way in ways[:1] for path, _ in way.settings))


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
    return {path: value for path, value in way.settings if not is_same(own[path], value)}


def _add(choices: list[Wanted], number: int, wanted: Wanted) -> None:
    """Add the values of the way with this number to the first choice from there that they do not contradict."""
    for choice in choices[number:]:
        both = choice.keys() & wanted.keys()
        if all(choice[each].get(path, value) == value for each in both for path, value in wanted[each].items()):
            for each, values in wanted.items():
                choice.setdefault(each, {}).update(values)
            return
    choices.append(wanted)
