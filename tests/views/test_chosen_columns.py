"""Replicas of snapshots as columns of Compare."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet
from dashboard.compare import Matrix
from dashboard.views.blocks import DifferenceTable
from dashboard.views.chosen_columns import (
    ChosenColumn,
    OpenedSnapshot,
    add_snapshot,
    chosen_columns,
    not_shown,
    read_chosen,
    snapshot_notes,
    with_snapshots,
    write_chosen,
)
from dashboard.views.compare import chosen_reference, chosen_report
from dashboard.views.pool_comparison import SettingChoice
from tests.builders import document, fleet, replica
from tests.findings_builder import evidence, finding, with_findings
from tests.views.walking import blocks_of

SIZE = "cache_config.block_size"
NOW, THEN = document(), document({SIZE: 32})
A, B = "http://a:8000", "http://b:8000"
SNAPSHOT = "3fa9c01b2e"


def live() -> Fleet:
    return fleet([replica("a", document=NOW), replica("b", document=NOW)], [NOW])


def opened(*, name: str = "Review", is_found: bool = False) -> dict[str, OpenedSnapshot]:
    """A snapshot in which a had other settings, with a finding about them, and b did not exist."""
    then = fleet([replica("a", document=THEN)], [THEN])
    if is_found:
        then = with_findings(then, finding(then, ["a"], evidence=(evidence(SIZE, "32", (A,)),)))
    return {SNAPSHOT: OpenedSnapshot(replace(then, snapshot=SNAPSHOT), name)}


def matrix_of(text: str, frozen: dict[str, OpenedSnapshot]) -> tuple[Matrix, dict[str, str]]:
    """The matrix of what a URL names, and the names of its columns."""
    columns = chosen_columns(text)
    joined = with_snapshots(live(), columns, frozen)
    ids = read_chosen(joined, text)
    choice = SettingChoice(by_replica=True, reference=chosen_reference(joined, ids))
    view = chosen_report(joined, ids, choice, notes=snapshot_notes(columns, frozen))
    table = next(each for each in blocks_of(view.parts) if isinstance(each, DifferenceTable))
    return table.matrix, dict(table.names)


def test_a_replica_is_compared_with_itself_in_a_snapshot() -> None:
    matrix, names = matrix_of(f"{A},{A}@{SNAPSHOT}", opened())

    assert [(each.key, names[each.key]) for each in matrix.columns] == [
        (A, "a"),
        (f"{A}@{SNAPSHOT}", "a @ Review"),
    ]
    assert [each.note for each in matrix.columns] == [
        "chat, reference",
        "chat, snapshot 3fa9c01b2e, data as of 2026-03-02T11:42:05Z",
    ]
    assert [(row.path, [cell.value for cell in row.cells]) for row in matrix.rows] == [(SIZE, ["16", "32"])]


def test_a_snapshot_without_a_name_has_its_id_in_the_column() -> None:
    assert matrix_of(f"{A},{A}@{SNAPSHOT}", opened(name=""))[1][f"{A}@{SNAPSHOT}"] == "a @ 3fa9c01b2e"


def test_findings_of_the_snapshot_mark_its_settings() -> None:
    columns = chosen_columns(f"{A},{A}@{SNAPSHOT}")
    joined = with_snapshots(live(), columns, opened(is_found=True))

    assert joined.inspection.findings[:-1] == live().inspection.findings
    assert joined.inspection.findings[-1].replicas == (f"{A}@{SNAPSHOT}",)


def test_what_is_missing_is_named_and_the_rest_is_compared() -> None:
    text = f"{A},{B}@{SNAPSHOT},{A}@{SNAPSHOT},{A}@ffffffffff,{B},http://removed:8000"
    problems = {"ffffffffff": "There is no snapshot “ffffffffff” here; it may have been deleted."}
    fleet = with_snapshots(live(), chosen_columns(text), opened())

    assert read_chosen(fleet, text) == (A, f"{A}@{SNAPSHOT}", B)
    assert not_shown(fleet, text, opened(), problems) == [
        problems["ffffffffff"],
        "http://b:8000 is not in snapshot Review.",
        "http://removed:8000 is not in this fleet.",
    ]


def test_a_replica_may_be_written_by_its_name_or_without_the_scheme() -> None:
    names = {each.id: each.name for each in live().replicas}
    text = f"{names[A]},{B.removeprefix('http://')},{A}"

    assert read_chosen(live(), text) == (A, B)
    assert not_shown(live(), text, {}, {}) == []


def test_a_snapshot_is_added_for_each_replica_of_the_fleet() -> None:
    assert add_snapshot(f"{A},{B},http://removed:8000,{B}@{SNAPSHOT}", "ffffffffff", (A, B, f"{B}@{SNAPSHOT}")) == (
        f"{A},{B},http://removed:8000,{B}@{SNAPSHOT},{A}@ffffffffff,{B}@ffffffffff"
    )


@given(ids=st.lists(st.text(min_size=1), min_size=1, unique=True))
def test_any_id_survives_the_url_with_and_without_a_snapshot(ids: list[str]) -> None:
    plain = tuple(ChosenColumn(each) for each in ids)
    frozen = tuple(ChosenColumn(each, SNAPSHOT) for each in ids)

    assert chosen_columns(add_snapshot(write_chosen(ids), SNAPSHOT, ids)) == (*plain, *frozen)


@pytest.mark.parametrize("text", ["", ",", ",,"])
def test_a_url_without_replicas_names_none(text: str) -> None:
    assert chosen_columns(text) == ()
