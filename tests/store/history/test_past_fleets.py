"""Fleets of past times: the last few stay in memory, and several sessions may open them at once."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dashboard import service
from dashboard.config import Options
from dashboard.errors import HistoryError
from dashboard.fleet import Gap, PastTime
from dashboard.store.history.reader import HistoryReader
from dashboard.store.opening import PastFleets
from tests import builders
from tests.builders import NOW
from tests.captured import AT
from tests.past_fleets import FIRST, LAST, MENDED, ODD, fleet_at, recorded, show_with_history
from tests.polled_fleets import at, built
from tests.store.history.recorded import Recorded, shown

MINUTE = timedelta(minutes=1)


@pytest.fixture
def past(tmp_path: Path) -> PastFleets:
    database = recorded(tmp_path)
    return PastFleets(lambda: HistoryReader(database), most=2)


@pytest.mark.parametrize(("polled_at", "after", "gap"), [(ODD, MINUTE, None), (MENDED, 20 * MINUTE, Gap(MENDED, LAST))])
def test_a_past_fleet_is_that_of_the_last_poll_and_has_its_time_and_gap(
    past: PastFleets, polled_at: datetime, after: timedelta, gap: Gap | None
) -> None:
    fleet = past.at(polled_at + after)

    assert fleet.polled_at == polled_at
    assert fleet.past == PastTime(polled_at + after, gap)


def test_a_time_without_fractions_means_the_whole_second(tmp_path: Path) -> None:
    """Pages write the time of a poll without them: its link opens that poll."""
    history = Recorded(tmp_path)
    history.record(fleet_at(FIRST))
    history.record(replace(fleet_at(ODD), polled_at=ODD + timedelta(microseconds=300)))
    history.writer.close()

    reopened = PastFleets(lambda: HistoryReader(history.database), most=1)
    assert reopened.at(ODD).polled_at == ODD + timedelta(microseconds=300)


def test_the_last_few_stay_in_memory(past: PastFleets) -> None:
    first = past.at(ODD)

    assert past.at(ODD) is first
    past.at(FIRST)
    past.at(MENDED)
    assert past.at(ODD) is not first


def test_another_time_of_the_same_poll_is_another_page_with_the_same_content(past: PastFleets) -> None:
    one, other = (past.at(ODD + minutes * MINUTE) for minutes in (1, 2))

    assert one.generation != other.generation
    assert one.replicas is other.replicas
    assert one.generation < 0


def test_a_later_poll_is_seen_at_the_same_time(tmp_path: Path) -> None:
    """At a time after the last poll the next one may still come."""
    history = Recorded(tmp_path)
    history.record(fleet_at(FIRST))
    past = PastFleets(lambda: HistoryReader(history.database), most=2)
    assert past.at(ODD).polled_at == FIRST

    history.record(fleet_at(ODD))
    assert past.at(ODD).polled_at == ODD


def test_sessions_may_open_different_times_at_once(past: PastFleets) -> None:
    times = [ODD, FIRST, MENDED, LAST] * 8
    with ThreadPoolExecutor(8) as threads:
        fleets = list(threads.map(past.at, times))

    assert [each.polled_at for each in fleets] == times
    expected = {time: shown(fleet_at(time))["replicas"] for time in set(times)}
    assert all(len(shown(each)["replicas"]) == len(expected[each.polled_at]) for each in fleets if each.polled_at)


def test_the_service_opens_the_past_and_says_why_it_cannot(tmp_path: Path) -> None:
    show_with_history(tmp_path)
    assert service.history() is not None
    assert service.past(ODD).polled_at == ODD
    with pytest.raises(HistoryError, match=r"^2026-03-02T11:43Z is in the future"):
        service.past(NOW.replace(minute=43, second=0))
    with pytest.raises(
        HistoryError, match=r"The history has no poll at .* or before; the first one is of 2026-03-02T08"
    ):
        service.past(FIRST - MINUTE)

    service.put(builders.story(), NOW)
    assert service.history() is None
    with pytest.raises(HistoryError, match=r"keeps no history: see history\.enabled in fleet\.yaml"):
        service.past(ODD)


@pytest.mark.usefixtures("working_folder")
def test_a_history_without_a_database_is_none_and_its_reason_is_that_of_a_past_time() -> None:
    service.start(Options.model_validate({"history": {"enabled": True, "url_env": "NO_SUCH_VARIABLE"}}))
    try:
        assert service.history() is None
        with pytest.raises(HistoryError, match=r"^The variable NO_SUCH_VARIABLE of history.url_env is not set\.$"):
            service.past(ODD)
    finally:
        service.stop()
    assert service.history() is None


def test_a_past_time_has_the_letters_of_that_time_and_the_history_those_of_all_times(tmp_path: Path) -> None:
    history = Recorded(tmp_path)
    odd = "llama_noprefix"
    first = built(at(1), at(2), at(3, odd))
    polls = [first]
    for snapshots in ([at(1), at(2, odd), at(3, odd)], [at(1, odd), at(2, odd), at(3, odd)]):
        polls.append(built(*snapshots, before=polls[-1], polled_at=AT + len(polls) * MINUTE))
    for each in polls:
        history.record(each)
    history.writer.close()

    read = [HistoryReader(history.database).fleet_at(AT + number * MINUTE) for number in range(3)]

    shown_letters = [[(cohort.letter, len(cohort.replicas)) for cohort in each.pools[0].cohorts] for each in read]
    assert shown_letters == [[("A", 2), ("B", 1)], [("B", 2), ("A", 1)], [("B", 3)]]
    assert history.reader.letters() == first.letters
