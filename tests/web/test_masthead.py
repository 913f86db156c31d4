"""The header's line is true at every moment."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.analysis.assembly import empty_fleet
from dashboard.web import masthead
from dashboard.web.masthead import css_string, stale_targets, words
from tests.builders import HOSTILE, NOW, POLLED_AT, down, fleet, replica


def test_it_says_how_many_answered_when_and_how_long_ago() -> None:
    """The whole time stands in the title, the age in words."""
    line = words(fleet([replica("a"), down("b")]), NOW, 15)

    assert '<b>1 of 2</b> <span class="word">answered</span>' in line
    assert 'title="2026-03-02T11:42:05Z"' in line
    assert "8 s ago" in line
    assert line.count('class="roomy"') == 2  # what a narrow header leaves out: these words and the age
    assert "stale" not in line


def test_data_older_than_three_intervals_is_called_stale() -> None:
    """Stale is marked by a glyph and a word."""
    fresh = words(fleet([replica("a")]), POLLED_AT + timedelta(seconds=45), 15)
    stale = words(fleet([replica("a")]), POLLED_AT + timedelta(seconds=46), 15)

    assert "stale" not in fresh
    assert "</span> <b>stale</b>" in stale
    assert (
        ', <span class="age">46 s ago</span>' in stale.rpartition('class="roomy"')[2]
    )  # a narrow header leaves out less
    assert 'data-told="The data is stale."' in stale  # for those who hear the page


def test_a_snapshot_has_a_time_and_no_age() -> None:
    """It never gets older, and nobody can pause what stands."""
    frozen = replace(fleet([replica("a")]), snapshot="3fa9c01b2e")
    line = words(frozen, NOW + timedelta(days=90), 15, paused=True)

    assert "<b>2026-03-02T11:42:05Z</b>" in line
    assert "ago" not in line
    assert "stale" not in line
    assert "paused" not in line


def test_a_paused_page_says_so() -> None:
    """The age grows while the reader wants it to; the header says why."""
    assert "<b>paused</b>" in words(fleet([replica("a")]), NOW, 15, paused=True)
    assert "paused" not in words(fleet([replica("a")]), NOW, 15)


def test_before_the_first_poll_it_waits() -> None:
    """No count is shown that nobody made."""
    line = words(empty_fleet("prod-eu"), NOW, 15)

    assert "waiting for the first poll" in line
    assert "of 0" not in line


@pytest.mark.parametrize("name", ["prod-eu", HOSTILE, '"}</style><script>', "\\", "日本"])
def test_a_fleet_name_cannot_leave_its_style(name: str) -> None:
    """Every character that CSS or HTML could read is written as its code point."""
    written = css_string(name)

    assert written[0] == written[-1] == '"'
    assert not set(written[1:-1]) & set("<>\"'{};()")
    assert written.isascii()


def test_targets_that_could_not_be_read_again_are_said_above_the_page() -> None:
    """The sentence is foreign text."""
    notice = stale_targets(HOSTILE)

    assert "Targets may be out of date." in notice
    assert "<script>" not in notice


def test_no_rule_of_every_page_asks_the_whole_document_what_it_holds() -> None:
    """Chromium would style the whole page anew at each change: Capacity, which measures labels, took a second more."""
    sheets = sorted(Path(masthead.__file__).parent.glob("look*.css"))

    assert sheets
    for sheet in sheets:
        assert "html:has(" not in sheet.read_text(), sheet.name
