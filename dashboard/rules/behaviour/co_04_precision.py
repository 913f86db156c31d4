"""CO-04: replicas of one pool compute with another precision."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.compare.encoding import lookup_setting
from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.holders import NOT_SET
from dashboard.rules.meanings import CACHE_DTYPE, effective
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

QUANTIZATION = "model_config.quantization"
DTYPE = "model_config.dtype"
SKIPPED = "cache_config.kv_cache_dtype_skip_layers"
MAMBA = {
    "cache_config.mamba_cache_dtype": "setting mamba_cache_dtype",
    "cache_config.mamba_ssm_cache_dtype": "setting mamba_ssm_cache_dtype",
}
MAMBA_BLOCK = "cache_config.mamba_block_size"
COVERED = {
    ImpactContext.KV_STORE,
    ImpactContext.DISAGGREGATED,
}  # SH-01, SH-03 and PD-05 report the KV cache dtype there
OF_FILES = "Where no flag sets it, it comes from the model's own files: then give them the same files."


@rule(
    id="CO-04",
    name="precision-differs",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=(QUANTIZATION, DTYPE, CACHE_DTYPE),
)
def precision_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool use another quantization or another data type.

    The values compared are those in force: vLLM resolves `auto` when it reads the model. The data type of the KV cache
    and the layers left out of its quantization count too; state of Mamba layers is worth knowing only.

    Why it matters:
        - any pool: The quality of an answer depends on the replica that it comes from, and so does the memory that is
          left for the KV cache.

    How to fix:
        Give every replica of the pool the same `--quantization`, `--dtype` and `--kv-cache-dtype`, and the same model
        files: a quantized checkpoint sets the first two by itself. Or serve the quantized model under another name.

    Exceptions:
        Accelerators that cannot compute in `bfloat16` fall back to `float16`: make a pool for each kind. With a KV
        store or disaggregation, rules of their own report the data type of the KV cache.

    Evidence:
        - vllm/config/model.py (`dtype` and `quantization` are resolved from the model's own configuration)
        - vllm/config/cache.py (`cache_dtype`, `kv_cache_dtype_skip_layers`, `mamba_ssm_cache_dtype`)
        - vllm-project/vllm#38149 (both were asked for by those who read configurations)

    Example:
        Eight replicas run the model in `bfloat16`, one was started with `--quantization fp8` to try it out, and stayed
        behind the same router.
    """
    for draft in drift(pool, {QUANTIZATION: "quantization", DTYPE: "data type"}):
        yield replace(draft, remedy=draft.remedy._replace(sentence=f"{draft.remedy.sentence} {OF_FILES}"))
    if len(pool.values(CACHE_DTYPE)) > 1 and pool.facets.isdisjoint(COVERED):
        yield from drift(pool, {CACHE_DTYPE: "KV cache dtype"}, effective)
    yield from drift(pool, {SKIPPED: "setting kv_cache_dtype_skip_layers"})
    for draft in drift(pool, MAMBA, _of_mamba):
        yield replace(draft, severity=Severity.INFO)


def _of_mamba(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Count a data type of Mamba state as not set where the model has none: vLLM gives those that do a block size."""
    block = lookup_setting(settings, MAMBA_BLOCK)
    return NOT_SET if block is not None and block.state is State.NULL else told
