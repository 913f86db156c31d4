"""PD-14: prefill and decode keep KV cache of different layers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dashboard.fleet import KVCacheGroup, Replica
from dashboard.fleet.formatting import count, joined
from dashboard.rules import remedy
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import unequal
from dashboard.rules.findings import Confidence, Draft, Family, Severity
from dashboard.rules.holders import held, told_of
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import Holders, PairSubject, PoolSubject

GROUPS = "kv_cache_groups"
PP = "parallel_config.pipeline_parallel_size"
# What decides the groups and has a rule of its own: where these differ, the groups follow.
OTHER_RULES = ("scheduler_config.disable_hybrid_kv_cache_manager", "speculative_config.method", "version")
# What else decides them, the likeliest first.
CAUSES = (
    "model_config.disable_sliding_window",
    "model_config.hf_overrides",
    "model_config.model_impl",
    "model_config.model",
)


@rule(
    id="PD-14",
    name="prefill-decode-kv-cache-groups-differ",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(GROUPS,),
)
def kv_cache_groups_differ(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode keep KV cache of different layers.

    Compared are the KV cache groups of the first engine: their kinds, layers, windows and head sizes, which do not
    depend on how many GPUs a side has.

    Why it matters:
        - disaggregated: The regions of memory on both sides cannot be matched: the connector ends the handshake with an
          error about their number or length, and no request gets its KV cache from prefill.

    How to fix:
        Load the same model code with the same version and the same model options in both pools.

    Exceptions:
        Not judged while versions, hybrid management or speculation differ, which have findings of their own, nor with
        pipeline parallelism, where each rank has layers of its own.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py (regions must match in number and length)
        - vllm/distributed/kv_transfer/kv_connector/v1/mooncake/mooncake_connector.py (layers and groups must match)

    Example:
        Prefill runs with `--disable-sliding-window`: what decode keeps in two groups is one group there.
    """
    is_elsewhere = any(_differ(pair, path) for path in OTHER_RULES)
    is_split = any(told.value not in ("1", "null") for side in pair.sides for told in side.values(PP))
    sides = [_groups(side) for side in pair.sides]
    if is_elsewhere or is_split or not all(sides) or len(sides[0].keys() | sides[1].keys()) == 1:
        return
    draft = unequal(pair, GROUPS, "list of KV cache groups", sides)
    wanted = next(iter(sides[1]))
    odd = sorted(replica for holders in sides for told, ids in holders.items() if told != wanted for replica in ids)
    yield replace(
        draft,
        replicas=tuple(odd),
        sentence=f"KV cache groups differ: {_in_words(pair.prefill)} on prefill, {_in_words(pair.decode)} on decode.",
        remedy=remedy.set_to(
            [(path, next(iter(pair.decode.values(path)))) for path in CAUSES if _differ(pair, path)],
            "Give both pools the same model options, and restart those that change.",
        ),
        confidence=Confidence.DERIVED,
    )


def _differ(pair: PairSubject, path: str) -> bool:
    sides = [side.values(path) for side in pair.sides]
    return all(sides) and len(sides[0].keys() | sides[1].keys()) > 1


def _groups(side: PoolSubject) -> Holders:
    return held({each.id: told_of(_shape(each)) for each in side.members if each.kv_cache_groups})


def _shape(replica: Replica) -> list[dict[str, Any]]:
    """Return the groups of a replica's first engine without what depends on its GPUs or has a rule of its own."""
    first = min(group.dp_rank for group in replica.kv_cache_groups)
    groups = [_plain(group) for group in replica.kv_cache_groups if group.dp_rank == first]
    return sorted(groups, key=lambda group: sorted(group.items(), key=str).__repr__())


def _plain(group: KVCacheGroup) -> dict[str, Any]:
    return {
        "spec_type": group.spec_type,
        "layers": group.layers,
        "sliding_window": group.sliding_window,
        "head_size": group.head_size,
    }


def _in_words(side: PoolSubject) -> str:
    """Name the groups of a side's most frequent list: `5 layers FullAttentionSpec`."""
    most = next(iter(_groups(side).values()))
    told = next(each for each in side.members if each.id == most[0])
    return joined([f"{count(each['layers'], 'layer')} {each['spec_type']}" for each in _shape(told)])
