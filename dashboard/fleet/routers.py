"""What routers in front of the replicas, and the masters of KV stores, report of their configuration."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from dashboard.fleet.replies import JsonText


class RouterKind(StrEnum):
    """The program that answers."""

    LLM_D = "llm-d"
    PRODUCTION_STACK = "production-stack"
    DYNAMO = "dynamo"
    LMCACHE = "lmcache"
    MOONCAKE = "mooncake"


class FactName(StrEnum):
    """What a router can report, by the name that pages and JSON show."""

    ROUTING = "routing"  # a value of the option `router`
    KV_STORE = "kv_store"  # a value of the option `kv_store`
    BLOCK_SIZE = "block_size"  # tokens of the blocks by which it looks prefixes up
    LEAST_BLOCK_SIZE = "least_block_size"  # it takes the block size of one replica, or this many tokens if that is less
    OWN_KEYS = "own_keys"  # true: it computes keys from the tokens in events, so replicas may hash in any way
    KEY_ALGORITHM = "key_algorithm"  # of its own keys
    KEY_SEED = "key_seed"
    READY = "ready_replicas"  # how many replicas it knows
    ENDPOINTS = "endpoints"  # their addresses or names
    CLIENTS = "clients"  # of a store: its connections
    SUBSCRIBED = "subscribed_replicas"  # of how many it reads KV events
    SUBSCRIBERS = "subscribers"  # their names, 100 at most
    EVENT_PORT = "event_port"  # of the replicas, where it subscribes to the first DP rank
    PODS_PER_KEY = "pods_per_key"  # entries of its index for one key: replicas x tiers of the cache
    BLOCKS_PER_REPLICA = "blocks_per_replica"  # that it remembers of one replica
    CHUNK_SIZE = "chunk_size"  # tokens of the unit in which KV cache is stored
    VERSION = "version"


@dataclass(frozen=True, slots=True)
class RouterFact:
    """One value that a router reports, and its source: a URL, a ConfigMap, a file or a command line.

    Two facts are equal at any time: most are read again at each poll.
    """

    name: FactName
    value: JsonText
    source: str
    observed_at: datetime = field(compare=False)


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """What one router reported last. `pools` are names or globs, `failures` sentences on what cannot be read now."""

    name: str
    kind: RouterKind
    pools: tuple[str, ...]
    facts: tuple[RouterFact, ...] = ()
    failures: tuple[str, ...] = ()

    def serves(self, pool: str) -> bool:
        return any(pool == each or fnmatchcase(pool, each) for each in self.pools)


def facts_of_pool(routers: Iterable[RouterConfig], pool: str) -> Iterator[RouterFact]:
    """Yield the facts of the routers of a pool, in the order of the options."""
    for router in routers:
        if router.serves(pool):
            yield from router.facts
