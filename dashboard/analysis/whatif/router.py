"""What a router must know of a pool that converged, and no rule judges: fleet.yaml does not say what it expects."""

import json
from collections.abc import Iterator
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif.nouns import RouterChange
from dashboard.fleet import SettingValue
from dashboard.rules.domain import Router, SeedPolicy
from dashboard.rules.routing.hashes import counted_as_one
from dashboard.rules.routing.narrowing import caching
from dashboard.rules.routing.roots import SEED_POLICY
from dashboard.rules.routing.rt_01_block_size import BLOCK_SIZE
from dashboard.rules.routing.rt_02_router_block_size import covered
from dashboard.rules.routing.rt_05_hash_algorithm import HASH_ALGORITHM
from dashboard.rules.subject import Holders, PoolSubject


class _Needed(NamedTuple):
    """A setting that these routers work with, and the name of its expectation (`domain.Expectations`)."""

    path: str
    expects: str
    routers: frozenset[Router]


# Which routers these are: where RT-02, RT-05 and RT-06 say that another value than the router's breaks what it does.
NEEDED = (
    _Needed(BLOCK_SIZE, "block_size", frozenset({Router.PREFIX_HASH, Router.KV_EVENTS, Router.APPROXIMATE})),
    _Needed(HASH_ALGORITHM, "hash_algorithm", frozenset({Router.PREFIX_HASH})),
    _Needed(SEED_POLICY, "seed_policy", frozenset({Router.PREFIX_HASH})),
)


def router_changes(before: Fleet, after: Fleet, pool: str) -> tuple[RouterChange, ...]:
    """Return what all of a pool would have that most do not have now, where its router works with that value.

    Left out is what fleet.yaml declares of the router: rules hold the pool against it.
    """
    if after is before:
        return ()
    now, then = _hashing(before, pool), _hashing(after, pool)
    return tuple(_changes(now, then))


def _hashing(fleet: Fleet, name: str) -> PoolSubject:
    """Return a pool as rules see it, without the replicas that cache no prefixes."""
    pool = next(each for each in fleet.pools if each.name == name)
    members = tuple(each for each in fleet.replicas if each.pool == name)
    domain = fleet.inspection.domains[name]
    return caching(PoolSubject(pool, domain, members, fleet.documents, tuple(fleet.ignored)))


def _changes(now: PoolSubject, then: PoolSubject) -> Iterator[RouterChange]:
    for needed in NEEDED:
        is_declared = getattr(then.domain.expects, needed.expects) is not None
        if then.domain.router not in needed.routers or is_declared or then.is_ignored(needed.path):
            continue
        if (wanted := _only_value(_values(then, needed.path))) is None:
            continue
        held = _values(now, needed.path, wanted)
        usual = next((told for told in held if told != wanted), None)
        if usual is not None and 2 * len(held.get(wanted, ())) <= sum(map(len, held.values())):
            yield RouterChange(needed.expects, usual, wanted)


def _values(pool: PoolSubject, path: str, first: SettingValue | None = None) -> Holders:
    """Return who has which value, most first; values with which engines hash alike count as one: as `first` if told."""
    if path == BLOCK_SIZE:
        return pool.values(path, covered)
    return counted_as_one(pool.values(path), pool.fingerprints(), first)


def _only_value(held: Holders) -> SettingValue | None:
    """Return the one value that all have; None also for random seeds: no router knows those, and rules judge them."""
    if len(held) != 1:
        return None
    (told,) = held
    return None if json.loads(told.value) == SeedPolicy.RANDOM else told
