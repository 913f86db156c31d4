"""Drafts of what traffic shows, by the findings on the same replicas that explain it."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from dashboard.fleet import Replica, State
from dashboard.fleet.formatting import duration, joined
from dashboard.fleet.history import Symptom
from dashboard.fleet.pieces import Text
from dashboard.rules.findings import Confidence, Draft, Evidence, Finding, Remedy, Severity, UnevaluatedReplicas
from dashboard.rules.subject import FINGERPRINT, PoolSubject

NO_COUNTERS = "No counters were read twice. The dashboard reads them while it polls, `check` with `--traffic`."
# A cache that began empty is warm after some windows; an estimate, no source gives one.
YOUNG = timedelta(hours=1)
DIGITS = 3  # of a share in evidence


class Explanation(NamedTuple):
    """Why a replica differs from its peers: rules with findings on it, a late start; or it restarted since."""

    rules: tuple[str, ...]
    age: str = ""  # at the begin of the symptom
    is_past: bool = False


class Words(NamedTuple):
    """What one rule says: `text` describes symptoms; `causes` are beginnings of the ids of rules that can explain them.

    `impact` is what they cost. `others` are causes without a finding, `advice` is what to do about these. `young` is
    what a late start explains.
    """

    text: Callable[[Sequence[Symptom]], Text]
    causes: tuple[str, ...]
    impact: str
    others: str
    advice: str
    severity: Severity | None = None
    young: str = ""


def not_compared(
    pool: PoolSubject, symptoms: Mapping[str, Symptom], *, is_enough: bool, least: str
) -> Iterator[UnevaluatedReplicas]:
    """Yield the replicas without counters of a whole window; with a reason where none was compared."""
    covered = pool.traffic
    window = duration(covered.window)
    reason = ""
    if symptoms and not covered.counted:  # of a past time, or of the process before this one
        return
    if not covered.was_read:
        reason = NO_COUNTERS
    elif not covered.counted:
        reason = f"Counters were read for less than {window}."
    elif not is_enough:
        reason = f"Not enough traffic: {least} in {window}."
    silent = covered.silent
    if reason:
        silent = tuple(sorted(each.id for each in pool.members))
    if silent:
        yield UnevaluatedReplicas(silent, reason)


def drafts_of(pool: PoolSubject, measure: str, symptoms: Mapping[str, Symptom], words: Words) -> Iterator[Draft]:
    """Yield a draft for replicas with one explanation."""
    members = {each.id: each for each in pool.all_replicas}
    grouped: dict[Explanation, dict[str, Symptom]] = defaultdict(dict)
    for key, symptom in sorted(
        each for each in symptoms.items() if each[0] in members
    ):  # a saved fleet may have others
        grouped[_explanation(pool, members[key], symptom, words)][key] = symptom
    for explanation, own in sorted(grouped.items()):
        rules = explanation.rules
        yield Draft(
            tuple(own),
            words.text(list(own.values())),
            tuple(evidence_of(measure, own)),
            Remedy(f"Fix {joined(list(rules))} first." if rules else words.advice),
            Confidence.REPORTED,
            Severity.INFO if explanation.is_past or explanation.age else words.severity,
            _why(explanation, words, own),
            explained_by=rules,
        )


def _explanation(pool: PoolSubject, replica: Replica, symptom: Symptom, words: Words) -> Explanation:
    if symptom.is_past:
        return Explanation((), is_past=True)
    everyone = {each.id for each in pool.members}
    found = {
        each.rule
        for each in pool.findings
        if each.rule.startswith(words.causes) and replica.id in each.replicas and not _is_common(each, everyone)
    }
    age = symptom.began - replica.started_at if replica.started_at else YOUNG
    is_young = bool(words.young) and not found and timedelta() <= age < YOUNG
    return Explanation(tuple(sorted(found)), duration(age.total_seconds()) if is_young else "")


def _is_common(finding: Finding, everyone: set[str]) -> bool:
    """Return whether a finding is on all replicas of a pool with equal values: it distinguishes none of them."""
    values: dict[str, set[str]] = defaultdict(set)
    for each in finding.evidence:
        if not each.is_reference and each.path != FINGERPRINT:  # with random seeds each replica has its own
            values[each.path].add(each.value)
    return everyone <= set(finding.replicas) and all(len(own) == 1 for own in values.values())


def _why(explanation: Explanation, words: Words, own: Mapping[str, Symptom]) -> str:
    if explanation.is_past:
        seconds = max(each.seconds for each in own.values())
        return f"Restarted since. The finding ends after {duration(seconds)} without it."
    if explanation.rules:
        return f"Likely cause: {joined(list(explanation.rules))} on the same replicas. {words.impact}"
    if explanation.age:
        return f"Started {explanation.age} before: {words.young}. {words.impact}"
    return f"No finding explains it. Other causes: {words.others}. {words.impact}"


def evidence_of(measure: str, own: Mapping[str, Symptom], holder: str = "rest of the pool") -> Iterator[Evidence]:
    """Yield each number with its replicas, then those of the others."""
    held: dict[float, list[str]] = defaultdict(list)
    for key, symptom in own.items():
        held[symptom.own].append(key)
    for number, replicas in sorted(held.items()):
        yield Evidence(measure, _text(number), State.REPORTED, tuple(replicas))
    for number in sorted({each.others for each in own.values()}):
        yield Evidence(measure, _text(number), State.REPORTED, holder=holder, is_reference=True)


def _text(number: float) -> str:
    return json.dumps(round(number, DIGITS)).removesuffix(".0")
