"""CP-10: replicas of one pool offload weights differently."""

from collections.abc import Iterator

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

NOUNS = {
    "cache_config.cpu_offload_gb": "setting cpu_offload_gb",  # before 0.20
    "offload_config.uva.cpu_offload_gb": "setting cpu_offload_gb",
    "offload_config.prefetch.offload_group_size": "setting offload_group_size",
}


@rule(
    id="CP-10",
    name="weight-offloading-differs",
    family=Family.CAPACITY,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=tuple(NOUNS),
)
def weight_offloading_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool offload weights to CPU memory differently.

    Why it matters:
        - any pool: Offloaded weights are copied to the device in every forward pass. These replicas are slower than the
          rest of the pool, and have more memory for the KV cache.

    How to fix:
        Give every replica of the pool the same `--cpu-offload-gb` and `--offload-group-size`, or none.

    Exceptions:
        Devices with less memory may need it: make a pool for each kind of device.

    Evidence:
        - vllm/config/offload.py (weights are copied in each forward pass)

    Example:
        A replica was started with `--cpu-offload-gb 8` on a smaller GPU and kept the flag after it moved.
    """
    return drift(pool, NOUNS)
