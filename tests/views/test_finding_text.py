"""Findings as text: places, cohorts with names, remarks, lists."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.fleet.pieces import Piece, Style, to_plain
from dashboard.rules.domain import ImpactContext, Origin, Router
from dashboard.rules.findings import Finding, Severity
from dashboard.views import finding_text
from dashboard.views.blocks import Table
from dashboard.views.excluded import suppressed_blocks
from dashboard.views.finding_list import list_findings, side_of
from dashboard.views.finding_text import findings_data, tags
from tests.inspected_fleets import domain, finding, fleet, in_cohorts, suppression

NAMES = {f"http://chat-{number}:8000": f"chat-{number}" for number in range(1, 21)}
CROSSED = in_cohorts(C=(4,), D=(3,))  # letters and names have opposite orders
(IN_A,), (UNREAD,) = in_cohorts("a", A=(2,)).cohorts, in_cohorts("b", **{"": (1,)}).cohorts
BOTH = ((ImpactContext.PREFIX_HASH, Severity.CRITICAL), (ImpactContext.KV_EVENTS, Severity.CRITICAL))


@pytest.mark.parametrize(
    ("found", "side", "text"),
    [
        (CROSSED, "C chat-4, D chat-3", "C x1 (chat-4), D x1 (chat-3)"),
        (in_cohorts(A=(2, 10), B=(3,)), "A ×2 chat-2, chat-10, B chat-3", "A x2 (chat-2 and chat-10), B x1 (chat-3)"),
        (
            in_cohorts(A=(1, 2, 3, 5, 6), C=(4,)),
            "A ×5, C",
            "A x5 (chat-1, chat-2, chat-3 and 2 more), C x1 (chat-4)",
        ),
        (
            in_cohorts(A=(1, 2), B=(3,), C=(4,), D=(5,), E=(6,)),
            "A ×2, B, C, D, and 1 more cohorts",
            "A x2, B x1 (chat-3), C x1 (chat-4), D x1 (chat-5), E x1 (chat-6)",
        ),
        (
            finding(replicas=(*IN_A.replicas, *UNREAD.replicas), cohorts=(IN_A, UNREAD)),
            "a A chat-2, b not reported chat-1",
            "a A x1 (chat-2), b 1 not reported (chat-1)",
        ),
        (finding(replicas=(), cohorts=()), "", "no replica"),
    ],
)
def test_each_replica_is_named_after_the_letter_of_its_cohort(found: Finding, side: str, text: str) -> None:
    assert to_plain(side_of([found], NAMES)) == side
    assert finding_text.replicas_text(found, NAMES) == text


def test_rows_for_programs_list_replicas_addresses_and_cohorts_in_one_order() -> None:
    table = findings_data([CROSSED], NAMES)
    row = {column.title: cell.value for column, cell in zip(table.columns, table.rows[0], strict=True)}

    assert row["cohorts"] == "C x1, D x1"
    assert row["replicas"] == ("chat-4", "chat-3")
    assert row["addresses"] == ("http://chat-4:8000", "http://chat-3:8000")


@pytest.mark.parametrize(
    ("hidden", "where"),
    [
        (CROSSED, "chat · C chat-4, D chat-3"),
        (in_cohorts(A=(1, 2), C=(4,), D=(3,)), "chat · A ×2, C, D · chat-1, chat-2, chat-4 and chat-3"),
    ],
)
def test_suppressed_findings_name_replicas_in_the_order_of_their_cohorts(hidden: Finding, where: str) -> None:
    built = fleet(suppressed=[replace(hidden, suppression=suppression())])
    (table,) = suppressed_blocks(built, list_findings(built))

    assert isinstance(table, Table)
    assert table.rows[0][1].text == where


@pytest.mark.parametrize(
    ("unknown", "total", "shown"),
    [(0, 8, []), (1, 17, []), (2, 8, ["unknown on 2 of 8"]), (1, 2, ["unknown on 1 of 2"])],
)
def test_a_list_marks_missing_data_from_a_quarter_of_the_replicas(unknown: int, total: int, shown: list[str]) -> None:
    pieces = tags(finding(unknown=unknown, total=total))

    assert [each.text for each in pieces if each.style is Style.TAG] == shown


@pytest.mark.parametrize(
    ("found", "where"),
    [
        (finding("ID-05", subject="fleet", pools=("a", "b")), "a and b"),
        (finding("ID-05", subject="fleet", pools=()), "fleet"),
        (finding("ID-05", subject="fleet", pools=tuple("abcdef")), "a, b, c, d and 2 more"),
        (finding("PD-01", subject="p + d", pools=("p", "d")), "p + d"),
        (finding(), "chat"),
        (finding("ZZ-99"), "chat"),
    ],
)
def test_a_finding_is_in_its_pool_its_pair_or_the_pools_of_a_fleet_wide_rule(found: Finding, where: str) -> None:
    assert finding_text.where(found) == where


def test_an_assumed_router_is_listed_once_for_each_pool_whose_findings_depend_on_it() -> None:
    """Not a pool with a declared router, without such findings, or with another assumption."""
    depends: dict[str, Any] = {"assumptions": ("router is approximate",)}
    found = [finding(**depends), finding("RT-13", **depends), finding(pools=("known",), **depends)]
    found += [finding("CO-02", pools=("other",)), finding(pools=("seed",), assumptions=("PYTHONHASHSEED is unset",))]
    found.append(finding(pools=("b", "removed"), **depends))
    found.append(finding("RT-05", pools=("shown",), severity_behind=BOTH[:1]))
    assumed = domain(Router.APPROXIMATE, Origin.ASSUMED)
    domains = {"chat": assumed, "known": domain(Router.APPROXIMATE), "other": assumed, "seed": assumed, "b": assumed}
    domains["shown"] = domain(Router.KV_EVENTS, Origin.DETECTED)

    assert finding_text.assumptions(fleet(*found, inspected={"domains": domains}).inspection) == [
        "b: router is approximate (assumed); declare it under pools in fleet.yaml.",
        "chat: router is approximate (assumed); declare it under pools in fleet.yaml.",
        "shown: router is kv-events (detected); declare it under pools in fleet.yaml.",
    ]


def test_backticks_are_code() -> None:
    assert finding_text.with_code("Set `a` to ` 1") == (Piece("Set "), Piece("a", Style.CODE), Piece(" to ` 1"))
