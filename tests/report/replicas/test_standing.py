"""How a replica stands, as a mark and in a sentence."""

import pytest

from dashboard.fleet import ReplicaState
from dashboard.report.replicas.settings import ReadCoverage
from dashboard.report.replicas.standing import mark, standing_words
from dashboard.views.blocks import Tone
from tests.builders import replica


@pytest.mark.parametrize(
    ("reach", "words"),
    [
        (None, ""),
        (ReadCoverage(1700, 1700, 1700), ""),
        (ReadCoverage(12, 12, 1700), " It tells 12 of the 1,700 settings that its pool tells."),
    ],
)
def test_a_replica_that_tells_less_than_its_pool_says_how_much(reach: ReadCoverage | None, words: str) -> None:
    assert standing_words(replica(), reach) == f"Up: it answers.{words} Best answer: /server_info."


def test_a_state_is_marked_as_not_known_or_not_at_all_and_never_by_a_severity() -> None:
    assert {state: mark(state) for state in ReplicaState} == {
        ReplicaState.UP: Tone.PLAIN,
        ReplicaState.PARTIAL: Tone.UNKNOWN,
        ReplicaState.DOWN: Tone.UNKNOWN,
    }
