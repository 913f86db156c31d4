"""Names fit for a list."""

from dashboard.views.names import LONGEST_NAME, brief
from tests.builders import HOSTILE


def test_a_long_or_hostile_name_stays_on_one_line() -> None:
    """Lists keep their shape."""
    assert "\n" not in brief(HOSTILE)
    assert len(brief("x" * 500)) == LONGEST_NAME
