"""EF-01: hit rates of the prefix cache."""

from collections.abc import Iterator, Sequence

from dashboard.fleet.formatting import duration, share
from dashboard.fleet.history import Symptom
from dashboard.fleet.pieces import Piece, Text, value
from dashboard.fleet.traffic import LEAST_REQUESTS, LEAST_TOKENS
from dashboard.rules.effect.explanation import Words, drafts_of, not_compared
from dashboard.rules.effect.symptoms import COMPARED, HIT_RATE, PERCENT
from dashboard.rules.findings import Draft, UnevaluatedReplicas
from dashboard.rules.registry import Scope, rule
from dashboard.rules.sentences import write
from dashboard.rules.subject import PoolSubject


def shares(numbers: Sequence[float]) -> Piece:
    """Return the range of some shares: `0 % to 3 %`."""
    return value(" to ".join(dict.fromkeys((share(min(numbers)), share(max(numbers))))))


def _low(found: Sequence[Symptom]) -> Text:
    own, others = shares([each.own for each in found]), shares([each.others for each in found])
    return write("Prefix hit rate ", own, "; the rest of the pool ", others, f", in {duration(found[0].seconds)}.")


LOW = Words(
    _low,
    # what other hashes, an unused or an emptied cache cause, or a smaller one
    causes=("RT-", "SH-", "BL-", "ID-08", "ID-12", "CP-01", "CP-11"),
    impact="Each miss is computed again.",
    others="routing without prefix affinity, or another workload such as a LoRA adapter",
    advice="Compare the requests of these replicas with those of their peers: prompts, LoRA adapters, routing.",
)


@rule("EF-01", scope=Scope.TRAFFIC)
def prefix_hit_rate_is_low(pool: PoolSubject, *, points: float = 15) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas find far fewer prompt tokens in their prefix cache than the others of their pool.

    The rule compares hit tokens / queried tokens of one window, by default 15 minutes. Of four or more replicas with
    enough traffic one is far if it is an outlier below their median, at least by `points` percentage points. Of fewer
    each is compared with the rest of the pool, and has to be twice as far below. With prefix caching off the rate is 0.
    A finding begins when a whole window shows it and ends when a whole window does not. Its numbers are those of its
    begin.

    Why it matters:
        - any pool (warning): Each miss is computed again: longer time to first token, and less room for others.

    How to fix:
        Fix the findings that it names: other block hashes or prefix caching that is off have their own rules. Without
        any compare the requests of the replica: a router without prefix affinity, a LoRA adapter or a tenant of its own
        lowers its rate, and no setting is wrong.

    Exceptions:
        Below 20 requests or 10,000 prompt tokens in the window a replica has no rate. In the first hour after a start
        the cache may still be cold: then it is info.

    Evidence:
        - vllm/v1/metrics/loggers.py (prefix_cache_queries, prefix_cache_hits: tokens)
        - ray-project/ray#55675
        - azrtydxb/Fastllm-proxy#22
        - llm-d/llm-d-router#2896

    Example:
        One of eight replicas was started with `--no-enable-prefix-caching`. It answers, its readiness is green, and
        its hit rate is 0 % where the others have 62 %.
    """
    kept = {
        key: each
        for key, each in pool.symptoms.get(HIT_RATE, {}).items()
        if (each.others - each.own) * PERCENT >= points
    }
    yield from drafts_of(pool, HIT_RATE, kept, LOW)
    least = f"fewer than {COMPARED} replicas have {LEAST_REQUESTS} requests and {LEAST_TOKENS:,} prompt tokens"
    yield from not_compared(pool, kept, is_enough=pool.traffic.rated >= COMPARED, least=least)
