"""The row of block hashes: in how many ways each column hashes, and who differs from most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.compare import CellState, hash_row
from dashboard.compare.columns import Column
from dashboard.models import Fingerprint
from tests.builders import hashing, replica

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboard.compare import Row

    Mark = str | Fingerprint | None
    Held = Sequence[Sequence[Mark]]  # of one column, its replicas' engines

SAME, DIFFERS, UNKNOWN, ABSENT = CellState.SAME, CellState.DIFFERS, CellState.UNKNOWN, CellState.ABSENT
OFF = Fingerprint(reason="prefix caching is off")


def row(*columns: Held) -> Row | None:
    """The row of these columns, cohorts A, B and so on."""
    members = [
        [replica(f"r{number}-{place}", engines=hashing(*marks)) for place, marks in enumerate(held)]
        for number, held in enumerate(columns)
    ]
    drawn = [
        Column(chr(ord("A") + number), "", len(held), tuple(each.id for each in held), "", 0, None)
        for number, held in enumerate(members)
    ]
    return hash_row("the path", drawn, {each.id: each for held in members for each in held})


def cells(*columns: Held) -> list[tuple[CellState, str, int | None]]:
    """State, value and how many tell, of each column."""
    found = row(*columns)
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


def test_a_long_digest_is_cut() -> None:
    assert cells([["0123456789abcdef"]])[0][1] == '"0123456789ab"'


def test_there_is_no_row_where_nobody_tells() -> None:
    assert row([[None], [OFF]]) is None
    assert row() is None
