"""Share freezes what is shown, links to it, and exports the page."""

from datetime import timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import empty_fleet
from dashboard.render.export import Format, written
from dashboard.web import share
from tests import builders
from tests.builders import NOW
from tests.page_runner import copied, html, rerun, show_with_snapshots, switch, visit


def freeze(app: AppTest) -> AppTest:
    app.button(key="save_snapshot").click()
    return rerun(app)


def test_before_the_first_poll_there_is_nothing_to_share(tmp_path: Path) -> None:
    show_with_snapshots(empty_fleet("prod"), tmp_path)

    assert [button.key for button in visit().button] == []


@pytest.mark.usefixtures("live")
def test_a_fleet_is_frozen_once_with_its_name_and_time_as_the_default_name() -> None:
    app = freeze(freeze(visit()))
    (stored,) = service.snapshots().all()

    assert stored.metadata.name == "prod-eu 2026-03-02T11:42:05Z"
    assert stored.metadata.saved_at == NOW
    assert html(app).count("open it") == 1
    assert "Saved as <b>prod-eu 2026-03-02T11:42:05Z</b>, data as of 2026-03-02T11:42:05Z." in html(app)


@pytest.mark.usefixtures("live")
def test_the_link_opens_this_page_with_its_choices_until_the_next_poll() -> None:
    app = visit("compare", pool="embed-8b", search="version")
    app.text_input(key="snapshot_name").set_value("Friday")
    freeze(rerun(app))
    (stored,) = service.snapshots().all()
    assert stored.metadata.name == "Friday"
    assert f"compare?pool=embed-8b&amp;search=version&amp;snapshot={stored.id[:10]}" in html(app)
    assert f"compare?pool=embed-8b&search=version&snapshot={stored.id[:10]}" in copied(app)[0]

    service.put(builders.story(), NOW, service.snapshots().folder)
    assert "open it" not in html(rerun(app))


@pytest.mark.usefixtures("live")
def test_a_snapshot_has_its_link_and_cannot_be_frozen_again() -> None:
    key = service.snapshots().save(builders.story(), "x", NOW).id
    app = visit("findings", snapshot=key, search="severity:critical")

    assert "save_snapshot" not in [button.key for button in app.button]
    assert f"findings?search=severity%3Acritical&snapshot={key[:10]}" in copied(app)[0]


@pytest.mark.parametrize(
    ("url", "page", "base"),
    [
        ("http://localhost:8501", "", "http://localhost:8501"),
        ("http://localhost:8501/", "", "http://localhost:8501"),
        ("http://localhost:8501/findings", "findings", "http://localhost:8501"),
        ("https://ops.example.com/fleet/", "", "https://ops.example.com/fleet"),
        ("https://ops.example.com/a/fleet/findings/?x=1", "findings", "https://ops.example.com/a/fleet"),
        ("https://ops.example.com/findings/findings", "findings", "https://ops.example.com/findings"),
    ],
)
def test_the_url_to_copy_has_the_host_and_the_path_prefix(url: str, page: str, base: str) -> None:
    assert share.base_url(url, page) == base


def test_a_folder_that_cannot_be_written_is_an_error_in_share(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    show_with_snapshots(builders.story(), tmp_path / "file")
    page = html(freeze(visit()))

    assert "A snapshot cannot be written. The history history.db cannot be used: File exists." in page


@pytest.mark.usefixtures("live")
def test_a_page_exports_in_every_format_that_fits_and_the_next_page_forgets_it() -> None:
    service.snapshots().save(builders.fleet(polled_at=NOW - timedelta(days=1)), "before", NOW)
    app = visit("changes")
    formats = app.segmented_control(key="export_format").options
    assert set(formats) >= {"HTML", "Markdown", "CSV (zip)", "JSON"}
    assert "SVG (zip)" not in formats
    assert "SVG (zip)" in visit("capacity").segmented_control(key="export_format").options
    assert b"2026-03-02T11:42:05Z" in written(app.session_state[share.OFFERED](), Format.HTML)

    switch(app, "snapshots")
    assert rerun(app).session_state[share.OFFERED] is None


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("page", ["overview", "findings", "compare", "capacity", "replicas", "settings", "timeline"])
def test_an_export_of_one_pool_says_what_it_leaves_out(page: str) -> None:
    view = visit(page, pool="gemma-27b").session_state[share.OFFERED]()

    assert "gemma-27b" in view.headline
    assert view.lead.startswith("Only pool gemma-27b. Other pools: ")
    assert "Only pool" not in visit(page).session_state[share.OFFERED]().lead
