"""What the replicas of a pool share: it decides what a difference breaks, and how bad that is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from dashboard.fleet import Role, Setting
from dashboard.rules.connectors import Connector, connectors, value

T = TypeVar("T")


class Router(StrEnum):
    """How requests find their replica."""

    PREFIX_HASH = "prefix-hash"  # it computes vLLM's block hashes itself
    KV_EVENTS = "kv-events"  # it follows the replicas' KV events
    APPROXIMATE = "approximate"  # it remembers what it sent where
    NONE = "none"  # it does not look at prefixes


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
    """One reason why a difference can hurt. Severities and explanations of rules are given per facet."""

    MODEL = "any pool"  # always: clients expect the same of each replica
    PREFIX_HASH = "prefix-hash"
    KV_EVENTS = "kv-events"
    APPROXIMATE = "approximate"
    KV_STORE = "kv-store"
    DISAGGREGATED = "disaggregated"


class Basis(StrEnum):
    """How a part of a domain is known."""

    DECLARED = "declared"  # fleet.yaml says it
    INFERRED = "inferred"  # the replicas' settings show it
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Expectations:
    """What the router was configured with: each replica is held against it. None: nobody said."""

    block_size: int | None = None
    hash_algorithm: str | None = None
    seed_policy: SeedPolicy | None = None
    event_topic: str | None = None  # a template: {host}, {port} and {model} stand for what differs


@dataclass(frozen=True, slots=True)
class Declared:
    """What fleet.yaml says of a pool; None is what it does not say."""

    router: Router | None = None
    kv_store: Store | None = None
    disaggregated: bool | None = None
    expects: Expectations = Expectations()


@dataclass(frozen=True, slots=True)
class Domain:
    """What the replicas of one pool share, and how that is known."""

    router: Router
    router_basis: Basis
    kv_store: Store
    kv_store_basis: Basis
    disaggregated: bool
    disaggregated_basis: Basis
    expects: Expectations = Expectations()

    @property
    def facets(self) -> frozenset[ImpactContext]:
        """Return all reasons why a difference can hurt in this pool."""
        facets = {ImpactContext.MODEL}
        if self.router is not Router.NONE:
            facets.add(ImpactContext(self.router))
        if self.kv_store is not Store.NONE:
            facets.add(ImpactContext.KV_STORE)
        if self.disaggregated:
            facets.add(ImpactContext.DISAGGREGATED)
        return frozenset(facets)

    @property
    def known_facets(self) -> frozenset[ImpactContext]:
        """Return the facets that are declared or inferred; only a router is ever assumed to be there."""
        assumed = self.router.value if self.router_basis is Basis.ASSUMED else None
        return frozenset(each for each in self.facets if each.value != assumed)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Return what is assumed of a pool, as findings list it."""
        return (assumed_router(self.router),) if self.router_basis is Basis.ASSUMED else ()


EVENTS = "kv_events_config.enable_kv_cache_events"
PUBLISHER = "kv_events_config.publisher"
NO_PUBLISHER = "null"  # vLLM's name for it (vllm/config/kv_events.py)
ENCODER_ROLE = "ec_transfer_config.ec_role"
# Connectors that put KV cache where others read it, by how their names begin. The names are those of
# vllm/distributed/kv_transfer/kv_connector/factory.py; SharedStorageConnector is what ExampleConnector was called.
STORES = (
    ("LMCache", Store.LMCACHE),
    ("MooncakeStore", Store.MOONCAKE),
    ("SharedStorage", Store.FILE),
    ("ExampleConnector", Store.FILE),
    ("HF3FS", Store.FILE),
)
OFFLOADING = "OffloadingConnector"
# Tiers below CPU memory (vllm/v1/kv_offload/tiering/factory.py) that others read too. A replica may have several: a
# peer refuses what a folder only fails to find, so p2p counts first.
TIERS = (("p2p", Store.P2P), ("fs", Store.FILE), ("obj", Store.FILE))
SHARED_FOLDER = "SharedStorageOffloadingSpec"  # llm-d's own back end for OffloadingConnector


def domain_of(declared: Declared, roles: Iterable[Role], documents: Iterable[Mapping[str, Setting]]) -> Domain:
    """Return a pool's domain: what is declared, else what its documents show, else an approximate router."""
    told = tuple(documents)
    # Not prefix-hash: no current router recomputes vLLM's hashes by itself (llm-d/llm-d#1290, smg, Dynamo, Ray).
    router = _first(declared.router, _router(told), Router.APPROXIMATE)
    store = _first(declared.kv_store, _store(told), Store.NONE)
    apart = not {Role.PREFILL, Role.DECODE}.isdisjoint(roles) or any(value(each, ENCODER_ROLE) for each in told)
    disaggregated = _first(declared.disaggregated, apart or None, other=False)
    return Domain(*router, *store, *disaggregated, expects=declared.expects)


def assumed_router(router: Router | ImpactContext) -> str:
    """Return the assumption that a router is of this kind."""
    return f"router is {router}"


def _first(declared: T | None, inferred: T | None, other: T) -> tuple[T, Basis]:
    if declared is not None:
        return declared, Basis.DECLARED
    return (inferred, Basis.INFERRED) if inferred is not None else (other, Basis.ASSUMED)


def _router(documents: Iterable[Mapping[str, Setting]]) -> Router | None:
    publishing = (value(each, EVENTS) is True and value(each, PUBLISHER) != NO_PUBLISHER for each in documents)
    return Router.KV_EVENTS if any(publishing) else None


def _store(documents: Iterable[Mapping[str, Setting]]) -> Store | None:
    """Return the first store that any document shows; the order of documents means nothing."""
    told = [connector for document in documents for connector in connectors(document)]
    for begin, store in STORES:
        if any(each.name.startswith(begin) for each in told):
            return store
    tiers = {tier for each in told if each.name == OFFLOADING for tier in tiers_of(each)}
    return next((store for tier, store in TIERS if tier in tiers), None)


def tiers_of(connector: Connector) -> tuple[str, ...]:
    """Return the kinds of the tiers below CPU memory that an offloading connector has, in its order."""
    if connector.options.get("spec_name") == SHARED_FOLDER:
        return ("fs",)
    tiers = connector.options.get("secondary_tiers")
    kinds = [tier.get("type") for tier in tiers if isinstance(tier, dict)] if isinstance(tiers, list) else []
    return tuple(kind for kind in kinds if isinstance(kind, str))
