"""CP-12: memory that is set aside for the KV cache and that no block uses."""

import json
from collections import defaultdict
from collections.abc import Iterator

from dashboard.fleet import State
from dashboard.rules.connectors import value
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Confidence, Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

USED, AVAILABLE = "engines.kv_cache_bytes_per_device", "engines.kv_cache_available_bytes"
ASKED = "cache_config.kv_cache_memory_bytes"
OVERRIDE = "cache_config.num_gpu_blocks_override"
GIB = 2**30


@rule(
    id="CP-12",
    name="kv-cache-memory-stranded",
    family=Family.CAPACITY,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=("engines",),
    least=1,
)
def kv_cache_memory_stranded(pool: PoolSubject, *, share: float = 0.05) -> Iterator[Draft]:
    """Memory that is set aside for the KV cache on a device, and that no block uses.

    Available is what an engine measured on its first device when it started (the provider reports it), else
    `--kv-cache-memory-bytes`. Used is what its blocks take on one device. `share` of the available memory may be
    unused.

    Why it matters:
        - any pool: All devices of an engine get as many blocks as the one with the least room. What the others have
          left serves nothing, and the engine preempts requests beside idle memory.

    How to fix:
        Free the smallest device (another process, a larger share of the weights), so that all have as much room. With
        pipeline parallelism, move layers with `VLLM_PP_LAYER_PARTITION`.

    Exceptions:
        Not evaluated where `num_gpu_blocks_override` is set: then the blocks were chosen by hand. Without the provider
        and `--kv-cache-memory-bytes`, the available memory is unknown. Devices other than the first are not compared.

    Evidence:
        - vllm/v1/core/kv_cache_planning.py (all workers get the smallest number of blocks)
        - vllm/v1/engine/core.py (available_gpu_memory_for_kv_cache)
        - vllm-project/vllm#54354
        - vllm-project/vllm#25164

    Example:
        Three GPUs have `--kv-cache-memory-bytes 40G`. The blocks that fit into the first pipeline stage decide for
        all, and the last stage keeps 17 GiB that nothing uses.
    """
    for (source, available, used), replicas in _stranded(pool, share).items():
        unused = f"{(available - used) / GIB:,.1f} GiB of {available / GIB:,.1f} GiB"
        yield Draft(
            tuple(sorted(replicas)),
            f"{unused} for the KV cache is unused on a device.",
            (
                Evidence(USED, json.dumps(used), State.REPORTED, tuple(sorted(replicas))),
                Evidence(source, json.dumps(available), State.REPORTED, tuple(sorted(replicas)), is_reference=True),
            ),
            Remedy(
                "Give all devices of the engine as much room: end other processes on the smallest one, and restart.",
                (Snippet("shell", "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv"),),
            ),
            Confidence.DERIVED,
        )


def _stranded(pool: PoolSubject, share: float) -> dict[tuple[str, int, int], set[str]]:
    """Return by (source of the available bytes, available, used) the replicas with such an engine."""
    found: dict[tuple[str, int, int], set[str]] = defaultdict(set)
    asked = pool.of_documents(lambda settings: (value(settings, ASKED), value(settings, OVERRIDE)))
    for member, engine in pool.engines():
        size, override = asked[member.id]
        source, available = ASKED, size
        if engine.kv_cache_available_bytes:
            source, available = AVAILABLE, engine.kv_cache_available_bytes
        used = engine.kv_cache_bytes_per_device
        if isinstance(available, int) and used and override is None and available - used > share * available:
            found[source, available, used].add(member.id)
    return found
