"""RT-15: replicas of one pool identify or prepare images and other media differently."""

from collections.abc import Iterator, Mapping

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

SECTION = "model_config.multimodal_config"
NOUNS = {
    f"{SECTION}.mm_hasher_algorithm": "media hash algorithm",
    f"{SECTION}.mm_processor_kwargs": "media processor configuration",
    f"{SECTION}.media_io_kwargs": "media reading configuration",
    f"{SECTION}.limit_per_prompt": "media limit per prompt",
}
EMPTY = "{}"


@rule(
    id="RT-15",
    name="media-handling-differs",
    family=Family.ROUTING,
    severity={ImpactContext.MODEL: Severity.WARNING, ImpactContext.KV_STORE: Severity.CRITICAL},
    needs=tuple(NOUNS),
)
def media_handling_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool hash, prepare or limit images and other media differently.

    An empty set of options counts as none.

    Why it matters:
        - any pool: The hash of an image is a part of the block's hash, so prompts with the same image match on no
          other replica; prepared otherwise, the model sees another image; other limits refuse other requests.
        - kv-store: The hash of an image is a part of the key of a stored block, so replicas that hash or prepare it
          otherwise find nothing of each other.

    How to fix:
        Use the same `--mm-hasher-algorithm`, `--mm-processor-kwargs`, `--media-io-kwargs` and `--limit-mm-per-prompt`
        on every replica of the pool.

    Exceptions:
        A default that is written out on some replicas and left out on others is reported although it is the same: write
        it out on all.

    Evidence:
        - vllm/config/multimodal.py (the four settings)
        - vllm/v1/core/kv_cache_utils.py (media identifiers are extra keys of a block's hash)

    Example:
        One replica must use `--mm-hasher-algorithm sha256` for an audit, the others keep `blake3`: no prompt with an
        image is ever found on both.
    """
    return drift(pool, NOUNS, _unset_if_empty)


def _unset_if_empty(told: SettingValue, _settings: Mapping[str, Setting]) -> SettingValue:
    return SettingValue("null", State.NULL) if told.value == EMPTY else told
