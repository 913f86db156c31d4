"""Windows over counters: what rose, restarts, jumps and lies."""

from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet.traffic import (
    LEAST_REQUESTS,
    LEAST_TOKENS,
    MOST_READS,
    EngineCounts,
    Traffic,
    TrafficWindow,
    ratio,
    summed,
)


def _window(*reads: tuple[float, EngineCounts], seconds: float = 900) -> TrafficWindow:
    window = TrafficWindow(seconds)
    for at, counts in reads:
        window.add(at, counts)
    return window


def _counts(
    queries: float, hits: float, requests: float | None = None, counted_from: float | None = None
) -> EngineCounts:
    return EngineCounts(queries=queries, hits=hits, requests=requests, counted_from=counted_from)


def test_one_read_says_nothing() -> None:
    assert _window((0, _counts(50, 20))).traffic() is None


def test_traffic_is_what_rose_between_the_first_and_the_last_read() -> None:
    found = _window((0, _counts(100, 50)), (60, _counts(150, 60)), (120, _counts(400, 250))).traffic()
    assert found == Traffic(120, queries=300, hits=200)


def test_reads_older_than_the_window_are_forgotten() -> None:
    reads = [(60.0 * each, _counts(100 * each, 10 * each)) for each in range(20)]
    found = _window(*reads, seconds=300).traffic()
    assert found == Traffic(300, queries=500, hits=50)


def test_a_window_keeps_few_reads_however_often_it_is_read() -> None:
    reads = [
        (5.0 * each, EngineCounts(queries=100 * each, hits=10 * each, waiting=9 if each == 301 else 1))
        for each in range(360)
    ]
    window = _window(*reads)
    found, counted = window.traffic(), window.counted()
    assert found
    assert 900 <= found.seconds <= 900 + 900 / MOST_READS
    assert (found.queries, found.hits, found.waiting) == (20 * found.seconds, 2 * found.seconds, 9)
    assert counted == Traffic(5, queries=100, hits=10, waiting=1)
    assert len(window._reads) <= MOST_READS + 2


def test_a_missed_read_widens_the_window_and_a_long_gap_begins_it_anew() -> None:
    window = _window((0, _counts(0, 0)), (100, _counts(10, 5)), (250, _counts(40, 20)), seconds=100)
    assert window.traffic() == Traffic(150, queries=30, hits=15)
    window.add(451, _counts(90, 45))
    assert window.traffic() is window.counted() is None
    window.add(500, _counts(100, 50))
    assert window.traffic() == Traffic(49, queries=10, hits=5)


def test_a_restart_begins_the_window_anew() -> None:
    by_counter = _window((0, _counts(900, 90)), (60, _counts(10, 1)), (120, _counts(30, 2)))
    by_start = _window(
        (0, _counts(5, 1, counted_from=1000)),
        (60, _counts(10, 1, counted_from=2000)),
        (120, _counts(30, 2, counted_from=2000)),
    )
    assert by_counter.traffic() == by_start.traffic() == Traffic(60, queries=20, hits=1)


def test_a_read_from_before_the_last_one_is_left_out() -> None:
    assert _window((60, _counts(10, 1)), (0, _counts(5, 0)), (120, _counts(30, 2))).traffic() == Traffic(
        60, queries=20, hits=1
    )


def test_more_hits_than_queries_are_refused_in_a_sentence() -> None:
    found = _window((0, _counts(0, 0, requests=0)), (60, _counts(10, 11, requests=3))).traffic()
    assert found == Traffic(60, requests=3, refused=("hits rose by more than queries",))


def test_a_counter_that_decreases_in_one_process_is_refused_in_a_sentence() -> None:
    window = _window(
        (0, _counts(100, 90, requests=100, counted_from=1000)),
        (60, _counts(150, 50, requests=150, counted_from=1000.2)),
        (120, _counts(200, 170, requests=200, counted_from=1000)),
        seconds=100,
    )
    assert window.traffic() == Traffic(120, requests=100, refused=("hits decreased without a restart",))
    window.add(180, _counts(400, 250, requests=300, counted_from=1000))
    assert window.traffic() == Traffic(120, queries=250, hits=200, requests=150)


def test_the_last_digit_of_a_sum_is_no_restart() -> None:
    found = _window(
        (0, EngineCounts(first_token_seconds=0.3, first_tokens=3)),
        (60, EngineCounts(first_token_seconds=0.1 + 0.2 - 5e-17, first_tokens=3)),
    ).traffic()
    assert found == Traffic(60, first_token_seconds=0, first_tokens=0)


def test_values_that_were_refused_at_either_end_of_the_window_are_named() -> None:
    bad = EngineCounts(requests=5, refused=("queries is 'NaN'",))
    good = _counts(10, 1, requests=9)
    assert _window((0, bad), (60, good)).traffic() == Traffic(60, requests=4, refused=bad.refused)
    assert _window((0, good), (60, bad._replace(requests=10))).traffic() == Traffic(60, requests=1, refused=bad.refused)


def test_a_ratio_needs_both_of_its_counters() -> None:
    found = _window((0, EngineCounts(queries=1, requests=1)), (60, EngineCounts(queries=9, requests=5))).traffic()
    assert found == Traffic(60, requests=4)


def test_a_counter_that_is_listed_after_the_first_request_began_at_0() -> None:
    first, second = EngineCounts(queries=0, hits=0), EngineCounts(queries=70, hits=60, requests=5)
    assert _window((0, first), (60, second)).traffic() == Traffic(60, queries=70, hits=60, requests=5)


def test_counters_that_were_all_missing_or_refused_at_first_are_unknown() -> None:
    second = EngineCounts(queries=70, hits=60, requests=5)
    assert _window((0, EngineCounts(waiting=1)), (60, second)).traffic() == Traffic(60, waiting=1)
    refused = EngineCounts(queries=10, hits=5, refused=("requests is 'NaN'",))
    assert _window((0, refused), (60, second)).traffic() == Traffic(60, queries=60, hits=55, refused=refused.refused)


def test_a_hit_rate_needs_enough_requests_and_tokens() -> None:
    enough = Traffic(60, queries=LEAST_TOKENS, hits=LEAST_TOKENS / 4, requests=LEAST_REQUESTS)
    assert enough.hit_rate == 0.25
    assert enough._replace(requests=LEAST_REQUESTS - 1).hit_rate is None
    assert enough._replace(queries=LEAST_TOKENS - 1).hit_rate is None


COUNTS = st.floats(0, 1e9)
TRAFFIC = st.builds(
    lambda queries, share, requests: Traffic(60, queries=queries, hits=queries * share, requests=requests),
    COUNTS,
    st.floats(0, 1),
    COUNTS,
)


@given(st.lists(TRAFFIC, min_size=1, max_size=6))
def test_the_rate_of_a_sum_lies_between_those_of_its_parts(parts: list[Traffic]) -> None:
    rates = [rate for each in parts if (rate := ratio(each.hits, each.queries)) is not None]
    whole = summed(parts)
    if whole.is_enough and whole.hit_rate is not None:
        assert min(rates) - 1e-6 <= whole.hit_rate <= max(rates) + 1e-6


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e12), st.floats(0, 1e12)), max_size=30))
def test_whatever_is_read_nothing_is_negative_and_no_rate_is_above_one(reads: list[tuple[float, float, float]]) -> None:
    found = _window(*((at, _counts(queries, hits, requests=1e6)) for at, queries, hits in reads)).traffic()
    if found is not None:
        assert found.seconds > 0
        assert min(found.queries or 0, found.hits or 0) >= 0
        assert found.hit_rate is None or 0 <= found.hit_rate <= 1
