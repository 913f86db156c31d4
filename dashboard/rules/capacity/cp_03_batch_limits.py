"""CP-03: replicas of one pool take different numbers of requests and tokens into a batch."""

from collections.abc import Iterator, Mapping

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

BATCHED = "scheduler_config.max_num_batched_tokens"
NOUNS = {
    "scheduler_config.max_num_seqs": "limit of requests at once",
    BATCHED: "limit of tokens in a batch",
}
SCHEDULED = {"scheduler_config.max_num_scheduled_tokens": "limit of scheduled tokens"}


@rule(
    id="CP-03",
    name="batch-limits-differ",
    family=Family.CAPACITY,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=(*NOUNS, *SCHEDULED),
)
def batch_limits_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool take different numbers of requests or tokens into a batch.

    The limits compared are those in force: where none is given, vLLM chooses one by the kind of GPU.

    Why it matters:
        - any pool: Under the same load one replica queues requests that the others run, so its answers come later;
          with another token limit its prompts are cut into other pieces, and the time to the first token differs.

    How to fix:
        Set `--max-num-seqs` and `--max-num-batched-tokens` on every replica of the pool, and leave
        `--max-num-scheduled-tokens` to vLLM.

    Exceptions:
        Prefill and decode replicas want different limits: they are two pools, and not compared.

    Evidence:
        - vllm/engine/arg_utils.py (the defaults depend on the memory of the GPU and on how vLLM is started)
        - vllm/config/scheduler.py (max_num_scheduled_tokens is max_num_batched_tokens unless given)
        - vllm-project/vllm#13056

    Example:
        Seven replicas on H100 start with 1,024 requests at once and one on A100 with 256, from the same command line.
        Behind a router that counts requests the smaller one queues.
    """
    yield from drift(pool, NOUNS)
    yield from drift(pool, SCHEDULED, _apart_from_batched)


def _apart_from_batched(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Tell a limit that only repeats the other one as not set: vLLM fills it in for some models."""
    batched = settings.get(BATCHED)
    return SettingValue("null", State.NULL) if batched is not None and batched.value == told.value else told
