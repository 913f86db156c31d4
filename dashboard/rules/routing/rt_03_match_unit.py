"""RT-03: replicas of one pool hash blocks at different steps."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.compare.encoding import lookup_setting
from dashboard.compare.prefix import digests
from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import MOST_SIDES, apart, drift
from dashboard.rules.findings import Draft, Family, Remedy, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing.hashes import counted_as_one
from dashboard.rules.routing.narrowing import caching, only
from dashboard.rules.routing.rt_01_block_size import BLOCK_SIZE
from dashboard.rules.subject import Holders, PoolSubject

MATCH_UNIT = "cache_config.prefix_match_unit"
HASH_BLOCK = "cache_config.hash_block_size"
RESOLVED = {HASH_BLOCK: "hash block size", "cache_config.cache_hit_alignment_tokens": "cache hit alignment"}
UNSET = SettingValue("null", State.NULL)
NOUN = "prefix match unit"


@rule(
    id="RT-03",
    name="match-unit-differs",
    family=Family.ROUTING,
    severity={
        ImpactContext.MODEL: Severity.WARNING,
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_STORE: Severity.CRITICAL,
    },
    needs=(MATCH_UNIT, *RESOLVED),
)
def match_unit_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool hash their blocks every so many tokens, and the numbers differ.

    The unit can be finer than the block size. Left out, vLLM takes the largest size that divides the blocks of all
    KV cache groups.

    Why it matters:
        - any pool: Another unit makes other hashes of the same tokens, and hits end at other places.
        - prefix-hash: The router hashes with one unit. It never finds what a replica with another unit caches.
        - kv-store: Keys of the store are made per unit, so replicas with another unit share nothing.

    How to fix:
        Give every replica of the pool the same `--prefix-match-unit`, or none.

    Exceptions:
        A unit that is written out and equals the block size counts as left out: that is what vLLM resolves to where
        all layers cache alike. Units count as one where engines tell that they computed the same hashes, and a step
        that only follows a block size of its own is left to RT-01.

    Evidence:
        - vllm/config/cache.py (prefix_match_unit)
        - vllm/v1/core/kv_cache_utils.py (how the unit is resolved, and that it is the step of hashing)
        - vllm/v1/kv_offload/file_mapper.py (tokens per hash are part of the key)

    Example:
        For a hybrid model `--prefix-match-unit 32` was tried on one replica and stayed there: its keys match nobody's.
    """
    hashing = caching(pool)
    requested = () if pool.is_ignored(MATCH_UNIT) else tuple(apart({MATCH_UNIT: (NOUN, _requested(hashing))}))
    yield from requested or (_with_unit(draft) for draft in drift(_beside_block_size(hashing), RESOLVED))


def _requested(hashing: PoolSubject) -> Holders:
    """Return who asks for which unit; where engines computed the same hashes, every unit comes to the same."""
    return counted_as_one(hashing.values(MATCH_UNIT, _in_force), hashing.fingerprints(digests))


def _beside_block_size(hashing: PoolSubject) -> PoolSubject:
    """Leave out who hashes every block, and has other blocks than most: that difference is RT-01's."""
    blocks, steps = hashing.values(BLOCK_SIZE), hashing.values(HASH_BLOCK)
    others = {each for told in list(blocks)[1:] for each in set(blocks[told]).intersection(steps.get(told, ()))}
    return only(hashing, {member.id for member in hashing.members} - others)


def _with_unit(draft: Draft) -> Draft:
    """Say what can be set: nothing sets a resolved size itself."""
    sizes = [each for each in draft.evidence if each.path == HASH_BLOCK]
    units = [(MATCH_UNIT, SettingValue(each.value, each.state)) for each in sizes if each.is_reference]
    nouns = "block size and prefix match unit"
    if units or not draft.remedy.any_of:
        sentence = f"Give these replicas the same {nouns} as the rest of the pool, and restart them."
        return replace(draft, remedy=remedy.set_to(units, sentence))
    choices = [remedy.pasteable(MATCH_UNIT, SettingValue(each.value, each.state)) for each in sizes[:MOST_SIDES]]
    sentence = f"Choose one {nouns} for the pool, and restart the others."
    return replace(draft, remedy=Remedy(sentence, tuple(each for each in choices if each), any_of=True))


def _in_force(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Count a unit as large as a block as left out: vLLM takes that by itself."""
    block = lookup_setting(settings, BLOCK_SIZE)
    return UNSET if block is not None and told.value == block.value else told
