"""Addresses carry choices, and survive whatever a name holds."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet import pieces
from dashboard.fleet.pieces import Kind
from dashboard.views import pages
from dashboard.web import links


def test_a_page_without_choices_is_its_name() -> None:
    """Relative, so that a path prefix in front of the program stays; the first page is the folder itself."""
    assert links.to(pages.COMPARE) == "compare"
    assert links.to(pages.OVERVIEW) == "./"
    assert links.to(pages.COMPARE, pool=None) == "compare"


def test_a_link_to_the_live_fleet_or_to_a_snapshot_names_it_itself() -> None:
    """Whatever is shown: the page that draws it says where it leads."""
    assert links.live(pages.FINDINGS, severity="critical") == "findings?severity=critical"
    assert links.live(pages.OVERVIEW, snapshot="3fa9c01b2e") == "./?snapshot=3fa9c01b2e"


@pytest.mark.parametrize(
    ("target", "url"),
    [
        (
            pieces.Target(Kind.SETTING, "cache_config.block_size", "a/b"),
            "compare?pool=a%2Fb&path=cache_config.block_size",
        ),
        (pieces.Target(Kind.SETTING, "cache_config.block_size"), None),
        (pieces.Target(Kind.REPLICA, "http://r1:8000"), "replica?replica=http%3A%2F%2Fr1%3A8000"),
        (pieces.Target(Kind.POOL, "chat"), "compare?pool=chat"),
        (pieces.Target(Kind.COHORT, "B", "chat"), "compare?pool=chat&cohort=B"),
        (pieces.Target(Kind.RULE, "RT-01"), "findings?rule=RT-01"),
        (pieces.Target(Kind.FINDING, "0123abcd"), "findings?finding=0123abcd"),
        (pieces.page(pages.CAPACITY, pool="chat", snapshot="3fa9"), "capacity?pool=chat&snapshot=3fa9"),
        (pieces.page(pages.OVERVIEW, snapshot=pages.LIVE), "./"),
        (pieces.section("pools"), None),
    ],
)
def test_whatever_a_text_names_has_a_url_except_a_section(target: pieces.Target, url: str | None) -> None:
    assert links.address(target) == url


@pytest.mark.parametrize(
    ("text", "page", "told"),
    [
        ("3fa9c01b2e", "", {"snapshot": "3fa9c01b2e"}),
        ("https://evil.example/nopage?snapshot=3fa9&x=1", "", {"snapshot": "3fa9"}),
        ("javascript:alert(1)//findings?snapshot=3fa9&pool=a", "findings", {"snapshot": "3fa9", "pool": "a"}),
        ("//evil.example/\\\\findings?snapshot=3fa9&pool=a", "", {"snapshot": "3fa9"}),
        (
            "http://x/compare?pool=a&path=b&tab=c&snapshot=3fa9",
            "compare",
            {"pool": "a", "path": "b", "snapshot": "3fa9"},
        ),
        ("http://x/changes?from=3fa9", "changes", {"from": "3fa9"}),
        ("http://x/changes", "", {"snapshot": "http://x/changes"}),
        ("http://x/compare?from=3fa9", "", {"snapshot": "http://x/compare?from=3fa9"}),
        ("http://[", "", {"snapshot": "http://["}),
    ],
)
def test_of_a_pasted_link_only_our_pages_and_their_choices_are_left(text: str, page: str, told: dict[str, str]) -> None:
    assert links.pasted(text) == (page, told)


def test_navigation_carries_what_links_say_holds_on_every_page() -> None:
    """The same names stand in the script that follows links."""
    script = (links.SCRIPTS.parent / "navigate.js").read_text()

    assert f"const CARRIED = {json.dumps(pages.CARRIED)};" in script


@given(st.text())
def test_a_name_comes_back_as_it_was(name: str) -> None:
    """Slashes, ampersands and spaces in a pool's name open that pool."""
    query = urlsplit(links.to(pages.COMPARE, pool=name)).query

    assert parse_qs(query, keep_blank_values=True)["pool"] == [name.encode("utf-8", "replace").decode()]


def test_every_page_has_its_script() -> None:
    """The names in addresses are the names of files."""
    scripts = [pages.FINDINGS, pages.COMPARE, pages.CAPACITY, pages.REPLICAS, pages.REPLICA_PAGE, "overview"]
    scripts += [pages.REVIEW, pages.SNAPSHOTS, pages.CHANGES]

    assert [name for name in scripts if not (links.SCRIPTS / f"{name}.py").is_file()] == []


def test_a_file_name_holds_nothing_that_a_disk_or_a_browser_minds() -> None:
    """Pools may be called anything."""
    assert links.file_name("prod-eu", "deepseek-v3/prefill") == "prod-eu-deepseek-v3-prefill"
    assert links.file_name("../<x>") == "x"
