"""RT-13, RT-14, RT-16 and RT-24: prefix caching that is off or keeps other states, tokenizers, offloaded cache."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dashboard.compare.equality import NOT_SET
from dashboard.compare.prefix import CACHING_PATH
from dashboard.fleet import Engine, FactName, Replica, Role, Setting, SettingValue
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import join_texts, value
from dashboard.rules import remedy
from dashboard.rules.connector_options import CONNECTOR, connectors, native
from dashboard.rules.differences import pool_differences
from dashboard.rules.domain import Origin, Router
from dashboard.rules.findings import Confidence, Draft, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.routing.blocks import BLOCK_SIZE, is_size
from dashboard.rules.sentences import setting_piece, value_piece, write
from dashboard.rules.subject import NO, YES, PoolSubject
from dashboard.rules.value_equivalence import assume_if_auto, assume_if_folder, names_as_one, revisions

TOKENIZER = "model_config.tokenizer"
TOKENIZER_MODE = "model_config.tokenizer_mode"
TOKENIZER_REVISION = "model_config.tokenizer_revision"
SIZE = "cache_config.kv_offloading_size"
BACKEND = "cache_config.kv_offloading_backend"
OFFLOADING = ("OffloadingConnector", "SimpleCPUOffload", "LMCache")  # vllm/config/vllm.py makes one of them of the size
LMCACHE = "lmcache"  # vllm/config/vllm.py: LMCache's server has its own size, the flag's is not passed on
RETENTION = "cache_config.prefix_cache_retention_interval"
# Groups whose cached states may be sparse (vllm/v1/core/kv_cache_coordinator.py).
SPARSE = ("mamba", "slidingwindow")
IS_HYBRID = "the model has Mamba or sliding window layers"
GIB = 2**30  # the unit of the size (vllm/config/cache.py)
MAX_GIB = 2**20  # a larger number is no size


@rule("RT-13", needs=(CACHING_PATH,))
def prefix_caching_off(pool: PoolSubject) -> Iterator[Draft]:
    """Prefix caching is on for some replicas only, or off for all behind a prefix-aware router.

    Where the router is only assumed, not detected from KV events, a pool with prefix caching off everywhere is info.
    """
    holders = pool.values(CACHING_PATH)
    on, off = holders.get(YES, ()), holders.get(NO, ())
    is_aware = pool.domain.router is not Router.NONE
    if not off or pool.is_ignored(CACHING_PATH):
        return
    if on:
        is_on_wanted = is_aware or len(on) >= len(off)
        yield _partly(pool, *((off, on) if is_on_wanted else (on, off)), wanted=YES if is_on_wanted else NO)
    elif is_aware and pool.pool.role is not Role.DECODE:
        yield _off_everywhere(pool, off)


def _partly(pool: PoolSubject, odd: tuple[str, ...], rest: tuple[str, ...], wanted: SettingValue) -> Draft:
    """Return the replicas to change: on behind a prefix-aware router, else like the majority."""
    own, others = ("off", "on") if wanted == YES else ("on", "off")
    share = f"{len(rest):,} of {len(odd) + len(rest):,} replicas"
    verb = "Enable" if wanted == YES else "Disable"
    sentence = f"{verb} prefix caching on these replicas and restart them."
    return Draft(
        odd,
        write("Prefix caching is ", value(own), f"; it is {others} on {share}."),
        pool.evidence([CACHING_PATH], odd, rest),
        remedy.set_to([(CACHING_PATH, wanted)], sentence),
    )


def _off_everywhere(pool: PoolSubject, off: tuple[str, ...]) -> Draft:
    """Return a pool without prefix caching; where the router is assumed, the remedy also offers to declare none."""
    is_assumed = pool.domain.router_basis is Origin.ASSUMED
    behind = "" if pool.domain.assumptions else "; the router sends prompts by prefix"
    fix = remedy.set_to([(CACHING_PATH, YES)], "Enable prefix caching and restart the replicas.")
    if is_assumed:
        sentence = (
            f"{fix.sentence} Where no router uses prefixes, set `router: {Router.NONE}` for this pool in fleet.yaml."
        )
        snippets = (*fix.snippets, remedy.declaration(pool.name, f"router: {Router.NONE}"))
        fix = Remedy(sentence, snippets, any_of=True, ways=fix.ways)
    return Draft(
        off,
        write("Prefix caching is ", value("off"), f" on all {count(len(off), 'replica')} that report it{behind}."),
        pool.evidence([CACHING_PATH], off),
        fix,
        severity=Severity.INFO if is_assumed else None,
        assumptions=pool.domain.assumptions,
    )


@rule("RT-14", needs=(TOKENIZER, TOKENIZER_MODE, TOKENIZER_REVISION))
def tokenizer_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool use different tokenizers, or a different mode or revision of one.

    The owner of a tokenizer's name and the folders above it are ignored, as for models. A snapshot in the hub's cache,
    which vLLM loads offline, counts as its id and commit.
    """
    for draft in pool_differences(pool, {TOKENIZER: names_as_one(pool.values(TOKENIZER))}):
        yield assume_if_folder(draft, pool, TOKENIZER)
    known = revisions(pool, TOKENIZER_REVISION, TOKENIZER)
    yield from pool_differences(pool, {TOKENIZER_REVISION: known})
    for draft in pool_differences(pool, [TOKENIZER_MODE]):
        yield assume_if_auto(draft, "auto resolves to a different mode")


@rule("RT-16", needs=(SIZE, CONNECTOR), least=1)
def offloaded_cache_not_counted(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas offload KV cache to CPU memory or disk, but the router's index only counts GPU blocks.

    vLLM reports the number of GPU blocks, not what it offloaded. Info where the router is only assumed.
    """
    own = pool.values(SIZE, lambda size, settings: NOT_SET if native(settings, BACKEND) == LMCACHE else size)
    sizes = {size: ids for size, ids in own.items() if _is_gib(json.loads(size.value))}
    connected = pool.values(CONNECTOR, _offloads).get(YES, ())
    replicas = tuple(sorted({*connected, *(each for ids in sizes.values() for each in ids)}))
    blocks = _fewest_blocks(pool.only(replicas))
    counted = pool.domain.read(FactName.BLOCKS_PER_REPLICA)
    if not replicas or pool.is_ignored(SIZE) or (blocks and counted and counted >= blocks):
        return
    text = write("Replicas offload KV cache; the router does not count it.")
    if sizes:
        amounts = join_texts((value_piece(size, SIZE),) for size in sizes)
        text = write(setting_piece(SIZE), " is ", amounts, "; the router does not count this KV cache.")
    yaml = f"- type: approx-prefix-cache-producer\n  parameters:\n    lruCapacityPerServer: {blocks}"
    yield Draft(
        replicas,
        text,
        pool.evidence((SIZE, CONNECTOR), replicas),
        Remedy(
            "Set the router's capacity per replica to all of its blocks (llm-d: `lruCapacityPerServer`).",
            () if blocks is None else (Snippet("yaml", yaml),),
        ),
        Confidence.DERIVED,
        severity=Severity.INFO if pool.domain.assumptions else None,
    )


def _is_gib(size: Any) -> bool:
    return isinstance(size, int | float) and not isinstance(size, bool) and 0 < size <= MAX_GIB


def _offloads(connector: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    return YES if any(each.name.startswith(OFFLOADING) for each in connectors(settings)) else connector


def _fewest_blocks(pool: PoolSubject) -> int | None:
    """Return the router's blocks that the smallest replica caches in all; None where unknown."""
    blocks: dict[str, list[int | None]] = {}
    for member, engine in pool.engines():
        blocks.setdefault(member.id, []).append(_blocks_of(pool, member, engine))
    known = [sum(each for each in numbers if each is not None) for numbers in blocks.values() if None not in numbers]
    return min(known, default=None)


def _blocks_of(pool: PoolSubject, member: Replica, engine: Engine) -> int | None:
    """Return the blocks of one engine; the offloading size is per engine, all its ranks together."""
    settings = pool.settings(member)
    size: Any = None if native(settings, BACKEND) == LMCACHE else native(settings, SIZE)
    block = pool.domain.expects.block_size or native(settings, BLOCK_SIZE)
    if not (_is_gib(size) and is_size(block) and engine.kv_cache_bytes and engine.kv_cache_size_tokens):
        return None
    share = (engine.kv_cache_bytes + size * GIB) / engine.kv_cache_bytes
    return int(engine.kv_cache_size_tokens * share) // block


@rule("RT-24", needs=(RETENTION,))
def state_retention_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool keep the cached states of a hybrid model at different intervals.

    Full attention keeps every block. Mamba and sliding window layers keep a state every
    `prefix_cache_retention_interval` tokens, with 0 only at the end of a prompt, and without a number every state.
    Replicas without prefix caching or
    without such layers are excluded. Where no KV cache groups are reported, the finding is assumed.
    """
    groups = pool.first_engine_groups
    kinds = {replica: [each.spec_type.lower() for each in own] for replica, own in groups.items()}
    sparse = {replica for replica, own in kinds.items() if any(name in kind for name in SPARSE for kind in own)}
    part = pool.caching.without(kinds.keys() - sparse)
    for draft in pool_differences(part, [RETENTION]):
        concerned = {replica for each in draft.evidence for replica in each.replicas}
        yield draft if concerned <= sparse else replace(draft, assumptions=(IS_HYBRID,))
