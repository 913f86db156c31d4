"""Which replicas have the CUDA graphs that their batch limits ask for.

Source: vllm/config/vllm.py, `_set_cudagraph_sizes`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from dashboard.fleet import Setting
from dashboard.rules.connectors import value
from dashboard.rules.subject import PoolSubject

SIZES = "compilation_config.cudagraph_capture_sizes"
LARGEST = "compilation_config.max_cudagraph_capture_size"
SEQS, TOKENS = "scheduler_config.max_num_seqs", "scheduler_config.max_num_batched_tokens"
SPECULATED = "speculative_config.num_speculative_tokens"
CEILINGS = (512, 1024)  # of what vLLM derives; the larger one on the newest GPUs
STEP, LARGER_STEP, LARGER_FROM = 8, 16, 256  # batches between two graphs
# Some options take sizes out of the list again, such as those that tensor parallel ranks cannot share evenly.
LEAST_PART = 0.5


class _Graphs(NamedTuple):
    """What a document tells of CUDA graphs and batch limits. Sizes are in tokens, as vLLM counts batches."""

    largest: int
    number: int | None  # of sizes
    seqs: int  # requests at once
    tokens: int  # in a batch
    a_request: int  # tokens of one decoding request: one, and those that are speculated

    @property
    def covers(self) -> bool:
        """Tell whether there is a graph for as many decoding requests as there can be."""
        return self.largest >= self.seqs * self.a_request

    @property
    def follows(self) -> bool:
        """Tell whether the sizes are those that vLLM derives."""
        # Older versions do not count speculated tokens.
        each = {1, self.a_request}
        limits = {min(self.seqs * number * 2, ceiling, self.tokens) for number in each for ceiling in CEILINGS}
        return any(self._fit(limit) for limit in limits)

    def _fit(self, limit: int) -> bool:
        """Tell whether sizes end where vLLM's own would for this limit, and are about as many."""
        step = max(STEP if limit < LARGER_FROM else LARGER_STEP, self.a_request)
        own = min(limit, LARGER_FROM) // STEP + max(limit - LARGER_FROM, 0) // LARGER_STEP
        is_full = self.number is None or self.number >= own * LEAST_PART
        return limit - step < self.largest <= limit and is_full


def derived(pool: PoolSubject) -> set[str]:
    """Return the members whose sizes follow from their own batch limits."""
    return {replica for replica, is_derived in pool.of_documents(follow).items() if is_derived}


def follow(settings: Mapping[str, Setting]) -> bool:
    """Tell whether the sizes that a document tells are those that vLLM derives of its batch limits."""
    told = _graphs(settings)
    return told is not None and told.follows


def covering(pool: PoolSubject) -> set[str]:
    """Return the members that never decode a batch larger than their largest size."""
    graphs = pool.of_documents(_graphs)
    return {replica for replica, told in graphs.items() if told is not None and told.covers}


def _graphs(settings: Mapping[str, Setting]) -> _Graphs | None:
    """Read a document; None where it has no CUDA graphs, or does not tell one of the numbers."""
    sizes, largest = value(settings, SIZES), value(settings, LARGEST)
    if isinstance(sizes, list) and sizes and all(type(size) is int for size in sizes):
        largest = max(sizes)
    seqs, tokens, speculated = (value(settings, path) for path in (SEQS, TOKENS, SPECULATED))
    if any(type(number) is not int for number in (largest, seqs, tokens)):
        return None
    a_request = 1 + speculated if type(speculated) is int and speculated > 0 else 1
    return _Graphs(largest, len(sizes) if isinstance(sizes, list) else None, seqs, tokens, a_request)
