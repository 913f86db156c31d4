"""Since when something is there, in words: what is new, what returned, and what was there before anybody looked."""

from dataclasses import replace
from datetime import timedelta

import pytest

from dashboard.fleet.history import Sighting
from dashboard.fleet.pieces import Age, Text, to_plain
from dashboard.views.since import (
    Recency,
    newest,
    newest_first,
    range_start,
    range_words,
    ranges_of,
    since_cell,
    since_paragraphs,
    since_pieces,
    since_text,
)
from tests.builders import NOW, POLLED_AT, story
from tests.findings_builder import sighted

CAME = NOW - timedelta(hours=3)
BEFORE = CAME - timedelta(minutes=5)
LONG_AGO = NOW - timedelta(days=20)
NEW = Sighting(CAME, CAME, BEFORE)
RETURNED = Sighting(LONG_AGO, CAME, BEFORE)
ALWAYS = Sighting(CAME, CAME)


@pytest.mark.parametrize(
    ("sighting", "text"),
    [
        (NEW._replace(absent_at=CAME - timedelta(days=1)), "Since 2026-03-02T08:42:13Z, not at 2026-03-01T08:42:13Z"),
        (RETURNED, "Since 2026-03-02T08:42:13Z, not at 08:37:13 UTC; first seen 2026-02-10T11:42:13Z"),
        (RETURNED._replace(absent_at=None), "Since 2026-03-02T08:42:13Z or earlier; first seen 2026-02-10T11:42:13Z"),
    ],
)
def test_the_text_has_the_first_poll_with_it_and_the_last_one_without_it(sighting: Sighting, text: str) -> None:
    assert since_text(sighting) == text


def aged(pieces: Text) -> str:
    """The text of a live page three hours after it came."""
    words = [each.age.words.format("3 h ago") if each.age else each.text for each in pieces]
    return "".join(words)


def test_a_cell_has_the_age_on_a_live_page_and_the_time_elsewhere() -> None:
    cells = [since_cell(each) for each in (NEW, ALWAYS)]

    assert [each.text for each in cells] == ["2026-03-02T08:42:13Z", ""]
    assert [each.age for each in cells] == [Age(CAME), None]
    assert cells[0].hint == since_text(NEW)


def test_the_end_of_a_line_has_a_time_only_where_the_begin_was_recorded() -> None:
    assert to_plain(since_pieces(NEW)) == " · since 2026-03-02T08:42:13Z"
    assert since_pieces(ALWAYS) == ()


def test_nothing_is_written_without_a_sighting() -> None:
    assert since_pieces(None) == ()
    assert since_paragraphs(None) == ()
    assert since_cell(None).text == ""


def test_of_several_the_newest_counts_and_what_has_no_sighting_is_last() -> None:
    old = Sighting(LONG_AGO, LONG_AGO)

    assert newest([old, None, NEW]) is NEW
    assert newest([None]) is None
    assert sorted([None, old, NEW], key=newest_first) == [NEW, old, None]


def test_new_is_what_was_looked_for_before_and_came_within_the_range() -> None:
    day = Recency(NOW - timedelta(hours=24))

    assert [day.keeps(each) for each in (NEW, RETURNED, ALWAYS, None)] == [True, True, False, False]
    assert not Recency(NOW - timedelta(hours=1)).keeps(NEW)
    assert Recency().keeps(None)


def test_ranges_end_with_the_data_and_need_a_history() -> None:
    fleet = sighted(story())

    assert range_start(fleet, "24h") == POLLED_AT - timedelta(hours=24)
    assert range_start(fleet, "") is None
    assert range_start(replace(fleet, polled_at=None), "24h") is None
    assert ranges_of(fleet) == ["", "1h", "24h", "7d"]
    assert ranges_of(story()) == ranges_of(story(), "6h") == [""]


@pytest.mark.parametrize(
    ("asked", "hours", "words"),
    [
        ("90m", 1.5, "last 90 minutes"),
        (" 1d ", 24, "last 1 day"),
    ],
)
def test_a_range_may_be_any_period(asked: str, hours: float, words: str) -> None:
    fleet = sighted(story())

    assert ranges_of(fleet, asked) == ["", "1h", "24h", "7d", asked]
    assert range_words(asked) == words
    assert range_start(fleet, asked) == POLLED_AT - timedelta(hours=hours)


@pytest.mark.parametrize("asked", ["24h", "0h", "6", "9999w", "-1h"])
def test_what_is_no_period_or_has_its_own_name_adds_no_range(asked: str) -> None:
    assert ranges_of(sighted(story()), asked) == ["", "1h", "24h", "7d"]
