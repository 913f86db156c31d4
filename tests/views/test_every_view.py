"""Properties of every view, for fleets of every kind."""

import re
from collections.abc import Callable
from functools import cache

import pytest

from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.analysis.changes import changes_between
from dashboard.render.html import to_html
from dashboard.render.markdown import to_markdown
from dashboard.render.tabular import to_report_json
from dashboard.views.blocks import Table, View, value_of
from dashboard.views.capacity import capacity_report
from dashboard.views.changes import changes_report
from dashboard.views.compare import chosen_report, compare_report
from dashboard.views.context import context_of
from dashboard.views.findings import findings_report
from dashboard.views.help import help_report
from dashboard.views.overview import overview_report
from dashboard.views.pool_comparison import SettingChoice
from dashboard.views.replica import replica_report
from dashboard.views.replicas import replicas_report
from dashboard.views.review import review_report
from dashboard.views.setting import setting_report
from dashboard.views.settings import settings_report
from dashboard.views.status import status_report
from tests.builders import HOSTILE, document, down, fleet, hostile, story
from tests.saved_fleets import built_of_captures
from tests.used import with_traffic
from tests.views.walking import anchors_led_to, blocks_of, entries_of, files_of, parts_of

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@cache
def fleets() -> dict[str, Fleet]:
    return {
        "story": story(),
        "hostile": hostile(),
        "used": with_traffic(hostile(), {}, 0.5),
        "empty": empty_fleet("nothing"),
        "all down": fleet([down("a"), down("b", pool=None)], [document()]),
        "captures": built_of_captures(),
    }


VIEWS: dict[str, Callable[[Fleet], View]] = {
    "overview": overview_report,
    "findings": findings_report,
    "compare": lambda built: compare_report(built, built.pools[0].name),
    "chosen": lambda built: chosen_report(
        built, [each.id for each in built.replicas[:3]], SettingChoice(by_replica=True), {}
    ),
    "capacity": capacity_report,
    "replicas": replicas_report,
    "replica": lambda built: replica_report(built, built.replicas[0].id),
    "settings": settings_report,
    "status": status_report,
    "help": help_report,
    "setting": lambda built: setting_report(built, "cache_config.block_size"),
    "review": review_report,
    "changes": lambda built: changes_report(
        changes_between(fleets()["hostile"], built), context_of(fleets()["hostile"]), context_of(built)
    ),
    "second review": lambda built: review_report(built, before=fleets()["story"]),
}
CASES = [
    (kind, view)
    for kind in ("story", "hostile", "used", "empty", "all down", "captures")
    for view in VIEWS
    if kind != "empty" or view not in {"compare", "chosen", "replica"}
]
every_case = pytest.mark.parametrize(("kind", "view"), CASES)


@cache
def view_of(kind: str, view: str) -> View:
    return VIEWS[view](fleets()[kind])


@every_case
def test_anchors_file_names_and_titles_are_unique_and_no_section_is_empty(kind: str, view: str) -> None:
    """A foreign name is never an anchor or a file name."""
    report = view_of(kind, view)
    sections = list(parts_of(report.parts))
    anchors = [each.anchor for each in sections] + [each.anchor for each in entries_of(report.parts) if each.anchor]

    for names in (anchors, files_of(report.parts)):
        assert len(names) == len(set(names))
        assert all(NAME.fullmatch(name) for name in names)
    assert len(sections) == len({each.title for each in sections})
    assert all(each.blocks or each.parts for each in sections)


@every_case
def test_rows_fit_their_columns_and_columns_of_numbers_have_numbers_for_programs(kind: str, view: str) -> None:
    tables = [block for block in blocks_of(view_of(kind, view).parts) if isinstance(block, Table)]
    for table in (*tables, *(each.data for each in tables)):
        for row in table.rows:
            for cell, column in zip(row, table.columns, strict=True):
                value = value_of(cell, column)
                if column.is_number and table.for_programs is None:
                    assert value is None or isinstance(value, int | float)
                    assert value is not None or not cell.text[:1].isdigit(), (table.name, column.title)


@pytest.mark.few(20)
@every_case
def test_the_same_fleet_gives_the_same_bytes_in_every_format_and_foreign_text_is_never_markup(
    kind: str, view: str
) -> None:
    report, again = view_of(kind, view), VIEWS[view](fleets()[kind])
    own = context_of(fleets()[kind])
    html = to_html(report)

    assert to_html(again) == html
    assert to_markdown(again) == to_markdown(report)
    assert to_report_json(again) == to_report_json(report)
    assert "<script" not in html
    assert "<img" not in html
    assert HOSTILE not in to_markdown(report)
    assert to_report_json(report).startswith("{")
    assert (report.context.fleet, report.context.data_as_of, report.context.answered, report.context.targets) == (
        own.fleet,
        own.data_as_of,
        own.answered,
        own.targets,
    )


@pytest.mark.parametrize("view", VIEWS)
def test_every_link_within_a_view_has_its_target(view: str) -> None:
    report = view_of("story", view)
    anchors = {each.anchor for each in parts_of(report.parts)} | {each.anchor for each in entries_of(report.parts)}

    assert anchors_led_to(report.parts) <= anchors
