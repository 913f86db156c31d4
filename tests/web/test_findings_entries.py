"""What an entry of the list says beside its sentence."""

import re

import pytest

from dashboard.web.findings_entries import tags
from tests.builders import story
from tests.findings_builder import finding

FLEET = story()


@pytest.mark.parametrize(
    ("unknown", "total", "shown"),
    [
        (0, 8, []),
        (1, 17, []),
        (2, 8, ["unknown on 2 of 8"]),
        (5, 8, ["unknown on 5 of 8"]),
        (1, 2, ["unknown on 1 of 2"]),
    ],
)
def test_only_what_is_unknown_on_many_replicas_is_said_in_the_list(unknown: int, total: int, shown: list[str]) -> None:
    """One silent replica would stand at every finding of its pool; opened, a finding says it anyway."""
    assert re.findall(r'class="tag">([^<]+)<', tags(finding(FLEET, unknown=unknown, total=total))) == shown
