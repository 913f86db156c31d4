"""Share freezes what is shown, gives its link, and makes files of the page when somebody asks."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dashboard import service
from dashboard.analysis.assembly import empty_fleet
from dashboard.render.export import Format, written
from dashboard.web import links, share
from tests import builders
from tests.builders import HOSTILE, NOW
from tests.page_runner import html, rerun
from tests.snapshot_pages import shown_beside, visit

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def freeze(app: AppTest) -> AppTest:
    app.button(key="freeze").click()
    return rerun(app)


def test_before_the_first_poll_there_is_nothing_to_share(tmp_path: Path) -> None:
    shown_beside(empty_fleet("prod"), tmp_path)

    assert [button.key for button in visit().button] == []


def test_a_fleet_is_named_by_its_name_and_time_unless_somebody_names_it(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)
    freeze(visit())

    assert [each.beside.name for each in service.snapshots().all()] == ["prod-eu 2026-03-02T11:42:05Z"]
    assert service.snapshots().all()[0].beside.frozen_at == NOW


def test_freezing_twice_is_one_snapshot(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)
    app = freeze(freeze(visit()))

    assert len(service.snapshots().all()) == 1
    assert html(app).count("open it") == 1


def test_the_link_is_of_the_fleet_that_was_frozen_and_goes_with_the_next_poll(tmp_path: Path) -> None:
    """The header shows a newer fleet: its link would be another one."""
    shown_beside(builders.story(), tmp_path)
    app = freeze(visit())
    assert "open it" in html(app)

    service.put(builders.story(), NOW, tmp_path)
    assert "open it" not in html(rerun(app))


def test_a_snapshot_offers_its_link_and_no_second_freezing(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)
    key = service.snapshots().freeze(builders.story(), "x", NOW).id
    app = visit("findings", snapshot=key, severity="critical")

    assert "freeze" not in [button.key for button in app.button]
    assert f"findings?severity=critical&snapshot={key}" in app.code[0].value


def test_what_was_frozen_is_said_with_the_time_of_its_data(tmp_path: Path) -> None:
    """The fleet above may be of a newer poll that says the same."""
    shown_beside(builders.story(), tmp_path)
    page = html(freeze(visit()))

    assert "Frozen as <b>prod-eu 2026-03-02T11:42:05Z</b>, data as of 2026-03-02T11:42:05Z." in page


@pytest.mark.parametrize(
    ("url", "page", "base"),
    [
        ("http://localhost:8501", "", "http://localhost:8501"),
        ("http://localhost:8501/", "", "http://localhost:8501"),
        ("http://localhost:8501/findings", "findings", "http://localhost:8501"),
        ("https://ops.example.com/fleet", "", "https://ops.example.com/fleet"),
        ("https://ops.example.com/fleet/", "", "https://ops.example.com/fleet"),
        ("https://ops.example.com/a/fleet/findings/?x=1", "findings", "https://ops.example.com/a/fleet"),
        ("https://ops.example.com/findings/findings", "findings", "https://ops.example.com/findings"),
    ],
)
def test_the_address_to_copy_has_the_host_and_the_path_prefix(url: str, page: str, base: str) -> None:
    assert share.base_url(url, page) == base


def test_a_disk_that_cannot_be_written_is_said_where_freezing_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shown_beside(builders.story(), tmp_path / "file")
    page = html(freeze(visit()))

    assert "A snapshot cannot be" in page
    assert "snapshots_folder in fleet.yaml" in page


def test_a_name_is_not_written_over_notes_that_cannot_be_read(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)
    app = freeze(visit())
    (stored,) = service.snapshots().all()
    (tmp_path / f"{stored.id}.notes.json").write_bytes(b"{")
    page = html(freeze(app))

    assert f"The name and notes of snapshot {stored.id} cannot be read" in page
    assert "Frozen as <b>unnamed</b>" in page
    assert (tmp_path / f"{stored.id}.notes.json").read_bytes() == b"{"


def test_a_name_that_attacks_stays_text(tmp_path: Path) -> None:
    shown_beside(builders.hostile(), tmp_path)
    app = visit()
    app.text_input(key="freeze_name").set_value(HOSTILE[:80])
    page = html(freeze(rerun(app)))

    assert "<script>" not in page
    assert "<img" not in page


def test_a_page_can_be_taken_away_in_every_format_that_has_something_to_hold(tmp_path: Path) -> None:
    """The file says whose data it is, and of when."""
    shown_beside(builders.story(), tmp_path)
    service.snapshots().freeze(builders.fleet(polled_at=NOW - timedelta(days=1)), "before", NOW)
    app = visit("changes")
    assert set(app.segmented_control(key="export_format").options) >= {"HTML", "Markdown", "CSV", "JSON"}
    assert "SVG" not in app.segmented_control(key="export_format").options
    assert "SVG" in visit("capacity").segmented_control(key="export_format").options

    taken = written(app.session_state[share.OFFERED].view(), Format.HTML).decode()
    assert "prod-eu" in taken
    assert "2026-03-02T11:42:05Z" in taken


def test_what_one_page_offered_is_not_offered_by_the_next(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)
    app = visit("changes")
    app.switch_page(str(links.SCRIPTS / "snapshots.py"))

    assert rerun(app).session_state[share.OFFERED] is None
