"""CO-10: replicas of one pool take other LoRA adapters."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.behaviour.told import as_told
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

MAX_RANK = "lora_config.max_lora_rank"  # null only where LoRA is not enabled at all
LIMITS = {
    MAX_RANK: "highest rank of LoRA adapters",
    "lora_config.max_loras": "number of LoRA adapters in one batch",
    "lora_config.max_cpu_loras": "number of LoRA adapters in memory",
    "lora_config.lora_dtype": "data type of LoRA adapters",
    "lora_config.target_modules": "list of modules for LoRA",
}
ENABLED, DISABLED = (SettingValue(f'"{word}"', State.REPORTED) for word in ("enabled", "disabled"))


@rule(
    id="CO-10",
    name="lora-limits-differ",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=(MAX_RANK,),
)
def lora_limits_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool take different LoRA adapters, or not as many.

    Where LoRA is enabled on a part of the pool only, that is said first, and nothing of the limits.

    Why it matters:
        - any pool: An adapter loads on one replica and is refused on another because its rank is too high there, or
          requests wait because fewer adapters fit into one batch.

    How to fix:
        Give every replica of the pool the same `--enable-lora`, `--max-lora-rank`, `--max-loras`, `--max-cpu-loras`,
        `--lora-dtype` and `--lora-target-modules`.

    Exceptions:
        A router that knows which replica holds which adapter may use replicas with other limits on purpose: disable
        the rule.

    Evidence:
        - vllm/lora/peft_helper.py (an adapter of a higher rank is refused)
        - vllm/config/lora.py (the limits; without `max_cpu_loras` it is `max_loras`)

    Example:
        Four replicas run with `--max-lora-rank 64`, one with the default of 16. The adapter `sql`, of rank 32, loads
        on four of five.
    """
    if len(pool.values(MAX_RANK, _enabled)) <= 1:
        yield from drift(pool, LIMITS)
        return
    for draft in drift(pool, {MAX_RANK: "LoRA support"}, _enabled):
        sentence = "Run all replicas of the pool with LoRA, or none, and restart those that change."
        remedy = Remedy(sentence, (Snippet("flag", "--enable-lora"),))
        yield replace(draft, evidence=as_told(pool, [MAX_RANK]), remedy=remedy)


def _enabled(told: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    return DISABLED if told.state is State.NULL else ENABLED
