"""A report as JSON has the content of the page as values, and matches its schema."""

import json
from typing import Any

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.render.report_json import to_report_json
from dashboard.views.blocks import (
    Bar,
    Block,
    Cell,
    Chart,
    Column,
    Entries,
    Table,
    Tone,
    View,
    list_cell,
    number_cell,
)
from tests.builders import story
from tests.docs_pages import schema
from tests.sample_reports import attack, differences, report


def document(of: View) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_report_json(of))
    jsonschema.validate(found, schema("report"))
    return found


def block(of: Block) -> dict[str, Any]:
    (only,) = document(report(of))["parts"][0]["blocks"]
    return dict(only)


def test_a_table_has_columns_rows_and_marks() -> None:
    columns = (Column("pool"), Column("tokens", is_number=True, unit="%"))
    rows = ((Cell("a"), Cell("−1 %", Tone.WARNING, value=-1)), (Cell("b", letter="B"), Cell("not known")))
    found = block(Table("pools", "Pools", columns, rows, "note"))

    assert found["columns"] == [
        {"title": "pool", "is_number": False, "unit": ""},
        {"title": "tokens", "is_number": True, "unit": "%"},
    ]
    assert found["rows"] == [["a", -1], ["b", None]]
    assert found["marks"] == [
        {"row": 0, "column": 1, "tone": "warning", "letter": ""},
        {"row": 1, "column": 0, "tone": "plain", "letter": "B"},
    ]


def test_what_people_are_told_less_of_is_whole() -> None:
    """The table that programs read stands in the place of the other one, and listed a list."""
    who = (list_cell("a and 1 more", ("a", "b")), Cell("", value=True), number_cell("½", 0.5))
    columns = (Column("who"), Column("is_rollout"), Column("share", is_number=True))
    whole = Table("whole", "Whole", columns, (who,))
    listed = block(Entries((), whole))

    assert block(Table("short", "Short", (Column("x"),), (), for_programs=lambda: whole))["rows"] == [
        [["a", "b"], True, 0.5]
    ]
    assert (listed["table"]["name"], listed["table"]["rows"]) == ("whole", [[["a", "b"], True, 0.5]])
    assert block(Entries(()))["table"] is None


def test_differences_are_values_by_path_and_column() -> None:
    found = block(differences(story()))
    row = next(each for each in found["rows"] if each["path"] == "cache_config.block_size")
    other = next(each for each in found["rows"] if each["path"] == "model_config.max_logprobs")

    assert [column["key"] for column in found["columns"]] == ["A", "B", "C"]
    assert found["columns"][1]["replicas"] == ["http://chat-70b-17:8000"]
    assert (row["severity"], other["severity"]) == ("critical", None)
    assert row["cells"][:2] == [{"value": 16, "state": "same"}, {"value": 32, "state": "differs"}]
    assert found["notes"] == ["9 equal, 41 identity"]


def test_a_chart_has_numbers_and_unknown_ones_are_null() -> None:
    bars = (Bar("a", 5.0, is_at_most=True, letter="A"), Bar("b", None), Bar("c", float("nan")))
    found = block(Chart("ranks", "Ranks", "GiB", bars, float("inf"), 2))

    assert [bar["value"] for bar in found["bars"]] == [5.0, None, None]
    assert found["bars"][0]["is_at_most"] is True
    assert (found["median"], found["more"], found["unit"]) == (None, 2, "GiB")


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=30)
@given(st.text(st.characters(), max_size=40))
def test_any_text_comes_back_but_for_halves_of_surrogate_pairs(text: str) -> None:
    found = document(attack(text))

    assert found["title"] == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert to_report_json(attack(text)) == to_report_json(attack(text))


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    assert document(attack("a\ud83db"))["title"] == "a\ufffdb"
