"""Wherever a finding is written, no name of a replica stands beside the letter of a cohort that it is not in."""

from dataclasses import replace

import pytest

from dashboard.fleet.pieces import to_plain
from dashboard.render.terminal import to_terminal
from dashboard.report.findings import words
from dashboard.rules.findings import Finding
from dashboard.views.blocks import Table
from dashboard.views.check import check_view
from dashboard.views.excluded import suppressed_blocks
from dashboard.views.finding_data import findings_data
from dashboard.views.finding_entries import side_of
from tests.report.judged import finding, fleet, in_cohorts, suppression

NAMES = {f"http://chat-{number}:8000": f"chat-{number}" for number in range(1, 21)}
CROSSED = in_cohorts(C=(4,), D=(3,))  # the letters stand in one order, the names count in the other


def test_entries_of_pages_and_reports_write_each_name_beside_its_cohort() -> None:
    assert to_plain(side_of([CROSSED], NAMES)) == "C chat-4, D chat-3"


def test_check_writes_each_name_beside_its_cohort() -> None:
    assert words.who(CROSSED, NAMES) == "C x1 (chat-4), D x1 (chat-3)"
    assert "C x1 (chat-4), D x1 (chat-3)" in to_terminal(check_view(fleet(CROSSED)), width=200, colour=False)


def test_several_replicas_of_a_cohort_are_counted_beside_its_letter() -> None:
    both = in_cohorts(A=(2, 10), B=(3,))

    assert to_plain(side_of([both], NAMES)) == "A ×2 chat-2, chat-10, B chat-3"
    assert words.who(both, NAMES) == "A x2 (chat-2 and chat-10), B x1 (chat-3)"


def test_a_single_cohort_is_told_with_its_names_and_many_replicas_by_cohort_alone() -> None:
    assert to_plain(side_of([in_cohorts(B=(5, 6))], NAMES)) == "B ×2 chat-5, chat-6"
    assert to_plain(side_of([in_cohorts(A=(1, 2, 3, 5, 6), C=(4,))], NAMES)) == "A ×5, C"
    assert to_plain(side_of([finding(replicas=(), cohorts=())], NAMES)) == ""


def test_replicas_of_two_pools_stand_beside_their_pool_and_those_never_read_say_so() -> None:
    (one,), (other,) = in_cohorts("a", A=(2,)).cohorts, in_cohorts("b", **{"": (1,)}).cohorts
    told = finding(replicas=(*one.replicas, *other.replicas), cohorts=(one, other))

    assert to_plain(side_of([told], NAMES)) == "a A chat-2, b not read chat-1"
    assert words.who(told, NAMES) == "a A x1 (chat-2), b 1 not read (chat-1)"


@pytest.mark.parametrize(
    ("cohorts", "told"),
    [
        ({"A": (1, 2, 3, 5, 6), "C": (4,)}, "A x5 (chat-1, chat-2, chat-3 and 2 more), C x1 (chat-4)"),
        ({"A": (1, 2, 3, 5, 6)}, "A x5 (chat-1, chat-2, chat-3, chat-5 and 1 more)"),
        (
            {"A": (1, 2), "B": (3,), "C": (4,), "D": (5,), "E": (6,)},
            "A x2, B x1 (chat-3), C x1 (chat-4), D x1 (chat-5), E x1 (chat-6)",
        ),
    ],
)
def test_a_line_with_room_for_four_names_tells_those_of_the_smallest_cohorts_first(
    cohorts: dict[str, tuple[int, ...]], told: str
) -> None:
    assert words.who(in_cohorts(**cohorts), NAMES) == told


def test_rows_for_programs_list_replicas_addresses_and_cohorts_in_one_order() -> None:
    table = findings_data([CROSSED], NAMES)
    row = {column.title: cell.value for column, cell in zip(table.columns, table.rows[0], strict=True)}

    assert row["cohorts"] == "C x1, D x1"
    assert row["replicas"] == ("chat-4", "chat-3")
    assert row["addresses"] == ("http://chat-4:8000", "http://chat-3:8000")


@pytest.mark.parametrize(
    ("hidden", "told"),
    [
        (CROSSED, "chat · C chat-4, D chat-3"),
        (in_cohorts(B=(2,)), "chat · B chat-2"),
        (in_cohorts(A=(1, 2), C=(4,), D=(3,)), "chat · A ×2, C, D · chat-1, chat-2, chat-4 and chat-3"),
    ],
)
def test_suppressed_findings_write_names_beside_their_letters_or_in_the_order_of_these(
    hidden: Finding, told: str
) -> None:
    (table,) = suppressed_blocks(fleet(suppressed=[replace(hidden, suppression=suppression())]))

    assert isinstance(table, Table)
    assert table.rows[0][1].text == told
