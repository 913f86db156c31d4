"""What a difference costs: the replicas with it beside the rest of their pool, in one window.

An estimate assumes that both get equal prompts: the replicas with the difference would then find as many tokens as the
rest does. Where either has not enough traffic there is none.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from math import frexp
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Cause, Plan
from dashboard.fleet.formatting import missing_rate
from dashboard.fleet.traffic import MINUTE, Traffic, ratio, summed
from dashboard.rules.findings import FAMILIES, Family, Finding

# One replica with more than this share of the tokens decides the rate of three or more; of two one always has half.
DOMINANT_SHARE = 0.5
LEAST_DOMINATED = 3
OUTLIER = "EF-01"  # the rule whose findings are low hit rates
ASSUMPTION = "These replicas and the rest of the pool get equal prompts."


class Effect(NamedTuple):
    """The traffic of the `affected` replicas of a pool, and of the `rest` of it. `is_whole`: there is no rest."""

    pool: str
    affected: Traffic
    rest: Traffic
    is_whole: bool = False

    @property
    def prompt_share(self) -> float | None:
        """Return the share of the pool's prompt tokens that the affected replicas got, 0 to 1."""
        own, other = self.affected.prompt_tokens, 0.0 if self.is_whole else self.rest.prompt_tokens
        return None if own is None or other is None else ratio(own, own + other)

    @property
    def avoidable_tokens(self) -> float | None:
        """Return an estimate of the tokens per minute that were computed and need not have been; None without one."""
        own, other, queries = self.affected.hit_rate, self.rest.hit_rate, self.affected.queries
        if own is None or other is None or queries is None:
            return None
        return queries * max(0.0, other - own) * MINUTE / self.affected.seconds

    @property
    def avoidable_seconds(self) -> float | None:
        """Return an estimate of the seconds of prefill per request that these took: by their own seconds per token."""
        tokens, each = self.avoidable_tokens, self.affected.prefill_seconds_per_token
        requests = self.affected.per_minute(self.affected.requests)
        return None if tokens is None or each is None or not requests else tokens * each / requests

    @property
    def missing(self) -> str:
        """Return why there is no estimate; empty where there is one."""
        if self.is_whole:
            return "No other replica of the pool to compare with."
        parts = (("These replicas", self.affected), ("Rest of the pool", self.rest))
        return " ".join(f"{name}: {why}" for name, traffic in parts if (why := missing_rate(traffic)))


def effect_of(fleet: Fleet, pool: str, replicas: Collection[str]) -> Effect:
    """Return what some replicas of a pool did beside the rest of it."""
    members = next((each.replicas for each in fleet.pools if each.name == pool), ())
    chosen = frozenset(replicas)
    affected = [each for each in members if each in chosen]
    rest = [each for each in members if each not in chosen]
    return Effect(pool, fleet.traffic_of(affected), fleet.traffic_of(rest), is_whole=not rest)


def effects_on(fleet: Fleet, replicas: Iterable[str], pools: Iterable[str]) -> tuple[Effect, ...]:
    """Return the effect of what some replicas have in common, in each of these pools with traffic."""
    affected = frozenset(replicas)
    found = (effect_of(fleet, pool, affected) for pool in pools)
    return tuple(each for each in found if each.affected.seconds)


def effects_of_cause(fleet: Fleet, cause: Cause, pool: str = "") -> tuple[Effect, ...]:
    """Return the effect of a cause of the fix plan in each of its pools with traffic, or in one of them."""
    known = (fleet.by_id[each].pool for each in cause.replicas if each in fleet.by_id)
    return effects_on(fleet, cause.replicas, sorted({each for each in known if each and pool in {"", each}}))


def effects_of_prefixes(fleet: Fleet) -> tuple[Effect, ...]:
    """Return what the replicas with findings on prefix sharing cost, in each of their pools with traffic."""
    found = [each for each in fleet.inspection.findings if is_of_prefixes([each])]
    affected = {replica for each in found for replica in each.replicas}
    return effects_on(fleet, affected, sorted({pool for each in found for pool in each.pools}))


def is_of_prefixes(findings: Iterable[Finding]) -> bool:
    """Return whether some finding says that a replica's own cache is not hit: it computes again what others have.

    Those on stores are not: what a store had is counted apart.
    """
    return any(FAMILIES.get(each.rule[:2]) is Family.ROUTING for each in findings)


def is_estimated(findings: Iterable[Finding]) -> bool:
    """Return whether what replicas recompute is estimated for findings: of prefixes, or low hit rates themselves."""
    every = list(findings)
    return is_of_prefixes(every) or any(each.rule == OUTLIER for each in every)


def together(effects: Iterable[Effect]) -> Effect:
    """Return the traffic of several pools as that of one without name. Its estimate is not the sum of theirs."""
    known = list(effects)
    affected, rest = summed(each.affected for each in known), summed(each.rest for each in known)
    return Effect("", affected, rest, is_whole=all(each.is_whole for each in known))


def by_effect(fleet: Fleet, plan: Plan) -> Plan:
    """Return a plan with the causes first whose replicas recompute the most.

    Causes within a factor of two keep their order: nothing moves because a number changes a little.
    """
    found = {each.key: frexp(avoidable_of(fleet, each) or 0.0)[1] for each in plan.causes}
    return replace(plan, causes=tuple(sorted(plan.causes, key=lambda each: -found[each.key])))


def avoidable_of(fleet: Fleet, cause: Cause) -> float | None:
    """Return the estimate for a cause, in tokens per minute; None for one that is not of prefixes, and without one."""
    return avoidable_tokens(effects_of_cause(fleet, cause)) if is_of_prefixes(cause.findings) else None


def avoidable_tokens(effects: Iterable[Effect]) -> float | None:
    """Return the estimates of several pools together, in tokens per minute; None where none has one."""
    known = [each.avoidable_tokens for each in effects]
    return sum(each for each in known if each is not None) if any(each is not None for each in known) else None


def spread_of(fleet: Fleet, replicas: Iterable[str]) -> tuple[float, float] | None:
    """Return the lowest and the highest hit rate of some replicas; None where none has enough traffic."""
    rates = [rate for each in replicas if (rate := fleet.traffic_of([each]).hit_rate) is not None]
    return (min(rates), max(rates)) if rates else None


def dominant_of(fleet: Fleet, replicas: Collection[str]) -> tuple[str, float] | None:
    """Return the replica that decides the hit rate of these, and its share of their queried tokens; None without one.

    It may serve most requests, or report wrong counters.
    """
    total = fleet.traffic_of(replicas).queries
    if len(replicas) < LEAST_DOMINATED or not total:
        return None
    queries = {each: fleet.traffic_of([each]).queries or 0.0 for each in replicas}
    most = max(queries, key=queries.__getitem__)
    return (most, queries[most] / total) if queries[most] > DOMINANT_SHARE * total else None
