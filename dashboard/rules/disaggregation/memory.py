"""PD-13, PD-14 and PD-20: memory of the KV cache on prefill and decode."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dashboard.fleet import KVCacheGroup, Replica, Setting, SettingValue, State
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Text, joined, value
from dashboard.rules import remedy
from dashboard.rules.connector_options import SECTION, connectors, native
from dashboard.rules.differences import are_unequal, pair_difference
from dashboard.rules.disaggregation.handshake import NIXL, is_mla
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Confidence, Draft, Evidence, Remedy, Severity, Snippet
from dashboard.rules.registry import Scope, rule
from dashboard.rules.sentences import write
from dashboard.rules.subject import Holders, PairSubject, PoolSubject, group_by_native

PP = "parallel_config.pipeline_parallel_size"
LAYOUT = "cache_config.kv_cache_layout"
LAYOUT_VARIABLE = "env.VLLM_KV_CACHE_LAYOUT"
PERMUTE = f"{SECTION}.enable_permute_local_kv"
# Every version accepts these two names (vllm/envs.py); newer ones also one letter per dimension.
HND, NHD = SettingValue('"HND"', State.REPORTED), SettingValue('"NHD"', State.REPORTED)
LAYOUTS = {"LBHNC": HND, "LBNHC": NHD, "HND": HND, "NHD": NHD}
GROUPS = "kv_cache_groups"
# Settings that decide the groups and have their own rules.
OTHER_RULES = ("scheduler_config.disable_hybrid_kv_cache_manager", "speculative_config.method", "version")
# Other settings that decide the groups, the likeliest first.
CAUSES = (
    "model_config.disable_sliding_window",
    "model_config.hf_overrides",
    "model_config.model_impl",
    "model_config.model",
)
BLOCKS = "engines.num_gpu_blocks"


@rule(
    "PD-13",
    {ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(LAYOUT, LAYOUT_VARIABLE, "version"),
    scope=Scope.PAIR,
)
def prefill_decode_layout_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode use different KV cache layouts.

    The effective layout is compared, else the variable that requests one. NIXL's default without the variable is HND.

    Why it matters:
        - disaggregated: Heads and tokens have another order in memory, so blocks cannot be copied. NIXL ends the
          handshake with an error and no KV cache is transferred.

    How to fix:
        Unset `VLLM_KV_CACHE_LAYOUT` in both pools: NIXL then chooses HND, which also supports different numbers of
        ranks.

    Exceptions:
        Models with latent attention have one layout only. Decode can convert HND to NHD with `enable_permute_local_kv`.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py (different layouts raise)
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/connector.py (NIXL's own choice)
        - vllm-project/vllm#26556

    Example:
        Decode was started with `VLLM_KV_CACHE_LAYOUT=NHD` for an experiment with another backend.
    """
    if is_mla(pair):
        return
    resolved = [side.conclude(_resolved_layout) for side in pair.sides]
    is_resolved = all(resolved)
    path = LAYOUT if is_resolved else LAYOUT_VARIABLE
    sides = resolved if is_resolved else [side.conclude(_requested_layout) for side in pair.sides]
    if pair.is_ignored(path) or not are_unequal(sides):
        return
    permutes = [each.value == "true" for each in pair.decode.values(PERMUTE)]
    if set(sides[0]) == {HND} and set(sides[1]) <= {HND, NHD} and permutes and all(permutes):
        return
    draft = pair_difference(pair, path, sides)
    how = remedy.set_to([(LAYOUT_VARIABLE, next(iter(sides[1])))], draft.remedy.sentence)
    yield replace(draft, remedy=how, confidence=Confidence.REPORTED if is_resolved else Confidence.DERIVED)


def _resolved_layout(settings: Mapping[str, Setting]) -> SettingValue | None:
    layout = native(settings, LAYOUT)
    return LAYOUTS.get(layout) if isinstance(layout, str) else None


def _requested_layout(settings: Mapping[str, Setting]) -> SettingValue | None:
    """Return the layout of the variable; NIXL's default where other variables are reported and this one is not."""
    layout = native(settings, LAYOUT_VARIABLE)
    if isinstance(layout, str):
        return LAYOUTS.get(layout)
    is_nixl = any(each.name in NIXL for each in connectors(settings))
    return HND if is_nixl and any(path.startswith("env.VLLM_") for path in settings) else None


@rule("PD-14", {ImpactContext.DISAGGREGATED: Severity.CRITICAL}, needs=(GROUPS,), scope=Scope.PAIR)
def prefill_decode_kv_cache_groups_differ(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode have different KV cache groups.

    Compared are kinds, layers, windows and head sizes of the first engine's groups: they do not depend on the number of
    GPUs.

    Why it matters:
        - disaggregated: The memory regions of both sides cannot be mapped. The connector ends the handshake with an
          error about their number or length, and no KV cache is transferred.

    How to fix:
        Load the same model code with the same version and model options in both pools.

    Exceptions:
        Not evaluated while versions, hybrid manager or speculation differ, which have their own findings, nor with
        pipeline parallelism, where each rank has its own layers.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py (regions must match in number and length)
        - vllm/distributed/kv_transfer/kv_connector/v1/mooncake/mooncake_connector.py (layers and groups must match)

    Example:
        Prefill runs with `--disable-sliding-window`: decode's two groups are one group there.
    """
    has_other_rule = any(_differ(pair, path) for path in OTHER_RULES)
    is_split = any(each.value not in ("1", "null") for side in pair.sides for each in side.values(PP))
    sides = [_groups(side) for side in pair.sides]
    if has_other_rule or is_split or not are_unequal(sides):
        return
    prefill, decode = (_groups_text(side) for side in pair.sides)
    yield replace(
        pair_difference(pair, GROUPS, sides),
        text=write("KV cache groups differ: ", prefill, " on prefill and ", decode, " on decode."),
        remedy=remedy.set_to(
            [(path, next(iter(pair.decode.values(path)))) for path in CAUSES if _differ(pair, path)],
            "Use the same model options in both pools and restart the changed replicas.",
        ),
        confidence=Confidence.DERIVED,
    )


def _differ(pair: PairSubject, path: str) -> bool:
    return are_unequal([side.values(path) for side in pair.sides])


def _groups(side: PoolSubject) -> Holders:
    return group_by_native({each.id: _shape(each) for each in side.members if each.kv_cache_groups})


def _shape(replica: Replica) -> list[dict[str, Any]]:
    """Return the groups of a replica's first engine, without what depends on GPUs or has its own rule."""
    first = min(group.dp_rank for group in replica.kv_cache_groups)
    groups = [_plain(group) for group in replica.kv_cache_groups if group.dp_rank == first]
    return sorted(groups, key=lambda group: repr(sorted(group.items(), key=str)))


def _plain(group: KVCacheGroup) -> dict[str, Any]:
    names = ("spec_type", "layers", "sliding_window", "head_size")
    return {name: getattr(group, name) for name in names}


def _groups_text(side: PoolSubject) -> Text:
    """Return the groups of most members: `5 layers FullAttentionSpec`."""
    groups: list[dict[str, Any]] = json.loads(next(iter(_groups(side))).value)
    return joined((value(f"{count(each['layers'], 'layer')} {each['spec_type']}"),) for each in groups)


@rule("PD-20", {ImpactContext.DISAGGREGATED: Severity.WARNING}, needs=("engines",), least=1)
def rank_blocks_differ(pool: PoolSubject, *, blocks: int = 1000) -> Iterator[Draft]:
    """DP ranks of one replica have very different numbers of blocks.

    Each rank measures its free memory at start. `blocks` is the tolerated difference.

    Why it matters:
        - disaggregated: A decode rank reads KV cache by block id from a prefill rank. An id beyond the smaller rank's
          blocks is outside its registered memory, and transfers fail under load.

    How to fix:
        Set the same number of blocks on all ranks with `--num-gpu-blocks-override`, or free the same memory on all
        GPUs.

    Exceptions:
        Connectors that translate block ids are not affected: disable the rule.

    Evidence:
        - vllm/v1/engine/core.py (each DP rank measures its own memory)
        - vllm-project/vllm#46106

    Example:
        One of eight ranks shares its GPU with a monitoring agent and has 4,000 blocks less. At high concurrency its
        peers read beyond the end of its memory.
    """
    for member in pool.members:
        known = {engine.dp_rank: engine.num_gpu_blocks for engine in member.engines}
        sizes = [number for number in known.values() if number is not None]
        if member.is_second_address or not sizes or (apart := max(sizes) - min(sizes)) <= blocks:
            continue
        span = (value(f"{min(sizes):,}"), " to ", value(f"{max(sizes):,}"))
        yield Draft(
            (member.id,),
            write("DP ranks have ", *span, f" blocks, a difference of {apart:,}."),
            tuple(
                Evidence(BLOCKS, json.dumps(number), State.REPORTED, (member.id,), f"DP rank {rank}")
                for rank, number in known.items()
                if number is not None
            ),
            Remedy(
                "Set the number of blocks of the smallest rank on all ranks and restart the replica.",
                (Snippet("flag", f"--num-gpu-blocks-override {min(sizes)}"),),
            ),
        )
