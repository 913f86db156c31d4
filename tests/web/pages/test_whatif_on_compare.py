"""What-if on Compare: which replicas would restart, what would be fixed, and what to paste."""

import re
from dataclasses import replace
from html import unescape

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.fleet import Baseline
from dashboard.rules.policy import Policy
from tests.builders import NOW, alike, document, fleet, story
from tests.page_runner import html, open_page, rerun


def snippets(part: AppTest | Block) -> list[str]:
    """What a page, or a part of it, offers to paste."""
    drawn = "".join(each.proto.body for each in part.get("html"))
    return [unescape(each) for each in re.findall(r"<pre><code>(.*?)</code></pre>", drawn, re.DOTALL)]


def is_offered(app: AppTest) -> bool:
    return any(each.key == "converge" for each in app.selectbox)


def with_baseline(compared: Fleet, pool: str = "chat-70b") -> Fleet:
    baseline = Baseline("agreed", pool, {"cache_config.block_size": "16"})
    return inspected(replace(compared, policy=Policy(baselines=(baseline,))), NOW)


def test_a_selected_cohort_is_in_the_url_and_shows_the_plan() -> None:
    app = open_page(story(), "compare", pool="chat-70b")
    assert app.selectbox(key="converge").value == "nothing"
    assert "of 18 replicas would restart" not in html(app)
    assert snippets(app) == []

    app.selectbox(key="converge").set_value("A")
    rerun(app)

    assert app.query_params["converge"] == "A"
    assert "--prefix-caching-hash-algo sha256_cbor" in snippets(app)
    for text in (
        "<b>2 of 18 replicas would restart</b>; ",
        ">Fixed: ",
        ">KV cache</h3>",
        "Read-only: paste the changes and restart the replicas yourself.",
        "Never read: chat-70b-18. Their changes are unknown.",
    ):
        assert text in html(app)


@pytest.mark.parametrize(("cohort", "is_shown"), [("A", True), ("Z", False)])
def test_a_link_opens_the_plan_of_an_existing_cohort(cohort: str, *, is_shown: bool) -> None:
    assert (">Fixed: " in html(open_page(story(), "compare", pool="chat-70b", converge=cohort))) is is_shown


def test_a_uniform_pool_needs_a_baseline(demo_fleet: Fleet) -> None:
    """A cohort whose hashes differ within shows why: a reader would look for the control there."""
    uniform = open_page(story(), "compare", pool="gemma-27b")
    split = open_page(demo_fleet, "compare", pool="deepseek-v3/decode")
    same = document()
    agreed = with_baseline(fleet(alike("chat", 3, same), [same]), "chat")
    app = open_page(agreed, "compare", pool="chat", converge="baseline")

    assert not is_offered(uniform)
    assert not is_offered(split)
    assert "What-if needs" not in html(uniform)
    assert "What-if needs a second cohort or a baseline" in html(split)
    assert "<b>No replica would restart</b>: 3 replicas already match baseline agreed" in html(app)


def test_the_baseline_is_the_first_option_by_its_name() -> None:
    app = open_page(with_baseline(story()), "compare", pool="chat-70b", converge="baseline")

    assert app.selectbox(key="converge").options[1] == "baseline agreed"
    assert "<b>1 of 18 replicas would restart</b>; " in html(app)
    assert "--block-size 16" in snippets(app)
