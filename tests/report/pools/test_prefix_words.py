"""Who of a pool can share prefixes, in the few words of a table's cell."""

import pytest

from dashboard.compare import pool_sharing, sharing_sentence
from dashboard.fleet import State
from dashboard.report.pools.prefix_words import short_words
from tests.builders import setting
from tests.compare.hashing_pools import BLOCK, NOBODY, Cohort, hashed

SAME: Cohort = ({}, [["a"], ["a"], ["a"]])
SILENT: Cohort = ({}, [NOBODY, NOBODY, NOBODY])
UNTOLD = {BLOCK: setting(None, State.UNKNOWN)}
RANDOM = {"seed_policy": "random"}


def words(*cohorts: Cohort, unread: int = 0) -> str:
    """The words for a pool of these cohorts, the larger ones first."""
    held = hashed(*cohorts, unread=unread)
    sharing = pool_sharing(held.pool, held.replicas)
    return short_words(held.pool, sharing_sentence(held.pool, sharing, held.documents, held.replicas))


@pytest.mark.parametrize(
    ("cohorts", "expected"),
    [
        ([SAME, ({}, [["b"]])], "B differs from A"),
        ([SAME, ({}, [["b"]]), ({}, [["c"]])], "B and C differ from A"),
        ([({}, [["a"], ["b"]])], "A: equal settings, different hashes"),
        ([SAME, ({}, [["b"], ["c"]]), ({}, [["d"]])], "B: equal settings, different hashes; C differs from A"),
    ],
)
def test_where_engines_tell_it_names_who_is_split_and_who_stands_apart(cohorts: list[Cohort], expected: str) -> None:
    assert words(*cohorts) == expected


def test_no_measured_cohort_is_named_for_two_others_that_contradict_each_other() -> None:
    """A tells its hashes and no block size; B and C tell block sizes that differ, and no hashes."""
    apart: list[Cohort] = [({BLOCK: 16}, [NOBODY, NOBODY]), ({BLOCK: 32}, [NOBODY])]

    assert words((UNTOLD, [["a"], ["a"], ["a"]]), *apart) == "cohorts differ"


@pytest.mark.parametrize(
    ("cohorts", "expected"),
    [
        ([SILENT, ({BLOCK: 32}, [NOBODY])], "B differs from A"),
        ([({}, [NOBODY]), ({BLOCK: 32}, [NOBODY])], "cohorts differ, no majority"),
        ([(UNTOLD, [NOBODY] * 3), ({BLOCK: 16}, [NOBODY] * 2), ({BLOCK: 32}, [NOBODY])], "cohorts differ"),
        ([(RANDOM, [NOBODY]), (RANDOM, [NOBODY])], "cohorts differ"),
    ],
)
def test_where_only_settings_tell_it_names_who_differs_from_the_largest_cohort_that_tells(
    cohorts: list[Cohort], expected: str
) -> None:
    """On a tie, where the largest tells nothing, and where every root is random, nobody is the odd one."""
    assert words(*cohorts) == expected


@pytest.mark.parametrize(
    ("cohorts", "unread", "expected"),
    [
        ([], 1, "not known"),
        ([SILENT], 2, "unknown"),
        ([({}, ["a", "a"])], 2, "unknown for 2"),
        ([({}, [NOBODY])], 0, "one replica"),
        ([(UNTOLD, [NOBODY, NOBODY])], 0, "unknown"),
    ],
)
def test_what_is_not_known_is_said_with_how_many_it_is_not_known_of(
    cohorts: list[Cohort], unread: int, expected: str
) -> None:
    assert words(*cohorts, unread=unread) == expected
