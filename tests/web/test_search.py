"""The search of every page answers what the browser asks, with URLs for the page that is shown."""

from typing import Any

import pytest
import streamlit as st

from dashboard.views import pages
from dashboard.web import search
from tests.builders import HOSTILE, story
from tests.page_runner import found, freeze, visit

pytestmark = pytest.mark.usefixtures("live")


def urls(answer: dict[str, Any]) -> list[str]:
    return [hit["url"] for group in answer["groups"] for hit in group["hits"]]


def test_an_answer_has_the_number_of_its_question_and_hits_by_kind() -> None:
    answer = found(visit("capacity"), {"text": "gemma-27b", "number": 7})

    assert answer["number"] == 7
    assert answer["groups"][0]["title"] == "Pools"
    assert answer["groups"][0]["hits"][0]["name"] == "gemma-27b"
    assert urls(answer)[0] == "compare?pool=gemma-27b"


def test_a_hit_outside_the_scope_leaves_it_and_others_keep_it() -> None:
    """navigate.js takes an empty pool for none, and adds that of the page to a link without one."""
    app = visit("findings", pool="gemma-27b")

    assert all("&pool=" in url for url in urls(found(app, {"text": "chat-70b-01", "number": 1})) if "replica=" in url)
    assert "pool=" not in urls(found(app, {"text": "gemma-27b-01", "number": 2}))[0]
    assert urls(found(app, {"text": "capacity", "number": 3}))[0] == "capacity"


def test_hits_stay_in_the_snapshot_that_is_shown() -> None:
    key = freeze(story())
    answer = found(visit("findings", snapshot=key), {"text": "gemma-27b", "number": 1})

    assert urls(answer)[0] == f"compare?snapshot={key[:10]}&pool=gemma-27b"


def test_a_scope_limits_the_page_that_is_shown_and_keeps_its_choices() -> None:
    app = visit("capacity", measure="GiB", pool="chat-70b")
    answer = found(app, {"text": "", "number": 1, "isScope": True})

    assert urls(answer)[0] == "capacity?measure=GiB&pool="
    assert "capacity?measure=GiB&pool=gemma-27b" in urls(answer)


@pytest.mark.few(3)
@pytest.mark.parametrize("page", [each or "overview" for each in sorted(pages.KNOWN)])
def test_every_page_answers_and_any_text_matches_nothing_at_worst(page: str) -> None:
    assert urls(found(visit(page), {"text": "findings", "number": 1})) != []
    assert found(visit(page), {"text": HOSTILE * 100})["groups"] == []


@pytest.mark.parametrize("question", [None, "text", 3, []])
def test_what_is_no_question_has_no_answer(question: Any) -> None:
    assert found(visit(), question) is None


def test_a_question_that_arrives_on_another_page_is_none() -> None:
    search._keep()

    assert st.session_state[search.ASKED] is None
