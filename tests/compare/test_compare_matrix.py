"""The difference matrix before anybody draws it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from dashboard.compare import (
    MAJORITY,
    PREFIX_PATHS,
    Cell,
    CellState,
    Matrix,
    Member,
    Reference,
    ReferenceKind,
    Row,
    build_matrix,
    compare_pool,
)
from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.fleet import Document, Role, State
from tests.compare.pools import compared, document, fleets, pool_of

Fleet = tuple[list[Member], dict[str, Document]]

HOLDERS: tuple[tuple[int, dict[str, Any]], ...] = (
    (5, {"cache_config.block_size": 16, "model_config.dtype": "bfloat16", "seed": 0, "alone": 1, "key": 1}),
    (1, {"cache_config.block_size": 32, "model_config.dtype": "bfloat16", "seed": None, "key": State.REDACTED}),
    (2, {"cache_config.block_size": 16, "model_config.dtype": "float16", "key": State.UNKNOWN}),
)
SAME, DIFFERS = CellState.SAME, CellState.DIFFERS


def matrix(reference: Reference = MAJORITY, **choices: Any) -> Matrix:
    pool, documents = pool_of(*HOLDERS)
    return build_matrix(pool, documents, reference, **choices)


def row_of(shown: Matrix, path: str) -> Row:
    return next(row for row in shown.rows if row.path == path)


def test_columns_are_cohorts_that_say_how_many_they_are_and_in_what_they_differ_from_the_reference() -> None:
    assert [(column.title, column.count, column.note) for column in matrix().columns] == [
        ("A", 5, "reference: the majority"),
        ("B", 2, "dtype"),
        ("C", 1, "block_size, seed"),
    ]


def test_one_cohort_alone_is_the_reference_of_nobody() -> None:
    pool, documents = pool_of((3, {"cache_config.block_size": 16}))

    assert [column.note for column in build_matrix(pool, documents, MAJORITY).columns] == ["no difference"]


def test_only_differences_are_rows_and_what_is_hidden_is_counted() -> None:
    shown = matrix()

    assert [row.path for row in shown.rows] == ["cache_config.block_size", "seed", "model_config.dtype"]
    assert (shown.equal, shown.uncompared, shown.identity, shown.ignored, shown.filtered) == (2, 0, 41, 0, 0)


def test_all_settings_follow_the_differences_by_path() -> None:
    shown = matrix(only_differences=False)

    assert [row.path for row in shown.rows[3:]] == ["alone", "key"]
    assert (shown.equal, shown.uncompared) == (0, 0)


def test_the_majority_is_quiet_and_the_minority_marked() -> None:
    row = row_of(matrix(), "cache_config.block_size")

    assert row.cells == (Cell(SAME, "16"), Cell(SAME, "16"), Cell(DIFFERS, "32"))
    assert (row.differs, row.tie, row.comparable) == (True, False, True)


def test_null_is_seen_and_missing_says_why() -> None:
    row = row_of(matrix(unsupported=lambda *_: True), "seed")

    assert row.cells == (Cell(SAME, "0"), Cell(CellState.UNSUPPORTED, ""), Cell(DIFFERS, "null"))
    assert row_of(matrix(), "seed").cells[1] == Cell(CellState.ABSENT, "")


def test_redacted_and_unknown_cells_show_no_value() -> None:
    row = row_of(matrix(only_differences=False), "key")

    assert row.cells == (Cell(SAME, "1"), Cell(CellState.UNKNOWN, ""), Cell(CellState.REDACTED, ""))
    assert not row.differs


def test_on_a_tie_every_value_is_marked() -> None:
    pool, documents = pool_of((2, {"seed": 0}), (2, {"seed": 1}))
    shown = build_matrix(pool, documents, MAJORITY)
    (row,) = shown.rows

    assert row.cells == (Cell(DIFFERS, "0"), Cell(DIFFERS, "1"))
    assert (row.tie, row.differs) == (True, True)
    assert [column.note for column in shown.columns] == ["no majority", "no majority"]


def test_cells_differ_from_the_chosen_cohort() -> None:
    shown = matrix(Reference(ReferenceKind.COHORT, "C"))

    assert [cell.state for cell in row_of(shown, "cache_config.block_size").cells] == [DIFFERS, DIFFERS, SAME]
    assert [column.note for column in shown.columns] == ["block_size, seed", "block_size, dtype", "reference"]


def test_what_the_reference_does_not_tell_is_not_comparable() -> None:
    row = row_of(matrix(Reference(ReferenceKind.COHORT, "B")), "seed")

    assert row.cells == (Cell(CellState.UNKNOWN, "0"), Cell(CellState.ABSENT, ""), Cell(CellState.UNKNOWN, "null"))
    assert (row.differs, row.tie, row.comparable) == (False, False, False)


def test_cells_differ_from_the_chosen_replica() -> None:
    shown = matrix(Reference(ReferenceKind.REPLICA, "http://1-0:80"))

    assert [cell.state for cell in row_of(shown, "cache_config.block_size").cells] == [DIFFERS, DIFFERS, SAME]


def test_replicas_can_be_columns_with_their_own_values_only() -> None:
    pool, documents = pool_of((3, {"x": 1, "y": 1}), (1, {"x": 1}), (1, {"x": 2, "y": 1}))
    replicas = ["http://2-0:80", "http://1-0:80", "http://0-0:80", "http://never-read:80"]
    shown = build_matrix(
        pool,
        documents,
        Reference(ReferenceKind.REPLICA, "http://0-0:80"),
        as_replicas=replicas,
        only_differences=False,
    )

    assert [(column.title, column.note, column.read_in_part) for column in shown.columns] == [
        ("http://2-0:80", "cohort B", 0),
        ("http://1-0:80", "cohort A", 1),
        ("http://0-0:80", "reference", 0),
    ]
    assert row_of(shown, "x").cells == (Cell(DIFFERS, "2"), Cell(SAME, "1"), Cell(SAME, "1"))
    assert row_of(shown, "y").cells[1] == Cell(CellState.ABSENT, "")


def test_a_section_and_a_search_filter_rows_and_say_how_many() -> None:
    section = matrix(section="model_config")

    assert [row.path for row in section.rows] == ["model_config.dtype"]
    assert section.sections == ("cache_config", "model_config", "seed")
    assert section.filtered == 2


@pytest.mark.parametrize(
    ("search", "paths"),
    [
        ("DTYPE", ["model_config.dtype"]),
        ("float16 model", ["model_config.dtype"]),
        ("32", ["cache_config.block_size"]),
        ("config", ["cache_config.block_size", "model_config.dtype"]),
        ("config bfloat16 16", ["model_config.dtype"]),
        ("nothing has this", []),
        ("  ", ["cache_config.block_size", "seed", "model_config.dtype"]),
    ],
)
def test_all_words_of_a_search_must_stand_in_path_or_values(search: str, paths: list[str]) -> None:
    assert [row.path for row in matrix(search=search).rows] == paths


def test_the_prefix_band_shows_its_paths_whether_told_or_not() -> None:
    shown = matrix(paths=PREFIX_PATHS)

    assert [row.label for row in shown.rows] == [
        "vLLM version",
        "enable_prefix_caching",
        "prefix_caching_hash_algo",
        "block_size",
        "hash_block_size",
        "prefix_match_unit",
    ]
    assert [cell.state for cell in shown.rows[0].cells] == [CellState.ABSENT] * 3
    assert not shown.rows[0].comparable
    assert (shown.equal, shown.uncompared, shown.filtered) == (0, 0, 0)


def test_ignored_paths_are_no_rows_not_even_in_the_band() -> None:
    pool, documents = pool_of(*HOLDERS, ignore=["cache_config.*"])

    assert all(row.path != "cache_config.block_size" for row in build_matrix(pool, documents, MAJORITY).rows)
    band = build_matrix(pool, documents, MAJORITY, paths=PREFIX_PATHS)
    assert "block_size" not in [row.label for row in band.rows]
    assert band.ignored == 1


def test_what_one_replica_alone_tells_is_counted_apart() -> None:
    pool, documents = pool_of((1, {"x": 1, "y": 1}), (1, {"x": 1}))
    shown = build_matrix(pool, documents, MAJORITY)

    assert (shown.equal, shown.uncompared) == (1, 1)


def test_a_stale_column_that_differs_is_a_row_although_the_pool_counts_no_difference() -> None:
    documents = {"a": document("a", {"seed": 0}), "b": document("b", {"seed": 1})}
    members = [Member(f"{number}", "a", fresh=True, identity=0) for number in range(3)]
    pool = compare_pool("p", Role.BOTH, [*members, Member("s", "b", fresh=False, identity=0)], documents)
    (row,) = build_matrix(pool, documents, MAJORITY).rows

    assert [cell.value for cell in row.cells] == ["0", "1"]
    assert row.differs


def test_a_column_names_three_settings_that_decide_prefix_sharing_first_and_counts_the_rest() -> None:
    base = {f"a{number}": 0 for number in range(4)} | {"cache_config.block_size": 16}
    pool, documents = pool_of((5, base), (1, dict.fromkeys(base, 99)))

    assert build_matrix(pool, documents, MAJORITY).columns[1].note == "block_size, a0, a1 +2 more"


def test_the_cohort_of_the_reference_says_so() -> None:
    pool, documents = pool_of((2, {"seed": 0}), (1, {"seed": 1}))
    shown = build_matrix(pool, documents, Reference(ReferenceKind.REPLICA, "http://0-1:80"))

    assert [column.note for column in shown.columns] == ["contains the reference", "seed"]


def test_a_cell_counts_the_replicas_that_tell_it_when_not_all_of_the_cohort_do() -> None:
    pool, documents = pool_of((3, {"x": 1, "y": 1}), (11, {"x": 1}), (1, {"x": 2, "y": 1}))
    shown = build_matrix(pool, documents, MAJORITY, only_differences=False)

    assert [cell.tellers for cell in row_of(shown, "x").cells] == [None, None]
    assert row_of(shown, "y").cells == (Cell(SAME, "1", 3), Cell(SAME, "1"))


def test_what_a_section_tells_of_its_leaves_counts_as_told() -> None:
    leaves: dict[str, Any] = {"lora_config": {}, "lora_config.rank": None, "x": 1, "y": 1}
    pool, documents = pool_of((3, leaves), (1, {"lora_config": None, "x": 1}))
    shown = build_matrix(pool, documents, MAJORITY, only_differences=False)

    assert row_of(shown, "lora_config.rank").cells[0].tellers is None
    assert row_of(shown, "y").cells[0].tellers == 3


@given(fleets())
def test_tellers_are_the_replicas_whose_own_document_tells(fleet: Fleet) -> None:
    pool, documents = compared(fleet), fleet[1]
    for row in build_matrix(pool, documents, MAJORITY, only_differences=False).rows:
        for cell, cohort in zip(row.cells, pool.cohorts, strict=True):
            told = [lookup_setting(documents[key].settings, row.path) for key in cohort.held.values()]
            number = sum(setting is not None and is_comparable(setting.state) for setting in told)
            assert (len(told) if cell.tellers is None else cell.tellers) == (number if cell.value else len(told))


def test_an_empty_pool_has_no_columns_and_no_rows() -> None:
    pool = compare_pool("p", Role.BOTH, [], {})
    shown = build_matrix(pool, {}, MAJORITY, as_replicas=["http://x:80"])

    assert (shown.columns, shown.rows, shown.sections) == ((), (), ())


@given(fleets())
def test_every_difference_of_the_pool_is_a_row_and_counts_add_up(fleet: Fleet) -> None:
    pool = compared(fleet)
    shown = build_matrix(pool, fleet[1], MAJORITY)

    assert [row.path for row in shown.rows[: len(pool.differences)]] == [item.path for item in pool.differences]
    assert all(row.differs for row in shown.rows)
    assert shown.uncompared >= 0
    if all(member.fresh for member in fleet[0]):
        assert len(shown.rows) == len(pool.differences)


@given(fleets())
def test_compared_with_itself_a_cohort_never_differs(fleet: Fleet) -> None:
    pool = compared(fleet)

    for place, cohort in enumerate(pool.cohorts):
        reference = Reference(ReferenceKind.COHORT, cohort.letter)
        shown = build_matrix(pool, fleet[1], reference, only_differences=False)
        assert all(row.cells[place].state is not DIFFERS for row in shown.rows)


@given(fleets())
def test_compared_with_itself_a_replica_never_differs(fleet: Fleet) -> None:
    pool = compared(fleet)

    for replica in [replica for cohort in pool.cohorts for replica in cohort.replicas][:3]:
        reference = Reference(ReferenceKind.REPLICA, replica)
        shown = build_matrix(pool, fleet[1], reference, only_differences=False, as_replicas=[replica])
        assert not any(row.differs for row in shown.rows)
