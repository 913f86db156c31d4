"""EF-01 to EF-05: what traffic shows of replicas, by the findings on the same replicas that explain it."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from dashboard.compare.encoding import lookup_value
from dashboard.fleet import Replica, State
from dashboard.fleet.formatting import duration, joined, share, shortlist, uncapitalized
from dashboard.fleet.history import Symptom
from dashboard.fleet.pieces import Piece, Text, value
from dashboard.fleet.traffic import LEAST_REQUESTS, LEAST_TOKENS
from dashboard.rules.effect.symptoms import (
    COMPARED,
    EXTERNAL,
    HIT_RATE,
    PERCENT,
    POOL_HIT_RATE,
    PREEMPTIONS,
    REQUESTS,
    WAITING,
)
from dashboard.rules.findings import Draft, Evidence, Finding, Remedy, Severity, UnevaluatedReplicas
from dashboard.rules.registry import Scope, rule
from dashboard.rules.sentences import MAX_VALUES, setting_name, write
from dashboard.rules.subject import FINGERPRINT, PoolSubject

NO_COUNTERS = "No counters were read twice. Use a running dashboard or check --traffic."
OF_A_PAST_TIME = "The history has counters of pools and cohorts, not of replicas."
NO_LAST_DAY = "The history has no hit rate of the last day."
SAME_SETTINGS = "Most replicas have the settings of the last day. Other causes: other prompts, or another routing."
# A cache that began empty is warm after some windows; an estimate, no source gives one.
YOUNG = timedelta(hours=1)
WARM = "Wait until an hour after the start: the finding ends, or becomes a warning."
DIGITS = 3  # of a share in evidence


class Words(NamedTuple):
    """What a rule says of replicas: `noun` is what was measured, `others` with what it is compared.

    `causes` are beginnings of the ids of rules that can explain it, `impact` is what it costs. `unexplained` are causes
    without a finding, `advice` is what to do about these. `young` is what a late start explains.
    """

    noun: str
    others: str
    causes: tuple[str, ...] = ()
    impact: str = ""
    unexplained: str = ""
    advice: str = ""
    severity: Severity | None = None
    young: str = ""
    number: Callable[[float], str] = "{:,.0f}".format
    end: str = ""


FALLEN = Words("Prefix hit rate of the pool", "in its last day", number=share)
LOW = Words(
    "Prefix hit rate",
    "the rest of the pool",
    # what other hashes, an unused or an emptied cache cause, or a smaller one
    causes=("RT-", "BL-", "ID-12", "CP-01", "CP-11"),
    impact="Each miss is computed again.",
    unexplained="routing without prefix affinity, or another workload such as a LoRA adapter",
    advice="Compare the requests of these replicas with those of their peers: prompts, LoRA adapters, routing.",
    young="its cache may still be cold",
    number=share,
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
    yield from _drafts(pool, HIT_RATE, kept, LOW)
    least = f"fewer than {COMPARED} replicas have {LEAST_REQUESTS} requests and {LEAST_TOKENS:,} prompt tokens"
    yield from _not_compared(pool, kept, is_enough=pool.traffic.rated >= COMPARED, least=least)


@rule("EF-04", scope=Scope.TRAFFIC, least=1)
def pool_hit_rate_fell(pool: PoolSubject, *, left: float = 0.5) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas of a pool find far fewer prompt tokens in their prefix caches than in the last day.

    The rule compares hit tokens / queried tokens of one window with those of the last day, as the history has them. At
    most `left` of a rate of 10% or more is left. It names the settings that most replicas changed: those that differ
    from the settings with most traffic in the last day.
    """
    symptom, members = pool.symptoms.get(POOL_HIT_RATE, {}).get(pool.name), _members(pool)
    if symptom is not None and symptom.own <= left * symptom.others:
        changed = _changed(pool)
        why = "The settings of the last day are not known."
        if changed is not None:
            names = shortlist(map(setting_name, changed), MAX_VALUES)
            why = f"Most replicas changed since: {names}." if changed else SAME_SETTINGS
        yield Draft(
            members,
            _text(FALLEN, [symptom]),
            tuple(_evidence(POOL_HIT_RATE, dict.fromkeys(members, symptom), "last day")),
            Remedy("Compare the pool with a time before the fall: its settings, the router, and the prompts."),
            severity=Severity.INFO if changed == [] else None,
            why=f"{why} {LOW.impact}",
        )
        return
    if pool.traffic.was_read and not pool.traffic.has_usual:
        yield UnevaluatedReplicas(members, NO_LAST_DAY)
    least = f"the replicas have fewer than {LEAST_REQUESTS} requests and {LEAST_TOKENS:,} prompt tokens each"
    yield from _not_compared(pool, {}, is_enough=bool(pool.traffic.rated), least=least)


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
    "External hit rate",
    "the rest of the pool",
    # what other keys, another store or an unused one cause
    causes=("SH-", "RT-", "PD-09", "ID-09", "BL-"),
    impact="It computes again what the store has.",
    unexplained="it does not reach the store, or its prompts are not in it",
    advice="Look for errors of the connector in the logs of these replicas, and whether they reach the store.",
    young="the store may still be connecting",
    number=share,
)


@rule("EF-05", scope=Scope.TRAFFIC)
def store_is_never_hit(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas find nothing in the KV store of their pool while the others do.

    In one window a replica asked its connector for 10,000 tokens or more and got none, where the others found 5% or
    more of theirs. A finding begins when a whole window shows it and ends when a whole window does not.
    """
    found = pool.symptoms.get(EXTERNAL, {})
    yield from _drafts(pool, EXTERNAL, found, OUTSIDE)
    least = f"fewer than {COMPARED} replicas asked a connector for {LEAST_TOKENS:,} tokens"
    yield from _not_compared(pool, found, is_enough=pool.traffic.external >= COMPARED, least=least)


IDLE = Words(
    "Requests",
    "the other replicas of the pool",
    # what keeps a replica out of a router's choice
    causes=("RT-", "CO-02", "CO-09", "CP-14", "ID-03", "ID-07", "ID-12", "PD-10", "BL-"),
    impact="Its GPUs are idle and the others carry its load.",
    unexplained="it is drained, is not among the router's endpoints, or no prompt of this workload has its prefix",
    advice="Look whether the router and the Service list these replicas as ready, and whether they are drained.",
    end=" on average",
)


@rule("EF-02", scope=Scope.TRAFFIC)
def replica_gets_no_requests(pool: PoolSubject, *, requests: int = 20) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas of a pool get no requests while the others do.

    In one window, by default 15 minutes, no request of the replica ended, waited or held KV cache, and the others had
    at least `requests` each on average. A finding begins when a whole window shows it and ends when a whole window does
    not.
    """
    kept = {key: each for key, each in pool.symptoms.get(REQUESTS, {}).items() if each.others >= requests}
    yield from _drafts(pool, REQUESTS, kept, IDLE)
    least = f"no replica has {LEAST_REQUESTS} requests"
    yield from _not_compared(pool, kept, is_enough=bool(pool.traffic.busy), least=least)


PREEMPTING = Words(
    "Preemptions",
    "the median of the other engines",
    # less KV cache, other limits of batches and queues, or prompts that are computed again
    causes=("CP-", "CO-11", "RT-13", "BL-"),
    impact="Preempted requests are computed again.",
    unexplained="longer prompts or outputs than on its peers, or a router that does not balance",
    advice="Compare the load of these replicas with that of their peers: requests, prompt lengths, KV cache usage.",
)
QUEUEING = PREEMPTING._replace(
    noun="Most waiting requests",
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
        yield from _drafts(pool, measure, found, words)
        every |= found
    enough = f"no replica has {LEAST_REQUESTS} requests"
    yield from _not_compared(pool, every, is_enough=bool(pool.traffic.busy), least=enough)


def _text(words: Words, found: Sequence[Symptom]) -> Text:
    """Return `Prefix hit rate 0% to 3%; the rest of the pool 60%, first measured in the 15 min to TIME`.

    Those of several begins are each of its own.
    """
    rank = found[0].rank if len(found) == 1 else None
    whose = "" if rank is None else f" on DP rank {rank}"
    own = _range(words, [each.own for each in found])
    others = _range(words, [each.others for each in found])
    window, (first, *more) = duration(found[0].seconds), sorted({f"{each.began:%Y-%m-%d %H:%M} UTC" for each in found})
    when = f"in {window} each, from {first} to {more[-1]}" if more else f"in the {window} to {first}"
    return write(f"{words.noun}{whose} ", own, f"; {words.others} ", others, f"{words.end}, first measured {when}.")


def _range(words: Words, numbers: Iterable[float]) -> Piece:
    ordered = sorted(numbers)
    return value(" to ".join(dict.fromkeys(map(words.number, (ordered[0], ordered[-1])))))


def _members(pool: PoolSubject) -> tuple[str, ...]:
    return tuple(sorted(each.id for each in pool.members))


def _not_compared(
    pool: PoolSubject, symptoms: Mapping[str, Symptom], *, is_enough: bool, least: str
) -> Iterator[UnevaluatedReplicas]:
    """Yield the replicas without counters of a whole window; with a reason where none was compared."""
    covered, reason = pool.traffic, ""
    window = duration(covered.window)
    if symptoms and not covered.counted:  # of a past time, or of the process before this one
        return
    if not covered.was_read:
        reason = OF_A_PAST_TIME if covered.is_past else NO_COUNTERS
    elif not covered.counted:
        reason = f"No whole window yet: counters were read for less than {window}."
    elif not is_enough:
        reason = f"Not enough traffic: {least} in {window}."
    if silent := _members(pool) if reason else covered.silent:
        yield UnevaluatedReplicas(silent, reason)


def _drafts(pool: PoolSubject, measure: str, symptoms: Mapping[str, Symptom], words: Words) -> Iterator[Draft]:
    """Yield a draft for replicas with one explanation.

    One that is not read now keeps the finding of the poll that read it last, with its explanation.
    """
    members = {each.id: each for each in pool.members}
    grouped: dict[tuple[tuple[str, ...], str, str], dict[str, Symptom]] = defaultdict(dict)
    for key, symptom in sorted(symptoms.items()):
        if key in members:  # a saved fleet may have others
            grouped[_explanation(pool, members[key], symptom, words)][key] = symptom
    for (rules, why, wait), own in sorted(grouped.items()):
        yield Draft(
            tuple(own),
            _text(words, list(own.values())),
            tuple(_evidence(measure, own)),
            Remedy(_first_fix(pool, rules, own) if rules else wait or words.advice),
            severity=Severity.INFO if wait else words.severity,
            why=why,
            explained_by=rules,
        )


def _explanation(
    pool: PoolSubject, replica: Replica, symptom: Symptom, words: Words
) -> tuple[tuple[str, ...], str, str]:
    """Return the rules with findings on a replica that explain a symptom, why in words, and for what to wait."""
    everyone = set(_members(pool))
    found = {
        each.rule
        for each in pool.findings
        if each.rule.startswith(words.causes) and replica.id in each.replicas and not _is_common(each, everyone)
    }
    rules = tuple(sorted(found))
    if symptom.is_past:
        window = duration(symptom.seconds)
        return rules, f"Restarted since. The finding ends after {window} without it.", f"Wait {window}."
    if rules:
        return rules, f"Likely cause: {joined(list(rules))} on the same replicas. {words.impact}", ""
    age = symptom.began - replica.started_at if replica.started_at else YOUNG
    if words.young and timedelta() <= age < YOUNG:
        return (), f"Started {duration(age.total_seconds())} before: {words.young}. {words.impact}", WARM
    return (), f"No finding explains it. Other causes: {words.unexplained}. {words.impact}", ""


def _first_fix(pool: PoolSubject, rules: Sequence[str], replicas: Collection[str]) -> str:
    """Return `Fix RT-01 first: Set block_size as on the rest of the pool and restart these replicas`."""
    remedies = [
        next(
            each.remedy.sentence.partition(". ")[0].rstrip(".")
            for each in pool.findings
            if each.rule == rule and not set(each.replicas).isdisjoint(replicas)
        )
        for rule in rules
    ]
    if len(rules) == 1:
        return f"Fix {rules[0]} first: {uncapitalized(remedies[0])}."
    steps = " ".join(f"{rule}: {uncapitalized(own)}." for rule, own in zip(rules, remedies, strict=True))
    return f"Fix {joined(list(rules))} first. {steps}"


def _is_common(finding: Finding, everyone: set[str]) -> bool:
    """Return whether a finding is on all replicas of a pool with equal values: it distinguishes none of them."""
    values: dict[str, set[str]] = defaultdict(set)
    for each in finding.evidence:
        if not each.is_reference and each.path != FINGERPRINT:  # with random seeds each replica has its own
            values[each.path].add(each.value)
    return everyone <= set(finding.replicas) and all(len(own) == 1 for own in values.values())


def _evidence(measure: str, own: Mapping[str, Symptom], holder: str = "rest of the pool") -> Iterator[Evidence]:
    """Yield each number with its replicas, then those of the others."""
    held: dict[float, list[str]] = defaultdict(list)
    for key, symptom in own.items():
        held[symptom.own].append(key)
    for number, replicas in sorted(held.items()):
        yield Evidence(measure, _rounded(number), State.REPORTED, tuple(replicas))
    for number in sorted({each.others for each in own.values()}):
        yield Evidence(measure, _rounded(number), State.REPORTED, holder=holder, is_reference=True)


def _rounded(number: float) -> str:
    return json.dumps(round(number, DIGITS)).removesuffix(".0")
