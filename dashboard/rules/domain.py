"""What the replicas of a pool share: it decides what a difference breaks, and how bad that is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from dashboard.models import Role, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dashboard.models import Setting

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


class Facet(StrEnum):
    """One reason why a difference can hurt. Severities and explanations of rules are given per facet."""

    MODEL = "same model"  # always: clients expect the same of each replica
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
    def facets(self) -> frozenset[Facet]:
        """Return all reasons why a difference can hurt in this pool."""
        facets = {Facet.MODEL}
        if self.router is not Router.NONE:
            facets.add(Facet(self.router))
        if self.kv_store is not Store.NONE:
            facets.add(Facet.KV_STORE)
        if self.disaggregated:
            facets.add(Facet.DISAGGREGATED)
        return frozenset(facets)


CONNECTOR = "kv_transfer_config.kv_connector"
EXTRA = "kv_transfer_config.kv_connector_extra_config"
EVENTS = "kv_events_config.enable_kv_cache_events"
# Connectors that put KV cache where others read it (vllm/distributed/kv_transfer/kv_connector/factory.py).
STORES = (
    ("LMCache", Store.LMCACHE),
    ("MooncakeStore", Store.MOONCAKE),
    ("SharedStorage", Store.FILE),
    ("ExampleConnector", Store.FILE),
    ("HF3FS", Store.FILE),
)
TIERS = (("p2p", Store.P2P), ("fs", Store.FILE), ("file", Store.FILE), ("obj", Store.FILE))


def domain_of(declared: Declared, roles: Iterable[Role], documents: Iterable[Mapping[str, Setting]]) -> Domain:
    """Return a pool's domain: what is declared, else what its documents show, else a router that hashes prefixes."""
    told = tuple(documents)
    router = _first(declared.router, _router(told), Router.PREFIX_HASH)
    store = _first(declared.kv_store, _store(told), Store.NONE)
    is_pair = Role.PREFILL in (known := set(roles)) or Role.DECODE in known
    disaggregated = _first(declared.disaggregated, is_pair or None, other=False)
    return Domain(*router, *store, *disaggregated, expects=declared.expects)


def _first(declared: T | None, inferred: T | None, other: T) -> tuple[T, Basis]:
    if declared is not None:
        return declared, Basis.DECLARED
    return (inferred, Basis.INFERRED) if inferred is not None else (other, Basis.ASSUMED)


def _router(documents: Iterable[Mapping[str, Setting]]) -> Router | None:
    return Router.KV_EVENTS if any(_value(each, EVENTS) is True for each in documents) else None


def _store(documents: Iterable[Mapping[str, Setting]]) -> Store | None:
    """Return the first store that any connector names, nested ones of a MultiConnector included."""
    for document in documents:
        text = json.dumps([_value(document, path) for path in document if path.startswith((CONNECTOR, EXTRA))])
        names = [*_strings(json.loads(text))]
        for begin, store in STORES:
            if any(name.startswith(begin) for name in names):
                return store
        if "OffloadingConnector" in names:
            return next((store for tier, store in TIERS if tier in names), None)
    return None


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def _value(document: Mapping[str, Setting], path: str) -> object:
    told = document.get(path)
    return json.loads(told.value) if told is not None and told.state is State.REPORTED else None
