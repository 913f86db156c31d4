"""The fleet as it would be, judged: only what can have changed is judged again."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Family, Finding, Inspection, Outcome
from dashboard.rules.registry import Scope

Judged = TypeVar("Judged", bound="Finding | Outcome")

OF_POOLS = tuple(rule for rule in ALL_RULES if rule.scope is not Scope.FLEET)
OF_FLEETS = tuple(rule for rule in ALL_RULES if rule.scope is Scope.FLEET)


def judged(before: Fleet, after: Fleet, pool: str, at: datetime) -> Fleet:
    """Return the fleet `after` with its findings, where only replicas of one pool are otherwise than in `before`.

    The same as judging all of it: what is said of other pools is taken over.
    """
    known = before.inspection
    near = {name for each in known.outcomes if _is_of(each, pool) for name in each.pools}
    pools = [each for each in after.pools if each.name in near]
    rest = (after.replicas, after.documents, after.policy, at, after.ignored)
    own = inspect_fleet(OF_POOLS, pools, *rest)
    if _pairing(before, pool) != _pairing(after, pool) or own.domains.get(pool) != known.domains.get(pool):
        return inspected(after, at)  # it may be held against other pools than before
    whole = inspect_fleet(OF_FLEETS, after.pools, *rest)
    rollouts = {name: each for name, each in known.rollouts.items() if name != pool}
    inspection = Inspection(
        findings=_worst_first(_joined(known.findings, own.findings, whole.findings, pool)),
        suppressed=_worst_first(_joined(known.suppressed, own.suppressed, whole.suppressed, pool)),
        outcomes=tuple(sorted(_joined(known.outcomes, own.outcomes, whole.outcomes, pool))),
        domains=known.domains,
        rollouts={**rollouts, **{name: each for name, each in own.rollouts.items() if name == pool}},
        notes=known.notes,
    )
    return replace(after, inspection=inspection)


def _joined(known: Iterable[Judged], own: Iterable[Judged], whole: Iterable[Judged], pool: str) -> list[Judged]:
    """Take of what was said before what is of other pools, of what is said now the rest."""
    others = [each for each in known if not _is_fleet_wide(each) and pool not in each.pools]
    return [*others, *(each for each in own if _is_of(each, pool)), *whole]


def _is_of(each: Finding | Outcome, pool: str) -> bool:
    return not _is_fleet_wide(each) and pool in each.pools


def _is_fleet_wide(each: Finding | Outcome) -> bool:
    return BY_ID[each.rule].scope is Scope.FLEET


def _pairing(fleet: Fleet, pool: str) -> set[tuple[object, ...]]:
    """Return what decides which pools a pool is held against, beside what it shares."""
    return {(each.id, each.role, each.served_model_names) for each in fleet.replicas if each.pool == pool}


def _worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings as judging all of them does (rules/engine.py)."""

    def key(each: Finding) -> tuple[object, ...]:
        family = list(Family).index(BY_ID[each.rule].family)
        return each.severity.rank, each.is_rollout, family, each.rule, each.subject, each.id, each.replicas

    return tuple(sorted(findings, key=key))
