"""The row of block hashes: in how many ways each column hashes, and who differs from most."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dashboard.compare import BASELINE, MAJORITY, CellState, Reference, ReferenceKind, Row, hash_row
from dashboard.compare.columns import Column, baseline_column
from dashboard.fleet import Baseline, Cohort, Fingerprint, Pool, Role
from tests.builders import hashing, replica

Mark = str | Fingerprint | None
Held = Sequence[Sequence[Mark]]  # of one column, its replicas' engines

SAME, DIFFERS, UNKNOWN, ABSENT = CellState.SAME, CellState.DIFFERS, CellState.UNKNOWN, CellState.ABSENT
OFF = Fingerprint(reason="prefix caching is off")


def row(*columns: Held, reference: Reference = MAJORITY) -> Row | None:
    """The row of these columns, cohorts A, B and so on, held against a reference."""
    members = [
        [replica(f"r{number}-{place}", engines=hashing(*marks)) for place, marks in enumerate(held)]
        for number, held in enumerate(columns)
    ]
    drawn = [
        Column(chr(ord("A") + number), "", len(held), tuple(each.id for each in held), "", 0, None)
        for number, held in enumerate(members)
    ]
    agreed = (baseline_column(Baseline("agreed", "*", {})),) if reference == BASELINE else ()
    cohorts = tuple(Cohort(each.key, "", (), each.replicas, {}) for each in drawn)
    everybody = {each.id: each for held in members for each in held}
    pool = Pool("chat", Role.BOTH, tuple(everybody), len(everybody), None, cohorts, (), 0, 0, ())
    return hash_row("the path", pool, reference, (*agreed, *drawn), everybody)


def cells(*columns: Held, reference: Reference = MAJORITY) -> list[tuple[CellState, str, int | None]]:
    """State, value and how many tell, of each column."""
    found = row(*columns, reference=reference)
    assert found is not None
    return [(cell.state, cell.value, cell.tellers) for cell in found.cells]


def test_columns_that_hash_as_most_do_are_the_same() -> None:
    found = row(["a", "a"], ["a"])

    assert found is not None
    assert (found.path, found.label, found.differs, found.tie) == ("the path", "block hashes", False, False)
    assert cells(["a", "a"], ["a"]) == [(SAME, '"a"', None)] * 2


def test_who_hashes_in_another_way_than_most_differs() -> None:
    assert cells(["a", "a"], ["b"]) == [(SAME, '"a"', None), (DIFFERS, '"b"', None)]
    assert cells(["a", "a", "b"], ["a"])[0] == (DIFFERS, '"2 ways"', None)


def test_replicas_that_all_hash_in_their_own_way_are_counted_as_different() -> None:
    found = row(["a", "b", "c"])

    assert found is not None
    assert found.tie
    assert cells(["a", "b", "c"]) == [(DIFFERS, '"3 different"', None)]


def test_a_column_of_which_not_all_tell_is_not_called_the_same() -> None:
    """How many tell stands beside it; that it differs is no less true."""
    assert cells(["a", "a"], [["a"], [None]], [["b"], []], [[None]]) == [
        (SAME, '"a"', None),
        (UNKNOWN, '"a"', 1),
        (DIFFERS, '"b"', 1),
        (ABSENT, "", None),
    ]


def test_an_engine_that_hashes_no_blocks_has_none() -> None:
    assert cells(["a", "a"], [[OFF]])[1] == (UNKNOWN, '"none"', None)


def test_a_cohort_or_a_replica_as_the_reference_is_what_the_others_differ_from() -> None:
    """The reference itself never differs, also where most hash in another way."""
    second = [(DIFFERS, '"a"', None), (SAME, '"b"', None)]
    member = replica("r1-0")

    assert cells(["a", "a"], ["b"], reference=Reference(ReferenceKind.COHORT, "B")) == second
    assert cells(["a", "a"], ["b"], reference=Reference(ReferenceKind.REPLICA, member.id)) == second
    assert cells(["a", "b"], ["b"], reference=Reference(ReferenceKind.COHORT, "B"))[0] == (
        DIFFERS,
        '"2 different"',
        None,
    )


@pytest.mark.parametrize("second", [["b", "c"], [[None]]])
def test_nothing_is_marked_where_the_reference_has_no_one_way(second: Held) -> None:
    """A reference that hashes in two ways, or tells none, says nothing of the others."""
    found = row(["a", "a"], second, reference=Reference(ReferenceKind.COHORT, "B"))

    assert found is not None
    assert (found.differs, found.tie, found.comparable) == (False, False, False)
    assert found.cells[0].state is UNKNOWN


def test_a_baseline_agrees_on_no_hashes() -> None:
    """Its cell says so in the words of the other rows, and nothing is marked."""
    found = row(["a", "a"], ["b"], reference=BASELINE)

    assert found is not None
    assert not found.comparable
    assert cells(["a", "a"], ["b"], reference=BASELINE) == [
        (UNKNOWN, '"not agreed"', None),
        (UNKNOWN, '"a"', None),
        (UNKNOWN, '"b"', None),
    ]


def test_a_long_digest_is_cut() -> None:
    assert cells([["0123456789abcdef"]])[0][1] == '"0123456789ab"'


def test_there_is_no_row_where_nobody_tells() -> None:
    assert row([[None], [OFF]]) is None
    assert row() is None
