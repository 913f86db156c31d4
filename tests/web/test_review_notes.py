"""Two people who write one note at the same time lose nothing; whoever changed nothing overwrites nothing."""

import pytest

from dashboard.fleet import Note
from dashboard.web.review_notes import merged
from tests.builders import NOW

BASE = Note("Wait.", "ana")


@pytest.mark.parametrize(
    ("base", "theirs", "mine", "kept"),
    [
        pytest.param("", "", "Mine.", "Mine.", id="nobody else wrote"),
        pytest.param("Then.", "Then.", "Mine.", "Mine.", id="only I changed it"),
        pytest.param("Then.", "Then.", "", "", id="only I took it away"),
        pytest.param("Then.", "Theirs.", "Then.", "Theirs.", id="only they changed it"),
        pytest.param("Then.", "", "Mine.", "Mine.", id="they took away what I changed"),
        pytest.param("Then.", "Theirs.", "", "Theirs.", id="I took away what they changed"),
        pytest.param("", "Same.", "Same.", "Same.", id="both wrote the same"),
        pytest.param("Then.", "Theirs.", "Mine.", "Theirs.\nMine.", id="both changed it"),
    ],
)
def test_what_both_wrote_is_kept(base: str, theirs: str, mine: str, kept: str) -> None:
    assert merged(Note(base), Note(theirs), Note(mine)).text == kept


def test_two_owners_stand_side_by_side_and_the_time_is_that_of_the_last_one() -> None:
    assert merged(BASE, BASE._replace(owner="bo"), Note("Wait.", "cem", NOW)) == Note("Wait.", "bo, cem", NOW)
