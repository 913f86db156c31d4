"""CP-14: engines that sleep."""

from collections import defaultdict
from collections.abc import Iterator

from dashboard.fleet import Source
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import value
from dashboard.rules.findings import Draft, Evidence, Remedy, UnevaluatedReplicas
from dashboard.rules.registry import rule
from dashboard.rules.sentences import write
from dashboard.rules.subject import PoolSubject, setting_value

LEVEL = "engines.sleep_level"
NO_METRICS = "/metrics was read on no replica."
REMEDY = Remedy(
    "Wake these engines up before they get requests (`POST /wake_up` in development mode), or take the replicas out of "
    "the router."
)


@rule("CP-14")
def engine_sleeps(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """Engines are asleep.

    Level 0 pauses the scheduler, level 1 offloads the weights to host memory, level 2 discards them. At levels 1 and 2
    the KV cache is discarded, too.

    Why it matters:
        - any pool (info): A sleeping engine serves no requests, and its prefix cache is empty when it wakes up. Its KV
          cache is in no sum.

    How to fix:
        Wake the engines up before they get requests, or take the replicas out of the router.

    Exceptions:
        Not evaluated on replicas whose own `/metrics` was not read. Suppress the finding where engines sleep on
        purpose, such as between steps of training.

    Evidence:
        - vllm/v1/metrics/loggers.py (vllm:engine_sleep_state)
        - vllm/v1/engine/core.py (sleep)

    Example:
        A job put a replica to sleep to free its GPU and ended without waking it up. The router still lists it.
    """
    silent = tuple(each.id for each in pool.members if Source.METRICS not in each.sources or each.same_digest_as)
    if silent:
        yield UnevaluatedReplicas(silent, NO_METRICS if len(silent) == len(pool.members) else "")
    asleep: dict[int, list[str]] = defaultdict(list)
    for replica, engine in pool.engines():
        if engine.sleep_level is not None:
            asleep[engine.sleep_level].append(replica.id)
    for level, replicas in sorted(asleep.items()):
        names = tuple(dict.fromkeys(replicas))
        yield Draft(
            names,
            write(
                count(len(replicas), "engine"),
                f" {'is' if len(replicas) == 1 else 'are'} asleep, level ",
                value(str(level)),
                ".",
            ),
            (Evidence(LEVEL, *setting_value(level), names),),
            REMEDY,
        )
