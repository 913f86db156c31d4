"""What holds of the report of every view, whatever the fleet is like."""

import re
from collections.abc import Callable
from functools import cache

import pytest

from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.render.html_page import to_html
from dashboard.render.markdown import to_markdown
from dashboard.render.report_json import to_report_json
from dashboard.views.blocks import Table, View, value_of
from dashboard.views.capacity import capacity_report
from dashboard.views.compare import compare_report
from dashboard.views.context import context_of
from dashboard.views.findings import findings_report
from dashboard.views.overview import overview_report
from dashboard.views.replica import replica_report
from dashboard.views.replicas import replicas_report
from dashboard.views.review import review_report
from tests.builders import HOSTILE, document, down, fleet, hostile, story
from tests.saved_fleets import built_of_captures
from tests.views.walking import anchors_led_to, blocks_of, entries_of, files_of, parts_of

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@cache
def fleets() -> dict[str, Fleet]:
    """Fleets of every kind, by what is special about them."""
    return {
        "story": story(),
        "hostile": hostile(),
        "empty": empty_fleet("nobody"),
        "all down": fleet([down("a"), down("b", pool=None)], [document()]),
        "captures": built_of_captures(),
    }


VIEWS: dict[str, Callable[[Fleet], View]] = {
    "overview": overview_report,
    "findings": findings_report,
    "compare": lambda told: compare_report(told, told.pools[0].name),
    "capacity": capacity_report,
    "replicas": replicas_report,
    "replica": lambda told: replica_report(told, told.replicas[0].id),
    "review": review_report,
    "second review": lambda told: review_report(told, before=story()),
}
CASES = [
    (kind, view)
    for kind in ("story", "hostile", "empty", "all down", "captures")
    for view in VIEWS
    if kind != "empty" or view not in {"compare", "replica"}
]
every_case = pytest.mark.parametrize(("kind", "view"), CASES)


@cache
def told(kind: str, view: str) -> View:
    """The report of a view of one of the fleets."""
    return VIEWS[view](fleets()[kind])


@pytest.mark.no_cover
@every_case
def test_anchors_and_names_of_files_stand_once_and_are_tame(kind: str, view: str) -> None:
    """A foreign name of a pool can never be one."""
    report = told(kind, view)
    anchors = [part.anchor for part in parts_of(report.parts)]
    anchors += [entry.anchor for entry in entries_of(report.parts) if entry.anchor]

    for names in (anchors, files_of(report.parts)):
        assert len(names) == len(set(names))
        assert all(NAME.fullmatch(name) for name in names)


@every_case
def test_every_row_has_a_cell_for_every_column(kind: str, view: str) -> None:
    """And every table that is shown has rows."""
    for block in blocks_of(told(kind, view).parts):
        if isinstance(block, Table):
            assert {len(row) for row in block.rows} <= {len(block.columns)}


@every_case
def test_programs_read_numbers_where_a_column_has_numbers(kind: str, view: str) -> None:
    """And never a number that only people can read: what has digits in its text has its value."""
    blocks = blocks_of(told(kind, view).parts)
    tables = [block.data or block for block in blocks if isinstance(block, Table)]
    for table in tables:
        for row in table.rows:
            for cell, column in zip(row, table.columns, strict=True):
                value = value_of(cell, column)
                assert not column.is_number or value is None or isinstance(value, int | float)
                assert not (column.is_number and value is None and cell.text[:1].isdigit()), (table.name, column.title)


@every_case
def test_the_contents_name_no_two_parts_alike(kind: str, view: str) -> None:
    """A reader of an outline sees the titles alone."""
    titles = [part.title for part in parts_of(told(kind, view).parts)]

    assert sorted(titles) == sorted(set(titles))


@every_case
def test_the_same_fleet_gives_the_same_report_and_the_same_bytes(kind: str, view: str) -> None:
    """No clock and no chance."""
    again = VIEWS[view](fleets()[kind])

    assert again == told(kind, view)
    assert to_html(again) == to_html(told(kind, view))


@every_case
def test_every_report_can_be_written_and_nothing_foreign_is_markup(kind: str, view: str) -> None:
    """As HTML, Markdown and JSON."""
    report = told(kind, view)

    assert "<script" not in to_html(report)
    assert "<img" not in to_html(report)
    assert HOSTILE not in to_markdown(report)
    assert to_report_json(report).startswith("{")


@every_case
def test_every_report_says_whose_data_it_shows(kind: str, view: str) -> None:
    """Name, time, coverage, versions are those of the fleet."""
    own = context_of(fleets()[kind])
    context = told(kind, view).context

    assert (context.fleet, context.data_as_of, context.answered, context.targets) == (
        own.fleet,
        own.data_as_of,
        own.answered,
        own.targets,
    )


@every_case
def test_no_part_is_empty(kind: str, view: str) -> None:
    """A heading without anything below it says nothing."""
    assert all(part.blocks or part.parts for part in parts_of(told(kind, view).parts))


@pytest.mark.parametrize("view", VIEWS)
def test_every_link_of_the_story_leads_somewhere(view: str) -> None:
    """Numbers of the review can be clicked."""
    report = told("story", view)
    there = {part.anchor for part in parts_of(report.parts)}
    there |= {entry.anchor for entry in entries_of(report.parts)}

    assert anchors_led_to(report.parts) <= there
