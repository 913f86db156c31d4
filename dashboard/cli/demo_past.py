"""The hours before the start of a simulated fleet, recorded in its history."""

from bisect import bisect
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dashboard.analysis.assembly import NO_LIVES, Fleet, assemble
from dashboard.analysis.lifecycle import with_lives
from dashboard.config import Options
from dashboard.demo import DemoServer
from dashboard.fleet.traffic import ReplicaTraffic, Traffic, summed
from dashboard.service.collector import poll_once
from dashboard.sources.discovery import discover_once
from dashboard.store.history.recording import Recorder
from dashboard.vllm.traffic import read_counts

PAST = timedelta(hours=6)
TICK = timedelta(minutes=5)
PROBE_TIMEOUT_SECONDS = 0.5  # a replica that answers slowly is unreachable


def record_past(options: Options, server: DemoServer) -> None:
    """Record a poll every five minutes. Replicas are read twice, before and after the restarts of these hours."""
    limits = options.poll.model_copy(update={"probe_timeout_seconds": PROBE_TIMEOUT_SECONDS})
    options = options.model_copy(update={"poll": limits})
    end = datetime.fromtimestamp(server.now(), UTC)
    server.ago = PAST.total_seconds()
    first = poll_once(options, discover_once(options))
    server.ago = 0.0
    last = poll_once(options, discover_once(options))
    restarts = sorted(each.started_at for each in last.replicas if each.started_at)
    addresses = {each.name: each.address for each in server.fleet}
    served = {each.id: addresses[each.name] for each in last.replicas if each.started_at}
    used = {key: ReplicaTraffic() for key in served}
    recorder, fleet = Recorder(options), None
    for number in range(PAST // TICK + 1):
        at = end - PAST + number * TICK
        server.ago = (end - at).total_seconds()
        if fleet is None or bisect(restarts, at) != bisect(restarts, at - TICK):
            fleet = _fleet_at(at, first, last, fleet)
        for key, address in served.items():
            page = server.process(address).answer("GET", "/metrics", None, at.timestamp()).body
            used[key].add(at.timestamp(), read_counts(page), TICK.total_seconds())
        recorder.record(replace(fleet, polled_at=at, counted=_counted(fleet, used)), at + 2 * TICK)
    recorder.close()


def _fleet_at(at: datetime, first: Fleet, last: Fleet, before: Fleet | None) -> Fleet:
    """Return the fleet in which replicas are as they were last read if they had started, else as they were first."""
    replicas = tuple(
        replace(new if new.started_at and new.started_at <= at else first.by_id[new.id], observed_at=at)
        for new in last.replicas
    )
    documents = {**first.documents, **last.documents}
    used = {each.document: documents[each.document] for each in replicas if each.document}
    read = replace(last, polled_at=at, replicas=replicas, documents=used)
    return with_lives(assemble(read, at, before=before), before.lives if before else NO_LIVES)


def _counted(fleet: Fleet, used: Mapping[str, ReplicaTraffic]) -> dict[str, Traffic]:
    """Return what replicas counted between the last two reads."""
    found = {key: summed(each.counted.values()) for key, each in used.items() if each.counted}
    return {key: each.without_cache if key in fleet.without_cache else each for key, each in found.items()}
