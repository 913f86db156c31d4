"""GET /v1/server/kv-cache (vllm-project/vllm#43793) and the public plugins' /kv-cache."""

from dashboard.vllm.schemas.base import Count, Wire
from dashboard.vllm.schemas.kv_cache_groups import KVCacheGroups


class KVCacheReply(Wire):
    """KV cache of one engine. The plugins' tokens are blocks x block_size: too much for hybrid models."""

    num_gpu_blocks: Count | None
    num_cpu_blocks: Count | None = None
    kv_cache_size_tokens: Count | None = None
    max_concurrency: float | None = None
    groups: KVCacheGroups = ()
