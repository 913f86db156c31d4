"""The history has what replicas counted: in five minutes, later in an hour, by pool and document."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet
from dashboard.config import HistoryOptions, Options
from dashboard.errors import HistoryError
from dashboard.fleet.formatting import missing_rate
from dashboard.fleet.times import EPOCH
from dashboard.fleet.traffic import Traffic, TrafficSum, summed
from dashboard.store.history.recording import Recorder
from dashboard.store.history.retention import history_bytes, prune, rewind
from dashboard.store.history.traffic import HOUR, KEPT_TICKS, TICK
from tests.polled_fleets import at, built, unreachable
from tests.store.history.recorded import Recorded
from tests.used import WINDOW_SECONDS, traffic, with_traffic

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
BEGIN = datetime.fromisoformat("2026-03-02T12:00:00Z")
ONE = traffic(0.5, requests=10)._replace(seconds=60.0)
FLEET = replace(built(at(1), at(2), at(3, "llama_noprefix")), polled_at=BEGIN)
(POOL,) = FLEET.pools
LLAMA, OTHER = (cohort.document for cohort in POOL.cohorts)
IDS = [each.id for each in FLEET.replicas]
NEVER = HistoryOptions()


def counting(fleet: Fleet, time: datetime, *counted: Traffic | None) -> Fleet:
    """The fleet of a poll at which its replicas counted this since the read before."""
    known = {one.id: own for one, own in zip(fleet.replicas, counted, strict=False) if own is not None}
    return replace(fleet, polled_at=time, counted=known)


def every(history: Recorded, since: datetime = EPOCH, until: datetime = BEGIN + 400 * DAY) -> list[TrafficSum]:
    return history.reader.traffic(since, until)


def totals(sums: Sequence[TrafficSum]) -> Mapping[tuple[str, str], Traffic]:
    parts: dict[tuple[str, str], list[Traffic]] = defaultdict(list)
    for each in sums:
        parts[each.pool, each.document].append(each.traffic)
    return {key: summed(own)._replace(seconds=sum(each.seconds for each in own)) for key, own in parts.items()}


def requests(history: Recorded) -> float:
    return sum(each.traffic.requests or 0 for each in every(history))


@pytest.fixture
def history(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


def test_five_minutes_of_the_clock_are_one_sum_of_each_pool_and_document(history: Recorded) -> None:
    for minutes in range(1, 8):
        history.record(counting(FLEET, BEGIN + minutes * MINUTE, ONE, ONE, ONE))
    history.writer.close()

    sums = every(history)
    assert [(each.since, each.until) for each in sums] == [(BEGIN, BEGIN + TICK)] * 2 + [
        (BEGIN + TICK, BEGIN + 2 * TICK)
    ] * 2
    by_document = {each.document: each.traffic for each in sums[:2]}
    assert {each.pool for each in sums} == {POOL.name}
    assert (by_document[LLAMA].requests, by_document[LLAMA].seconds) == (4 * 2 * 10, 4 * 60)
    assert (by_document[OTHER].requests, by_document[OTHER].seconds) == (4 * 10, 4 * 60)
    assert by_document[LLAMA].hit_rate == 0.5


def test_what_replicas_count_is_no_change_of_their_state(history: Recorded) -> None:
    for minutes, rate in ((1, 0.5), (2, 0.6)):
        used = with_traffic(counting(FLEET, BEGIN + minutes * MINUTE, ONE, ONE, ONE), {POOL.name: rate})
        history.record(used)

    assert [history.rows(name) for name in ("replica_span", "fleet_span", "document_span")] == [3, 1, 2]


def test_gauges_are_the_most_of_their_time_and_what_is_not_reported_stays_unknown(history: Recorded) -> None:
    reads = [ONE._replace(waiting=3.0, kv_usage=0.9, preemptions=None), ONE._replace(waiting=1.0, kv_usage=None)]
    for minutes, own in enumerate(reads, 1):
        history.record(counting(FLEET, BEGIN + minutes * MINUTE, own._replace(external_hits=None)))
    history.writer.close()

    (found,) = every(history)
    assert (found.traffic.waiting, found.traffic.kv_usage) == (3.0, 0.9)
    assert found.traffic.preemptions == 0, "one read reported it"
    assert found.traffic.external_queries is None


def test_a_process_behind_two_addresses_counts_once(history: Recorded) -> None:
    first, second, other = (
        replace(each, same_process=tuple(key for key in IDS[:2] if key != each.id)) if each.id in IDS[:2] else each
        for each in FLEET.replicas
    )
    fleet = replace(FLEET, replicas=(first, second, other))
    history.record(counting(fleet, BEGIN + MINUTE, ONE, ONE))
    history.writer.close()

    assert requests(history) == 10


# Polls: minutes since the poll before, the requests that replicas counted, and whether the dashboard restarts before.
COUNTS = st.lists(st.none() | st.integers(0, 1_000), min_size=3, max_size=3)
POLLS = st.lists(st.tuples(st.integers(1, 400), COUNTS, st.booleans()), min_size=1, max_size=12)


@settings(max_examples=settings().max_examples // 5)
@given(POLLS)
def test_nothing_that_was_counted_is_lost_or_counted_twice_by_restarts_and_by_merging(
    story: list[tuple[int, list[int | None], bool]],
) -> None:
    with TemporaryDirectory() as folder:
        history, now = Recorded(Path(folder)), BEGIN
        expected: dict[tuple[str, str | None], float] = defaultdict(float)
        documents = [each.document for each in FLEET.replicas]
        for minutes, counts, restarts in story:
            now += minutes * MINUTE
            if restarts:
                history.restart()
            counted = [None if each is None else ONE._replace(requests=float(each)) for each in counts]
            for document, each in zip(documents, counts, strict=True):
                if each is not None:
                    expected[POOL.name, document] += each
            history.record(counting(FLEET, now, *counted))
        history.writer.close()

        before = totals(every(history))
        assert {key: each.requests for key, each in before.items()} == dict(expected)
        list(prune(history.database, now + KEPT_TICKS + 2 * HOUR, NEVER))
        merged = every(history)
        assert totals(merged) == before
        assert {each.until - each.since for each in merged} <= {HOUR}
        assert len(merged) == len({(each.since, each.document) for each in merged})


def test_an_aborted_process_loses_the_last_five_minutes_at_most(history: Recorded) -> None:
    for minutes in range(1, 9):
        history.record(counting(FLEET, BEGIN + minutes * MINUTE, ONE))
    history.writer._close()  # as the end of the process does: nothing is written

    assert requests(history) == 4 * 10
    again = Recorded(history.database.file.parent) if history.database.file else history
    again.record(counting(FLEET, BEGIN + 9 * MINUTE, ONE))
    again.writer.close()
    assert requests(history) == 5 * 10


def test_a_restart_within_five_minutes_adds_to_them(history: Recorded) -> None:
    history.record(counting(FLEET, BEGIN + MINUTE, ONE))
    history.restart()
    history.record(counting(FLEET, BEGIN + 3 * MINUTE, ONE))
    history.writer.close()

    (found,) = every(history)
    assert (found.traffic.requests, found.traffic.seconds) == (20, 120)


def test_a_poll_that_is_not_recorded_counts_nothing_and_keeps_what_was_counted(history: Recorded) -> None:
    history.record(counting(FLEET, BEGIN + 2 * MINUTE, ONE))
    with pytest.raises(HistoryError, match="later than this one"):  # the clock jumped back
        history.record(counting(FLEET, BEGIN - DAY, ONE))
    assert requests(history) == 0
    history.record(counting(FLEET, BEGIN + 9 * MINUTE))

    assert requests(history) == 10
    (found,) = every(history)
    assert found.since == BEGIN


def test_traffic_of_a_clock_that_was_ahead_is_deleted_with_its_polls(history: Recorded) -> None:
    for time in (BEGIN + MINUTE, BEGIN + DAY, BEGIN + DAY + HOUR):
        history.record(counting(FLEET, time, ONE))
    history.writer.close()

    rewind(history.database, FLEET.name, BEGIN + HOUR)
    assert [each.since for each in every(history)] == [BEGIN]


def test_sums_are_of_five_minutes_for_three_days_then_of_an_hour_and_are_deleted_with_the_polls(
    history: Recorded,
) -> None:
    for number in range(36):
        history.record(counting(FLEET, BEGIN + number * TICK + MINUTE, ONE, None, ONE))
    history.writer.close()
    assert len(every(history)) == 2 * 36

    list(prune(history.database, BEGIN + KEPT_TICKS + 2 * HOUR, NEVER))
    widths = [each.until - each.since for each in every(history) if each.document == LLAMA]
    assert widths == [HOUR] * 2 + [TICK] * 12
    assert requests(history) == 2 * 36 * 10

    list(prune(history.database, BEGIN + 30 * DAY + 2 * HOUR, NEVER))
    assert [each.since for each in every(history)] == [BEGIN + 2 * HOUR] * 2
    list(prune(history.database, BEGIN + 31 * DAY, NEVER))
    assert every(history) == []


def test_traffic_gives_way_where_the_history_is_too_large(history: Recorded) -> None:
    for hours in range(30):
        history.record(counting(FLEET, BEGIN + hours * HOUR, ONE, None, ONE))
    history.writer.close()
    with history.database.read() as connection:
        size = history_bytes(connection)

    def kept(most: int) -> int:
        list(prune(history.database, BEGIN + 31 * HOUR, NEVER.model_copy(update={"max_bytes": most})))
        return len(every(history))

    assert kept(size) == 60
    assert 0 < kept(size - 1) < 60
    assert kept(1) == 0
    assert history.rows("replica_span") == 3, "what lasts is kept"


def test_a_period_of_one_pool_is_read_in_steps(history: Recorded) -> None:
    elsewhere = replace(FLEET.replicas[0], id="http://10.0.0.9:8000", pool="a\0b")
    fleet = replace(FLEET, replicas=(*FLEET.replicas, elsewhere))
    for number in range(24):
        history.record(counting(fleet, BEGIN + number * TICK + MINUTE, ONE, None, None, ONE))
    history.writer.close()

    read = history.reader.traffic
    assert len(read(BEGIN, BEGIN + 2 * HOUR)) == 48
    assert [each.pool for each in read(BEGIN, BEGIN + TICK)] == [POOL.name, "a\ufffdb"]
    assert len(read(BEGIN, BEGIN + HOUR, POOL.name)) == 12
    assert len(read(BEGIN + MINUTE, BEGIN + TICK + MINUTE, "a\0b")) == 2, "both touch the period"
    hours = read(BEGIN, BEGIN + 2 * HOUR, POOL.name, HOUR)
    assert [(each.since, each.until, each.traffic.requests) for each in hours] == [
        (BEGIN, BEGIN + HOUR, 120),
        (BEGIN + HOUR, BEGIN + 2 * HOUR, 120),
    ]


def test_a_past_fleet_has_the_rates_of_its_cohorts_and_pools_and_none_of_single_replicas(history: Recorded) -> None:
    good, bad = traffic(0.8, requests=100), traffic(0.1, requests=100)
    for minutes in (1, 6, 11):
        history.record(counting(FLEET, BEGIN + minutes * MINUTE, good, good, bad))
    history.record(counting(FLEET, BEGIN + 40 * MINUTE))
    history.writer.close()

    past = history.reader.fleet_at(BEGIN + 11 * MINUTE)
    assert past.traffic == {}
    assert past.traffic_of(IDS[:2]).hit_rate == pytest.approx(0.8)
    assert past.traffic_of(IDS[2:]).hit_rate == pytest.approx(0.1)
    assert past.traffic_of(IDS).hit_rate == pytest.approx((2 * 0.8 + 0.1) / 3)
    for some in (IDS[:1], IDS[1:]):
        assert missing_rate(past.traffic_of(some)) == (
            "Not counted: the history has traffic of cohorts, not of replicas."
        )
    later_on = BEGIN + 40 * MINUTE
    assert history.reader.fleet_at(later_on).traffic_of(IDS).hit_rate is None, "of half an hour ago"
    list(prune(history.database, BEGIN + KEPT_TICKS + 2 * HOUR, NEVER))
    assert history.reader.fleet_at(later_on).traffic_of(IDS[:2]).hit_rate == pytest.approx(0.8), "of its hour"


def test_a_past_fleet_without_recorded_traffic_says_so(history: Recorded) -> None:
    history.record(FLEET)
    past = history.reader.fleet_at(BEGIN)
    assert missing_rate(past.traffic_of(IDS)) == "Not counted: the history has no traffic of this time."


def test_what_is_usual_of_a_pool_is_its_last_day_with_the_settings_that_got_most_of_it(history: Recorded) -> None:
    for hours in range(30):
        one = traffic(0.9 if hours < 5 else 0.6, requests=100)
        counted = [one, one] if hours < 20 else [None, None, one]
        history.record(counting(FLEET, BEGIN + hours * HOUR, *counted))
    history.record(counting(built(unreachable(1)), BEGIN + 30 * HOUR))
    history.writer.close()

    ((pool, usual),) = history.reader.usual_traffic(BEGIN + 30 * HOUR).items()
    assert (pool, usual.traffic.requests) == (POOL.name, 14 * 200 + 10 * 100)
    assert usual.traffic.seconds == 24 * WINDOW_SECONDS, "before and after the settings changed"
    assert usual.traffic.hit_rate == pytest.approx(0.6)
    assert usual.document == FLEET.documents[LLAMA], "also when no replica has them any more"


def test_the_recorder_reads_what_is_usual_once_an_hour(working_folder: Path) -> None:
    history = Recorded(working_folder / "data")
    recorder = Recorder(Options())
    assert recorder.usual(BEGIN) == {}, "there is no history yet"
    for minutes in (1, 62, 130):
        history.record(counting(FLEET, BEGIN + minutes * MINUTE, ONE))
    history.writer.close()

    assert recorder.usual(BEGIN + 59 * MINUTE) == {}
    read = recorder.usual(BEGIN + 60 * MINUTE)
    assert [each.traffic.requests for each in read.values()] == [10]
    assert recorder.usual(BEGIN + 119 * MINUTE) is read
    assert [each.traffic.requests for each in recorder.usual(BEGIN + 120 * MINUTE).values()] == [20]
