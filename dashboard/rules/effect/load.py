"""EF-02 and EF-03: replicas without requests, and engines with more than they can take."""

from collections.abc import Iterator, Sequence
from functools import partial

from dashboard.fleet.formatting import duration
from dashboard.fleet.history import Symptom
from dashboard.fleet.pieces import Text, value
from dashboard.fleet.traffic import LEAST_REQUESTS
from dashboard.rules.effect.explanation import Words, drafts_of, not_compared
from dashboard.rules.effect.symptoms import PREEMPTIONS, REQUESTS, WAITING
from dashboard.rules.findings import Draft, Severity, UnevaluatedReplicas
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
    """
    kept = {key: each for key, each in pool.symptoms.get(REQUESTS, {}).items() if each.others >= requests}
    yield from drafts_of(pool, REQUESTS, kept, IDLE)
    least = f"no replica has {LEAST_REQUESTS} requests"
    yield from not_compared(pool, kept, is_enough=bool(pool.traffic.busy), least=least)


def _busier(noun: str, found: Sequence[Symptom]) -> Text:
    rank = found[0].rank if len(found) == 1 else None
    whose = "" if rank is None else f" on DP rank {rank}"
    own, others = value(numbers([each.own for each in found])), value(numbers([each.others for each in found]))
    return write(
        f"{noun}{whose} ", own, "; the median of the other engines ", others, f", in {duration(found[0].seconds)}."
    )


PREEMPTING = Words(
    partial(_busier, "Preemptions"),
    # less KV cache, other limits of batches and queues, or prompts that are computed again
    causes=("CP-", "CO-11", "RT-13", "BL-"),
    impact="Preempted requests are computed again.",
    others="longer prompts or outputs than on its peers, or a router that does not balance",
    advice="Compare the load of these replicas with that of their peers: requests, prompt lengths, KV cache usage.",
)
QUEUEING = PREEMPTING._replace(
    text=partial(_busier, "Most waiting requests"),
    impact="Requests wait there while the peers have room.",
    severity=Severity.INFO,
)


@rule("EF-03", scope=Scope.TRAFFIC)
def engine_preempts_alone(pool: PoolSubject, *, least: int = 10) -> Iterator[Draft | UnevaluatedReplicas]:
    """Engines preempt or queue requests while their peers do not.

    In one window an engine had `least` or more preemptions, or as many waiting requests at one read, and the median of
    the pool's other engines is at most a tenth of that. A finding begins when a whole window shows it and ends when a
    whole window does not.
    """
    every: dict[str, Symptom] = {}
    for measure, words in ((PREEMPTIONS, PREEMPTING), (WAITING, QUEUEING)):
        found = {key: each for key, each in pool.symptoms.get(measure, {}).items() if each.own >= least}
        yield from drafts_of(pool, measure, found, words)
        every |= found
    enough = f"no replica has {LEAST_REQUESTS} requests"
    yield from not_compared(pool, every, is_enough=bool(pool.traffic.busy), least=enough)
