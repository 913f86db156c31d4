"""Every page says where its data is from, whatever anybody writes into an address."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dashboard import service
from tests import builders
from tests.builders import HOSTILE, NOW
from tests.page_runner import html
from tests.snapshot_pages import EVERY_PAGE, shown_beside, visit

if TYPE_CHECKING:
    from pathlib import Path


def footer(**url: str) -> str:
    """The context line of Findings as it is read."""
    return re.sub(
        "<[^>]*>", "", re.findall(r'<footer class="context">(.*?)</footer>', html(visit("findings", **url)))[0]
    )


def test_a_live_page_says_that_it_is_not_frozen(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)

    assert footer().startswith("prod-eu · not frozen · data as of 2026-03-02T11:42:05Z · 39 of 40 answered")
    assert 'class="frozen"' not in html(visit("findings"))


def test_the_choices_of_the_reader_are_told_and_what_holds_on_every_page_is_not(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)

    assert footer(severity="critical", pool="chat-70b", meeting="1").endswith(
        "filters: severity=critical, pool=chat-70b"
    )


def test_only_choices_that_the_page_follows_are_told(tmp_path: Path) -> None:
    """What filters nothing is no filter: a name that the page does not know, a pool that is not there."""
    shown_beside(builders.story(), tmp_path)

    assert "filters" not in footer(replica="nope", pool="nope")
    assert footer(replica="nope", rule="RT-01").endswith("filters: rule=RT-01")


def test_a_pool_that_is_not_there_is_said_where_another_is_shown(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)
    said = "There is no pool <code>nope</code>: the page is shown as without it."

    assert [page for page in EVERY_PAGE if said in html(visit(page, pool="nope"))] == [
        "findings",
        "capacity",
        "replicas",
    ]
    assert "There is no pool" not in html(visit("capacity", pool="chat-70b"))
    assert "<script>" not in html(visit("capacity", pool=HOSTILE))


def test_what_anybody_writes_into_an_address_is_cut_and_stays_text(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)
    page = html(visit("findings", **{HOSTILE: HOSTILE * 50}))

    assert "<script>" not in page
    assert "<img" not in page
    assert len(footer(**{"x" * 500: "y" * 500})) < 300


def test_a_snapshot_without_a_name_is_called_by_its_id(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)
    key = service.snapshots().freeze(builders.story(), "", NOW).id

    assert f"snapshot {key} · data as of" in footer(snapshot=key)
    assert "<b>Snapshot</b> <code>" in html(visit(snapshot=key))
