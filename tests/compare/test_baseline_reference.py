"""A pool held against its baseline: it is a column of its own, and what it tolerates is the same."""

from typing import Any

from dashboard.compare import (
    BASELINE,
    MAJORITY,
    Matrix,
    Row,
    build_matrix,
    parse_reference,
    reference_values,
)
from dashboard.fleet import Baseline, SettingValue, State, Tolerance
from tests.compare.pools import pool_of

AGREED = Baseline(
    "chat",
    "chat",
    {"block": "16", "seed": "0", "lora": "null", "gone": "1", "odd": "1"},
    {"seqs": Tolerance(("128", "256"))},
    ("od*",),
)
HOLDERS = (
    (2, {"block": 32, "seed": "0", "seqs": 128, "same": 1, "lora.rank": 8, "odd": 2}),
    (1, {"block": 32, "seed": "0", "seqs": 64, "same": 1, "lora.rank": 8, "odd": 2}),
)


def matrix(baseline: Baseline = AGREED, **choices: Any) -> Matrix:
    pool, documents = pool_of(*HOLDERS)
    return build_matrix(pool, documents, BASELINE, baseline=baseline, **choices)


def states(row: Row) -> list[str]:
    return [str(cell.state) for cell in row.cells]


def row_of(found: Matrix, path: str) -> Row:
    return next(row for row in found.rows if row.path == path)


def test_the_baseline_has_the_first_column() -> None:
    first, *others = matrix().columns

    assert (first.title, first.note, first.replicas, first.count) == ("baseline chat", "reference", (), 0)
    assert [(each.key, each.note) for each in others] == [("A", "block, rank"), ("B", "seqs, block, rank")]


def test_what_deviates_is_a_row_though_the_pool_is_all_alike() -> None:
    found = matrix()

    assert [row.path for row in found.rows] == ["seqs", "block", "lora.rank"]
    assert [cell.value for cell in row_of(found, "block").cells] == ["16", "32", "32"]
    assert states(row_of(found, "block")) == ["same", "differs", "differs"]
    assert [cell.value for cell in row_of(found, "lora.rank").cells] == ["null", "8", "8"]


def test_a_tolerated_value_is_the_same_and_the_agreed_ones_are_named() -> None:
    row = row_of(matrix(), "seqs")

    assert (states(row), row.comparable, row.tie) == (["same", "same", "differs"], True, False)
    assert row.cells[0].value == '"128 or 256"'


def test_of_what_it_does_not_name_or_does_not_mind_nothing_is_marked() -> None:
    found = matrix(only_differences=False)

    for path in ("same", "odd"):
        row = row_of(found, path)
        assert (states(row), row.comparable) == (["unknown"] * 3, False)
        assert row.cells[0].value == '"not agreed"'


def test_what_nobody_tells_is_no_difference_and_shown_among_all_settings() -> None:
    row = row_of(matrix(only_differences=False), "gone")

    assert (states(row), row.differs) == (["same", "absent", "absent"], False)


def test_the_spelling_of_a_value_is_no_difference() -> None:
    assert states(row_of(matrix(only_differences=False), "seed")) == ["same", "same", "same"]


def test_what_is_shown_is_not_counted_as_hidden() -> None:
    pool, documents = pool_of((2, {"a": 1, "b": 1, "c": 1}), (1, {"a": 1, "b": 1, "d": 1, "e": 1}))
    agreed = Baseline("chat", "chat", {"a": "2", "d": "2", "gone": "1"})
    found = build_matrix(pool, documents, BASELINE, baseline=agreed)
    hidden = build_matrix(pool, documents, MAJORITY, baseline=agreed)

    assert [row.path for row in found.rows] == ["a", "d"]
    assert (hidden.equal, hidden.uncompared) == (3, 2)
    assert (found.equal, found.uncompared) == (2, 1)


def test_replicas_can_be_the_other_columns() -> None:
    found = matrix(as_replicas=["http://1-0:80"], paths=["seqs"])

    assert [column.key for column in found.columns] == ["baseline", "http://1-0:80"]
    assert states(found.rows[0]) == ["same", "differs"]


def test_without_it_being_the_reference_it_changes_nothing() -> None:
    pool, documents = pool_of(*HOLDERS)

    assert build_matrix(pool, documents, MAJORITY, baseline=AGREED) == build_matrix(pool, documents, MAJORITY)


def test_its_values_are_those_expected() -> None:
    pool, documents = pool_of(*HOLDERS)

    assert reference_values(pool, documents, BASELINE, baseline=AGREED) == {
        "block": SettingValue("16", State.REPORTED),
        "seed": SettingValue("0", State.REPORTED),
        "lora.rank": SettingValue("null", State.NULL),
        "gone": SettingValue("1", State.REPORTED),
    }


def test_the_url_names_it_only_where_the_pool_has_one() -> None:
    pool, _ = pool_of(*HOLDERS)

    assert BASELINE.text == "baseline"
    assert parse_reference("baseline", pool, AGREED) == BASELINE
    assert parse_reference("baseline", pool) == MAJORITY
    assert parse_reference("A", pool, AGREED) == parse_reference("A", pool)
