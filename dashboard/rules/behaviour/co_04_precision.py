"""CO-04: replicas of one pool compute with another precision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dashboard.rules.domain import Facet
from dashboard.rules.drift import drift
from dashboard.rules.findings import Family, Severity
from dashboard.rules.registry import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dashboard.rules.findings import Draft
    from dashboard.rules.subject import PoolSubject

QUANTIZATION = "model_config.quantization"
DTYPE = "model_config.dtype"
OF_FILES = "Where no flag sets it, it comes from the model's own files: then give them the same files."


@rule(
    id="CO-04",
    name="precision-differs",
    family=Family.BEHAVIOUR,
    severity={Facet.MODEL: Severity.WARNING},
    needs=(QUANTIZATION, DTYPE),
)
def precision_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool use another quantization or another data type.

    The values compared are those in force: vLLM resolves `auto` when it reads the model.

    Why it matters:
        - any pool: The quality of an answer depends on the replica that it comes from, and so does the memory that is
          left for the KV cache.

    How to fix:
        Give every replica of the pool the same `--quantization` and `--dtype`, and the same model files: a quantized
        checkpoint sets both by itself. Or serve the quantized model under a name of its own.

    Exceptions:
        Accelerators that cannot compute in `bfloat16` fall back to `float16`: make a pool for each kind.

    Evidence:
        - vllm/config/model.py (`dtype` and `quantization` are resolved from the model's own configuration)
        - vllm-project/vllm#38149 (both were asked for by those who read configurations)

    Example:
        Eight replicas run the model in `bfloat16`, one was started with `--quantization fp8` to try it out, and stayed
        behind the same router.
    """
    for draft in drift(pool, {QUANTIZATION: "quantization", DTYPE: "data type"}):
        yield replace(draft, remedy=draft.remedy._replace(sentence=f"{draft.remedy.sentence} {OF_FILES}"))
