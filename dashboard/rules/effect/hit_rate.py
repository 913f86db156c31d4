"""EF-01, EF-04 and EF-05: hit rates of the prefix cache and of stores."""

from collections.abc import Iterator, Sequence
from functools import partial

from dashboard.compare.encoding import lookup_value
from dashboard.fleet.formatting import duration, share, shortlist
from dashboard.fleet.history import Symptom
from dashboard.fleet.pieces import Piece, Text, value
from dashboard.fleet.traffic import LEAST_REQUESTS, LEAST_TOKENS
from dashboard.rules.effect.explanation import Words, drafts_of, evidence_of, not_compared
from dashboard.rules.effect.symptoms import COMPARED, EXTERNAL, HIT_RATE, PERCENT, POOL_HIT_RATE
from dashboard.rules.findings import Confidence, Draft, Remedy, Severity, UnevaluatedReplicas
from dashboard.rules.registry import Scope, rule
from dashboard.rules.sentences import MAX_VALUES, setting_name, write
from dashboard.rules.subject import PoolSubject

NO_LAST_DAY = "The history has no hit rate of the last day."
SAME_SETTINGS = "Most replicas have the settings of the last day. Other causes: other prompts, or another routing."


def shares(numbers: Sequence[float]) -> Piece:
    """Return the range of some shares: `0% to 3%`."""
    return value(" to ".join(dict.fromkeys((share(min(numbers)), share(max(numbers))))))


def _low(noun: str, found: Sequence[Symptom]) -> Text:
    own, others = shares([each.own for each in found]), shares([each.others for each in found])
    return write(f"{noun} ", own, "; the rest of the pool ", others, f", in {duration(found[0].seconds)}.")


LOW = Words(
    partial(_low, "Prefix hit rate"),
    # what other hashes, an unused or an emptied cache cause, or a smaller one
    causes=("RT-", "BL-", "ID-12", "CP-01", "CP-11"),
    impact="Each miss is computed again.",
    others="routing without prefix affinity, or another workload such as a LoRA adapter",
    advice="Compare the requests of these replicas with those of their peers: prompts, LoRA adapters, routing.",
    young="its cache may still be cold",
)


@rule("EF-01", scope=Scope.TRAFFIC)
def prefix_hit_rate_is_low(pool: PoolSubject, *, points: float = 15) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas find far fewer prompt tokens in their prefix cache than the others of their pool.

    The rule compares hit tokens / queried tokens of one window, by default 15 minutes. Of four or more replicas with
    enough traffic one is far if it is an outlier below their median, at least by `points` percentage points. Of fewer
    each is compared with the rest of the pool, and has to be twice as far below. With prefix caching off the rate is 0.
    A finding begins when a whole window shows it and ends when a whole window does not. Its numbers are those of its
    begin.
    """
    kept = {
        key: each
        for key, each in pool.symptoms.get(HIT_RATE, {}).items()
        if (each.others - each.own) * PERCENT >= points
    }
    yield from drafts_of(pool, HIT_RATE, kept, LOW)
    least = f"fewer than {COMPARED} replicas have {LEAST_REQUESTS} requests and {LEAST_TOKENS:,} prompt tokens"
    yield from not_compared(pool, kept, is_enough=pool.traffic.rated >= COMPARED, least=least)


@rule("EF-04", scope=Scope.TRAFFIC, least=1)
def pool_hit_rate_fell(pool: PoolSubject, *, left: float = 0.5) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas of a pool find far fewer prompt tokens in their prefix caches than in the last day.

    The rule compares hit tokens / queried tokens of one window with those of the last day, as the history has them. At
    most `left` of a rate of 10% or more is left. It names the settings that most replicas changed: those that differ
    from the settings with most traffic in the last day.
    """
    symptom = pool.symptoms.get(POOL_HIT_RATE, {}).get(pool.name)
    if symptom is not None and symptom.own <= left * symptom.others:
        changed, members = _changed(pool), tuple(sorted(each.id for each in pool.members))
        own, usual = shares([symptom.own]), shares([symptom.others])
        why = "The settings of the last day are not known."
        if changed is not None:
            names = shortlist(map(setting_name, changed), MAX_VALUES)
            why = f"Most replicas changed since: {names}." if changed else SAME_SETTINGS
        yield Draft(
            members,
            write(
                "Prefix hit rate of the pool ", own, "; in its last day ", usual, f", in {duration(symptom.seconds)}."
            ),
            tuple(evidence_of(POOL_HIT_RATE, dict.fromkeys(members, symptom), "last day")),
            Remedy("Compare the pool with a time before the fall: its settings, the router, and the prompts."),
            Confidence.REPORTED,
            Severity.INFO if changed == [] else None,
            f"{why} {LOW.impact}",
        )
        return
    if pool.traffic.was_read and not pool.traffic.has_usual:
        yield UnevaluatedReplicas(tuple(sorted(each.id for each in pool.members)), NO_LAST_DAY)
    least = f"the replicas have fewer than {LEAST_REQUESTS} requests and {LEAST_TOKENS:,} prompt tokens each"
    yield from not_compared(pool, {}, is_enough=bool(pool.traffic.rated), least=least)


def _changed(pool: PoolSubject) -> list[str] | None:
    """Return the settings in which most replicas differ from those with most traffic in the last day."""
    if pool.usual is None or not pool.pool.cohorts:
        return None
    most = max(pool.pool.cohorts, key=lambda each: len(each.replicas))
    then, now = pool.usual.settings, pool.documents[most.document].settings
    return [
        path
        for path in sorted(now.keys() & then.keys())
        if not pool.is_ignored(path)
        and (before := lookup_value(then, path)) is not None
        and (after := lookup_value(now, path)) is not None
        and before != after
    ]


OUTSIDE = Words(
    partial(_low, "External hit rate"),
    # what other keys, another store or an unused one cause
    causes=("SH-", "RT-", "PD-09", "ID-09", "BL-"),
    impact="It computes again what the store has.",
    others="it does not reach the store, or its prompts are not in it",
    advice="Look for errors of the connector in the logs of these replicas, and whether they reach the store.",
    young="the store may still be connecting",
)


@rule("EF-05", scope=Scope.TRAFFIC)
def store_is_never_hit(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas find nothing in the KV store of their pool while the others do.

    In one window a replica asked its connector for 10,000 tokens or more and got none, where the others found 5% or
    more of theirs. A finding begins when a whole window shows it and ends when a whole window does not.
    """
    found = pool.symptoms.get(EXTERNAL, {})
    yield from drafts_of(pool, EXTERNAL, found, OUTSIDE)
    least = f"fewer than {COMPARED} replicas asked a connector for {LEAST_TOKENS:,} tokens"
    yield from not_compared(pool, found, is_enough=pool.traffic.external >= COMPARED, least=least)
