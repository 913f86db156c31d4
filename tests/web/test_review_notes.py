"""Concurrent edits of one note are merged; an unchanged side never overwrites a changed one."""

from dataclasses import replace

import pytest

from dashboard.fleet import Note
from dashboard.web.pages.review_notes import merged
from tests.builders import NOW

BASE = Note("Wait.", "ana")


@pytest.mark.parametrize(
    ("base", "theirs", "mine", "kept"),
    [
        pytest.param("", "", "Mine.", "Mine.", id="no other edit"),
        pytest.param("Then.", "Then.", "Mine.", "Mine.", id="only I changed it"),
        pytest.param("Then.", "Then.", "", "", id="only I deleted it"),
        pytest.param("Then.", "Theirs.", "Then.", "Theirs.", id="only they changed it"),
        pytest.param("Then.", "", "Mine.", "Mine.", id="they deleted what I changed"),
        pytest.param("Then.", "Theirs.", "", "Theirs.", id="I deleted what they changed"),
        pytest.param("", "Same.", "Same.", "Same.", id="both wrote the same"),
        pytest.param("Then.", "Theirs.", "Mine.", "Theirs.\nMine.", id="both changed it"),
    ],
)
def test_edits_are_merged(base: str, theirs: str, mine: str, kept: str) -> None:
    assert merged(Note(base), Note(theirs), Note(mine)).text == kept


def test_two_owners_are_joined_and_the_time_is_that_of_the_last_edit() -> None:
    assert merged(BASE, replace(BASE, owner="bo"), Note("Wait.", "cem", NOW)) == Note("Wait.", "bo, cem", NOW)
