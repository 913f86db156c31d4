"""The difference matrix: rows, columns, cells, and the references to compare with."""

from typing import Any

import pytest
from hypothesis import given

from dashboard.compare import (
    BASELINE,
    MAJORITY,
    PREFIX_PATHS,
    Matrix,
    MatrixRow,
    Reference,
    ReferenceKind,
    compare_pool,
    parse_reference,
)
from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.compare.matrix import CellState, MatrixCell, lay_out
from dashboard.fleet import Baseline, Document, Replica, Role, State, Tolerance
from tests.compare.pools import compared, document, fleets, member, pool_of

Fleet = tuple[list[Replica], dict[str, Document]]
Holders = tuple[tuple[int, dict[str, Any]], ...]

HOLDERS: Holders = (
    (5, {"cache_config.block_size": 16, "model_config.dtype": "bfloat16", "seed": 0, "alone": 1, "key": 1}),
    (1, {"cache_config.block_size": 32, "model_config.dtype": "bfloat16", "seed": None, "key": State.REDACTED}),
    (2, {"cache_config.block_size": 16, "model_config.dtype": "float16", "key": State.UNKNOWN}),
)
COHORT_B, COHORT_C = (Reference(ReferenceKind.COHORT, letter) for letter in "BC")
SAME, DIFFERS, UNKNOWN, ABSENT = CellState.SAME, CellState.DIFFERS, CellState.UNKNOWN, CellState.ABSENT
AGREED = Baseline(
    "chat",
    "chat",
    {"block": "16", "seed": "0", "lora": "null", "gone": "1", "odd": "1"},
    {"seqs": Tolerance(("128", "256"))},
    ("od*",),
)
DEVIATING: Holders = (
    (2, {"block": 32, "seed": "0", "seqs": 128, "same": 1, "lora.rank": 8, "odd": 2}),
    (1, {"block": 32, "seed": "0", "seqs": 64, "same": 1, "lora.rank": 8, "odd": 2}),
)


def matrix(reference: Reference = MAJORITY, holders: Holders = HOLDERS, **choices: Any) -> Matrix:
    columns = {name: choices.pop(name) for name in ("baseline", "as_replicas") if name in choices}
    return lay_out(*pool_of(*holders), reference, **columns).table(**choices)


def row_of(shown: Matrix, path: str) -> MatrixRow:
    return next(row for row in shown.rows if row.path == path)


def states(row: MatrixRow) -> list[CellState]:
    return [cell.state for cell in row.cells]


@pytest.mark.parametrize(
    ("reference", "holders", "notes"),
    [
        (MAJORITY, HOLDERS, ["reference: the majority", "dtype", "block_size, seed"]),
        (MAJORITY, ((3, {"seed": 0}),), ["no setting differs"]),
        (MAJORITY, ((2, {"seed": 0}), (2, {"seed": 1})), ["no majority", "no majority"]),
        (COHORT_C, HOLDERS, ["block_size, seed", "block_size, dtype", "reference"]),
        (
            Reference(ReferenceKind.REPLICA, "http://0-1:80"),
            ((2, {"seed": 0}), (1, {"seed": 1})),
            ["contains the reference", "seed"],
        ),
        (
            MAJORITY,
            (
                (5, dict.fromkeys(("a0", "a1", "a2", "a3", "cache_config.block_size"), 0)),
                (1, dict.fromkeys(("a0", "a1", "a2", "a3", "cache_config.block_size"), 9)),
            ),
            ["reference: the majority", "block_size, a0, a1 +2 more"],
        ),
        (BASELINE, DEVIATING, ["reference", "block, rank", "seqs, block, rank"]),
    ],
)
def test_a_column_names_the_settings_that_differ_from_the_reference(
    reference: Reference, holders: Holders, notes: list[str]
) -> None:
    assert [column.note for column in matrix(reference, holders, baseline=AGREED).columns] == notes


def test_only_differences_are_rows_and_hidden_paths_are_counted() -> None:
    shown, whole = matrix(), matrix(only_differences=False)
    differing = ["cache_config.block_size", "seed", "model_config.dtype"]

    assert [(column.title, column.count) for column in shown.columns] == [("A", 5), ("B", 2), ("C", 1)]
    assert [row.path for row in shown.rows] == differing
    assert (shown.equal, shown.uncompared, shown.filtered) == (2, 0, 0)
    assert [row.path for row in whole.rows] == [*differing, "alone", "key"]
    assert (whole.equal, whole.uncompared) == (0, 0)
    alone = matrix(holders=((1, {"x": 1, "y": 1}), (1, {"x": 1})))
    assert (alone.equal, alone.uncompared) == (1, 1)


@pytest.mark.parametrize(
    ("reference", "path", "cells"),
    [
        (
            MAJORITY,
            "cache_config.block_size",
            [MatrixCell(SAME, "16"), MatrixCell(SAME, "16"), MatrixCell(DIFFERS, "32")],
        ),
        (MAJORITY, "seed", [MatrixCell(SAME, "0"), MatrixCell(ABSENT, ""), MatrixCell(DIFFERS, "null")]),
        (MAJORITY, "key", [MatrixCell(SAME, "1"), MatrixCell(UNKNOWN, ""), MatrixCell(CellState.REDACTED, "")]),
        (
            COHORT_C,
            "cache_config.block_size",
            [MatrixCell(DIFFERS, "16"), MatrixCell(DIFFERS, "16"), MatrixCell(SAME, "32")],
        ),
        (COHORT_B, "seed", [MatrixCell(UNKNOWN, "0"), MatrixCell(ABSENT, ""), MatrixCell(UNKNOWN, "null")]),
        (
            Reference(ReferenceKind.REPLICA, "http://1-0:80"),
            "cache_config.block_size",
            [MatrixCell(DIFFERS, "16"), MatrixCell(DIFFERS, "16"), MatrixCell(SAME, "32")],
        ),
    ],
)
def test_a_cell_has_a_value_and_its_state_or_the_reason_without_one(
    reference: Reference, path: str, cells: list[MatrixCell]
) -> None:
    row = row_of(matrix(reference, only_differences=False), path)

    assert list(row.cells) == cells
    assert row.differs == any(cell.state is DIFFERS for cell in cells)


def test_a_setting_that_the_version_lacks_is_unsupported() -> None:
    path = "cache_config.prefix_match_unit"
    pool, documents = pool_of((2, {path: 16, "x": 1}), (1, {"x": 2}))
    old = {**documents, "d1": document("d1", {"x": 2}, version="0.12.0")}

    assert states(row_of(lay_out(pool, old, MAJORITY).table(only_differences=False), path)) == [
        SAME,
        CellState.UNSUPPORTED,
    ]


def test_every_value_of_a_tie_is_marked() -> None:
    (row,) = matrix(holders=((2, {"seed": 0}), (2, {"seed": 1}))).rows

    assert row.cells == (MatrixCell(DIFFERS, "0"), MatrixCell(DIFFERS, "1"))
    assert (row.tie, row.differs) == (True, True)


def test_the_majority_has_no_value_where_only_a_stale_replica_differs() -> None:
    documents = {"a": document("a", {"seed": 0}), "b": document("b", {"seed": 1})}
    members = [member("a", "a"), member("b", "b", fresh=False)]
    (row,) = lay_out(compare_pool("p", Role.BOTH, members, documents), documents, MAJORITY).table().rows

    assert (row.differs, row.tie, [cell.value for cell in row.cells]) == (True, True, ["0", "1"])


def test_replicas_are_columns_with_their_own_values_only() -> None:
    shown = matrix(
        Reference(ReferenceKind.REPLICA, "http://0-0:80"),
        ((3, {"x": 1, "y": 1}), (1, {"x": 1}), (1, {"x": 2, "y": 1})),
        as_replicas=["http://2-0:80", "http://1-0:80", "http://0-0:80", "http://never-read:80"],
        only_differences=False,
    )

    assert [(column.title, column.note, column.read_in_part) for column in shown.columns] == [
        ("http://2-0:80", "cohort B", 0),
        ("http://1-0:80", "cohort A", 1),
        ("http://0-0:80", "reference", 0),
    ]
    assert row_of(shown, "x").cells == (MatrixCell(DIFFERS, "2"), MatrixCell(SAME, "1"), MatrixCell(SAME, "1"))
    assert row_of(shown, "y").cells[1] == MatrixCell(ABSENT, "")


@pytest.mark.parametrize(
    ("section", "search", "paths"),
    [
        ("model_config", "", ["model_config.dtype"]),
        (None, "DTYPE", ["model_config.dtype"]),
        (None, "float16 model", ["model_config.dtype"]),
        (None, "32", ["cache_config.block_size"]),
        (None, "config", ["cache_config.block_size", "model_config.dtype"]),
        (None, "config bfloat16 16", ["model_config.dtype"]),
        (None, "nothing has this", []),
        (None, "  ", ["cache_config.block_size", "seed", "model_config.dtype"]),
    ],
)
def test_a_section_and_all_words_of_a_search_filter_rows(section: str | None, search: str, paths: list[str]) -> None:
    shown = matrix(section=section, search=search)

    assert [row.path for row in shown.rows] == paths
    assert shown.filtered == 3 - len(paths)
    assert shown.sections == ("cache_config", "model_config", "seed")


def test_the_band_has_all_its_paths_reported_or_not_but_no_ignored_one() -> None:
    band = lay_out(*pool_of(*HOLDERS), MAJORITY).band(PREFIX_PATHS)
    pool, documents = pool_of(*HOLDERS, ignore=["cache_config.*"])
    layout = lay_out(pool, documents, MAJORITY)
    ignored = [layout.band(PREFIX_PATHS), layout.table()]

    assert [row.path for row in band.rows] == list(PREFIX_PATHS)
    assert (band.rows[0].label, states(band.rows[0])) == ("vLLM version", [ABSENT] * 3)
    assert (band.equal, band.uncompared, band.filtered) == (0, 0, 0)
    assert "cache_config.block_size" not in {row.path for each in ignored for row in each.rows}


def test_a_cell_counts_the_replicas_that_report_its_value_where_some_do_not() -> None:
    shown = matrix(
        holders=((3, {"x": 1, "y": 1}), (11, {"x": 1}), (1, {"x": 2, "y": 1})),
        only_differences=False,
    )

    assert [cell.reported_by for cell in row_of(shown, "x").cells] == [None, None]
    assert row_of(shown, "y").cells == (MatrixCell(SAME, "1", 3), MatrixCell(SAME, "1"))


def test_a_baseline_has_the_first_column_and_its_tolerated_values_are_the_same() -> None:
    shown = matrix(BASELINE, DEVIATING, baseline=AGREED)
    whole = matrix(BASELINE, DEVIATING, baseline=AGREED, only_differences=False)
    replicas = matrix(BASELINE, DEVIATING, baseline=AGREED, as_replicas=["http://1-0:80"])
    first = shown.columns[0]

    assert (first.title, first.replicas, first.count) == ("baseline chat", (), 0)
    assert [row.path for row in shown.rows] == ["seqs", "block", "lora.rank"]
    assert {row.path: ([cell.value for cell in row.cells], states(row)) for row in whole.rows} == {
        "seqs": (['"128 or 256"', "128", "64"], [SAME, SAME, DIFFERS]),
        "block": (["16", "32", "32"], [SAME, DIFFERS, DIFFERS]),
        "lora.rank": (["null", "8", "8"], [SAME, DIFFERS, DIFFERS]),
        "seed": (["0", '"0"', '"0"'], [SAME, SAME, SAME]),
        "gone": (["1", "", ""], [SAME, ABSENT, ABSENT]),
        "same": (['"not agreed"', "1", "1"], [UNKNOWN] * 3),
        "odd": (['"not agreed"', "2", "2"], [UNKNOWN] * 3),
    }
    assert states(row_of(replicas, "seqs")) == [SAME, DIFFERS]
    assert matrix(MAJORITY, DEVIATING, baseline=AGREED) == matrix(MAJORITY, DEVIATING)


def test_a_row_that_deviates_from_the_baseline_is_not_counted_as_hidden() -> None:
    holders: Holders = ((2, {"a": 1, "b": 1, "c": 1}), (1, {"a": 1, "b": 1, "d": 1, "e": 1}))
    agreed = Baseline("chat", "chat", {"a": "2", "d": "2", "gone": "1"})
    found, hidden = (matrix(each, holders, baseline=agreed) for each in (BASELINE, MAJORITY))

    assert [row.path for row in found.rows] == ["a", "d"]
    assert (hidden.equal, hidden.uncompared) == (3, 2)
    assert (found.equal, found.uncompared) == (2, 1)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("majority", MAJORITY),
        ("baseline", BASELINE),
        ("B", COHORT_B),
        ("http://1-0:80", Reference(ReferenceKind.REPLICA, "http://1-0:80")),
    ],
)
def test_a_reference_is_read_from_the_url_and_written_back(text: str, reference: Reference) -> None:
    assert parse_reference(text, pool_of(*HOLDERS)[0], AGREED) == reference
    assert reference.text == text


@pytest.mark.parametrize("text", [None, "", "Z", "b", "baseline", "http://none:80", "<script>", "A" * 10_000, "\x00"])
def test_any_other_text_in_the_url_means_the_majority(text: str | None) -> None:
    assert parse_reference(text, pool_of(*HOLDERS)[0]) == MAJORITY


def test_an_empty_pool_has_no_columns_and_no_rows() -> None:
    shown = lay_out(compare_pool("p", Role.BOTH, [], {}), {}, MAJORITY, as_replicas=["http://x:80"]).table()

    assert (shown.columns, shown.rows, shown.sections) == ((), (), ())


@given(fleets())
def test_a_cell_counts_exactly_the_replicas_whose_own_document_has_a_value(fleet: Fleet) -> None:
    pool, documents = compared(fleet), fleet[1]
    for row in lay_out(pool, documents, MAJORITY).table(only_differences=False).rows:
        for cell, cohort in zip(row.cells, pool.cohorts, strict=True):
            own = [lookup_setting(documents[key].settings, row.path) for key in cohort.documents_by_replica.values()]
            number = sum(setting is not None and is_comparable(setting.state) for setting in own)
            assert (len(own) if cell.reported_by is None else cell.reported_by) == (number if cell.value else len(own))


@given(fleets())
def test_every_difference_of_the_pool_is_a_row_and_counts_add_up(fleet: Fleet) -> None:
    pool = compared(fleet)
    shown = lay_out(pool, fleet[1], MAJORITY).table()

    assert [row.path for row in shown.rows[: len(pool.differences)]] == [item.path for item in pool.differences]
    assert all(row.differs for row in shown.rows)
    assert shown.uncompared >= 0
    if all(member.fresh for member in fleet[0]):
        assert len(shown.rows) == len(pool.differences)


@given(fleets())
def test_a_cohort_or_a_replica_never_differs_from_itself(fleet: Fleet) -> None:
    pool = compared(fleet)
    for place, cohort in enumerate(pool.cohorts):
        reference = Reference(ReferenceKind.COHORT, cohort.letter)
        rows = lay_out(pool, fleet[1], reference).table(only_differences=False).rows
        assert all(row.cells[place].state is not DIFFERS for row in rows)
        replica = cohort.replicas[0]
        reference = Reference(ReferenceKind.REPLICA, replica)
        rows = lay_out(pool, fleet[1], reference, as_replicas=[replica]).table(only_differences=False).rows
        assert not any(row.differs for row in rows)
