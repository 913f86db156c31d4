"""PD-12: prefill and decode cut blocks of different sizes."""

from collections.abc import Iterator
from dataclasses import replace

from dashboard.rules.connectors import SECTION
from dashboard.rules.disaggregation.handshake import counts, has_group, is_checked, is_mla
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import across
from dashboard.rules.findings import Confidence, Draft, Family, Severity
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import PairSubject

BLOCK_SIZE = "cache_config.block_size"
PREFIX_CACHING = "cache_config.enable_prefix_caching"
BUFFER = f"{SECTION}.kv_buffer_device"
TP = "parallel_config.tensor_parallel_size"


@rule(
    id="PD-12",
    name="prefill-decode-block-size-differs",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.WARNING},
    needs=(BLOCK_SIZE,),
)
def block_size_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode cut the KV cache into blocks of different sizes.

    NIXL can move blocks into larger ones, but not in every arrangement: where it cannot, the finding is critical.

    Why it matters:
        - disaggregated: At best each transfer copies blocks into others and wastes the rest of the last one; in some
          arrangements the connector refuses it, and no request gets its KV cache from prefill.

    How to fix:
        Give both pools the same `--block-size`.

    Exceptions:
        Different accelerators with NIXL, each with the size that suits it, where decode's is a multiple of prefill's:
        suppress the finding.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py (when different sizes are refused)
        - vllm/distributed/kv_transfer/kv_connector/utils.py (decode's must be a multiple of prefill's)
        - vllm/distributed/kv_transfer/kv_connector/v1/mooncake/mooncake_connector.py (regions must have one length)
        - vllm-project/vllm#26744
        - vllm-project/vllm#42895

    Example:
        Prefill runs with `--block-size 128` and decode with 16: decode cannot put a block of 128 tokens into one of 16.
    """
    for draft in across(pair, {BLOCK_SIZE: "block size"}):
        if reason := _refused(pair):
            sentence = f"{draft.sentence[:-1]}: {reason}."
            yield replace(draft, sentence=sentence, severity=Severity.CRITICAL, confidence=Confidence.DERIVED)
        else:
            yield draft


def _refused(pair: PairSubject) -> str:
    """Say why the connector refuses different sizes; empty where it can do with them."""
    prefill, decode = (counts(side.values(BLOCK_SIZE)) for side in pair.sides)
    if not is_checked(pair):
        return "only NIXL can move blocks between different sizes"
    if any(theirs % ours for ours in prefill for theirs in decode):
        return "decode's is no multiple of prefill's"
    if any('"cpu"' in told.value for side in pair.sides for told in side.values(BUFFER)):
        return "a buffer in CPU memory needs equal sizes"
    if _has_more_ranks(pair) and not is_mla(pair):
        return "prefill has more tensor parallel ranks than decode, which needs equal sizes"
    if has_group(pair, "mamba") and any(told.value == "true" for told in pair.decode.values(PREFIX_CACHING)):
        return "a model with Mamba layers needs equal sizes while prefix caching is on"
    return ""


def _has_more_ranks(pair: PairSubject) -> bool:
    prefill, decode = (counts(side.values(TP)) for side in pair.sides)
    return bool(prefill and decode) and max(prefill) > min(decode)
