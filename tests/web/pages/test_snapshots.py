"""The page of snapshots lists, opens, renames, takes away, deletes, imports and compares; it never breaks."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard import service
from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.fleet import Note
from tests import builders
from tests.builders import HOSTILE, NOW
from tests.page_runner import html, opened, rerun
from tests.snapshot_pages import address, freeze, shown_beside, visit


def earlier(days: int) -> Fleet:
    told = builders.document()
    return builders.fleet(builders.alike("chat", 4, told), [told], polled_at=NOW - timedelta(days=days))


@pytest.mark.usefixtures("live")
def test_an_empty_folder_says_in_two_sentences_what_a_snapshot_is_and_how_to_make_one() -> None:
    page = html(visit("snapshots"))

    assert "<h2>No snapshots</h2>" in page
    assert "select Freeze under Share, or import files below" in page


@pytest.mark.parametrize("fleet", [empty_fleet("prod"), builders.fleet(polled_at=NOW)], ids=["unpolled", "no target"])
def test_snapshots_open_without_any_target(fleet: Fleet, tmp_path: Path) -> None:
    """A laptop without a network: nothing is configured, and yet everything can be looked at."""
    shown_beside(fleet, tmp_path)
    key = freeze(builders.story())

    assert "Ops review" in html(visit("snapshots"))
    assert "chat-70b" in html(visit(snapshot=key))


def test_each_snapshot_says_what_it_holds(live: Fleet) -> None:
    key = freeze(live)
    service.snapshots().note(key, "x", Note("mind this"))
    page = html(visit("snapshots"))

    for told in ("Ops review", "2026-03-02T11:42:05Z", "39 of 40", "3 critical findings", "10 warnings", "KiB"):
        assert told in page
    assert f">{key[:10]}<" in page
    assert f'href="./?snapshot={key}"' in page
    assert f"findings?severity=critical&amp;snapshot={key}" in page


def test_the_newest_data_stands_first(live: Fleet) -> None:
    freeze(earlier(9), "older")
    freeze(live, "newer")
    page = html(visit("snapshots"))

    assert page.index("newer") < page.index("older")


@pytest.mark.usefixtures("live")
def test_many_snapshots_can_be_searched() -> None:
    for day in range(9):
        freeze(earlier(day), f"review of day-{day}")
    app = visit("snapshots")
    app.text_input(key="search").set_value("DAY-7 review")
    page = html(rerun(app))
    assert page.count("Export, manage") == 1
    assert ">review of day-7<" in page


@pytest.mark.usefixtures("live")
def test_names_that_attack_stay_text() -> None:
    freeze(builders.hostile(), HOSTILE)
    for url in ({}, {"manage": service.snapshots().all()[0].id}):
        page = html(visit("snapshots", **url))
        assert "<script>" not in page
        assert "<img" not in page


def test_a_damaged_file_is_told_beside_the_others(live: Fleet, tmp_path: Path) -> None:
    freeze(live)
    (tmp_path / "kept" / "0123456789.json.gz").write_bytes(b"nonsense")
    page = html(visit("snapshots"))

    assert "Ops review" in page
    assert "0123456789 was changed after it was frozen" in page


def test_a_folder_that_cannot_be_read_is_said_with_the_option_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shown_beside(builders.story(), tmp_path / "file")

    assert "snapshots_folder in fleet.yaml" in html(visit("snapshots"))


def test_a_typed_id_opens_its_snapshot(live: Fleet) -> None:
    key = freeze(live)
    app = visit("snapshots")
    app.text_input(key="snapshot_id").set_value(f" {key[:6].upper()} ")

    assert opened(rerun(app)) == [f"./?snapshot={key}"]


def test_an_id_that_nobody_has_says_so(live: Fleet) -> None:
    freeze(live)
    app = visit("snapshots")
    app.text_input(key="snapshot_id").set_value("ffff")
    rerun(app)

    assert "There is no snapshot “ffff” here; it may have been deleted." in html(app)
    assert opened(app) == []


@pytest.mark.parametrize("typed", ["39", "f", "3-9 a"])
def test_too_few_digits_of_an_id_are_asked_for_and_no_path_of_the_server_is_told(
    live: Fleet, tmp_path: Path, typed: str
) -> None:
    freeze(live)
    app = visit("snapshots")
    app.text_input(key="snapshot_id").set_value(typed)
    page = html(rerun(app))

    assert f"There is no snapshot “{typed}” here; type at least four digits of its id." in page
    assert str(tmp_path) not in page


@pytest.mark.parametrize("typed", ["Monday ops review", "3fa9c01b2e3" * 3, "ops"])
def test_a_name_is_not_looked_up_and_the_answer_says_what_an_id_is(live: Fleet, typed: str) -> None:
    freeze(live, "Monday ops review")
    app = visit("snapshots")
    app.text_input(key="snapshot_id").set_value(typed)

    assert (
        f"There is no snapshot “{typed}” here; names are not looked up. An id has 32 digits, 0-9 and a-f, "
        "and its first ones are enough; "
        "to open a snapshot by its name, click the name in the table of Snapshots."
    ) in html(rerun(app))


@pytest.mark.parametrize(
    ("link", "there"),
    [
        ("http://localhost:8501/findings?severity=critical&snapshot={}", "findings?severity=critical&snapshot={}"),
        (" https://ops.example.com/fleet?snapshot={}&screenshot=1#top ", "./?snapshot={}&screenshot=1"),
        ("https://ops.example.com/fleet/compare/?pool=a%2Fb&snapshot={}", "compare?pool=a%2Fb&snapshot={}"),
        ("./?snapshot={}", "./?snapshot={}"),
        ("changes?from={}&to=live", "changes?from={}&to=live"),
    ],
)
def test_a_whole_link_opens_its_page_with_its_choices(live: Fleet, link: str, there: str) -> None:
    key = freeze(live)
    app = visit("snapshots")
    app.text_input(key="snapshot_id").set_value(link.format(key))

    assert opened(rerun(app)) == [there.format(key)]


@pytest.mark.parametrize(
    "typed", ["http://[", f"{HOSTILE}?snapshot=", "?snapshot=../../x", "&".join("x=1" for _ in range(9))]
)
def test_what_is_no_link_to_a_snapshot_is_no_id_either(live: Fleet, typed: str) -> None:
    freeze(live)
    app = visit("snapshots")
    app.text_input(key="snapshot_id").set_value(typed)

    assert "There is no snapshot" in html(rerun(app))
    assert "<script>" not in html(app)


def test_a_snapshot_is_renamed(live: Fleet) -> None:
    key = freeze(live)
    app = visit("snapshots", manage=key)
    app.text_input(key=f"name_{key}").set_value("After the rollout")
    rerun(app)
    app.button(key="rename").click()
    rerun(app)

    assert service.snapshots().get(key).beside.name == "After the rollout"
    assert address(app, "manage") is None
    assert "After the rollout" in html(app)


def test_one_click_renames_while_the_name_is_still_typed_and_an_unchanged_name_does_nothing(live: Fleet) -> None:
    """A browser sends the name with the click that leaves its field: the button was never disabled."""
    key = freeze(live)
    app = visit("snapshots", manage=key)
    assert not app.button(key="rename").disabled
    before = service.snapshots().get(key)
    app.button(key="rename").click()
    rerun(app)
    assert service.snapshots().get(key) == before
    assert address(app, "manage") == key, "the dialog stays open"

    app.text_input(key=f"name_{key}").set_value("After the rollout")
    app.button(key="rename").click()
    rerun(app)
    assert service.snapshots().get(key).beside.name == "After the rollout"


def test_notes_that_cannot_be_read_are_said_and_a_new_name_is_not_written_over_them(
    live: Fleet, tmp_path: Path
) -> None:
    key = freeze(live)
    file = tmp_path / "kept" / f"{key}.notes.json"
    file.write_bytes(b"{")
    said = f"The name and notes of snapshot {key} cannot be read: {key}.notes.json"
    app = visit("snapshots", manage=key)
    assert html(app).count(said) == 1, "below the list"

    app.text_input(key=f"name_{key}").set_value("After the rollout")
    rerun(app)
    app.button(key="rename").click()
    assert html(rerun(app)).count(said) == 2, "in the dialog too"
    assert file.read_bytes() == b"{"

    app.button(key="delete").click()
    assert "Also deletes its notes, which cannot be read." in html(rerun(app))


def test_a_snapshot_whose_name_is_emptied_is_called_as_one_that_was_frozen_without_a_name(live: Fleet) -> None:
    key = freeze(live)
    app = visit("snapshots", manage=key)
    assert app.text_input(key=f"name_{key}").placeholder == "prod-eu 2026-03-02T11:42:05Z"
    app.text_input(key=f"name_{key}").set_value(" ")
    app.button(key="rename").click()
    rerun(app)

    assert service.snapshots().get(key).beside.name == "prod-eu 2026-03-02T11:42:05Z"
    assert address(app, "manage") is None, "the dialog closes"


def test_a_name_that_tells_the_time_of_the_data_is_not_followed_by_it(live: Fleet) -> None:
    freeze(live, "prod-eu 2026-03-02T11:42:05Z")
    named = freeze(earlier(1), "Monday")
    options = visit("snapshots").selectbox(key="snapshots_side_from").options

    assert next(each for each in options if "prod-eu 2026" in each).count("2026-03-02T11:42:05Z") == 1
    assert f"Monday · 2026-03-01T11:42:13Z · {named[:10]}" in options


def test_a_snapshot_is_deleted_only_by_its_name(live: Fleet) -> None:
    """One click of somebody else's was enough before."""
    key = freeze(live, "Monday")
    app = visit("snapshots", manage=key)
    app.button(key="delete").click()
    rerun(app)
    assert "permanently? Links to it will stop working." in html(app)
    assert service.snapshots().beginning(key) == (key,)

    for typed in ("", "monday", "Tuesday"):
        app.text_input(key=f"delete_{key}").set_value(typed)
        app.button(key="delete_for_good").click()
        rerun(app)
        assert "Not deleted: type the name, Monday." in html(app)
        assert service.snapshots().beginning(key) == (key,)

    app.text_input(key=f"delete_{key}").set_value(" Monday ")
    app.button(key="delete_for_good").click()
    rerun(app)
    assert service.snapshots().beginning(key) == ()
    assert "<h2>No snapshots</h2>" in html(app)


def test_who_thinks_again_keeps_the_snapshot(live: Fleet) -> None:
    key = freeze(live)
    app = visit("snapshots", manage=key)
    app.button(key="delete").click()
    rerun(app)
    app.button(key="keep").click()
    rerun(app)

    assert service.snapshots().beginning(key) == (key,)
    assert "permanently" not in html(app)


def test_the_snapshot_that_is_open_can_be_deleted_and_the_page_is_live_again(live: Fleet) -> None:
    key = freeze(live)
    app = visit("snapshots", manage=key, snapshot=key)
    app.button(key="delete").click()
    rerun(app)
    app.text_input(key=f"delete_{key}").set_value("Ops review")
    app.button(key="delete_for_good").click()
    rerun(app)

    assert address(app, "snapshot") is None


def test_a_snapshot_that_somebody_else_deleted_says_so_in_its_dialog(live: Fleet) -> None:
    freeze(live)

    assert "There is no snapshot “0000000000”" in html(visit("snapshots", manage="0000000000"))


def test_any_two_can_be_compared_and_the_live_fleet_with_the_last_review(live: Fleet) -> None:
    last = freeze(builders.fleet([], name=live.name, polled_at=NOW - timedelta(days=7)), "last week")
    older = freeze(earlier(30), "last month")
    app = visit("snapshots")
    assert f"changes?from={last}&amp;to=live" in html(app)
    assert "Changes since the last review" in html(app)

    app.selectbox(key="snapshots_side_from").set_value(older)
    app.selectbox(key="snapshots_side_to").set_value(last)
    assert f"changes?from={older}&amp;to={last}" in html(rerun(app))


@pytest.mark.parametrize("polled", [True, False], ids=["beside a live fleet", "without one"])
def test_a_comparison_begins_with_two_of_one_fleet(live: Fleet, tmp_path: Path, polled: bool) -> None:  # noqa: FBT001
    shown_beside(live if polled else empty_fleet("prod"), tmp_path)
    newest, older = freeze(live), freeze(earlier(30))
    freeze(builders.fleet([], name="other", polled_at=NOW - timedelta(days=1)), "of another fleet")

    sides = f"from={newest}&amp;to=live" if polled else f"from={older}&amp;to={newest}"
    assert f"changes?{sides}" in html(visit("snapshots"))


def test_what_can_be_compared_does_not_move_with_the_clock(live: Fleet, tmp_path: Path) -> None:
    key = freeze(live)
    before = visit("snapshots", snapshot=key, screenshot="1").selectbox(key="snapshots_side_to").options
    shown_beside(replace(live, polled_at=NOW + timedelta(minutes=1), generation=2), tmp_path / "kept")

    assert before[0] == "prod-eu now"
    assert visit("snapshots", snapshot=key, screenshot="1").selectbox(key="snapshots_side_to").options == before


def test_the_list_leads_to_the_export_of_each(live: Fleet) -> None:
    key = freeze(live)
    assert f'href="snapshots?manage={key}"' in html(visit("snapshots"))
    assert "Export, manage" in html(visit("snapshots"))

    (button,) = [each for each in visit("snapshots", manage=key).get("download_button") if each.key == "download"]
    assert button.proto.label == "Export"
