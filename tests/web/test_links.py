"""Addresses carry choices, and survive whatever a name holds."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

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
    assert links.parse_link(text) == (page, told)


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
    assert links.make_file_name("prod-eu", "deepseek-v3/prefill") == "prod-eu-deepseek-v3-prefill"
    assert links.make_file_name("../<x>") == "x"


def script() -> None:
    """One widget of each kind."""
    import streamlit as st

    from dashboard.web import links

    st.session_state[links.IGNORED] = {}
    st.selectbox("Pool", ["a", "b"], **links.bind("pool", ["a", "b"]))
    st.segmented_control("Show", ["few", "all"], **links.bind("show", ["few", "all"]), required=True)
    st.text_input("Search", **links.bind("search"))
    st.toggle("Only", **links.bind("only", default=False))
    st.text(dict(st.query_params))
    st.text(links.ignored_choices())


def opened(**url: str) -> AppTest:
    """Open the script with choices in its URL."""
    app = AppTest.from_function(script)
    for name, value in url.items():
        app.query_params[name] = value
    return app.run()


def chosen(app: AppTest) -> list[object]:
    """What the four widgets show."""
    assert not app.exception
    return [
        app.selectbox(key="pool").value,
        app.segmented_control(key="show").value,
        app.text_input(key="search").value,
        app.toggle(key="only").value,
    ]


def test_a_choice_can_be_read_before_its_widget_is_drawn() -> None:
    def early() -> None:
        import streamlit as st

        from dashboard.web import links

        st.text(links.read_choice("pool", ["a", "b"]))

    app = AppTest.from_function(early)
    assert app.run().text[0].value == "a"
    app.query_params["pool"] = "b"
    assert app.run().text[0].value == "b"
    app.query_params["pool"] = "no such"
    assert app.run().text[0].value == "a"


def test_without_an_url_the_first_is_chosen() -> None:
    """And nothing is written into the URL."""
    app = opened()

    assert chosen(app) == ["a", "few", "", False]
    assert app.text[0].value == "{}"


def test_the_url_chooses() -> None:
    """A link shows what was linked to."""
    assert chosen(opened(pool="b", show="all", search="x y", only="true")) == ["b", "all", "x y", True]


def test_what_is_no_option_is_not_chosen() -> None:
    """An old link to a pool that is gone opens the first one; what could not be followed is known."""
    app = opened(pool="gone", show="all", only="maybe", search="anything")

    assert chosen(app) == ["a", "all", "anything", False]
    assert app.text[1].value == "{'pool': 'gone', 'only': 'maybe'}"
    assert opened(only="false").text[1].value == "{}"


def test_a_choice_is_written_into_the_url_and_the_default_leaves_it() -> None:
    """The address can be handed on, and is as short as can be."""
    app = opened(search="x")
    app.selectbox(key="pool").set_value("b")
    app.toggle(key="only").set_value(True).run()
    assert app.text[0].value == "{'search': 'x', 'pool': 'b', 'only': 'true'}"

    app.selectbox(key="pool").set_value("a")
    app.toggle(key="only").set_value(False)
    app.text_input(key="search").set_value("").run()
    assert app.text[0].value == "{}"
