"""CO-12: replicas of one pool give other log probabilities."""

from collections.abc import Iterator

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

MAX_LOGPROBS = "model_config.max_logprobs"
LOGPROBS_MODE = "model_config.logprobs_mode"


@rule(
    id="CO-12",
    name="logprobs-differ",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.MODEL: Severity.INFO},
    needs=(MAX_LOGPROBS, LOGPROBS_MODE),
)
def logprobs_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool give a different number of log probabilities, or of another kind.

    Why it matters:
        - any pool: A request for many log probabilities is refused by the replicas with the lower limit; where the
          kind differs, the numbers mean something else from replica to replica.

    How to fix:
        Give every replica of the pool the same `--max-logprobs` and `--logprobs-mode`.

    Exceptions:
        Pools whose clients never ask for log probabilities: disable the rule.

    Evidence:
        - vllm/sampling_params.py (more than the limit is refused)
        - vllm/config/model.py (`logprobs_mode`: before or after temperature and penalties; -1 is no limit)

    Example:
        An evaluation asks for 20 log probabilities per token; one replica runs with `--max-logprobs 5` and refuses.
    """
    return drift(pool, {MAX_LOGPROBS: "limit of log probabilities", LOGPROBS_MODE: "kind of log probabilities"})
