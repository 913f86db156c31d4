"""Who of very many cohorts can share prefixes with whom, as lines."""

import pytest

from dashboard.report.pools.sharing_words import group_lines
from tests.compare.hashing_pools import NOBODY, Cohort, shared

SAME: Cohort = ({}, [["a"], ["a"], ["a"], ["a"]])
ALSO: Cohort = ({}, [["a"], ["a"], ["a"]])


@pytest.mark.parametrize(
    ("cohorts", "line"),
    [
        ([({}, [["b"]])], "C can share with no other whole cohort"),
        ([({}, [["b"], ["c"]])], "not all replicas within C can share with each other"),
        ([({}, [NOBODY])], "C does not tell block hashes"),
        ([({}, [NOBODY]), ({}, [NOBODY])], "C and D do not tell block hashes"),
        ([({}, [["b"], NOBODY])], "not all replicas within C tell block hashes"),
    ],
)
def test_after_who_shares_it_names_who_stands_alone_is_split_or_does_not_tell(cohorts: list[Cohort], line: str) -> None:
    assert group_lines(shared(SAME, ALSO, *cohorts)) == ["A and B hash alike", line]


def test_where_nobody_tells_and_no_cohort_is_split_there_is_nothing_to_list() -> None:
    assert group_lines(shared(({}, [NOBODY, NOBODY]), ({}, [NOBODY]))) == []
