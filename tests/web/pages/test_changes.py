"""Changes: what differs between two fleets, and links into both."""

import re
from collections.abc import Mapping
from datetime import timedelta
from html import escape
from pathlib import Path
from typing import NamedTuple

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.render.export import Format, written
from dashboard.views.context import context_line
from dashboard.web import share
from tests import builders
from tests.builders import HOSTILE, NOW
from tests.page_runner import address, copied, html, rerun, show_with_snapshots, visit

BLOCK_SIZE = "cache_config.block_size"


class Kept(NamedTuple):
    """The id of last week's snapshot, and today's fleet."""

    before: str
    live: Fleet

    def visit(self, **url: str) -> AppTest:
        """Open last week's snapshot compared with the live fleet."""
        return visit("changes", **{"from": self.before, "to": "live", **url})


def built(
    number: int = 4, *, days: int = 0, name: str = "prod-eu", settings: Mapping[str, object] | None = None
) -> Fleet:
    own = builders.document(settings)
    members = builders.alike("chat", number, own, started_at=NOW - timedelta(days=days + 1))
    return builders.fleet(members, [own], name=name, polled_at=NOW - timedelta(days=days))


def freeze(fleet: Fleet, name: str) -> str:
    return service.snapshots().save(fleet, name, NOW).id


def text_of(part: str) -> str:
    return re.sub("<[^>]*>", "", part)


def footer(app: AppTest) -> str:
    return text_of(html(app).rpartition('<footer class="context">')[2])


def header(app: AppTest) -> str:
    return text_of(next(part for part in html(app).split("\n") if 'class="asof' in part))


def is_updating(app: AppTest) -> bool:
    return bool(app.get("auto_refresh")) or "Pause updates" in [toggle.label for toggle in app.toggle]


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """Since last week `block_size` changed to 32 everywhere and one replica was removed."""
    live = built(settings={BLOCK_SIZE: 32})
    show_with_snapshots(live, tmp_path)
    return Kept(freeze(built(5, days=7), "last week"), live)


def test_by_default_the_newest_poll_is_compared_with_the_snapshot_before_it(kept: Kept) -> None:
    page = html(visit("changes"))
    texts = ("block_size", "16", "32", kept.before, "chat-05", f"changes?from=live&amp;to={kept.before}")

    assert [text for text in texts if text not in page] == []


def test_a_fixed_finding_links_to_the_fleet_that_had_it(tmp_path: Path) -> None:
    odd, usual = builders.document({BLOCK_SIZE: 32}), builders.document()
    members = [*builders.alike("chat", 3, usual), builders.replica("chat-04", pool="chat", document=odd)]
    show_with_snapshots(built(), tmp_path)
    key = freeze(builders.fleet(members, [usual, odd], polled_at=NOW - timedelta(days=1)), "bad")

    for url in ({}, {"from": "live", "to": key}):
        assert f"findings?search=rule%3ART-01&amp;snapshot={key[:10]}" in html(visit("changes", **url))


def test_a_selected_side_is_in_the_url(kept: Kept) -> None:
    other = freeze(built(3, days=3), "three days ago")
    app = kept.visit()
    app.selectbox(key="changes_side_to").set_value(other)
    rerun(app)

    assert address(app, "to") == other
    assert "three days ago" in html(app)


@pytest.mark.parametrize("page", ["changes", "snapshots"])
def test_both_selections_follow_the_url_after_a_rename(kept: Kept, page: str) -> None:
    """Streamlit takes an option with a new label for a new option."""
    app = visit(page, **{"from": kept.before, "to": "live"})
    service.snapshots().rename(kept.before, "Monday")
    rerun(app)

    sides = [app.selectbox(key=f"{page}_side_{name}") for name in ("from", "to")]
    shown = [(each.proto.set_value, each.proto.raw_value) for each in sides]
    assert shown == [(True, f"Monday · 2026-02-23T11:42:13Z · {kept.before[:10]}"), (True, "prod-eu now")]


def test_the_first_digits_of_an_id_select_a_snapshot(kept: Kept) -> None:
    app = kept.visit(**{"from": kept.before[:5].upper()})

    assert "block_size" in html(app)
    assert app.selectbox(key="changes_side_from").value == kept.before


def test_one_fleet_on_both_sides_is_an_empty_state(kept: Kept) -> None:
    assert "Both sides are the same fleet" in html(kept.visit(to=kept.before))


@pytest.mark.parametrize("name", ["from", "to"])
@pytest.mark.parametrize("key", ["0000000000", "zz", HOSTILE, "../../x"])
def test_an_unknown_id_is_an_error_and_another_one_can_be_selected(kept: Kept, name: str, key: str) -> None:
    app = kept.visit(**{name: key})

    assert "There is no snapshot" in html(app)
    assert "<script>" not in html(app)
    assert app.selectbox(key=f"changes_side_{name}").value is None
    assert len(app.selectbox(key=f"changes_side_{name}").options) == 2


@pytest.mark.parametrize("live", [empty_fleet("prod"), builders.fleet(polled_at=NOW)], ids=["unpolled", "no target"])
def test_two_snapshots_are_compared_without_a_live_fleet(live: Fleet, tmp_path: Path) -> None:
    show_with_snapshots(live, tmp_path)
    assert "There is no live fleet to compare with" in html(visit("changes"))

    freeze(built(5, days=7), "last week")
    freeze(built(days=1, settings={BLOCK_SIZE: 32}), "yesterday")

    assert "block_size" in html(visit("changes"))


@pytest.mark.parametrize("more", [{}, {"screenshot": "1"}], ids=["as usual", "screenshot"])
def test_a_comparison_of_snapshots_has_both_contexts_and_no_clock(kept: Kept, more: dict[str, str]) -> None:
    other = freeze(built(3, days=3), "three days ago")
    app = kept.visit(to=other, **more)

    assert footer(app).startswith(
        f"prod-eu · before: snapshot {kept.before[:10]} “last week”, data as of 2026-02-23T11:42:13Z, 5 of 5 answered"
        f" · after: snapshot {other[:10]} “three days ago”, data as of 2026-02-27T11:42:13Z, 3 of 3 answered · vllm"
    )
    assert "filters" not in footer(app)
    assert header(app) == (
        f"Compared: {kept.before[:10]} · 5 of 5 · 2026-02-23T11:42:13Z → {other[:10]} · 3 of 3 · 2026-02-27T11:42:13Z"
    )
    assert not is_updating(app)


def test_a_live_side_has_a_clock_and_updates(kept: Kept) -> None:
    app = kept.visit()

    assert " · after: live, data as of 2026-03-02T11:42:13Z, 4 of 4 answered · " in footer(app)
    assert header(app).endswith("→ live · 4 of 4 · data as of 11:42:13 UTC · 0 s ago")
    assert is_updating(app)


def test_an_open_snapshot_does_not_replace_a_side(kept: Kept) -> None:
    """`live` is the newest poll, and the banner of the open snapshot is not drawn."""
    app = kept.visit(snapshot=freeze(built(2, days=9), "the third"))

    assert "block_size" in html(kept.visit(snapshot=kept.before))
    assert "nothing is polled" not in html(app)
    assert "the third" not in footer(app)
    assert "live · 4 of 4 · data as of 11:42:13 UTC" in header(app)


def test_an_unknown_side_is_no_comparison(kept: Kept) -> None:
    app = kept.visit(to="zzzz")

    assert header(app) == "no comparison"
    assert footer(app).startswith("no comparison · vllm-fleet-dashboard")
    assert "Share" not in [each.proto.popover.label for each in app.get("popover")]


def test_a_link_has_whole_ids_and_the_snapshot_of_a_live_side_once_frozen(kept: Kept) -> None:
    """A link with `live` would compare another poll each time."""
    other = freeze(built(3, days=3), "three days ago")
    frozen, live = kept.visit(**{"from": kept.before[:5], "to": other}), kept.visit()
    assert copied(frozen)[0].endswith(f"/changes?from={kept.before}&to={other}")
    assert "save_snapshot" not in [button.key for button in frozen.button]

    live.button(key="save_snapshot").click()
    rerun(live)
    (made,) = {each.id for each in service.snapshots().all()} - {kept.before, other}

    assert copied(live)[0].endswith(f"/changes?from={kept.before}&to={made}")


@pytest.mark.usefixtures("kept")
def test_the_export_has_the_headline_and_the_context_of_the_page() -> None:
    app = visit("changes")
    view = app.session_state[share.OFFERED]()

    assert escape(view.headline) in written(view, Format.HTML).decode()
    assert context_line(view.context) == footer(app).strip()
