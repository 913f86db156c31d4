"""RT-25: pools of one name in several clusters hash tokens differently, behind one router or one KV store."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dashboard.compare.equality import NOT_SET
from dashboard.compare.holders import Holders, group_by_value
from dashboard.compare.prefix import SeedKind
from dashboard.fleet import FactName, RouterKind, Setting, SettingValue, State
from dashboard.fleet.grouping import grouped
from dashboard.fleet.pieces import Text, join_texts
from dashboard.rules.differences import differences
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Draft, Evidence, UnevaluatedReplicas
from dashboard.rules.registry import Scope, rule
from dashboard.rules.routing import hashes
from dashboard.rules.routing.blocks import BLOCK_SIZE, DCP, tokens_of_block
from dashboard.rules.routing.hashes import HASH_ALGORITHM, SEED, one_seed, seed_of
from dashboard.rules.routing.router_facts import is_listed
from dashboard.rules.sentences import name_piece, names_text, setting_piece, value_piece, write
from dashboard.rules.stores.sharing import REMOTE_URL
from dashboard.rules.subject import FINGERPRINT, FleetSubject, PoolSubject, group_by_native

STORE, EVENTS, ESTIMATED = ImpactContext.KV_STORE, ImpactContext.KV_EVENTS, ImpactContext.APPROXIMATE
ROUTING = frozenset({ImpactContext.PREFIX_HASH, EVENTS, ESTIMATED})
OF_CLUSTER, DOTS = frozenset({"svc", "local", "127"}), 2  # in names that each cluster resolves by itself; or fewer dots
CLUSTERS = "these clusters"
_PATHS = (BLOCK_SIZE, HASH_ALGORITHM, SEED, FINGERPRINT)
Hashing = list[tuple[PoolSubject, Mapping[str, SettingValue]]]  # what all replicas of a pool that report it have


class _ServedBy(NamedTuple):
    """A router or KV store, and the contexts in which it depends on hashes of these pools of one name."""

    name: Text
    contexts: frozenset[ImpactContext]
    pools: Sequence[PoolSubject]


@rule("RT-25", scope=Scope.FLEET)
def clusters_hash_differently(fleet: FleetSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """Pools of one name in several clusters hash tokens differently, although one router or KV store serves them.

    An entry under `routers` without `cluster` serves several; one that reports endpoints serves pools with an endpoint.
    LMCache's `remote_url` is one store unless each cluster resolves its address by itself. Compared are the tokens of a
    block, the hash algorithm and the hash seed, or the block hashes, of pools whose replicas agree.
    """
    servers = grouped((tuple(pool.name for pool in each.pools), each) for each in _servers(fleet))
    if not servers:
        yield UnevaluatedReplicas((), "No router or KV store is known to serve pools of one name in several clusters.")
    for own in servers.values():
        hashing = [(each, _agreed(each.caching)) for each in own[0].pools]
        has_hashes = all(FINGERPRINT in known for _, known in hashing)
        ways = {path: {known[path] for _, known in hashing if path in known} for path in _PATHS}
        paths = [path for path, values in ways.items() if len(values) > 1]
        if has_hashes and FINGERPRINT not in paths:  # what differs makes no other hashes
            paths = [path for path in paths if path == BLOCK_SIZE]
        if HASH_ALGORITHM in paths or SEED in paths:  # they explain other hashes
            paths = [path for path in paths if path != FINGERPRINT]
        for path in paths:
            yield from _difference(path, [(pool, known) for pool, known in hashing if path in known], own)
        if not any(sum(path in known for _, known in hashing) > 1 for path in _PATHS):
            silent = tuple(sorted(each.id for pool, _ in hashing for each in pool.members))
            yield UnevaluatedReplicas(
                silent, "Fewer than 2 clusters report one block size, hash algorithm or hash seed."
            )


def _servers(fleet: FleetSubject) -> Iterator[_ServedBy]:
    pools = [each for each in fleet.subjects if each.pool.cluster]
    served: list[_ServedBy] = []
    for router in fleet.routers:
        kinds = frozenset({STORE}) if router.kind in {RouterKind.LMCACHE, RouterKind.MOONCAKE} else ROUTING
        listed = [json.loads(each.value) for each in router.facts if each.name is FactName.ENDPOINTS]
        own = [each for each in pools if router.serves(each.name)]
        own = [each for each in own if not listed or any(is_listed(member, listed[0]) for member in each.members)]
        served.append(_ServedBy(write(name_piece(router.name)), kinds, own))
    stores = grouped((address, each) for each in pools if (address := _store_address(each)))
    served += [_ServedBy(write(setting_piece(REMOTE_URL)), frozenset({STORE}), own) for own in stores.values()]
    for name, kinds, everything in served:
        for own in grouped((each.pool.name_within, each) for each in everything).values():
            contexts = kinds.intersection(*(each.contexts for each in own))
            if any(each.domain.read(FactName.OWN_KEYS) for each in own):
                contexts -= {EVENTS}
            if len(own) > 1 and contexts:
                yield _ServedBy(name, contexts, own)


def _store_address(pool: PoolSubject) -> str:
    """Return host, port and path of the one LMCache server of a pool; empty without one, or where it may be several."""
    urls = [each for each in pool.identity(REMOTE_URL).values() if isinstance(each, str)]
    addresses = {each.partition("://")[2].rpartition("@")[2].lower() for each in urls}
    names = [each.partition("/")[0].partition(":")[0].split(".") for each in addresses]
    is_clear = all(len(each) > DOTS and OF_CLUSTER.isdisjoint(each) for each in names)
    return addresses.pop() if len(addresses) == 1 and is_clear else ""


def _agreed(pool: PoolSubject) -> Mapping[str, SettingValue]:
    found = {path: _read(pool, path) for path in _PATHS} | {BLOCK_SIZE: pool.values(BLOCK_SIZE, tokens_of_block)}
    return {path: next(iter(own)) for path, own in found.items() if len(own) == 1 and not pool.is_ignored(path)}


def _read(pool: PoolSubject, path: str) -> Holders:
    if path == FINGERPRINT:  # of replicas whose engines hash alike
        return group_by_native({own: min(each) for own, each in pool.fingerprints().items() if len(each) == 1})
    return pool.conclude(_seed) if path == SEED else pool.values(path)


def _seed(settings: Mapping[str, Setting]) -> SettingValue | None:
    """Return the seed that is set; unset where vLLM has a fixed one, None where it is random or unknown."""
    seed = seed_of(settings)
    if seed is None or not seed.is_certain or seed.kind is SeedKind.RANDOM:
        return None
    return NOT_SET if seed.kind is SeedKind.FIXED else seed.value if seed.path == SEED else None


def _difference(path: str, hashing: Hashing, servers: Sequence[_ServedBy]) -> Iterator[Draft]:
    """Yield a difference of pools where a server depends on it."""
    pools = [pool for pool, _ in hashing]
    known = pools[0].known_contexts.intersection(*(each.known_contexts for each in pools))
    contexts = servers[0].contexts.union(*(each.contexts for each in servers))
    declared = clusters_hash_differently
    if path != BLOCK_SIZE:
        contexts -= {ESTIMATED}
        if contexts == {EVENTS} and pools[0].domain.read(FactName.OWN_KEYS) is None:
            declared = hashes.hash_algorithm_differs  # it may compute its own keys
    if (worst := declared.severity_in(contexts, known)) is None:
        return
    behind = {
        each: group_by_value(
            {id_: value for pool in pools for value, ids in _read(pool.caching, each).items() for id_ in ids}
        )
        for each in (path, *([DCP] if path == BLOCK_SIZE else []))
    }
    sides = grouped((own[path], each.pool.cluster) for each, own in hashing)
    places = join_texts(write(value_piece(own), " in ", names_text(sorted(sides[own]))) for own in sorted(sides))
    by = join_texts(dict.fromkeys(each.name for each in servers))
    keys = Evidence("router.pools", json.dumps(sorted(each.name for each in pools)), State.REPORTED)
    for draft in differences(behind):
        sentence = draft.remedy.sentence.replace("the rest of the pool", f"most replicas of {CLUSTERS}")
        sentence = sentence.replace("for the pool", f"for {CLUSTERS}")
        yield replace(
            draft,
            text=write(draft.text, " By cluster: ", places, ". Serving these: ", by, "."),
            evidence=(*draft.evidence, keys),
            remedy=one_seed() if path == FINGERPRINT else draft.remedy._replace(sentence=sentence),
            severity=worst[1],
            why=declared.page.why[worst[0]],
            assumptions=() if worst[0] in known else pools[0].domain.assumptions,
        )
