"""A report as JSON has the content of the page as values, and matches its schema."""

import json
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from dashboard.render.tabular import to_report_json
from dashboard.views.blocks import (
    Bar,
    Block,
    Cell,
    Chart,
    Column,
    Entries,
    Table,
    View,
    number_cell,
)
from tests.docs_pages import schema
from tests.sample_reports import attack, report


def document(of: View) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_report_json(of))
    jsonschema.validate(found, schema("report"))
    return found


def block(of: Block) -> dict[str, Any]:
    (only,) = document(report(of))["parts"][0]["blocks"]
    return dict(only)


def test_what_people_are_told_less_of_is_whole() -> None:
    """The table that programs read stands in the place of the other one, and listed a list."""
    who = (Cell("a and 1 more", value=("a", "b")), Cell("", value=True), number_cell("½", 0.5))
    columns = (Column("who"), Column("is_rollout"), Column("share", is_number=True))
    whole = Table("whole", "Whole", columns, (who,))
    listed = block(Entries((), lambda: whole))

    assert block(Table("short", "Short", (Column("x"),), (), for_programs=lambda: whole))["rows"] == [
        [["a", "b"], True, 0.5]
    ]
    assert (listed["table"]["name"], listed["table"]["rows"]) == ("whole", [[["a", "b"], True, 0.5]])
    assert block(Entries(()))["table"] is None


def test_a_chart_has_numbers_and_unknown_ones_are_null() -> None:
    bars = (Bar("a", 5.0, is_at_most=True, letter="A"), Bar("b", None), Bar("c", float("nan")))
    found = block(Chart("ranks", "Ranks", "GiB", bars, float("inf"), 2))

    assert [bar["value"] for bar in found["bars"]] == [5.0, None, None]
    assert found["bars"][0]["is_at_most"] is True
    assert (found["median"], found["more"], found["unit"]) == (None, 2, "GiB")


@given(st.text(st.characters(), max_size=40))
def test_any_text_comes_back_but_for_halves_of_surrogate_pairs(text: str) -> None:
    found = document(attack(text))

    assert found["title"] == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert to_report_json(attack(text)) == to_report_json(attack(text))


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    assert document(attack("a\ud83db"))["title"] == "a\ufffdb"
