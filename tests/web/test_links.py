"""URLs have the choices of a page, whatever a name contains; widgets are bound to them."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from dashboard.fleet import pieces
from dashboard.fleet.pieces import Kind
from dashboard.views import pages
from dashboard.views.timeline import here_at
from dashboard.web import links


def test_the_url_of_a_page_is_relative_and_has_its_choices() -> None:
    """So that a path prefix before the program stays."""
    assert links.to(pages.COMPARE) == "compare"
    assert links.to(pages.OVERVIEW) == "./"
    assert links.to(pages.COMPARE, pool=None) == "compare"
    assert links.live(pages.OVERVIEW, snapshot="3fa9c01b2e", severity="info") == "./?snapshot=3fa9c01b2e&severity=info"


@pytest.mark.parametrize(
    ("target", "url"),
    [
        (
            pieces.Link(Kind.SETTING, "cache_config.block_size", "a/b"),
            "compare?pool=a%2Fb&path=cache_config.block_size",
        ),
        (pieces.Link(Kind.SETTING, "cache_config.block_size"), None),
        (pieces.Link(Kind.REPLICA, "http://r1:8000"), "replica?replica=http%3A%2F%2Fr1%3A8000"),
        (pieces.Link(Kind.POOL, "chat"), "compare?pool=chat"),
        (pieces.Link(Kind.COHORT, "B", "chat"), "compare?pool=chat&cohort=B"),
        (pieces.Link(Kind.RULE, "RT-01"), "findings?search=rule%3ART-01"),
        (pieces.Link(Kind.FINDING, "0123abcd"), "findings?finding=0123abcd"),
        (pieces.page(pages.CAPACITY, pool="chat", snapshot="3fa9"), "capacity?pool=chat&snapshot=3fa9"),
        (pieces.page(pages.OVERVIEW, snapshot=pages.LIVE), "./"),
        (pieces.section("pools"), None),
    ],
)
def test_whatever_a_text_names_has_a_url_except_a_section(target: pieces.Link, url: str | None) -> None:
    assert links.address(target) == url


@pytest.mark.parametrize(
    ("text", "page", "choices"),
    [
        ("3fa9c01b2e", "", {"snapshot": "3fa9c01b2e"}),
        ("https://evil.example/nopage?snapshot=3fa9&x=1", "", {"snapshot": "3fa9"}),
        ("javascript:alert(1)//findings?snapshot=3fa9&pool=a", "findings", {"snapshot": "3fa9", "pool": "a"}),
        ("//evil.example/\\\\findings?snapshot=3fa9&pool=a", "", {"snapshot": "3fa9", "pool": "a"}),
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
def test_a_pasted_link_keeps_known_pages_and_choices_only(text: str, page: str, choices: dict[str, str]) -> None:
    assert links.parse_link(text) == (page, choices)


def test_navigate_js_carries_the_same_choices() -> None:
    script = Path(links.__file__).with_name("navigate.js").read_text()

    assert f"const CARRIED = {json.dumps(pages.CARRIED)};" in script


@pytest.mark.parametrize("function", [links.to, links.live, pieces.page, here_at])
def test_any_parameter_name_is_a_choice(function: Callable[..., Any]) -> None:
    """A link with `?page=x` was a TypeError on every page: `page` was an argument of the function, too."""
    parameters = inspect.signature(function).parameters.values()

    assert {each.kind for each in parameters if each.kind is not each.VAR_KEYWORD} == {
        inspect.Parameter.POSITIONAL_ONLY
    }
    assert links.live(pages.OVERVIEW, page="x", self="y") == "./?page=x&self=y"


@given(st.text())
def test_any_name_survives_a_url(name: str) -> None:
    query = urlsplit(links.to(pages.COMPARE, pool=name)).query

    assert parse_qs(query, keep_blank_values=True)["pool"] == [name.encode("utf-8", "replace").decode()]


def test_a_file_name_has_letters_digits_and_dashes_only() -> None:
    assert links.make_file_name("prod-eu", "deepseek-v3/prefill") == "prod-eu-deepseek-v3-prefill"
    assert links.make_file_name("../<x>") == "x"


def script() -> None:
    """One widget of each kind."""
    import streamlit as st

    from dashboard.web import links

    st.session_state[links.IGNORED] = {}
    st.text(links.read_choice("pool", ["a", "b"]))  # before its widget
    st.selectbox("Pool", ["a", "b"], **links.bind("pool", ["a", "b"]))
    st.segmented_control("Show", ["few", "all"], **links.bind("show", ["few", "all"]), required=True)
    st.text_input("Search", **links.bind("search"))
    st.toggle("Only", **links.bind("only", default=False))
    st.text(dict(st.query_params))
    st.text(links.ignored_choices())


@pytest.mark.parametrize(
    ("url", "values", "ignored"),
    [
        ({}, ["a", "few", "", False], {}),
        ({"pool": "b", "show": "all", "search": "x y", "only": "true"}, ["b", "all", "x y", True], {}),
        (
            {"pool": "gone", "show": "all", "only": "maybe", "search": "anything"},
            ["a", "all", "anything", False],
            {"pool": "gone", "only": "maybe"},
        ),
        ({"only": "false"}, ["a", "few", "", False], {}),
    ],
)
def test_widgets_show_the_choices_of_the_url_and_ignore_invalid_ones(
    url: dict[str, str], values: list[object], ignored: dict[str, str]
) -> None:
    app = AppTest.from_function(script)
    for name, value in url.items():
        app.query_params[name] = value
    app.run()

    assert not app.exception
    shown = [app.selectbox[0].value, app.segmented_control[0].value, app.text_input[0].value, app.toggle[0].value]
    assert shown == values
    assert app.text[0].value == values[0]
    assert [each.value for each in app.text[1:]] == [str(url), str(ignored)]


def test_a_choice_is_written_into_the_url_and_the_default_is_not() -> None:
    app = AppTest.from_function(script)
    app.query_params["search"] = "x"
    app.run()
    app.selectbox(key="pool").set_value("b")
    app.toggle(key="only").set_value(True).run()
    assert app.text[1].value == "{'search': 'x', 'pool': 'b', 'only': 'true'}"

    app.selectbox(key="pool").set_value("a")
    app.toggle(key="only").set_value(False)
    app.text_input(key="search").set_value("").run()
    assert app.text[1].value == "{}"


def test_a_change_that_arrives_after_its_page_was_left_is_ignored() -> None:
    """Its widget is no longer in the session; the URL is that of the next page."""
    links._write(name="of_a_page_that_was_left")
