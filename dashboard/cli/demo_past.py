"""The hours before the start of a simulated fleet, recorded in its history."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dashboard.analysis.assembly import NO_LIVES, Fleet, assemble
from dashboard.analysis.lifecycle import with_lives
from dashboard.analysis.symptoms import SymptomWatch
from dashboard.config import Options
from dashboard.demo import DemoServer
from dashboard.fleet.traffic import ReplicaTraffic, summed
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
    addresses = {each.name: each.address for each in server.fleet}
    served = {each.id: addresses[each.name] for each in last.replicas if each.started_at}
    used = {key: ReplicaTraffic() for key in served}
    recorder, watch, fleet = Recorder(options), SymptomWatch(), None
    for number in range(PAST // TICK + 1):
        at = end - PAST + number * TICK
        server.ago = (end - at).total_seconds()
        for key, address in served.items():
            page = server.process(address).answer("GET", "/metrics", None, at.timestamp()).body
            used[key].add(at.timestamp(), read_counts(page), TICK.total_seconds())
        read = _with_traffic(_read_at(at, first, last), used)
        read = replace(read, recent=replace(read.recent, symptoms=watch.add_poll(read, at)))
        fleet = with_lives(assemble(read, at, before=fleet), fleet.lives if fleet else NO_LIVES)
        recorder.record(fleet, at + 2 * TICK)
    recorder.close()


def _read_at(at: datetime, first: Fleet, last: Fleet) -> Fleet:
    """Return replicas as they were last read if they had started, else as they were first."""
    replicas = tuple(
        replace(new if new.started_at and new.started_at <= at else first.by_id[new.id], observed_at=at)
        for new in last.replicas
    )
    documents = {**first.documents, **last.documents}
    used = {each.document: documents[each.document] for each in replicas if each.document}
    return replace(last, polled_at=at, replicas=replicas, documents=used)


def _with_traffic(read: Fleet, used: Mapping[str, ReplicaTraffic]) -> Fleet:
    """Return a fleet with what its engines counted between the last two reads."""
    traffic = {
        key: {rank: own.without_cache if key in read.without_cache else own for rank, own in each.counted.items()}
        for key, each in used.items()
        if each.counted
    }
    counted = {key: summed(own.values()) for key, own in traffic.items()}
    return replace(read, traffic=traffic, counted=counted, traffic_window=TICK.total_seconds())
