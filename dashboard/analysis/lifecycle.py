"""The life of findings: when one began, spread, was absent, came again and ended. Everything else reads the result.

Findings with one fingerprint have one life. It ends with the first poll that could see them and did not.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.grouping import grouped
from dashboard.fleet.history import Extent, Recurrence, Sighting
from dashboard.rules.catalogue import ALL_RULES, BY_ID, RULE_SET
from dashboard.rules.findings import Finding, FindingLife, FindingLives, OutcomeKind
from dashboard.rules.identity.flapping import RECURS
from dashboard.rules.policy import Policy, RuleChange, add_unconfirmed

MOST_ENDED = 5_000  # lives that are remembered because they came lately; more have values of each poll
MOST_UNCONFIRMED = 500  # lives that no poll could see the end of
NO_REPLICA = ""  # in the times of a finding without replicas

Times = Mapping[str, tuple[datetime, ...]]  # at which a finding came, by replica


def advance(before: FindingLives, fleet: Fleet) -> FindingLives:
    """Return the lives after a poll. The unconfirmed findings of the fleet prove nothing."""
    at = fleet.polled_at
    if at is None:
        return before
    every = (*fleet.inspection.findings, *fleet.inspection.suppressed)
    found = _by_fingerprint(each for each in every if each.seen_at is None)
    since, proof = at - window(fleet.policy, RECURS), EndProof(fleet)
    unconfirmed, ended = {}, {}
    for key, life in before.lives.items():
        if key in found:
            continue
        times = later(life.times, since)
        if life.ended is None and not proof.covers(life.rule, life.pools, life.replicas):
            findings = tuple(replace(each, seen_at=each.seen_at or before.at) for each in life.findings)
            unconfirmed[key] = replace(life, findings=findings, times=times)
        elif times:
            ended[key] = replace(life, times=times, findings=(), ended=life.ended or at)
    lives = dict([*unconfirmed.items()][-MOST_UNCONFIRMED:])
    lives |= dict(sorted(ended.items(), key=_last_came)[-MOST_ENDED:])
    for key, findings in found.items():
        lives[key] = _found(findings, before, before.lives.get(key), fleet, proof, at)
    return FindingLives(at, RULE_SET, lives)


def _found(
    findings: tuple[Finding, ...],
    before: FindingLives,
    life: FindingLife | None,
    fleet: Fleet,
    proof: "EndProof",
    at: datetime,
) -> FindingLife:
    """Return the life of what a poll found. What the first poll finds, or a new rule set, may be older."""
    rule, pools = findings[0].rule, findings[0].pools
    was_looked_for = before.at is not None and before.rule_set == RULE_SET
    replicas = frozenset(replica for each in findings for replica in each.replicas)
    came = {key for each in findings if each.suppression is None for key in each.replicas or (NO_REPLICA,)}
    if life is not None and life.ended is None:
        sighting = life.sighting
        came -= life.replicas or {NO_REPLICA}
        replicas |= {each for each in life.replicas if not proof.covers(rule, pools, [each])}
    else:
        sighting = Sighting(life.sighting.first_seen if life else at, at, before.at if was_looked_for else None)
    times = later(life.times, at - window(fleet.policy, RECURS)) if life else {}
    if was_looked_for and rule != RECURS:
        times |= {each: (*times.get(each, ()), at) for each in came}
    is_rolling = not fleet.inspection.rollouts.keys().isdisjoint(pools)
    extent = None if is_rolling else extent_in(fleet, pools, len(replicas))
    return FindingLife(rule, pools, replicas, findings, sighting, extent, times)


def with_lives(fleet: Fleet, before: FindingLives) -> Fleet:
    """Return the fleet of a poll with the lives of its findings; those that it could not see are among its findings."""
    if fleet.polled_at is None:
        return fleet
    lives, found = advance(before, fleet), fleet.inspection
    lasting = [life for life in lives.lives.values() if life.ended is None]
    unconfirmed = tuple(each for life in lasting for each in life.findings if each.seen_at is not None)
    if {each.fingerprint for each in unconfirmed} != {each.fingerprint for each in found.unconfirmed}:
        active, suppressed = (
            tuple(one for one in each if one.seen_at is None) for each in (found.findings, found.suppressed)
        )
        confirmed = replace(found, findings=active, suppressed=suppressed)
        today = fleet.polled_at.date()
        fleet = replace(fleet, inspection=add_unconfirmed(confirmed, unconfirmed, fleet, ALL_RULES, today))
    return replace(fleet, lives=lives)


def resumed(fleet: Fleet, rule_set: int) -> FindingLives:
    """Return the lives after a poll in the history, which this rule set evaluated."""
    found = _by_fingerprint((*fleet.inspection.findings, *fleet.inspection.suppressed))
    lives: dict[str, FindingLife] = {}
    for key, sighting in fleet.sightings.findings.items():
        findings = found.get(key, ())  # none where this version has other rules
        rule, pools = (findings[0].rule, findings[0].pools) if findings else ("", ())
        replicas = frozenset(replica for each in findings for replica in each.replicas)
        extent = extent_in(fleet, pools, len(replicas))
        lives[key] = FindingLife(rule, pools, replicas, findings, sighting, extent)
    for key, each in fleet.recent.recurrences.items():
        last = max(map(max, each.times.values()))
        ended = FindingLife(each.rule, each.pools, frozenset(), (), Sighting(last, last), ended=fleet.polled_at)
        lives[key] = replace(lives.get(key, ended), times=each.times)
    return FindingLives(fleet.polled_at, rule_set, lives)


def recurrences(lives: FindingLives, since: datetime) -> dict[str, Recurrence]:
    """Return what came to one replica more than once after a time, by fingerprint."""
    found = {}
    for key, life in lives.lives.items():
        times = {each: its for each, its in later(life.times, since).items() if len(its) > 1}
        if times:
            found[key] = Recurrence(life.rule, life.pools, times)
    return found


def extent_in(fleet: Fleet, pools: Collection[str], replicas: int) -> Extent:
    """Return the extent of what is on so many replicas of some pools; without pools of the whole fleet."""
    total = sum(len(each.replicas) for each in fleet.pools if each.name in pools) if pools else len(fleet.replicas)
    return Extent(replicas, total)


def window(policy: Policy, rule: str) -> timedelta:
    """Return the option `minutes` of a rule."""
    return timedelta(minutes=parameters(policy, rule)["minutes"])


def parameters(policy: Policy, rule: str) -> Mapping[str, Any]:
    """Return the parameters of a rule, as fleet.yaml changes them."""
    return {**BY_ID[rule].parameters, **policy.rules.get(rule, RuleChange()).parameters}


class EndProof:
    """What a poll proves about the end of findings that it does not have."""

    def __init__(self, fleet: Fleet) -> None:
        self._is_listed = not fleet.discovery_errors  # every replica that there is
        self._is_fresh = {each.id: each.fresh for each in fleet.replicas}
        self._has_read = any(self._is_fresh.values()) or not (self._is_fresh or fleet.discovery_errors)
        self._failed = {each.rule for each in fleet.inspection.outcomes if each.kind is OutcomeKind.ERROR}
        balance = Counter[str | None]()
        for replica in fleet.replicas:
            balance[replica.pool] += 1 if replica.fresh else -1
        self._lost = {pool for pool, number in balance.items() if number < 0}

    def covers(self, rule: str, pools: Iterable[str], replicas: Iterable[str]) -> bool:
        """Return whether a finding of a rule, in some pools and on some replicas, ended.

        It is not known where the rule raised an error, a replica was not read lately, or is missing while a source of
        targets cannot be read; and not where most replicas of a pool, with which these were compared, were not read.
        """
        if not self._has_read or rule in self._failed or not self._lost.isdisjoint(pools):
            return False
        return all(self._is_fresh.get(each, self._is_listed) for each in replicas)


def _by_fingerprint(findings: Iterable[Finding]) -> dict[str, tuple[Finding, ...]]:
    found = grouped((each.fingerprint, each) for each in findings)
    return {key: tuple(same) for key, same in found.items()}


def later(times: Times, since: datetime) -> dict[str, tuple[datetime, ...]]:
    """Return the times after another one, by replica; replicas without any are left out."""
    found = {replica: tuple(time for time in own if time > since) for replica, own in times.items()}
    return {replica: own for replica, own in found.items() if own}


def _last_came(item: tuple[str, FindingLife]) -> tuple[bool, datetime]:
    """Return what sorts those that came again last, then those that came last."""
    times = item[1].times.values()
    return any(len(its) > 1 for its in times), max(map(max, times))
