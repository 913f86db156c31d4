"""PD-20: DP ranks of one replica have very different numbers of blocks."""

import json
from collections.abc import Iterator

from dashboard.fleet import State
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

BLOCKS = "engines.num_gpu_blocks"


@rule(
    id="PD-20",
    name="rank-blocks-differ",
    family=Family.DISAGGREGATION,
    severity={ImpactContext.DISAGGREGATED: Severity.WARNING},
    needs=("engines",),
    least=1,
)
def rank_blocks_differ(pool: PoolSubject, *, blocks: int = 1000) -> Iterator[Draft]:
    """DP ranks of one replica have very different numbers of blocks.

    Each rank measures its own free memory at start. `blocks` is how many blocks ranks may be apart.

    Why it matters:
        - disaggregated: A decode rank reads KV cache by block id from a prefill rank. An id beyond the blocks of the
          smaller rank is outside the memory that it registered, and transfers fail under load.

    How to fix:
        Give all ranks the same number of blocks with `--num-gpu-blocks-override`, or free the same memory on all GPUs.

    Exceptions:
        Connectors that translate block ids are not affected: disable the rule.

    Evidence:
        - vllm/v1/engine/core.py (each DP rank measures its own memory)
        - vllm-project/vllm#46106

    Example:
        One of eight ranks shares its GPU with a monitoring agent and has 4,000 blocks less. At high concurrency its
        peers read past the end of its memory.
    """
    for member in pool.members:
        known = {engine.dp_rank: engine.num_gpu_blocks for engine in member.engines}
        sizes = [number for number in known.values() if number is not None]
        if member.is_second_address or not sizes or (apart := max(sizes) - min(sizes)) <= blocks:
            continue
        yield Draft(
            (member.id,),
            f"DP ranks have {min(sizes):,} to {max(sizes):,} blocks, {apart:,} apart.",
            tuple(
                Evidence(BLOCKS, json.dumps(number), State.REPORTED, (member.id,), f"DP rank {rank}")
                for rank, number in known.items()
                if number is not None
            ),
            Remedy(
                "Give all ranks as many blocks as the smallest one, and restart the replica.",
                (Snippet("flag", f"--num-gpu-blocks-override {min(sizes)}"),),
            ),
        )
