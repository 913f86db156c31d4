"""What a reader opens stands in the URL, and leaves it when it is closed."""

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.web.matrix import opened_from
from dashboard.web.value_dialog import MOST_NAMED, replica_links


def script() -> None:
    """Open twice, as a reader does, and once close again."""
    import streamlit as st

    from dashboard.web import value_dialog
    from dashboard.web.matrix import Opened
    from tests.builders import story

    pool = story().pools[0]
    value_dialog.open_from(Opened(None, "B"), pool)
    st.text(dict(st.query_params))
    value_dialog.open_from(Opened("cache_config.block_size", "B"), pool)
    st.text(dict(st.query_params))
    value_dialog.close()
    st.text(dict(st.query_params))


def test_one_thing_is_open_at_a_time() -> None:
    """A path replaces a cohort; closing leaves nothing behind."""
    app = AppTest.from_function(script).run()

    assert not app.exception
    assert [text.value for text in app.text] == ["{'cohort': 'B'}", "{'path': 'cache_config.block_size'}", "{}"]


@pytest.mark.parametrize(
    ("told", "opened"),
    [
        (None, None),
        ({"path": "a.b", "column": None}, ("a.b", None)),
        ({"path": None, "column": "A"}, (None, "A")),
        ({"path": 7, "column": ["x"]}, (None, None)),
    ],
)
def test_what_a_browser_says_is_not_trusted(told: object, opened: object) -> None:
    """Only texts come through."""
    assert opened_from(told) == opened


def test_replicas_stand_in_the_order_in_which_people_count() -> None:
    """2 before 10."""
    html = replica_links(["x", "y"], {"x": "chat-10", "y": "chat-2"})

    assert html.index("chat-2") < html.index("chat-10")


def test_many_replicas_are_named_up_to_a_limit() -> None:
    """Five thousand links make no dialog."""
    html = replica_links([f"http://r{index}:8000" for index in range(MOST_NAMED + 3)], {"http://r0:8000": "<first>"})

    assert html.count("<a ") == MOST_NAMED
    assert html.endswith("and 3 more")
    assert "&lt;first&gt;" in html
