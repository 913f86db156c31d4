"""What a difference costs: the replicas with it beside the unaffected ones of their pool, in one window.

Unaffected are those without any finding on prefixes that not all replicas of the pool have: the same ones for every
finding, cause, metric and total. An estimate assumes that both get equal prompts: the replicas with the difference
would then find as many tokens as the unaffected do. Where either has not enough traffic there is none.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Cause, Plan
from dashboard.analysis.kv_transfer import transferring_pools
from dashboard.fleet import Role
from dashboard.fleet.formatting import missing_rate
from dashboard.fleet.traffic import MINUTE, Traffic, prompts_per_minute, ratio, summed
from dashboard.rules.findings import Finding

# One replica with more than this share of the tokens decides the rate of three or more; of two one always has half.
DOMINANT_SHARE = 0.5
LEAST_DOMINATED = 3
ASSUMPTION = "These replicas and the unaffected ones of the pool get equal prompts."
TRANSFERRED = "The replicas decode: their prefixes arrive by KV transfer, a miss is not computed again."


class Effect(NamedTuple):
    """The traffic of the `affected` replicas of a pool, and of the unaffected ones, the `rest`.

    `prompt_share` is the share of the pool's prompt tokens that the affected ones got, 0 to 1. `is_whole`: all fresh
    replicas of the pool are affected. `has_rest`: some replica is unaffected. `is_decode`: the pool decodes what others
    prefill.
    """

    pool: str
    affected: Traffic
    rest: Traffic
    prompt_share: float | None = None
    is_whole: bool = False
    has_rest: bool = True
    is_decode: bool = False

    @property
    def avoidable_tokens(self) -> float | None:
        """Return an estimate of the tokens per minute that were computed and need not have been; None without one."""
        own, other, queries = self.affected.found_rate, self.rest.found_rate, self.affected.queries
        if self.is_decode or own is None or other is None or queries is None:
            return None
        return queries * max(0.0, other - own) * MINUTE / self.affected.seconds

    @property
    def avoidable_seconds(self) -> float | None:
        """Return an estimate of the seconds of prefill per request that these took: by their own seconds per token."""
        tokens, each = self.avoidable_tokens, ratio(self.affected.prefill_seconds, self.affected.computed_tokens)
        requests = self.affected.per_minute(self.affected.requests)
        return None if tokens is None or each is None or not requests else tokens * each / requests

    @property
    def missing(self) -> str:
        """Return why there is no estimate; empty where there is one."""
        if self.is_decode:
            return TRANSFERRED
        if not self.has_rest:
            return "No unaffected replica in the pool to compare with."
        parts = (("Affected replicas", self.affected), ("Unaffected replicas", self.rest))
        return " ".join(f"{name}: {why}" for name, traffic in parts if (why := missing_rate(traffic)))


def effect_of(fleet: Fleet, pool: str, replicas: Collection[str]) -> Effect:
    """Return what some replicas of a pool did beside the unaffected ones."""
    known = next((each for each in fleet.pools if each.name == pool), None)
    if known is None:
        return Effect(pool, Traffic(), Traffic(), has_rest=False)
    affected, rest = sides_of(fleet, pool, replicas)
    return Effect(
        pool,
        fleet.traffic_of(affected),
        fleet.traffic_of(rest),
        prompt_share(fleet, affected, [pool]),
        is_whole=all(each in affected for each in known.replicas if fleet.by_id[each].fresh),
        has_rest=bool(rest),
        is_decode=known.role is Role.DECODE,
    )


def sides_of(fleet: Fleet, pool: str, replicas: Collection[str]) -> tuple[list[str], list[str]]:
    """Return those of some replicas that are in a pool, and the unaffected ones of the pool."""
    members = next((each.replicas for each in fleet.pools if each.name == pool), ())
    chosen = frozenset(replicas)
    others = chosen.union(fleet.affected.get(pool, ()))
    return [each for each in members if each in chosen], [each for each in members if each not in others]


def prompt_share(fleet: Fleet, replicas: Iterable[str], pools: Collection[str]) -> float | None:
    """Return the share of the prompt tokens of some pools that some of their replicas got, 0 to 1.

    It is of tokens per time: the window of a replica that restarted is shorter. None where either side is unknown.
    """
    members = [each for pool in fleet.pools if pool.name in pools for each in pool.replicas]
    chosen = frozenset(replicas)
    own = prompts_per_minute(fleet.engines_of(each for each in members if each in chosen))
    others = [each for each in members if each not in chosen]
    other = prompts_per_minute(fleet.engines_of(others)) if others else 0.0
    return None if own is None or other is None else ratio(own, own + other)


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
    """Return what the replicas with findings on prefixes cost, each once, in each of their pools with traffic.

    Those with the same findings are one effect: the sum is at least that of each cause. A pool where all replicas have
    all of these findings has one effect without estimate. What a cold cache recomputes cannot be avoided.
    """
    found = [each for each in fleet.inspection.findings if each.is_of_prefixes and not each.remedy.is_wait]
    effects: list[Effect] = []
    for pool in fleet.pools:
        own = [each for each in found if pool.name in each.pools]
        alike: dict[frozenset[str], list[str]] = defaultdict(list)
        for replica in sorted(fleet.distinguished(pool, own)):
            alike[frozenset(each.id for each in own if replica in each.replicas)].append(replica)
        for replicas in alike.values() if alike or not own else [pool.replicas]:
            effects += effects_on(fleet, replicas, [pool.name])
    return tuple(effects)


def is_of_prefixes(findings: Iterable[Finding]) -> bool:
    """Return whether what replicas recompute is estimated for findings: some are on prefixes."""
    return any(each.is_of_prefixes for each in findings)


def without_fed(fleet: Fleet, replicas: Collection[str]) -> Collection[str]:
    """Return the replicas that count for one rate of several pools: each prompt once.

    A decode pool gets the prompts of its prefill pool again, with their prefixes: it is left out beside others.
    """
    partners, roles = transferring_pools(fleet.inspection), {pool.name: pool.role for pool in fleet.pools}
    fed = {
        name
        for name, own in partners.items()
        if roles.get(name) is Role.DECODE and any(roles.get(each) is Role.PREFILL for each in own)
    }
    return [each for each in replicas if fleet.by_id[each].pool not in fed] or replicas


def in_one_rate(effects: Iterable[Effect]) -> list[Effect]:
    """Return the effects that may be one rate: without those of decode pools, if there are others."""
    known = list(effects)
    return [each for each in known if not each.is_decode] or known


def together(effects: Iterable[Effect]) -> Effect:
    """Return the traffic of several pools as that of one without name. Its estimate is not the sum of theirs."""
    known = list(effects)
    affected, rest = summed(each.affected for each in known), summed(each.rest for each in known)
    return Effect(
        "",
        affected,
        rest,
        known[0].prompt_share if len(known) == 1 else None,
        is_whole=all(each.is_whole for each in known),
        has_rest=any(each.has_rest for each in known),
        is_decode=all(each.is_decode for each in known),
    )


def by_effect(fleet: Fleet, plan: Plan) -> Plan:
    """Return a plan with the causes first whose replicas recompute the most; equal ones keep their order."""
    found = {each.key: avoidable_of(fleet, each) or 0.0 for each in plan.causes}
    return replace(plan, causes=tuple(sorted(plan.causes, key=lambda each: -found[each.key])))


def avoidable_of(fleet: Fleet, cause: Cause) -> float | None:
    """Return the estimate for a cause, in tokens per minute; None for one that is not of prefixes, and without one."""
    return avoidable_tokens(effects_of_cause(fleet, cause)) if is_of_prefixes(cause.findings) else None


def avoidable_tokens(effects: Iterable[Effect]) -> float | None:
    """Return the estimates of several pools together, in tokens per minute; None where none has one."""
    known = [each.avoidable_tokens for each in effects]
    return sum(each for each in known if each is not None) if any(each is not None for each in known) else None


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
