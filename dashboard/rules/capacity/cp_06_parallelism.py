"""CP-06: replicas of one pool spread the model over devices in different ways."""

from collections.abc import Iterator

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

NOUNS = {
    "parallel_config.tensor_parallel_size": "tensor parallel size",
    "parallel_config.pipeline_parallel_size": "pipeline parallel size",
    "parallel_config.data_parallel_size": "data parallel size",
    "parallel_config.enable_expert_parallel": "expert parallelism",
}


@rule(
    id="CP-06",
    name="parallelism-differs",
    family=Family.CAPACITY,
    severity={ImpactContext.MODEL: Severity.WARNING, ImpactContext.KV_STORE: Severity.WARNING},
    needs=tuple(NOUNS),
)
def parallelism_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool spread the model over different numbers of devices, or in different ways.

    Why it matters:
        - any pool: Replicas differ in speed and in the KV cache that they hold, and a router that takes them for
          equal overloads the smaller ones.
        - kv-store: Replicas differ in speed and in what they hold; and what one writes to the store is cut for its
          number of devices, so another does not find it.

    How to fix:
        Start every replica of the pool with the same parallel sizes, or make a pool for each size.

    Exceptions:
        Prefill and decode replicas may be spread differently: they are two pools, and not compared.

    Evidence:
        - vllm/config/parallel.py (what each size means)
        - vllm/v1/kv_offload/file_mapper.py (parallel sizes are part of the folder that blocks are stored in)

    Example:
        Four replicas run with `--tensor-parallel-size 4`; a fifth, on the GPUs that were left, with 2. It holds a
        third of the KV cache and gets as many requests.
    """
    return drift(pool, NOUNS)
