"""PD-05: prefill and decode keep KV cache in different number formats."""

from collections.abc import Iterator
from dataclasses import replace

from dashboard.rules.disaggregation.handshake import is_checked
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import across
from dashboard.rules.findings import Confidence, Draft, Family, Severity
from dashboard.rules.meanings import CACHE_DTYPE, effective
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import PairSubject

NOUNS = {CACHE_DTYPE: "KV cache dtype"}


@rule(
    id="PD-05",
    name="prefill-decode-kv-cache-dtype-differs",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(CACHE_DTYPE,),
)
def kv_cache_dtype_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode keep KV cache in different number formats.

    With NIXL the option counts as it was written: `auto` differs from `bfloat16`, also where it means the same.

    Why it matters:
        - disaggregated: The option is part of what NIXL compares before it moves KV cache: the handshake is refused.
          With a connector that does not compare it, decode reads the numbers as something else.

    How to fix:
        Write the same `--kv-cache-dtype` on both sides, letter by letter.

    Exceptions:
        With connectors other than NIXL, two ways to write one format do not differ.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/metadata.py (the option as written is a factor of the hash)
        - vllm/utils/torch_utils.py (`auto` stays `auto` unless the checkpoint names a format)

    Example:
        Decode runs with `--kv-cache-dtype fp8` for a larger cache; prefill was left at `auto`.
    """
    if not is_checked(pair):
        yield from across(pair, NOUNS, effective)
        return
    is_same = len({told for side in pair.sides for told in side.values(CACHE_DTYPE, effective)}) == 1
    for draft in across(pair, NOUNS):
        yield replace(draft, confidence=Confidence.DERIVED) if is_same else draft
