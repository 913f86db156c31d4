"""The page of changes says what is different between two fleets, and leads into both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from dashboard import service
from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.render.export import Format, written
from dashboard.views.context import context_line
from dashboard.web import share
from tests import builders
from tests.builders import HOSTILE, NOW
from tests.page_runner import address, html, rerun, show_with_snapshots, visit

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

BLOCK_SIZE = "cache_config.block_size"


class Kept(NamedTuple):
    """A week ago and today."""

    before: str
    live: Fleet


def a_fleet(
    number: int = 4, *, days: int = 0, name: str = "prod-eu", settings: Mapping[str, object] | None = None
) -> Fleet:
    told = builders.document(settings)
    started = NOW - timedelta(days=days + 1)
    members = builders.alike("chat", number, told, started_at=started)
    return builders.fleet(members, [told], name=name, polled_at=NOW - timedelta(days=days))


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """A fleet in which, since last week, block_size became 32 everywhere and one replica went."""
    live = a_fleet(settings={BLOCK_SIZE: 32})
    show_with_snapshots(live, tmp_path)
    return Kept(service.snapshots().freeze(a_fleet(5, days=7), "last week", NOW).id, live)


def test_it_says_first_what_changed_since_the_newest_snapshot(kept: Kept) -> None:
    """Without anything in the address the newest poll is held against the snapshot before it."""
    page = html(visit("changes"))

    assert "block_size" in page
    assert "16" in page
    assert "32" in page
    assert kept.before in page
    assert "chat-05" in page


def test_a_setting_that_changed_leads_to_all_its_values_where_it_changed_to(kept: Kept) -> None:
    page = html(visit("changes"))

    assert f"compare?pool=chat&amp;path={BLOCK_SIZE}" in page
    swapped = html(visit("changes", **{"from": "live", "to": kept.before}))
    assert f"compare?pool=chat&amp;path={BLOCK_SIZE}&amp;snapshot={kept.before}" in swapped


def test_a_finding_that_is_gone_leads_to_the_fleet_that_had_it(tmp_path: Path) -> None:
    worse = builders.document({BLOCK_SIZE: 32})
    good = builders.document()
    members = [*builders.alike("chat", 3, good), builders.replica("chat-04", pool="chat", document=worse)]
    show_with_snapshots(a_fleet(), tmp_path)
    bad = builders.fleet(members, [good, worse], polled_at=NOW - timedelta(days=1))
    key = service.snapshots().freeze(bad, "bad", NOW).id

    assert f"findings?rule=RT-01&amp;snapshot={key}" in html(visit("changes"))
    assert f"findings?rule=RT-01&amp;snapshot={key}" in html(visit("changes", **{"from": "live", "to": key}))


def test_both_sides_can_be_swapped(kept: Kept) -> None:
    page = html(visit("changes", **{"from": kept.before, "to": "live"}))

    assert f"changes?from=live&amp;to={kept.before}" in page


def test_a_side_that_is_chosen_stands_in_the_address(kept: Kept) -> None:
    other = service.snapshots().freeze(a_fleet(3, days=3), "three days ago", NOW).id
    app = visit("changes", **{"from": kept.before, "to": "live"})
    app.selectbox(key="changes_side_to").set_value(other)
    rerun(app)

    assert address(app, "to") == other
    assert "three days ago" in html(app)


@pytest.mark.parametrize("page", ["changes", "snapshots"])
def test_both_choices_stand_as_the_address_says_after_a_snapshot_was_renamed(kept: Kept, page: str) -> None:
    """A choice whose words change begins anew."""
    app = visit(page, **{"from": kept.before, "to": "live"})
    service.snapshots().rename(kept.before, "Monday")
    rerun(app)

    shown = [(each.proto.set_value, each.proto.raw_value) for each in app.selectbox]
    assert shown == [(True, f"Monday · 2026-02-23T11:42:13Z · {kept.before[:10]}"), (True, "prod-eu now")]


def test_first_digits_of_an_id_are_enough(kept: Kept) -> None:
    app = visit("changes", **{"from": kept.before[:5].upper(), "to": "live"})

    assert "block_size" in html(app)
    assert app.selectbox(key="changes_side_from").value == kept.before


def test_the_same_fleet_on_both_sides_says_so(kept: Kept) -> None:
    page = html(visit("changes", **{"from": kept.before, "to": kept.before}))

    assert "Both sides are the same fleet" in page


def test_nothing_changed_is_said_as_such(tmp_path: Path) -> None:
    show_with_snapshots(a_fleet(), tmp_path)
    told = builders.document()
    same = builders.fleet(
        builders.alike("chat", 4, told, started_at=NOW - timedelta(days=1)),
        [told],
        polled_at=NOW - timedelta(hours=1),
    )
    before = service.snapshots().freeze(same, "an hour ago", NOW).id
    after = service.snapshots().freeze(a_fleet(), "now", NOW).id

    assert "<h1>Nothing changed</h1>" in html(visit("changes", **{"from": before, "to": after}))


@pytest.mark.parametrize("name", ["from", "to"])
@pytest.mark.parametrize("key", ["0000000000", "zz", HOSTILE, "../../x"])
def test_an_id_that_nobody_has_says_so_and_another_can_be_chosen(kept: Kept, name: str, key: str) -> None:
    app = visit("changes", **{"from": kept.before, "to": "live", name: key})
    page = html(app)

    assert "There is no snapshot" in page
    assert "<script>" not in page
    assert app.selectbox(key=f"changes_side_{name}").value is None
    assert len(app.selectbox(key=f"changes_side_{name}").options) == 2


@pytest.mark.parametrize("live", [empty_fleet("prod"), builders.fleet(polled_at=NOW)], ids=["unpolled", "no target"])
def test_without_a_live_fleet_two_snapshots_are_compared(live: Fleet, tmp_path: Path) -> None:
    show_with_snapshots(live, tmp_path)
    assert "There is no live fleet to compare with" in html(visit("changes"))

    service.snapshots().freeze(a_fleet(5, days=7), "last week", NOW)
    service.snapshots().freeze(a_fleet(4, days=1, settings={BLOCK_SIZE: 32}), "yesterday", NOW)
    assert "block_size" in html(visit("changes"))


def test_a_frozen_page_compares_with_the_live_fleet(kept: Kept) -> None:
    """`live` is the newest poll also where the reader stands in a snapshot."""
    page = html(visit("changes", **{"from": kept.before, "to": "live", "snapshot": kept.before}))

    assert "block_size" in page
    assert "Both sides are the same fleet" not in page


def foot(app: AppTest) -> str:
    return re.sub("<[^>]*>", "", html(app).rpartition('<footer class="context">')[2])


def head(app: AppTest) -> str:
    return re.sub("<[^>]*>", "", next(part for part in html(app).split("\n") if 'class="asof' in part))


def looks_for_newer(app: AppTest) -> bool:
    return bool(app.get("auto_refresh")) or "Pause" in [toggle.label for toggle in app.toggle]


@pytest.mark.parametrize("more", [{}, {"screenshot": "1"}], ids=["as usual", "still"])
def test_two_snapshots_are_told_as_what_they_are_and_nothing_of_the_live_fleet(
    kept: Kept, more: dict[str, str]
) -> None:
    """A picture of the page carries both ids, names, times and how many answered, and no clock."""
    other = service.snapshots().freeze(a_fleet(3, days=3), "three days ago", NOW).id
    app = visit("changes", **{"from": kept.before, "to": other}, **more)

    assert foot(app).startswith(
        f"prod-eu · before: snapshot {kept.before[:10]} “last week”, data as of 2026-02-23T11:42:13Z, 5 of 5 answered"
        f" · after: snapshot {other[:10]} “three days ago”, data as of 2026-02-27T11:42:13Z, 3 of 3 answered · vllm"
    )
    assert "filters" not in foot(app)
    assert head(app) == (
        f"Compared: {kept.before[:10]} · 5 of 5 · 2026-02-23T11:42:13Z → {other[:10]} · 3 of 3 · 2026-02-27T11:42:13Z"
    )
    assert not looks_for_newer(app)


def test_a_live_side_is_called_so_and_has_a_clock(kept: Kept) -> None:
    app = visit("changes", **{"from": kept.before, "to": "live"})

    assert " · after: not frozen, data as of 2026-03-02T11:42:13Z, 4 of 4 answered · " in foot(app)
    assert head(app).endswith("→ live · 4 of 4 · data as of 11:42:13 UTC (0 s ago)")
    assert looks_for_newer(app)


def test_beside_an_open_snapshot_both_sides_are_told_and_not_that_one(kept: Kept) -> None:
    third = service.snapshots().freeze(a_fleet(2, days=9), "the third", NOW).id
    page = html(app := visit("changes", **{"from": kept.before, "to": "live", "snapshot": third}))

    assert "nothing is polled" not in page
    assert "the third" not in foot(app)
    assert "live · 4 of 4 · data as of 11:42:13 UTC" in head(app)


def test_where_a_side_cannot_be_opened_nothing_is_said_to_be_compared(kept: Kept) -> None:
    app = visit("changes", **{"from": kept.before, "to": "zzzz"})

    assert head(app) == "no comparison"
    assert foot(app).startswith("no comparison · vllm-fleet-dashboard")
    assert "Share" not in [each.proto.popover.label for each in app.get("popover")]


def test_two_snapshots_are_shared_by_their_link_and_there_is_nothing_to_freeze(kept: Kept) -> None:
    other = service.snapshots().freeze(a_fleet(3, days=3), "three days ago", NOW).id
    app = visit("changes", **{"from": kept.before[:5], "to": other})

    assert app.code[0].value.endswith(f"/changes?from={kept.before}&to={other}")
    assert "freeze" not in [button.key for button in app.button]


def test_a_live_side_that_is_frozen_takes_its_place_in_the_link(kept: Kept) -> None:
    """With `live` in it the link would compare another poll every time."""
    app = visit("changes", **{"from": kept.before, "to": "live"})
    app.button(key="freeze").click()
    rerun(app)
    (made,) = (each.id for each in service.snapshots().all() if each.id != kept.before)

    assert app.code[0].value.endswith(f"/changes?from={kept.before}&to={made}")


def test_names_that_attack_stay_text(tmp_path: Path) -> None:
    show_with_snapshots(builders.hostile(), tmp_path)
    service.snapshots().freeze(a_fleet(days=1, name=HOSTILE), HOSTILE, NOW)
    page = html(visit("changes"))

    assert "<script>" not in page
    assert "<img" not in page


def test_what_is_shown_can_be_taken_away_as_it_is_shown(kept: Kept) -> None:
    """The exported report has the headline of the page, and both sides."""
    app = visit("changes")
    report = app.session_state[share.OFFERED].view()
    taken = written(report, Format.HTML).decode()

    assert escape(report.headline) in taken
    assert kept.before[:10] in taken
    assert context_line(report.context) == foot(app).strip()
