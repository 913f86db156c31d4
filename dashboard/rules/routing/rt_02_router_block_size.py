"""RT-02: replicas cut blocks of another size than the router was configured with."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.connectors import value
from dashboard.rules.domain import ImpactContext, Router
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.routing.narrowing import caching, only, shown
from dashboard.rules.routing.router import expectation
from dashboard.rules.routing.rt_01_block_size import BLOCK_SIZE
from dashboard.rules.subject import Holders, PoolSubject

EFFECTIVE = "cache_config.effective_attention_block_size"
DCP = "parallel_config.decode_context_parallel_size"
# Routers that cut again what replicas tell them lose little by blocks that are whole multiples of their own.
MULTIPLES = {Router.KV_EVENTS: Severity.WARNING, Router.APPROXIMATE: Severity.INFO}
WHY_MULTIPLES = {
    Router.KV_EVENTS: "A router that discards every event whose blocks have another size, as Dynamo's does, never "
    "finds what these replicas hold; one that cuts blocks again, as llm-d's does, finds it all.",
    Router.APPROXIMATE: "The router counts in smaller blocks than the replicas keep, so it takes prefixes for held "
    "that end before a whole block does: its estimates are a little too high.",
}


@rule(
    id="RT-02",
    name="block-size-not-the-routers",
    family=Family.ROUTING,
    severity={
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.CRITICAL,
        ImpactContext.APPROXIMATE: Severity.WARNING,
    },
    needs=(BLOCK_SIZE,),
    least=1,
    expects="block_size",
)
def block_size_not_the_routers(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas cut the KV cache into blocks of another size than the router works with.

    What counts is the number of tokens that a block covers: with decode context parallelism that is the block size
    times its degree. The router's size is `expects.block_size` in fleet.yaml.

    Why it matters:
        - prefix-hash: The router hashes prompts in blocks of its own size, so none of its keys is ever found among the
          blocks of these replicas.
        - kv-events: Some routers discard every event whose blocks have another size; others cannot make a key of blocks
          that are shorter than their own, and lose all that comes after them.
        - approximate: The router estimates what a replica holds in blocks of another size than the replica keeps, so
          its estimates are off.

    How to fix:
        Restart replicas that differ with the router's size. Where most of the pool has another size, rather set the
        router's to the one in force on the replicas, or to a divisor of it if the router can cut blocks again.

    Exceptions:
        llm-d makes keys of its own from the tokens in events, so a router size that divides the replicas' size works:
        that is reported a step milder, and can be disabled.

    Evidence:
        - kserve/kserve#5011
        - ai-dynamo/dynamo#13904
        - vllm/v1/core/kv_cache_utils.py (what a block covers with decode context parallelism)

    Example:
        The router has `blockSizeTokens: 64`, the replicas run with vLLM's 16: events carry blocks of 16 tokens, none
        fills one of the router's, and every replica looks cold.
    """
    expected = pool.domain.expects.block_size
    part = caching(pool)
    sizes = {told: ids for told, ids in part.values(BLOCK_SIZE, covered).items() if is_size(json.loads(told.value))}
    for told, replicas in sizes.items():
        tokens = json.loads(told.value)
        if not expected or tokens == expected or pool.is_ignored(BLOCK_SIZE):
            continue
        router = pool.domain.router if tokens % expected == 0 else Router.NONE
        yield Draft(
            replicas,
            f"A block covers {tokens:,} tokens; the router expects {expected:,}.",
            (*_told(part, replicas), expectation(BLOCK_SIZE, expected)),
            _remedy(part, sizes, told, expected),
            severity=MULTIPLES.get(router),
            why=WHY_MULTIPLES.get(router),
            assumptions=pool.domain.assumptions if router in MULTIPLES else (),
        )


def covered(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Return how many tokens a block covers: vLLM's own answer, else the block size times the parallel degree."""
    effective = _number(settings, EFFECTIVE)
    size = json.loads(told.value)
    tokens = effective or (size * (_number(settings, DCP) or 1) if is_size(size) else size)
    return SettingValue(json.dumps(tokens), told.state)


def is_size(told: Any) -> bool:
    """Tell whether a foreign value is a number of tokens."""
    return isinstance(told, int) and not isinstance(told, bool) and told > 0


def _number(settings: Mapping[str, Setting], path: str) -> int | None:
    told = value(settings, path)
    return told if is_size(told) else None


def _told(pool: PoolSubject, replicas: tuple[str, ...]) -> Iterator[Evidence]:
    return (each for path in (BLOCK_SIZE, EFFECTIVE, DCP) for each in shown(pool, path, replicas))


def _remedy(pool: PoolSubject, sizes: Holders, own: SettingValue, expected: int) -> Remedy:
    """Have these replicas changed; only where most of the pool is like them, rather the router."""
    total, replicas = sum(map(len, sizes.values())), sizes[own]
    wanted = SettingValue(json.dumps(expected), State.REPORTED)
    fitting = sizes.get(wanted, ())
    flags = _flags(only(pool, replicas), own, only(pool, fitting[:1]), wanted)
    blocks = f"these replicas with blocks that cover {expected:,} tokens"
    if len(replicas) * 2 <= total:
        others = f", as {len(fitting):,} of {total:,} replicas have them" if fitting else ""
        return Remedy(f"Restart {blocks}{others}; the router expects that size.", flags)
    tokens = json.loads(own.value)
    who = "every replica has" if len(replicas) == total else f"{len(replicas):,} of {total:,} replicas have"
    sentence = (
        f"Set the router's block size to {tokens:,}, which {who}, "
        f"and `block_size` under `expects` in fleet.yaml with it; or restart {blocks}."
    )
    return Remedy(sentence, (*_of_router(pool, tokens), *flags), any_of=True)


def _of_router(pool: PoolSubject, tokens: int) -> Iterator[Snippet]:
    """Yield how llm-d's and Dynamo's routers are set."""
    if pool.domain.router is Router.KV_EVENTS:
        yield Snippet("yaml", f"tokenProcessorConfig:\n  blockSizeTokens: {tokens}")
        yield Snippet("env", f"export DYN_KV_CACHE_BLOCK_SIZE={tokens}")


def _flags(odd: PoolSubject, own: SettingValue, fitting: PoolSubject, expected: SettingValue) -> tuple[Snippet, ...]:
    """Return what makes replicas like one that has the router's size; without such, the flag if it alone decides."""
    if fitting.members:
        wanted = [(path, told) for path in (BLOCK_SIZE, DCP) for told in fitting.values(path)]
    else:
        wanted = [(BLOCK_SIZE, expected)] if tuple(odd.values(BLOCK_SIZE)) == (own,) else []
    return remedy.set_to([(path, told) for path, told in wanted if tuple(odd.values(path)) != (told,)], "").snippets
