"""What replicas must have in common so that one finds in a store what another has put there."""

from collections.abc import Mapping, Sequence

from dashboard.fleet import KVCacheGroup
from dashboard.rules.subject import PoolSubject

MODEL, REVISION, QUANTIZATION = "model_config.model", "model_config.revision", "model_config.quantization"
TP, PP = "parallel_config.tensor_parallel_size", "parallel_config.pipeline_parallel_size"


def groups_of(pool: PoolSubject) -> Mapping[str, tuple[KVCacheGroup, ...]]:
    """Return by replica the KV cache groups of its first engine; who tells none is left out."""
    return {
        member.id: tuple(group for group in member.kv_cache_groups if group.dp_rank == first)
        for member in pool.members
        if (first := min((group.dp_rank for group in member.kv_cache_groups), default=None)) is not None
    }


def is_mla(groups: Sequence[KVCacheGroup]) -> bool:
    """Tell whether groups are of multi-head latent attention: each tensor parallel rank keeps the same."""
    return any("mla" in group.spec_type.lower() for group in groups)
