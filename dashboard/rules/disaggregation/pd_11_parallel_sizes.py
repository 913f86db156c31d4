"""PD-11: prefill and decode are split over GPUs in a way that KV cache cannot follow."""

from collections.abc import Iterator
from dataclasses import replace

from dashboard.rules.disaggregation.handshake import counts, has_group, is_mla
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import unequal
from dashboard.rules.findings import Confidence, Draft, Family, Severity
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import PairSubject, PoolSubject

TP = "parallel_config.tensor_parallel_size"
DCP = "parallel_config.decode_context_parallel_size"
NOUNS = {TP: "tensor parallel size", DCP: "decode context parallel size"}


@rule(
    id="PD-11",
    name="prefill-decode-parallel-sizes-clash",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(TP, DCP),
)
def parallel_sizes_clash(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode are split over GPUs in a way that KV cache cannot follow.

    Different sizes are expected and fine as long as each rank of one side belongs to whole ranks of the other.

    Why it matters:
        - disaggregated: The ranks of one side cannot be matched with those of the other, so the first transfer fails
          with an assertion, and so does each that follows.

    How to fix:
        Choose sizes of which the larger is a multiple of the smaller. Where prefill has more ranks than the model has
        KV heads, give decode at least as many ranks as prefill.

    Exceptions:
        Models with latent attention keep the same KV cache on every tensor parallel rank: heads do not count for them.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/utils.py (tensor parallel sizes must divide)
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py (context parallel sizes, replicated heads)
        - vllm/distributed/kv_transfer/kv_connector/v1/mooncake/mooncake_connector.py (tensor parallel sizes must
          divide)
        - vllm-project/vllm#50765

    Example:
        Prefill runs with `--tensor-parallel-size 6` on what is left of a host, decode with 4.
    """
    yield from _clashes(pair, TP, _undivided(pair, TP) or _replicated(pair))
    yield from _clashes(pair, DCP, _undivided(pair, DCP) or _hybrid(pair))


def _clashes(pair: PairSubject, path: str, reason: str) -> Iterator[Draft]:
    if reason and not pair.is_ignored(path):
        draft = unequal(pair, path, NOUNS[path], [side.values(path) for side in pair.sides])
        yield replace(draft, sentence=f"{draft.sentence[:-1]}: {reason}.", confidence=Confidence.DERIVED)


def _sizes(pair: PairSubject, path: str) -> Iterator[tuple[int, int]]:
    """Yield each size of prefill with each of decode."""
    prefill, decode = (counts(side.values(path)) for side in pair.sides)
    yield from ((ours, theirs) for ours in prefill for theirs in decode)


def _undivided(pair: PairSubject, path: str) -> str:
    is_broken = any(max(both) % min(both) for both in _sizes(pair, path))
    return "the larger is no multiple of the smaller" if is_broken else ""


def _replicated(pair: PairSubject) -> str:
    """Say whether prefill keeps heads several times that fewer ranks of decode would have to take once."""
    if is_mla(pair) or has_group(pair, "mamba"):
        return ""
    heads = min(_total_heads(pair.decode), default=0)
    is_broken = heads and any(ours > max(theirs, heads) for ours, theirs in _sizes(pair, TP))
    return f"the model has {heads:,} KV heads, and prefill keeps them more than once" if is_broken else ""


def _total_heads(side: PoolSubject) -> Iterator[int]:
    """Yield the model's KV heads as far as a side shows them: with one head a rank, some may be kept twice."""
    for member in side.members:
        size = side.value(member.id, TP)
        for group in member.kv_cache_groups:
            if isinstance(size, int) and group.num_kv_heads is not None and group.num_kv_heads > 1:
                yield group.num_kv_heads * size


def _hybrid(pair: PairSubject) -> str:
    is_broken = has_group(pair, "mamba") and any(ours != theirs for ours, theirs in _sizes(pair, DCP))
    return "a model with Mamba layers needs the same on both sides" if is_broken else ""
