"""RT-16: replicas keep KV cache where the router's index does not count it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dashboard.fleet import Engine, Replica, Setting, SettingValue, State
from dashboard.fleet.formatting import joined
from dashboard.rules.connectors import CONNECTOR, connectors, value
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import say
from dashboard.rules.findings import Confidence, Draft, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.routing.narrowing import YES, only, shown
from dashboard.rules.routing.rt_01_block_size import BLOCK_SIZE
from dashboard.rules.routing.rt_02_router_block_size import is_size
from dashboard.rules.subject import PoolSubject

SIZE = "cache_config.kv_offloading_size"
OFFLOADING = ("OffloadingConnector", "SimpleCPUOffload", "LMCache")  # vllm/config/vllm.py makes one of them of the size
BACKEND = "cache_config.kv_offloading_backend"
LMCACHE = "lmcache"  # vllm/config/vllm.py: its size is that of LMCache's server, the flag's is not passed on
NOTHING = SettingValue("null", State.NULL)
GIB = 2**30  # the size's unit (vllm/config/cache.py)
LARGEST = 2**20  # a pebibyte: no replica has more, and what is larger is no size


@rule(
    id="RT-16",
    name="offloaded-cache-not-counted",
    family=Family.ROUTING,
    severity={ImpactContext.APPROXIMATE: Severity.WARNING},
    needs=(SIZE, CONNECTOR),
    least=1,
)
def offloaded_cache_not_counted(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas keep KV cache in CPU memory or on disk, and the router's index only counts the accelerators' blocks.

    vLLM reports how many blocks its accelerators hold, not what it offloaded. Info where the router is only assumed.

    Why it matters:
        - approximate: The index that remembers what was sent where is as long as the accelerators' cache. It forgets
          prefixes that a replica still has, and sends such prompts anywhere.

    How to fix:
        Tell the router by hand how many blocks a replica keeps in all: in llm-d `lruCapacityPerServer`.

    Exceptions:
        Where the router's capacity is set by hand already, disable the rule for this pool by a suppression.

    Evidence:
        - llm-d/llm-d-router#2292
        - llm-d/llm-d-router#1365
        - vllm/config/cache.py (kv_offloading_size)

    Example:
        Replicas hold 100 GiB of KV cache on the accelerators and 400 GiB in CPU memory. The router counts the 100, and
        four of five prefixes that would be found are computed again elsewhere.
    """
    sizes = {told: held for told, held in pool.values(SIZE, _kept).items() if _is_size_in_gib(json.loads(told.value))}
    connected = pool.values(CONNECTOR, _offloads).get(YES, ())
    replicas = tuple(sorted({*connected, *(each for held in sizes.values() for each in held)}))
    if not replicas or pool.is_ignored(SIZE):
        return
    how_much = f"{joined([say(told) for told in sizes])} GiB of" if sizes else "some"
    yield Draft(
        replicas,
        f"Replicas keep {how_much} KV cache outside the accelerators, which the router does not count.",
        tuple(each for path in (SIZE, CONNECTOR) for each in shown(pool, path, replicas)),
        _remedy(_blocks(only(pool, replicas))),
        Confidence.DERIVED,
        severity=Severity.INFO if pool.domain.assumptions else None,
    )


def _is_size_in_gib(told: Any) -> bool:
    return isinstance(told, int | float) and not isinstance(told, bool) and 0 < told <= LARGEST


def _offloads(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    return YES if any(each.name.startswith(OFFLOADING) for each in connectors(settings)) else told


def _kept(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Take no size for told where LMCache keeps the blocks: its server has a size of its own."""
    return NOTHING if value(settings, BACKEND) == LMCACHE else told


def _blocks(pool: PoolSubject) -> int | None:
    """Return how many of the router's blocks the smallest replica keeps in all; None where it is not known."""
    kept: dict[str, list[int | None]] = {}
    for member, engine in pool.engines():
        kept.setdefault(member.id, []).append(_blocks_of(pool, member, engine))
    known = [sum(each for each in held if each is not None) for held in kept.values() if None not in held]
    return min(known, default=None)


def _blocks_of(pool: PoolSubject, member: Replica, engine: Engine) -> int | None:
    """Return how many blocks one engine keeps; the size is that of each engine, all its ranks together."""
    settings = pool.settings(member)
    size: Any = None if value(settings, BACKEND) == LMCACHE else value(settings, SIZE)
    block = pool.domain.expects.block_size or value(settings, BLOCK_SIZE)
    if not (_is_size_in_gib(size) and is_size(block) and engine.kv_cache_bytes and engine.kv_cache_size_tokens):
        return None
    share = (engine.kv_cache_bytes + size * GIB) / engine.kv_cache_bytes
    return int(engine.kv_cache_size_tokens * share) // block


def _remedy(blocks: int | None) -> Remedy:
    sentence = (
        "Set the router's capacity per replica to all blocks that a replica keeps, outside the accelerators too; "
        "llm-d calls it `lruCapacityPerServer`."
    )
    if blocks is None:
        return Remedy(sentence)
    yaml = f"- type: approx-prefix-cache-producer\n  parameters:\n    lruCapacityPerServer: {blocks}"
    return Remedy(sentence, (Snippet("yaml", yaml),))
