"""The row of block hashes: the hashes of each column, compared with the reference."""

from collections.abc import Sequence

import pytest

from dashboard.compare import BASELINE, MAJORITY, MatrixRow, Reference, ReferenceKind
from dashboard.compare.columns import MatrixColumn, baseline_column
from dashboard.compare.encoding import encode
from dashboard.compare.matrix import CellState, hash_row
from dashboard.fleet import Baseline, Cohort, EngineFingerprint, Pool, Role
from tests.builders import hashing, replica

Mark = str | EngineFingerprint | None
ReplicaMarks = Sequence[Sequence[Mark]]  # of one column: its replicas' engines
CellValues = list[tuple[CellState, str, int | None]]  # state, value, reporting replicas

SAME, DIFFERS, UNKNOWN, ABSENT = CellState.SAME, CellState.DIFFERS, CellState.UNKNOWN, CellState.ABSENT
COHORT_B = Reference(ReferenceKind.COHORT, "B")
REPLICA_B = Reference(ReferenceKind.REPLICA, replica("r1-0").id)
OFF = EngineFingerprint(reason="prefix caching is off")


def row(columns: Sequence[ReplicaMarks], reference: Reference = MAJORITY) -> MatrixRow | None:
    """The row of these columns, cohorts A, B and so on, compared with a reference."""
    members = [
        [replica(f"r{number}-{place}", engines=hashing(*marks)) for place, marks in enumerate(own)]
        for number, own in enumerate(columns)
    ]
    drawn = [
        MatrixColumn(chr(ord("A") + number), "", len(own), tuple(each.id for each in own), "", 0, None)
        for number, own in enumerate(members)
    ]
    agreed = (baseline_column(Baseline("agreed", "*", {})),) if reference == BASELINE else ()
    cohorts = tuple(Cohort(each.key, "", (), each.replicas, {}) for each in drawn)
    replicas = {each.id: each for own in members for each in own}
    pool = Pool("chat", Role.BOTH, tuple(replicas), len(replicas), None, cohorts, (), 0, 0, (), (), encode([]))
    return hash_row("the path", pool, reference, (*agreed, *drawn), replicas)


@pytest.mark.parametrize(
    ("columns", "reference", "cells"),
    [
        ([["a", "a"], ["a"]], MAJORITY, [(SAME, '"a"', None)] * 2),
        ([["a", "a"], ["b"]], MAJORITY, [(SAME, '"a"', None), (DIFFERS, '"b"', None)]),
        ([["a", "a", "b"], ["a"]], MAJORITY, [(DIFFERS, '"2 ways"', None), (SAME, '"a"', None)]),
        ([["a", "b", "c"]], MAJORITY, [(DIFFERS, '"3 different"', None)]),
        (
            [["a", "a"], [["a"], [None]], [["b"], []], [[None]]],
            MAJORITY,
            [(SAME, '"a"', None), (UNKNOWN, '"a"', 1), (DIFFERS, '"b"', 1), (ABSENT, "", None)],
        ),
        ([["a", "a"], [[OFF]]], MAJORITY, [(SAME, '"a"', None), (UNKNOWN, '"none"', None)]),
        ([[["0123456789abcdef"]]], MAJORITY, [(SAME, '"0123456789ab"', None)]),
        ([["a", "a"], ["b"]], COHORT_B, [(DIFFERS, '"a"', None), (SAME, '"b"', None)]),
        ([["a", "a"], ["b"]], REPLICA_B, [(DIFFERS, '"a"', None), (SAME, '"b"', None)]),
        ([["a", "b"], ["b"]], COHORT_B, [(DIFFERS, '"2 different"', None), (SAME, '"b"', None)]),
        ([["a", "a"], ["b", "c"]], COHORT_B, [(UNKNOWN, '"a"', None), (UNKNOWN, '"2 different"', None)]),
        ([["a", "a"], [[None]]], COHORT_B, [(UNKNOWN, '"a"', None), (ABSENT, "", None)]),
        (
            [["a", "a"], ["b"]],
            BASELINE,
            [(UNKNOWN, '"not agreed"', None), (UNKNOWN, '"a"', None), (UNKNOWN, '"b"', None)],
        ),
    ],
)
def test_a_column_differs_where_its_hashes_are_not_those_of_the_reference(
    columns: Sequence[ReplicaMarks], reference: Reference, cells: CellValues
) -> None:
    found = row(columns, reference)

    assert found is not None
    assert [(cell.state, cell.value, cell.reported_by) for cell in found.cells] == cells
    assert (found.path, found.label) == ("the path", "block hashes")
    assert found.differs == any(state is DIFFERS for state, *_ in cells)
    assert found.tie == (columns == [["a", "b", "c"]])


@pytest.mark.parametrize("columns", [[], [[[None], [OFF]]]])
def test_there_is_no_row_where_no_engine_reports_a_digest(columns: Sequence[ReplicaMarks]) -> None:
    assert row(columns) is None
