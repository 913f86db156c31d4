"""Times in URLs and on the command line: UTC without a zone, and one sentence for anything else."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet.times import end_of_second, is_period, is_time, parse_period, parse_time, write_time

TWO = datetime(2026, 11, 22, 14, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["2026-11-22T14:00Z", "2026-11-22 14:00", " 2026-11-22T14:00:00 ", "2026-11-22T15:00+01:00", "2026-11-22T14"],
)
def test_a_time_without_a_zone_is_utc(text: str) -> None:
    assert parse_time(text) == TWO
    assert is_time(text)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-11-32", "14:00", "0001-01-01T00:00+10:00", "<script>", "9" * 99]
)
def test_any_other_text_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not a time; write 2026-11-22T14:00Z$"):
        parse_time(text)


@pytest.mark.parametrize("text", ["3fa9c01b2e", "20261122", "live", "2026-11-22.json", "2026-11-22T14:00.json.gz", ""])
def test_an_id_and_the_name_of_a_file_are_no_times(text: str) -> None:
    assert not is_time(text)


@given(st.timedeltas(timedelta(), timedelta(days=90_000)).map(lambda after: datetime(1970, 1, 1, tzinfo=UTC) + after))
def test_a_written_time_is_read_back(time: datetime) -> None:
    assert parse_time(write_time(time)) == time
    assert is_time(write_time(time))


def test_a_time_is_written_as_short_as_it_is_exact() -> None:
    there = datetime(2026, 11, 22, 15, tzinfo=timezone(timedelta(hours=1)))
    assert write_time(there) == "2026-11-22T14:00Z"
    assert write_time(TWO + timedelta(seconds=5)) == "2026-11-22T14:00:05Z"


def test_a_whole_second_means_all_of_it() -> None:
    assert end_of_second(TWO) == TWO + timedelta(microseconds=999_999)
    assert end_of_second(TWO + timedelta(microseconds=7)) == TWO + timedelta(microseconds=7)


@pytest.mark.parametrize(
    ("text", "period"),
    [("24h", timedelta(days=1)), ("7d", timedelta(days=7)), ("90m", timedelta(minutes=90)), ("2w", timedelta(days=14))],
)
def test_a_period_is_a_number_and_a_unit(text: str, period: timedelta) -> None:
    assert parse_period(text) == period
    assert is_period(text)


@pytest.mark.parametrize("text", ["", "24", "h", "-1d", "1.5h", "30x", "7 d"])
def test_another_period_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not a period; write 24h, 7d or 90m$"):
        parse_period(text)


def test_a_period_has_a_length() -> None:
    with pytest.raises(ValueError, match=r"^shorter than 1s$"):
        parse_period("0h")


@pytest.mark.parametrize("text", ["99999d", "999999w"])
def test_a_period_of_more_than_ten_years_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^longer than 3650 days$"):
        parse_period(text)
