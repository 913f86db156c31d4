"""Processor time, memory and size of the history of 1,000 replicas.

Run it with `python -m tests.benchmarks.bench_history`. The year has a rollout each week: every pod is new, in its name,
its identity settings, its blocks and the memory of its devices; the documents of its pool change.
"""

import gc
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from dashboard.analysis.assembly import Fleet, assemble
from dashboard.analysis.timeline import COLUMNS, Period, Timeline
from dashboard.fleet import Device, Document, Replica, WorkerMemory
from dashboard.fleet.traffic import Traffic
from dashboard.render.svg_timeline import draw_times
from dashboard.store.history.schema import traffic
from dashboard.store.history.traffic import HOUR, KEPT_TICKS, TICK
from dashboard.views.pages import OVERVIEW
from dashboard.views.time_chart import TimeChart
from dashboard.views.timeline import here_at, pool_blocks
from dashboard.vllm.merging import document_id
from tests.benchmarks.bench_core import DOCUMENTS, FEW, captured, fleet_of, snapshot
from tests.benchmarks.measures import Row, best, peak_bytes, print_table, processor_seconds
from tests.captured import AT
from tests.store.history.recorded import Recorded, later

WEEKS, STEPS = 52, 4  # each rollout replaces a quarter of the replicas between two polls
DEVICES = 4
GIB = 2**30
POLL_SECONDS, KEPT_DAYS = 15, 30
MANY_POOLS = 119
MOST_SEQUENCES = "scheduler_config.max_num_seqs"


def main() -> int:
    """Print the tables; return 1 if a budget is exceeded."""
    return max(_spans(), _traffic())


def _spans() -> int:
    base = fleet_of([snapshot(number, captured()) for number in range(FEW)])
    restarted = _rolled_out(base, range(100), 1, AT)
    gc.collect()
    gc.freeze()
    with TemporaryDirectory() as folder:
        history = Recorded(Path(folder))
        before = peak_bytes()
        first = processor_seconds(lambda: history.record(base))
        same = min(_recording(history, _as_polled(base, number)) for number in range(1, 9))
        polls = [_as_polled(restarted if number % 2 else base, number) for number in range(9, 15)]
        changes = [_recording(history, fleet) for fleet in polls]
        changes.append(_recording(history, _as_polled(_rolled_out(base, range(100, 200), 2, AT), 20)))
        writing = peak_bytes() - before
        opened = processor_seconds(lambda: history.reader.fleet_at(AT))
        history.writer.close()
    with TemporaryDirectory() as folder:
        history = Recorded(Path(folder))
        fleet = base
        history.record(fleet)
        for week in range(1, WEEKS + 1):
            for step in range(STEPS):
                at = AT + timedelta(weeks=week, minutes=step)
                some = range(step * FEW // STEPS, (step + 1) * FEW // STEPS)
                fleet = _rolled_out(fleet, some, week, at)
                history.record(fleet)
        _add_polls(history, AT + timedelta(weeks=WEEKS, hours=1))
        history.writer.close()
        file = history.database.file
        assert file is not None
        size = file.stat().st_size
        spans = history.rows("replica_span")
        times = [AT + timedelta(weeks=week, days=3) for week in (10, 11, 40, 39, 51)]
        cold = processor_seconds(lambda: history.reader.fleet_at(times[0]))
        costs = [processor_seconds(lambda each=each: history.reader.fleet_at(each)) for each in times[1:]]  # type: ignore[misc]
        near = min(
            processor_seconds(lambda minutes=minutes: history.reader.fleet_at(times[-1] + timedelta(minutes=minutes)))  # type: ignore[misc]
            for minutes in range(1, 6)
        )
        period = Period(AT + timedelta(weeks=WEEKS) - timedelta(days=90), AT + timedelta(weeks=WEEKS))
        one = fleet.replicas[0].id
        timelines = [
            best(work, 3)
            for work in (
                lambda: history.reader.timeline(period),
                lambda: history.reader.replica_timeline(period, one),
                lambda: history.reader.setting_timeline(period, MOST_SEQUENCES),
            )
        ]
        found, names = history.reader.timeline(period), [each.name for each in fleet.pools]
        drawing = best(lambda: _drawn(fleet, found, names), 3)
    print(f"{FEW:,} replicas in {DOCUMENTS} documents of {len(next(iter(base.documents.values())).settings)} settings;")
    print(f"first poll {first:.2f} s, first fleet {opened:.2f} s, in the year {cold:.2f} s; {spans:,} spans\n")
    return print_table(
        [
            Row("a poll in which nothing changed, ms", same * 1e3, 20),
            Row("a poll in which 100 restarted, ms", max(changes) * 1e3, 200),
            Row("the fleet at a past time after the first, same week, ms", near * 1e3, 100),
            Row("the fleet of another week, every replica restarted, s", max(costs), 1.5),
            Row("the timeline of 90 days, ms", timelines[0] * 1e3, 100),
            Row("the timeline of a replica, ms", timelines[1] * 1e3, 100),
            Row("the timeline of a setting, ms", timelines[2] * 1e3, 100),
            Row("a timeline drawn, ms", drawing * 1e3, 50),
            Row("a year, MB", size / 1e6, 150),
            Row("memory of the writer, MB", writing / 1e6, 60),
        ]
    )


def _traffic() -> int:
    """Print what traffic of many pools costs: every replica counts once a minute."""
    base = _in_pools(fleet_of([snapshot(number, captured()) for number in range(FEW)]))
    groups = len({(each.pool, each.document) for each in base.replicas})
    with TemporaryDirectory() as folder:
        history = Recorded(Path(folder))
        history.record(base)
        polls = [_counting(_as_polled(base, 4 * number), number) for number in range(1, 16)]
        costs = sorted(_recording(history, each) for each in polls)
        history.writer.close()
        file = history.database.file
        assert file is not None
        before, end = _bytes_of(file), AT + timedelta(days=KEPT_DAYS)
        _add_traffic(history, base, end)
        size, rows = _bytes_of(file) - before, history.rows("traffic")
        pool, reader = base.pools[len(base.pools) // 2].name, history.reader
        one = best(lambda: reader.traffic(end - KEPT_TICKS, end, pool), 3)
        column = timedelta(days=KEPT_DAYS) / COLUMNS
        month = best(lambda: reader.traffic(end - timedelta(days=KEPT_DAYS), end, pool, column), 3)
        usual = best(lambda: reader.usual_traffic(end), 3)
    print(f"\n{FEW:,} replicas in {len(base.pools)} pools with {groups} documents: {rows:,} rows of {KEPT_DAYS} days\n")
    return print_table(
        [
            Row("a poll that counted, ms", costs[len(costs) // 2] * 1e3, 20),
            Row("the same, and the last five minutes are recorded, ms", costs[-1] * 1e3, 30),
            Row("three days of a pool, ms", one * 1e3, 50),
            Row("30 days of a pool, ms", month * 1e3, 50),
            Row("what is usual of all pools, once an hour, ms", usual * 1e3, 200),
            Row("30 days, MB", size / 1e6, 60),
        ]
    )


def _in_pools(fleet: Fleet) -> Fleet:
    """The fleet in many pools: most have one document."""
    by_document = sorted(fleet.replicas, key=lambda each: (each.document or "", each.id))
    replicas = [
        replace(each, pool=f"cluster-a/model-{place * MANY_POOLS // FEW:03}") for place, each in enumerate(by_document)
    ]
    return assemble(replace(fleet, replicas=tuple(replicas)), AT)


def _counting(fleet: Fleet, number: int) -> Fleet:
    """The fleet of a poll at which every replica counted for a minute."""
    known = {each.id: _counted(hash((each.id, number)), 60.0) for each in fleet.replicas}
    return replace(fleet, counted=known)


def _counted(number: int, seconds: float) -> Traffic:
    """Numbers of as many digits as real ones have."""
    tokens = float(seconds * 10_000 + number % 500_000)
    hits, requests = float(round(tokens * (number % 97) / 100)), float(number % 900)
    return Traffic(
        seconds, tokens, hits, None, None, tokens, requests, 0.0, requests / 7, requests, requests / 9,
        tokens - hits, float(number % 3), (number % 89) / 97,
    )  # fmt: skip


def _add_traffic(history: Recorded, fleet: Fleet, end: datetime) -> None:
    """Add a month of traffic as it is kept: of each hour, and of each five minutes of the last days."""
    groups = sorted({(each.pool, each.document) for each in fleet.replicas})
    steps = [(HOUR, end - timedelta(days=KEPT_DAYS), end - KEPT_TICKS), (TICK, end - KEPT_TICKS, end)]
    with history.database.maintained() as connection, connection.begin():
        for width, since, until in steps:
            for number in range((until - since) // width):
                begin = since + number * width
                rows = []
                for pool, document in groups:
                    counted = _counted(hash((pool, number)), width.total_seconds())._asdict()
                    del counted["refused"]
                    rows.append(
                        {"from_at": begin, "to_at": begin + width, "pool": pool, "document": document, **counted}
                    )
                connection.execute(traffic.insert(), rows)


def _bytes_of(file: Path) -> int:
    """The bytes of a database without what is only in its log."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return file.stat().st_size


def _drawn(fleet: Fleet, timeline: Timeline, names: list[str]) -> str:
    chart = pool_blocks(fleet, timeline, names, here_at(OVERVIEW, "90d"))[0]
    return draw_times(chart) if isinstance(chart, TimeChart) else ""


def _as_polled(fleet: Fleet, number: int) -> Fleet:
    """The same fleet at another poll: new objects, as polling makes them."""
    fleet = later(fleet, timedelta(seconds=POLL_SECONDS * number))
    return replace(fleet, replicas=tuple(_reread(each, fleet.polled_at) for each in fleet.replicas))


def _reread(one: Replica, at: datetime | None) -> Replica:
    first, *rest = one.probes
    return replace(one, observed_at=at, probes=(replace(first, observed_at=at or AT), *rest))


def _rolled_out(fleet: Fleet, numbers: range, week: int, at: datetime) -> Fleet:
    """The fleet in which these replicas are new pods."""
    replicas, documents = [], dict(fleet.documents)
    new: dict[str | None, Document] = {}
    by_number = sorted(fleet.replicas, key=lambda each: each.id)
    for number, each in enumerate(by_number):
        if number in numbers:
            if each.document not in new:
                new[each.document] = _changed(documents[str(each.document)], week)
            each = _restarted(each, number, week, at, new[each.document].id)  # noqa: PLW2901
        replicas.append(replace(each, observed_at=at))
    documents |= {each.id: each for each in new.values()}
    used = {each.document for each in replicas}
    kept = {key: documents[key] for key in sorted(documents) if key in used}
    read = Fleet(fleet.name, 1, at, replicas=tuple(replicas), documents=kept, letters=fleet.letters)
    return assemble(read, at, before=fleet)


def _restarted(one: Replica, number: int, week: int, at: datetime, document: str) -> Replica:
    identity = dict(one.identity)
    for place, path in enumerate(["instance_id", "parallel_config.data_parallel_master_port", *list(identity)[:8]]):
        old = identity[path]
        identity[path] = old._replace(value=str(hash((number, week, place)) % 10**12))
    blocks = 8192 + hash((number, week)) % 500
    engines = tuple(
        each._replace(num_gpu_blocks=blocks, kv_cache_size_tokens=16 * blocks, naive_tokens=16 * blocks)
        for each in one.engines
    )
    devices = tuple(
        Device(0, rank, "NVIDIA H100 80GB HBM3", 80 * GIB, "9.0", 132, rank, 0, _measured(number, week, rank))
        for rank in range(DEVICES)
    )
    labels = {**one.labels, "namespace": "ml", "pod": f"vllm-{week:x}-{hash((number, week)) % 16**9:x}"}
    return replace(
        one, labels=labels, name=labels["pod"], identity=identity, engines=engines, devices=devices,
        started_at=at - timedelta(seconds=30 + number % 60), document=document,
    )  # fmt: skip


def _measured(number: int, week: int, rank: int) -> WorkerMemory:
    free = 79 * GIB - hash((number, week, rank)) % GIB
    return WorkerMemory(80 * GIB, free, 72 * GIB, 30 * GIB, 2 * GIB, 3 * GIB, GIB, free - 43 * GIB)


def _changed(document: Document, week: int) -> Document:
    settings = dict(document.settings)
    old = settings[MOST_SEQUENCES]
    settings[MOST_SEQUENCES] = old._replace(value=str(1_000 + week))
    return Document(document_id(settings), document.version, settings)


def _add_polls(history: Recorded, at: datetime) -> None:
    """Add the polls of the last month without a change."""
    with history.database.maintained() as connection, connection.begin():
        number = KEPT_DAYS * 86_400 // POLL_SECONDS
        start = (at - AT) // timedelta(microseconds=1)
        rows = [(start + each, start + each + 1, FEW, FEW) for each in range(number)]
        connection.exec_driver_sql("INSERT INTO poll (at, due, answered, total) VALUES (?, ?, ?, ?)", rows)


def _recording(history: Recorded, fleet: Fleet) -> float:
    return processor_seconds(lambda: history.record(fleet))


if __name__ == "__main__":
    sys.exit(main())
