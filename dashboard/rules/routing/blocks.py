"""RT-02, RT-03 and RT-17: tokens of a block, of a hash, and of the smallest reusable prefix."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeGuard

from dashboard.compare.encoding import lookup_setting
from dashboard.compare.equality import NOT_SET
from dashboard.compare.hashes import count_equal_hashes_as_one
from dashboard.compare.holders import Holders
from dashboard.compare.prefix import CACHING_PATH
from dashboard.fleet import Basis, FactName, Replica, Setting, SettingValue, State
from dashboard.fleet.pieces import value
from dashboard.rules import remedy
from dashboard.rules.connector_options import native
from dashboard.rules.differences import pool_differences
from dashboard.rules.domain import Router
from dashboard.rules.findings import Confidence, Draft, Remedy, Severity, Snippet, UnevaluatedReplicas, Way, expectation
from dashboard.rules.registry import rule
from dashboard.rules.sentences import MAX_VALUES, write
from dashboard.rules.subject import PoolSubject
from dashboard.vllm.lookahead import METHODS, lookahead_setting

BLOCK_SIZE = "cache_config.block_size"
EFFECTIVE = "cache_config.effective_attention_block_size"
DCP = "parallel_config.decode_context_parallel_size"
MATCH_UNIT = "cache_config.prefix_match_unit"
HASH_BLOCK = "cache_config.hash_block_size"
ALIGNMENT = "cache_config.cache_hit_alignment_tokens"
METHOD = "speculative_config.method"
NO_DROP = "speculative_config.disable_eagle_block_drop"
UNKNOWN = 0  # tokens of a hit
NO_ALIGNMENT = f"{ALIGNMENT}: not reported, and the model may have several KV cache groups."
# Routers that split or estimate blocks lose little where a block is a multiple of theirs.
MULTIPLES = {Router.KV_EVENTS: Severity.WARNING, Router.APPROXIMATE: Severity.INFO}
WHY_MULTIPLES = {
    Router.KV_EVENTS: "Dynamo's router discards every event with a different block size, so these caches are never "
    "hit. llm-d's splits blocks and finds everything.",
    Router.APPROXIMATE: "The router counts smaller blocks than the replicas cache, so it overestimates cached prefixes "
    "a little.",
}
WHY_LONGER = (
    "An event with fewer tokens than one of the router's blocks is dropped, so the ends of prefixes are missed."
)


@rule("RT-02", needs=(BLOCK_SIZE,), least=1, expects="block_size")
def block_size_not_the_routers(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas use a different block size than the router.

    The rule compares the tokens of a block: the block size times the degree of decode context parallelism. The router's
    size is what it reports itself (`routers`), else `expects.block_size` in fleet.yaml.
    """
    expected = pool.domain.expects.block_size
    part = pool.caching
    sizes = {size: ids for size, ids in part.values(BLOCK_SIZE, tokens_of_block).items() if is_size(_loaded(size))}
    for size, replicas in sizes.items():
        tokens = _loaded(size)
        if not expected or tokens == expected or pool.is_ignored(BLOCK_SIZE):
            continue
        own_keys = pool.domain.read(FactName.OWN_KEYS)
        if own_keys and tokens % expected == 0:
            continue
        splits = own_keys is not False and tokens % expected == 0
        router = pool.domain.router if splits else Router.NONE
        severity, why = MULTIPLES.get(router), WHY_MULTIPLES.get(router)
        if own_keys and expected % tokens == 0:
            severity, why = Severity.WARNING, WHY_LONGER
        rows = part.evidence((BLOCK_SIZE, EFFECTIVE, DCP), replicas)
        yield Draft(
            replicas,
            write("A block has ", value(f"{tokens:,}"), " tokens; the router expects ", value(f"{expected:,}"), "."),
            (*rows, expectation(BLOCK_SIZE, expected, pool.domain.fact(FactName.BLOCK_SIZE))),
            _router_remedy(part, sizes, size, expected),
            severity=severity,
            why=why,
            assumptions=pool.domain.assumptions if router in MULTIPLES else (),
        )


def tokens_of_block(size: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Return the tokens of a block: reported by vLLM, else the block size times the context parallel size."""
    effective, own, dcp = native(settings, EFFECTIVE), _loaded(size), native(settings, DCP)
    tokens = effective if is_size(effective) else own * (dcp if is_size(dcp) else 1) if is_size(own) else own
    return SettingValue(json.dumps(tokens), size.state)


def is_size(size: Any) -> TypeGuard[int]:
    """Return whether a foreign value is a positive number of tokens."""
    return isinstance(size, int) and not isinstance(size, bool) and size > 0


def _loaded(size: SettingValue) -> Any:
    return json.loads(size.value)


def _router_remedy(pool: PoolSubject, sizes: Holders, own: SettingValue, expected: int) -> Remedy:
    """Return how to change these replicas, or where most of the pool equals them, the router."""
    total, replicas = sum(map(len, sizes.values())), sizes[own]
    wanted = SettingValue(json.dumps(expected), State.REPORTED)
    matching = sizes.get(wanted, ())
    sizes_to_set = _block_sizes(pool.only(replicas), own, pool.only(matching[:1]), wanted)
    restart = f"these replicas with {expected:,} tokens per block"
    if len(replicas) * 2 <= total:
        others = f", as {len(matching):,} of {total:,} replicas" if matching else ""
        return remedy.set_to(sizes_to_set, f"Restart {restart}{others}.")
    tokens = _loaded(own)
    share = "all replicas" if len(replicas) == total else f"{len(replicas):,} of {total:,} replicas"
    sentence = (
        f"Set the router's block size and `expects.block_size` in fleet.yaml to {tokens:,}, as on {share}. "
        f"Or restart {restart}."
    )
    router = []
    if pool.domain.router is Router.KV_EVENTS:  # llm-d and Dynamo
        router = [
            Snippet("yaml", f"tokenProcessorConfig:\n  blockSizeTokens: {tokens}"),
            Snippet("env", f"export DYN_KV_CACHE_BLOCK_SIZE={tokens}"),
        ]
    flags = remedy.set_to(sizes_to_set, sentence)
    return Remedy(sentence, (*router, *flags.snippets), any_of=True, ways=flags.ways)


def _block_sizes(
    odd: PoolSubject, own: SettingValue, matching: PoolSubject, expected: SettingValue
) -> list[tuple[str, SettingValue]]:
    """Return what a replica with the router's size has; without one, the block size if it alone decides."""
    if matching.members:
        wanted = [(path, size) for path in (BLOCK_SIZE, DCP) for size in matching.values(path)]
    else:
        wanted = [(BLOCK_SIZE, expected)] if tuple(odd.values(BLOCK_SIZE)) == (own,) else []
    return [(path, size) for path, size in wanted if tuple(odd.values(path)) != (size,)]


@rule("RT-03", needs=(MATCH_UNIT, HASH_BLOCK, ALIGNMENT), needs_any=True)
def match_unit_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool compute block hashes over different numbers of tokens.

    The match unit can be finer than the block size. Where unset, vLLM uses the largest size that divides the blocks of
    all KV cache groups.
    """
    hashing = pool.caching
    units = count_equal_hashes_as_one(hashing.values(MATCH_UNIT, _effective_unit), hashing.fingerprints("engine"))
    requested = list(pool_differences(pool, {MATCH_UNIT: units}))
    resolved = pool_differences(_without_other_block_sizes(hashing), (HASH_BLOCK, ALIGNMENT))
    yield from requested or (_with_unit(draft) for draft in resolved)


def _without_other_block_sizes(hashing: PoolSubject) -> PoolSubject:
    """Return the pool without replicas that hash per block and have a different block size than most: RT-01."""
    blocks, steps = hashing.values(BLOCK_SIZE), hashing.values(HASH_BLOCK)
    others = {each for size in list(blocks)[1:] for each in set(blocks[size]).intersection(steps.get(size, ()))}
    return hashing.without(others)


def _with_unit(draft: Draft) -> Draft:
    """Return a draft on a resolved size with the remedy for the settings behind it."""
    sizes = [each for each in draft.evidence if each.path == HASH_BLOCK]
    usual = [each for each in sizes if each.is_reference]
    is_choice = draft.remedy.any_of and not usual
    wanted = sizes[:MAX_VALUES] if is_choice else usual
    ways = [Way(((MATCH_UNIT, SettingValue(each.value, each.state)),)) for each in wanted]
    sentence = "Set `block_size` and `prefix_match_unit` as on the rest of the pool and restart these replicas."
    if is_choice:
        sentence = "Choose one `block_size` and `prefix_match_unit` for the pool and restart the other replicas."
    return replace(draft, remedy=remedy.one_of(ways, sentence)._replace(any_of=is_choice))


def _effective_unit(unit: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Count a unit equal to the block size as not set: vLLM uses that by default."""
    block = lookup_setting(settings, BLOCK_SIZE)
    return NOT_SET if block is not None and unit.value == block.value else unit


@rule("RT-17", needs=(BLOCK_SIZE, ALIGNMENT), needs_any=True, least=1)
def reusable_prefix_too_long(pool: PoolSubject, *, prompt_tokens: int = 512) -> Iterator[Draft | UnevaluatedReplicas]:
    """Typical prompts are shorter than the smallest reusable prefix.

    A cache hit ends at a multiple of the alignment, which is the block size where the model has one KV cache group.
    With EAGLE and MTP the last block of a hit is dropped, so a hit needs two. `prompt_tokens` is the length of a
    typical prompt.
    """
    if pool.is_ignored(BLOCK_SIZE):
        return
    hits: dict[tuple[str | None, bool, bool], int | None] = {}  # replicas share documents
    found: dict[int, set[str]] = defaultdict(set)
    for member in pool.members:
        key = (member.document, _is_uniform(member), _has_one_group(member))
        if key not in hits:
            hits[key] = _smallest_hit(pool.settings(member), is_uniform=key[1], has_one_group=key[2])
        if (tokens := hits[key]) is not None:
            found[tokens].add(member.id)
    if unknown := tuple(sorted(found.pop(UNKNOWN, ()))):
        yield UnevaluatedReplicas(unknown, "" if found else NO_ALIGNMENT)
    for tokens, replicas in sorted((tokens, ids) for tokens, ids in found.items() if tokens > prompt_tokens):
        deciding = (ALIGNMENT,) if pool.only(replicas).values(ALIGNMENT) else (EFFECTIVE, DCP)
        rows = pool.evidence((BLOCK_SIZE, *deciding, METHOD), replicas)
        yield Draft(
            tuple(sorted(replicas)),
            write(
                "Prefixes below ", value(f"{tokens:,}"), f" tokens are never reused; a prompt has {prompt_tokens:,}."
            ),
            tuple(each for each in rows if each.state is State.REPORTED),
            Remedy(
                "Use a smaller block size, or a finer prefix match unit for a hybrid model. If prompts are longer, "
                "raise the parameter `prompt_tokens` of this rule in fleet.yaml.",
                (
                    Snippet("flag", "--prefix-match-unit 16"),
                    Snippet("yaml", f"rules:\n  RT-17: {{parameters: {json.dumps({'prompt_tokens': tokens})}}}"),
                ),
                any_of=True,
            ),
            Confidence.DERIVED,
        )


def _smallest_hit(settings: Mapping[str, Setting], *, is_uniform: bool, has_one_group: bool) -> int | None:
    """Return the tokens of the smallest cache hit; UNKNOWN without an alignment, None without prefix caching."""
    block, alignment, effective, dcp = (native(settings, path) for path in (BLOCK_SIZE, ALIGNMENT, EFFECTIVE, DCP))
    if native(settings, CACHING_PATH) is not True or not is_size(block):
        return None
    if not is_size(alignment) and is_uniform:
        alignment = block
    elif not is_size(alignment) and has_one_group:
        alignment = effective if is_size(effective) else block * dcp if is_size(dcp) else UNKNOWN
    if not is_size(alignment):
        return UNKNOWN
    return int(alignment) * (2 if _drops_last_block(settings) else 1)


def _is_uniform(replica: Replica) -> bool:
    """Return whether all layers keep every token, undivided: the reported tokens are blocks x block size."""
    return any(
        each.basis is Basis.REPORTED and each.kv_cache_size_tokens == each.naive_tokens for each in replica.engines
    )


def _has_one_group(replica: Replica) -> bool:
    """Return whether the engines report one KV cache group each."""
    groups = [group.dp_rank for group in replica.kv_cache_groups]
    return bool(groups) and len(groups) == len(set(groups))


def _drops_last_block(settings: Mapping[str, Setting]) -> bool:
    """Return whether a hit loses its last block: never with hash lookahead."""
    if native(settings, METHOD) not in METHODS or native(settings, NO_DROP) is not False:
        return False
    ahead = lookahead_setting(settings)
    return ahead is not None and ahead.value == "0"
