"""What traffic shows of replicas: since a whole window showed it, until a whole window does not."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet, by_pool
from dashboard.analysis.lifecycle import parameters
from dashboard.fleet import Replica
from dashboard.fleet.history import Symptom
from dashboard.fleet.traffic import Traffic
from dashboard.rules.effect.symptoms import (
    EXTERNAL,
    HIT_RATE,
    POOL_HIT_RATE,
    PREEMPTIONS,
    REQUESTS,
    WAITING,
    Numbers,
    PoolTraffic,
    busier,
    fallen_hit_rate,
    low_hit_rates,
    without_external_hits,
    without_requests,
)
from dashboard.rules.policy import FleetData

# What is measured, by which rule, and how.
MEASURES: Mapping[str, tuple[str, Callable[..., Mapping[str, Numbers]]]] = {
    HIT_RATE: ("EF-01", low_hit_rates),
    REQUESTS: ("EF-02", without_requests),
    PREEMPTIONS: ("EF-03", partial(busier, name="preemptions")),
    WAITING: ("EF-03", partial(busier, name="waiting")),
    POOL_HIT_RATE: ("EF-04", fallen_hit_rate),
    EXTERNAL: ("EF-05", without_external_hits),
}
# Windows after which a symptom ends without a whole one: the replica answers, and reports no counters any more.
LONGEST = 2


class _Seen(NamedTuple):
    """A symptom, and the last read that showed it."""

    symptom: Symptom
    at: datetime


class SymptomWatch:
    """The symptoms that the polls of this process showed."""

    def __init__(self) -> None:
        """Have seen none."""
        self._seen: dict[tuple[str, str], _Seen] = {}  # by measure and replica, or pool
        self._traffic: Mapping[str, Mapping[int, Traffic]] = {}

    def resume(self, symptoms: Mapping[str, Mapping[str, Symptom]], at: datetime) -> None:
        """Go on with those of the last poll of a former process."""
        self._seen = {(measure, key): _Seen(each, at) for measure, own in symptoms.items() for key, each in own.items()}

    def add_poll(self, read: FleetData, at: datetime) -> Mapping[str, Mapping[str, Symptom]]:
        """Take in a fleet of which nothing needs to be derived; return the symptoms that last, by measure and replica.

        One that lasts has the numbers of its begin.
        """
        if not read.traffic_window:
            self._seen = {}
        elif read.traffic != self._traffic:
            self._traffic = read.traffic
            self._add_traffic(read, at)
        found: dict[str, dict[str, Symptom]] = {}
        for (measure, key), seen in sorted(self._seen.items()):
            found.setdefault(measure, {})[key] = seen.symptom
        return found

    def _add_traffic(self, read: FleetData, at: datetime) -> None:
        members = by_pool(read.replicas)
        pools = {
            name: PoolTraffic(own, read.traffic, read.traffic_window, read.usual.get(name))
            for name, own in members.items()
        }
        whole = {name for name, each in pools.items() if each.engines}.union(*(each.engines for each in pools.values()))
        shown = dict(_symptoms(read, pools, at))
        kept = {}
        for key, seen in self._seen.items():
            replica = read.by_id.get(key[1])
            if key in shown:
                kept[key] = _Seen(seen.symptom._replace(is_past=False), at)
            elif (replica or key[1] in pools) and not _is_over(
                seen, replica, at, read.traffic_window, is_whole=key[1] in whole
            ):
                kept[key] = seen._replace(symptom=seen.symptom._replace(is_past=_restarted(seen, replica)))
        self._seen = {key: _Seen(symptom, at) for key, symptom in shown.items()} | kept


def with_symptoms(read: Fleet, at: datetime) -> Fleet:
    """Return a fleet that was read twice with what its traffic shows at once, in the shortest time between reads."""
    seconds = [engine.seconds for own in read.traffic.values() for engine in own.values()]
    read = replace(read, traffic_window=min(seconds, default=0.0))
    return replace(read, recent=replace(read.recent, symptoms=SymptomWatch().add_poll(read, at)))


def _symptoms(
    read: FleetData, pools: Mapping[str, PoolTraffic], at: datetime
) -> Iterator[tuple[tuple[str, str], Symptom]]:
    """Yield what this window shows, by measure and replica."""
    for measure, (rule, numbers) in MEASURES.items():
        limits = parameters(read.policy, rule)
        for name, pool in pools.items():
            for replica, (own, others, rank) in numbers(pool, **limits).items():
                yield (measure, replica or name), Symptom(own, others, read.traffic_window, at, rank)


def _is_over(seen: _Seen, replica: Replica | None, at: datetime, window: float, *, is_whole: bool) -> bool:
    """Return whether a symptom that is not shown ended: a whole window is without it."""
    if replica is not None and not replica.fresh:
        return False  # what is not read proves nothing
    return at - seen.at >= timedelta(seconds=window if is_whole else LONGEST * window)


def _restarted(seen: _Seen, replica: Replica | None) -> bool:
    """Return whether a replica started after the last read that showed its symptom."""
    return replica is not None and replica.started_at is not None and replica.started_at > seen.at
