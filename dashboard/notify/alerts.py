"""Alerts of a fleet: findings with equal labels are one alert, which begins, lasts and ends."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count, end_cut, visible
from dashboard.fleet.grouping import grouped
from dashboard.fleet.history import Extent
from dashboard.rules.catalogue import places
from dashboard.rules.findings import Finding, Severity
from dashboard.views.finding_text import paste_lines, replicas_text, rule_title, suppressions

MOST_POOLS = 100  # with alerts of their own, as /metrics has series; served models make pools
OTHER_POOLS = "other"
MOST_LISTED = 10  # findings that an alert describes; the rest is counted
MOST_CHARACTERS = 2_000  # of an annotation
MOST_SENTENCE = 300
SUPPRESSION = "suppression"  # the annotation with owner, end and reason


class AlertKey(NamedTuple):
    """What an alert is about: the labels by which receivers tell alerts apart."""

    rule: str
    pool: str
    severity: str


class AlertEvent(StrEnum):
    """Why a message has an alert."""

    NEW = "new"
    WORSE = "worse"  # the same rule in the same pool was less severe, or was on fewer replicas
    MILDER = "milder"
    RESOLVED = "resolved"
    SUPPRESSED = "suppressed"  # it ended because a finding of it is suppressed


class Knowledge(StrEnum):
    """What the receivers of messages know of an alert that fires."""

    NOTIFIED = "notified"
    WAITING = "waiting"  # it follows a rollout in progress
    SILENT = "silent"  # a new rule set found it first


class Alert(BaseModel):
    """Findings of one rule, in one pool, with one severity.

    `since` is the first poll that had it, `at` the poll that its text is of, `until` the first poll without it.
    `finding` is the id of its first finding. `event` and `was`, the former severity, are set in messages.
    `announced` is its largest extent that messages had; None: not counted yet.
    """

    model_config = ConfigDict(frozen=True)

    fleet: str
    rule: str
    cluster: str
    pool: str
    severity: Severity
    since: datetime
    at: datetime
    finding: str
    fingerprints: tuple[str, ...]
    pools: tuple[str, ...]
    replicas: tuple[str, ...]
    annotations: dict[str, str]
    knowledge: Knowledge = Knowledge.SILENT
    announced: Extent | None = None
    is_rollout: bool = False
    until: datetime | None = None
    event: AlertEvent = AlertEvent.NEW
    was: Severity | None = None

    @property
    def key(self) -> AlertKey:
        """Return what tells it apart from other alerts of its fleet."""
        return AlertKey(self.rule, self.pool, self.severity)

    def with_changes(self, **changes: object) -> "Alert":
        return self.model_copy(update=changes)


Alerts = Mapping[AlertKey, Alert]


class AlertChanges(NamedTuple):
    """What a poll changed: the alerts that fire now, those of them with a finding that is new, those that ended."""

    firing: dict[AlertKey, Alert]
    new: tuple[Alert, ...]
    ended: tuple[Alert, ...]


def alerts_of(fleet: Fleet, at: datetime) -> dict[AlertKey, Alert]:
    """Return the alerts of one poll, the worst first."""
    own = {pool.name for pool in fleet.pools[:MOST_POOLS]}
    found = grouped(
        (AlertKey(each.rule, _pool_label(each, own), each.severity), each) for each in fleet.inspection.findings
    )
    clusters = {pool.name: pool.cluster for pool in fleet.pools}
    return {key: _alert(fleet, key, same, clusters, at) for key, same in found.items()}


def compare_alerts(known: Alerts, now: Alerts, fleet: Fleet, at: datetime) -> AlertChanges:
    """Return what the poll at `at` changed, whose alerts are `now`: an alert lasts while findings of it do."""
    firing, new, ended = {}, [], []
    for key, alert in now.items():
        before = known.get(key)
        firing[key] = alert if before is None else _continued(before, alert)
        if before is None or not {*alert.fingerprints} <= {*before.fingerprints}:
            new.append(firing[key])
    hidden = {each.fingerprint: each for each in fleet.inspection.suppressed}
    moved = {digest for each in now.values() for digest in each.fingerprints}
    for key, alert in known.items():
        if key not in now:
            end = alert.with_changes(until=max(at, alert.since), event=AlertEvent.RESOLVED)
            suppressed = [hidden[digest] for digest in alert.fingerprints if digest in hidden]
            has_moved = not moved.isdisjoint(alert.fingerprints)  # to another severity or label of the pool
            ended.append(_suppressed(end, suppressed) if suppressed and not has_moved else end)
    return AlertChanges(firing, tuple(new), tuple(ended))


def _pool_label(finding: Finding, own: set[str]) -> str:
    """Return a pool, a pair `prefill + decode`, or `fleet`; OTHER_POOLS for a pool beyond MOST_POOLS.

    A rule on the whole fleet has the pool of its finding where that is one, as /metrics and pages have.
    """
    found = places(finding)
    if len(found) > 1:
        return end_cut(finding.subject)
    return end_cut(found[0]) if own.issuperset(finding.pools) else OTHER_POOLS


def _suppressed(alert: Alert, findings: Sequence[Finding]) -> Alert:
    """Return an alert that ended by suppressions, with these in place of what to do."""
    kept = {name: text for name, text in alert.annotations.items() if name != "action"}
    text = _text([suppressions(findings)])
    return alert.with_changes(
        event=AlertEvent.SUPPRESSED, annotations={**kept, SUPPRESSION: f"{text[:1].upper()}{text[1:]}"}
    )


def _continued(before: Alert, alert: Alert) -> Alert:
    """Return an alert that lasts: with its begin, what was announced of it, and the poll of its text."""
    alert = alert.with_changes(since=before.since, knowledge=before.knowledge, announced=before.announced)
    is_same = alert == before.with_changes(at=alert.at)
    return before if is_same else alert


def _alert(
    fleet: Fleet,
    key: AlertKey,
    same: Sequence[Finding],
    clusters: Mapping[str, str],
    at: datetime,
) -> Alert:
    """Return the alert of some findings, since the first of them began; `at` where their lives are not known.

    `clusters` are by the names of pools.
    """
    known, first, listed = fleet.lives.lives, same[0], same[:MOST_LISTED]
    more = len(same) - len(listed)
    pools = _each(pool for finding in same for pool in finding.pools)
    own = {clusters[pool] for pool in pools if pool in clusters}
    title, sentence = rule_title(key.rule), end_cut(first.sentence, MOST_SENTENCE)
    summary = sentence if len(same) == 1 else f"{count(len(same), 'finding')}, such as: {sentence}"
    lines = [f"{end_cut(each.sentence, MOST_SENTENCE)} ({replicas_text(each, fleet.names)})" for each in listed]
    return Alert(
        fleet=end_cut(fleet.name),
        rule=key.rule,
        cluster=end_cut(own.pop()) if len(own) == 1 and key.pool != OTHER_POOLS else "",
        pool=key.pool,
        severity=first.severity,
        since=min((known[each.fingerprint].sighting.since for each in same if each.fingerprint in known), default=at),
        at=at,
        finding=first.id,
        fingerprints=tuple(sorted({each.fingerprint for each in same})),
        pools=pools,
        replicas=_each(replica for finding in same for replica in finding.replicas),
        is_rollout=all(each.is_rollout for each in same),
        annotations={
            "title": title,
            "summary": f"{key.pool}: {summary}",
            "description": _text([*lines, *([f"{more:,} more"] if more else [])]),
            "impact": _text([first.why]),
            "action": _text([first.remedy.sentence, *paste_lines(first.remedy)]),
            "replicas": str(len(_each(replica for finding in same for replica in finding.replicas))),
            "findings": str(len(same)),
        },
    )


def _each(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _text(lines: Sequence[str]) -> str:
    """Return foreign lines as plain text, cut at its end."""
    text = visible("\n".join(lines))
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
