"""Every page says where its data is from, whatever anybody writes into an address."""

import re
from pathlib import Path

import pytest

from dashboard import service
from tests import builders
from tests.builders import HOSTILE, NOW
from tests.page_runner import html, rerun
from tests.snapshot_pages import EVERY_PAGE, shown_beside, visit


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
    assert footer(replica="nope", severity="critical").endswith("filters: severity=critical")
    assert "filters" not in footer(severity="nope")


def test_a_pool_that_is_not_there_is_said_where_all_are_shown(tmp_path: Path) -> None:
    """Compare, which shows one pool, says it in its place."""
    shown_beside(builders.story(), tmp_path)
    said = "<code>pool=nope</code> in the address is no choice here: the page is shown as without it."

    assert [page for page in EVERY_PAGE if said in html(visit(page, pool="nope"))] == [
        "findings",
        "capacity",
        "replicas",
    ]
    assert "in the address" not in html(visit("capacity", pool="chat-70b"))
    assert "<script>" not in html(visit("capacity", pool=HOSTILE))


def test_an_open_dialog_is_no_filter(tmp_path: Path) -> None:
    """The dialog of a snapshot stands above the list, and leaves nothing out of it."""
    shown_beside(builders.story(), tmp_path)

    foot = html(visit("snapshots", manage="fc12d51920", search="rollout")).rpartition('<footer class="context">')[2]
    assert "manage=" not in foot
    assert "search=rollout" in foot


@pytest.mark.parametrize(
    ("page", "name", "more"),
    [
        ("findings", "severity", {}),
        ("findings", "family", {}),
        ("findings", "rule", {}),
        ("findings", "rules", {}),
        ("capacity", "measure", {}),
        ("capacity", "per", {}),
        ("replicas", "state", {}),
        ("compare", "show", {}),
        ("compare", "section", {}),
        ("compare", "reference", {}),
        ("compare", "columns", {"pool": "gemma-27b"}),
        ("compare", "converge", {}),
        ("replica", "tab", {"replica": builders.story().replicas[0].id}),
        ("replica", "show", {"replica": builders.story().replicas[0].id}),
    ],
)
def test_a_choice_that_is_none_of_the_pages_is_said(page: str, name: str, more: dict[str, str], tmp_path: Path) -> None:
    """Whoever follows a link to it must not take the page for what the link was to show."""
    shown_beside(builders.story(), tmp_path)

    shown = html(visit(page, **{name: "zzz"}, **more))

    assert f"<code>{name}=zzz</code> in the address is no choice here: the page is shown as without it." in shown


def test_several_such_choices_are_one_sentence_and_gone_with_the_address(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)
    app = visit("findings", severity="a", family="b")

    assert (
        "<code>severity=a</code> and <code>family=b</code> in the address are no choices here: "
        "the page is shown as without them."
    ) in html(app)
    app.query_params.clear()
    assert "in the address" not in html(rerun(app))


def test_a_new_name_of_a_snapshot_is_shown_when_the_page_is_drawn_again(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)
    key = service.snapshots().freeze(builders.story(), "Monday", NOW).id
    app = visit("findings", snapshot=key)
    service.snapshots().rename(key, "Tuesday")

    assert "“Monday”" in html(app)
    assert "“Tuesday”" in html(rerun(app))


def test_what_anybody_writes_into_an_address_is_cut_and_stays_text(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)
    page = html(visit("findings", **{HOSTILE: HOSTILE * 50}))

    assert "<script>" not in page
    assert "<img" not in page
    assert len(footer(**{"x" * 500: "y" * 500})) < 300


def test_a_snapshot_without_a_name_is_called_by_its_id(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)
    key = service.snapshots().freeze(builders.story(), "", NOW).id

    assert f"snapshot {key[:10]} · data as of" in footer(snapshot=key)
    assert "<b>Snapshot</b> <code>" in html(visit(snapshot=key))
