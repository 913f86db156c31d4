"""How a replica stands, in a sentence."""

from __future__ import annotations

import pytest

from dashboard.report.replicas.settings import Reach
from dashboard.report.replicas.standing import standing_words
from tests.builders import replica


@pytest.mark.parametrize(
    ("reach", "words"),
    [
        (None, ""),
        (Reach(1700, 1700, 1700), ""),
        (Reach(12, 12, 1700), " It tells 12 of the 1,700 settings that its pool tells."),
    ],
)
def test_a_replica_that_tells_less_than_its_pool_says_how_much(reach: Reach | None, words: str) -> None:
    assert standing_words(replica(), reach) == f"Up: it answers.{words} Best answer: /server_info."
