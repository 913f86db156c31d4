"""Parts of a pool that a rule evaluates, and their values as evidence."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from packaging.version import Version

from dashboard.fleet import KVCacheGroup, Role, RouterFact, Setting, SettingValue, State
from dashboard.rules.connector_options import native
from dashboard.rules.domain import EVENTS, NO_PUBLISHER, PUBLISHER
from dashboard.rules.findings import Evidence
from dashboard.rules.subject import PoolSubject
from dashboard.rules.value_equivalence import NO, YES
from dashboard.vllm.versions import build
from vllm_fleet_provider.shared.spelling import canonical_text

PREFIX_CACHING = "cache_config.enable_prefix_caching"
VERSION = "version"
_OLDEST = Version("0.dev0")  # in place of an invalid version


def with_kv_cache(pool: PoolSubject) -> PoolSubject:
    """Return the pool without encoders: they run no language model, so they have no KV cache."""
    kept = tuple(each for each in pool.all_replicas if each.role is not Role.ENCODER)
    return pool if len(kept) == len(pool.all_replicas) else replace(pool, all_replicas=kept)


def caching(pool: PoolSubject) -> PoolSubject:
    """Return the pool without the replicas that report prefix caching as off: they hash no blocks."""
    return pool.without(pool.values(PREFIX_CACHING).get(NO, ()))


def publishing(pool: PoolSubject) -> PoolSubject:
    """Return the replicas that report that they publish KV events."""
    return pool.only(pool.values(EVENTS, publication).get(YES, ()))


def publication(value: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Return whether a replica publishes KV events: they are enabled and have a publisher."""
    if value.state is State.NULL:
        return NO
    return NO if value == YES and native(settings, PUBLISHER) == NO_PUBLISHER else value


def evidence_of(
    pool: PoolSubject, paths: Iterable[str], replicas: Collection[str] | None = None, reference: Collection[str] = ()
) -> tuple[Evidence, ...]:
    """Return what these replicas, or all members, report of settings, one row a value; then what the reference does."""
    odd = frozenset(each.id for each in pool.members) if replicas is None else frozenset(replicas)
    sides = ((odd, False), (frozenset(reference), True))
    return tuple(
        Evidence(path, *value, part, is_reference=is_reference)
        for path in paths
        for wanted, is_reference in sides
        for value, ids in pool.values(path).items()
        if (part := tuple(each for each in ids if each in wanted))
    )


def first_engine_groups(pool: PoolSubject) -> Mapping[str, tuple[KVCacheGroup, ...]]:
    """Return by replica the KV cache groups of its first engine; replicas without any are left out."""
    return {
        member.id: tuple(group for group in member.kv_cache_groups if group.dp_rank == first)
        for member in pool.members
        if (first := min((group.dp_rank for group in member.kv_cache_groups), default=None)) is not None
    }


def expectation(path: str, value: object, fact: RouterFact | None = None) -> Evidence:
    """Return the router's side of a finding: the `fact` that it reports itself, else what fleet.yaml declares."""
    holder = f"router ({fact.source})" if fact else "router"
    return Evidence(path, canonical_text(value), State.REPORTED, holder=holder, is_reference=True)


def most_used_version(pool: PoolSubject) -> SettingValue:
    """Return the version of most members, and of equally frequent ones the newest. At least one must be reported."""
    running = pool.values(VERSION)
    return max(running, key=lambda value: (len(running[value]), build(str(json.loads(value.value))) or _OLDEST))
