"""What the replicas of a pool share: it decides the impact of a difference."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from dashboard.fleet import FactName, Role, RouterFact, Setting
from dashboard.rules.connector_options import Connector, connectors, native
from dashboard.vllm.replica import ENCODER_ROLE

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


class Router(StrEnum):
    """How requests find their replica."""

    PREFIX_HASH = "prefix-hash"  # computes vLLM's block hashes
    KV_EVENTS = "kv-events"  # indexes the replicas' KV events
    APPROXIMATE = "approximate"  # estimates caches from its own routing history
    NONE = "none"  # ignores prefixes


class Store(StrEnum):
    """Where replicas put KV cache that others read."""

    NONE = "none"
    LMCACHE = "lmcache"
    MOONCAKE = "mooncake"
    FILE = "file"
    P2P = "p2p"


class SeedPolicy(StrEnum):
    """Where the root of the block hashes comes from."""

    DEFAULT = "default"  # vLLM's fixed seed, from 0.29 on and with sha256 only
    ENVIRONMENT = "environment"  # PYTHONHASHSEED, the same on all
    RANDOM = "random"


class ImpactContext(StrEnum):
    """One reason why a difference can hurt. Rules have a severity and an explanation per context."""

    MODEL = "any pool"  # always: clients expect the same answers of each replica
    PREFIX_HASH = "prefix-hash"
    KV_EVENTS = "kv-events"
    APPROXIMATE = "approximate"
    KV_STORE = "kv-store"
    DISAGGREGATED = "disaggregated"


class Origin(StrEnum):
    """How a part of a domain is known."""

    READ = "read"  # from the router or the store itself, or from the replicas' own connector or role
    DECLARED = "declared"  # in fleet.yaml
    DETECTED = "detected"  # a router, from what the replicas publish: they report no router
    ASSUMED = "assumed"


DETECTED = " (detected)"  # ends an assumption that replicas support
CERTAIN = frozenset({Origin.READ, Origin.DECLARED})  # a finding of any other basis is at most a warning


@dataclass(frozen=True, slots=True)
class Expectations:
    """The router's configuration, with which each replica is compared. None: not configured."""

    block_size: int | None = None
    hash_algorithm: str | None = None
    seed_policy: SeedPolicy | None = None
    event_topic: str | None = None  # a template with {host}, {port} and {model}


@dataclass(frozen=True, slots=True)
class PoolDeclaration:
    """The options of a pool in fleet.yaml; None where not set."""

    router: Router | None = None
    kv_store: Store | None = None
    disaggregated: bool | None = None
    expects: Expectations = Expectations()


@dataclass(frozen=True, slots=True)
class Domain:
    """What the replicas of one pool share, with the basis of each part.

    `facts` are what its routers report: they replace what is `declared`. Of several with one name the first counts.
    """

    router: Router
    router_basis: Origin
    kv_store: Store
    kv_store_basis: Origin
    disaggregated: bool
    disaggregated_basis: Origin
    expects: Expectations = Expectations()
    facts: tuple[RouterFact, ...] = ()
    declared: PoolDeclaration = PoolDeclaration()

    def fact(self, name: FactName) -> RouterFact | None:
        """Return what a router reports; None where none does."""
        return next((each for each in self.facts if each.name is name), None)

    def read(self, name: FactName) -> Any:
        found = self.fact(name)
        return None if found is None else json.loads(found.value)

    @property
    def uses_prefixes(self) -> bool:
        """Return whether a router or a store uses shared prefixes, also an assumed one."""
        return self.router is not Router.NONE or self.kv_store is not Store.NONE

    @property
    def contexts(self) -> frozenset[ImpactContext]:
        contexts = {ImpactContext.MODEL}
        if self.router is not Router.NONE:
            contexts.add(ImpactContext(self.router))
        if self.kv_store is not Store.NONE:
            contexts.add(ImpactContext.KV_STORE)
        if self.disaggregated:
            contexts.add(ImpactContext.DISAGGREGATED)
        return frozenset(contexts)

    @property
    def known_contexts(self) -> frozenset[ImpactContext]:
        """Return the contexts that are read or declared: only a router is ever detected or assumed."""
        unknown = None if self.router_basis in CERTAIN else self.router.value
        return frozenset(each for each in self.contexts if each.value != unknown)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Return the assumptions about a pool, as findings list them."""
        if self.router_basis in CERTAIN:
            return ()
        return (f"router is {self.router}{DETECTED if self.router_basis is Origin.DETECTED else ''}",)


EVENTS = "kv_events_config.enable_kv_cache_events"
PUBLISHER = "kv_events_config.publisher"
NO_PUBLISHER = "null"  # vLLM's name for none (vllm/config/kv_events.py)
APART = frozenset({Role.PREFILL, Role.DECODE, Role.ENCODER})
# Connectors that write shared KV cache, by the beginning of their names. The names are those of
# vllm/distributed/kv_transfer/kv_connector/factory.py; SharedStorageConnector is what ExampleConnector was called.
STORES = (
    ("LMCache", Store.LMCACHE),
    ("MooncakeStore", Store.MOONCAKE),
    ("SharedStorage", Store.FILE),
    ("ExampleConnector", Store.FILE),
    ("HF3FS", Store.FILE),
)
OFFLOADING = "OffloadingConnector"
# Shared tiers below CPU memory (vllm/v1/kv_offload/tiering/factory.py). p2p counts first: a peer refuses what a folder
# only misses.
TIERS = (("p2p", Store.P2P), ("fs", Store.FILE), ("obj", Store.FILE))
SHARED_FOLDER = "SharedStorageOffloadingSpec"  # llm-d's backend of OffloadingConnector


def domain_of(
    declared: PoolDeclaration,
    roles: Iterable[Role],
    documents: Iterable[Mapping[str, Setting]],
    facts: Sequence[RouterFact] = (),
) -> Domain:
    """Return a pool's domain: read from its routers, else declared, else from its documents.

    Replicas name their own KV store and role, but no router: one on KV events is detected where they publish these,
    otherwise it is assumed to be approximate.
    """
    known = tuple(documents)
    # Not prefix-hash: no current router recomputes vLLM's hashes by itself (llm-d/llm-d#1290, smg, Dynamo, Ray).
    publishing = any(native(each, EVENTS) is True and native(each, PUBLISHER) != NO_PUBLISHER for each in known)
    read = {each.name: json.loads(each.value) for each in reversed(facts)}
    router = _first(
        Router.APPROXIMATE,
        (_member(Router, read.get(FactName.ROUTING)), Origin.READ),
        (declared.router, Origin.DECLARED),
        (Router.KV_EVENTS if publishing else None, Origin.DETECTED),
    )
    store = _first(
        Store.NONE,
        (_member(Store, read.get(FactName.KV_STORE)), Origin.READ),
        (declared.kv_store, Origin.DECLARED),
        (_store(known), Origin.READ),
    )
    apart = not APART.isdisjoint(roles) or any(native(each, ENCODER_ROLE) for each in known)
    disaggregated = _first(False, (declared.disaggregated, Origin.DECLARED), (apart or None, Origin.READ))
    expects = declared.expects
    if FactName.LEAST_BLOCK_SIZE in read:  # it follows the replicas
        expects = replace(expects, block_size=None)
    elif FactName.BLOCK_SIZE in read:
        expects = replace(expects, block_size=read[FactName.BLOCK_SIZE])
    return Domain(*router, *store, *disaggregated, expects=expects, facts=tuple(facts), declared=declared)


def _member(kind: type[E], value: Any) -> E | None:
    """Return the member of an enum with a foreign value; None without one."""
    return next((each for each in kind if each == value), None)


def _first(assumed: T, *known: tuple[T | None, Origin]) -> tuple[T, Origin]:
    """Return the first value that is known, with its origin; else what is assumed."""
    return next(((value, origin) for value, origin in known if value is not None), (assumed, Origin.ASSUMED))


def _store(documents: Iterable[Mapping[str, Setting]]) -> Store | None:
    """Return the first of STORES, else of TIERS, that any document has."""
    found = [connector for document in documents for connector in connectors(document)]
    for begin, store in STORES:
        if any(each.name.startswith(begin) for each in found):
            return store
    tiers = {tier for each in found if each.name == OFFLOADING for tier in tiers_of(each)}
    return next((store for tier, store in TIERS if tier in tiers), None)


def tiers_of(connector: Connector) -> tuple[str, ...]:
    """Return the kinds of an offloading connector's tiers below CPU memory, in its order."""
    if connector.options.get("spec_name") == SHARED_FOLDER:
        return ("fs",)
    tiers = connector.options.get("secondary_tiers")
    kinds = [tier.get("type") for tier in tiers if isinstance(tier, dict)] if isinstance(tiers, list) else []
    return tuple(kind for kind in kinds if isinstance(kind, str))
