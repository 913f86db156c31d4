"""EF-02: replicas without requests."""

from collections.abc import Iterator, Sequence

from dashboard.fleet.formatting import duration
from dashboard.fleet.history import Symptom
from dashboard.fleet.pieces import Text, value
from dashboard.fleet.traffic import LEAST_REQUESTS
from dashboard.rules.effect.explanation import Words, drafts_of, not_compared
from dashboard.rules.effect.symptoms import REQUESTS
from dashboard.rules.findings import Draft, UnevaluatedReplicas
from dashboard.rules.registry import Scope, rule
from dashboard.rules.sentences import write
from dashboard.rules.subject import PoolSubject


def numbers(found: Sequence[float]) -> str:
    """Return the range of some numbers: `12 to 1,400`."""
    return " to ".join(dict.fromkeys((f"{min(found):,.0f}", f"{max(found):,.0f}")))


def _idle(found: Sequence[Symptom]) -> Text:
    each = value(numbers([one.others for one in found]))
    window = duration(found[0].seconds)
    return write("Requests ", value("0"), "; the other replicas of the pool ", each, f" on average, in {window}.")


IDLE = Words(
    _idle,
    # what keeps a replica out of a router's choice
    causes=("RT-", "CO-02", "CO-09", "CP-14", "ID-03", "ID-07", "ID-12", "PD-10", "BL-"),
    impact="Its GPUs are idle and the others carry its load.",
    others="it is drained, is not among the router's endpoints, or no prompt of this workload has its prefix",
    advice="Look whether the router and the Service list these replicas as ready, and whether they are drained.",
)


@rule("EF-02", scope=Scope.TRAFFIC)
def replica_gets_no_requests(pool: PoolSubject, *, requests: int = 20) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas of a pool get no requests while the others do.

    In one window, by default 15 minutes, no request of the replica ended, waited or held KV cache, and the others had
    at least `requests` each on average. A finding begins when a whole window shows it and ends when a whole window does
    not.

    Why it matters:
        - any pool (warning): The GPUs of the replica are idle, and the others carry its load.

    How to fix:
        Fix the findings that it names, such as a router that does not know the replica. Without any look at the
        router's endpoints, at the EndpointSlice of the Service, and at weights or labels of a canary.

    Exceptions:
        A replica on standby, or one that was drained on purpose: suppress the finding. Sleeping engines are left out.

    Evidence:
        - vllm/v1/metrics/loggers.py (request_success, num_requests_waiting, kv_cache_usage_perc)
        - azrtydxb/Fastllm-proxy#22

    Example:
        A replica was renamed and the router kept its old address. The replica is ready and healthy, and gets nothing.
    """
    kept = {key: each for key, each in pool.symptoms.get(REQUESTS, {}).items() if each.others >= requests}
    yield from drafts_of(pool, REQUESTS, kept, IDLE)
    least = f"no replica has {LEAST_REQUESTS} requests"
    yield from not_compared(pool, kept, is_enough=bool(pool.traffic.busy), least=least)
