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
from dashboard.rules.effect import symptoms
from dashboard.rules.effect.traffic import YOUNG
from dashboard.rules.policy import FleetData

# What is measured, by which rule, and how.
MEASURES: Mapping[str, tuple[str, Callable[..., Mapping[str, symptoms.Numbers]]]] = {
    symptoms.HIT_RATE: ("EF-01", symptoms.low_hit_rates),
    symptoms.REQUESTS: ("EF-02", symptoms.without_requests),
    symptoms.PREEMPTIONS: ("EF-03", partial(symptoms.busier, name="preemptions")),
    symptoms.WAITING: ("EF-03", partial(symptoms.busier, name="waiting")),
    symptoms.POOL_HIT_RATE: ("EF-04", symptoms.fallen_hit_rate),
    symptoms.EXTERNAL: ("EF-05", symptoms.without_external_hits),
}
# A poll asks its replicas one after the other, and their clocks differ: a restart may be this much before its end.
CLOCK_DIFFERENCE = timedelta(minutes=1)
# Windows after which a symptom ends without a whole one: the replica answers, and reports no counters any more.
LONGEST = 2


class _Seen(NamedTuple):
    """A symptom, the last read that showed it, and the start of the process that it was read of."""

    symptom: Symptom
    at: datetime
    started_at: datetime | None = None


class SymptomWatch:
    """The symptoms that the polls of this process showed."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], _Seen] = {}  # by measure and replica, or pool
        self._traffic: Mapping[str, Mapping[int, Traffic]] = {}

    def resume(self, last: FleetData, at: datetime) -> None:
        """Go on with those of the last poll of a former process of the dashboard."""
        self._seen = {
            (measure, key): _Seen(each, at, _start(last.by_id.get(key)))
            for measure, own in last.recent.symptoms.items()
            for key, each in own.items()
        }

    def add_poll(self, read: FleetData, at: datetime) -> Mapping[str, Mapping[str, Symptom]]:
        """Take in a fleet of which nothing needs to be derived; return the symptoms that last, by measure and replica.

        One that lasts has the numbers of its begin. What a new process shows begins anew, and so does what a cold cache
        showed and a warm one still shows.
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
            name: symptoms.PoolTraffic(own, read.traffic, read.traffic_window, read.usual.get(name))
            for name, own in members.items()
        }
        whole = {name for name, each in pools.items() if each.engines}.union(*(each.engines for each in pools.values()))
        shown = dict(_symptoms(read, pools, at))
        found = {key: _Seen(symptom, at, _start(read.by_id.get(key[1]))) for key, symptom in shown.items()}
        for key, seen in self._seen.items():
            replica = read.by_id.get(key[1])
            is_past = seen.symptom.is_past or _restarted(seen, replica)
            if key in shown:
                if not is_past and not _has_warmed(seen, replica, at):
                    found[key] = seen._replace(at=at)
            elif (replica or key[1] in pools) and not _is_over(
                seen, replica, at, read.traffic_window, is_whole=key[1] in whole
            ):
                found[key] = seen._replace(symptom=seen.symptom._replace(is_past=is_past))
        self._seen = found


def with_symptoms(read: Fleet, at: datetime) -> Fleet:
    """Return a fleet that was read twice with what its traffic shows at once, in the shortest time between reads."""
    seconds = [engine.seconds for own in read.traffic.values() for engine in own.values()]
    read = replace(read, traffic_window=min(seconds, default=0.0))
    return replace(read, recent=replace(read.recent, symptoms=SymptomWatch().add_poll(read, at)))


def _symptoms(
    read: FleetData, pools: Mapping[str, symptoms.PoolTraffic], at: datetime
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


def _start(replica: Replica | None) -> datetime | None:
    return replica.started_at if replica else None


def _restarted(seen: _Seen, replica: Replica | None) -> bool:
    """Return whether a replica is another process than the one that showed its symptom."""
    start = _start(replica)
    if start is None or seen.started_at is None:
        return start is not None and start > seen.at
    return is_restart(start, seen.started_at, seen.at)


def is_restart(start: datetime, before: datetime, read_at: datetime) -> bool:
    """Return whether a process started later than the one before, which was read at a time."""
    return start > before and start > read_at - CLOCK_DIFFERENCE


def _has_warmed(seen: _Seen, replica: Replica | None, at: datetime) -> bool:
    """Return whether a symptom began while the cache of its replica may have been cold, which it is no longer."""
    start = _start(replica)
    return start is not None and seen.symptom.began - start < YOUNG <= at - start
