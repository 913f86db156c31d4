"""A baseline can be made of a cohort, of one replica, and of nothing else."""

import pytest

from dashboard.config.baseline_file import taken_from
from tests.builders import story

STORY = story()
POOL = next(each for each in STORY.pools if each.name == "chat-70b")


@pytest.mark.parametrize(
    ("chosen", "block_size", "made_of"),
    [
        ("A", "16", "cohort A, 15 replicas"),
        ("B", "32", "cohort B, 1 replica"),
        ("chat-70b-16", "16", "replica chat-70b-16"),
        ("http://chat-70b-17:8000", "32", "replica chat-70b-17"),
    ],
)
def test_a_cohort_is_taken_by_its_letter_and_a_replica_by_its_name_or_id(
    chosen: str, block_size: str, made_of: str
) -> None:
    taken = taken_from(STORY, POOL, chosen)

    assert taken
    assert (taken.settings["cache_config.block_size"].value, taken.made_of) == (block_size, made_of)


@pytest.mark.parametrize("chosen", ["Z", "chat-70b-18", "gemma-27b-01"])
def test_nothing_is_taken_of_who_is_unknown_was_never_read_or_is_in_another_pool(chosen: str) -> None:
    assert taken_from(STORY, POOL, chosen) is None
