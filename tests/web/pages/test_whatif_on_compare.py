"""Below its table Compare says what would change if all replicas of the pool were like one cohort."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.fleet import Baseline
from dashboard.rules.policy import Policy
from tests.builders import HOSTILE, NOW, alike, document, fleet, replica, story
from tests.page_runner import html, open_page, rerun

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest
    from streamlit.testing.v1.element_tree import Block


def codes(app: AppTest | Block) -> list[str]:
    """Return what the page, or a part of it, offers to paste."""
    drawn = "".join(each.proto.body for each in app.get("html"))
    return [unescape(each) for each in re.findall(r"<pre><code>(.*?)</code></pre>", drawn, re.DOTALL)]


def agreed(fleet: Fleet, pool: str = "chat-70b") -> Fleet:
    """Return a fleet with a baseline for a pool."""
    baseline = Baseline("agreed", pool, {"cache_config.block_size": "16"})
    return inspected(replace(fleet, policy=Policy(baselines=(baseline,))), NOW)


def test_it_is_closed_until_somebody_asks() -> None:
    """The page says that it can be asked, and nothing more."""
    app = open_page(story(), "compare", pool="chat-70b")

    assert app.selectbox(key="converge").value == "nothing"
    assert "of 18 replicas would restart" not in html(app)
    assert codes(app) == []


def test_choosing_a_cohort_answers_and_stands_in_the_url() -> None:
    """One sentence, the findings, the capacity, what to paste, and that nothing is applied."""
    app = open_page(story(), "compare", pool="chat-70b")
    app.selectbox(key="converge").set_value("A")
    rerun(app)

    shown = html(app)
    assert app.query_params["converge"] == "A"
    assert "<b>2 of 18 replicas would restart</b>; " in shown
    assert ">Fixed: " in shown
    assert ">KV cache</h3>" in shown
    assert "Read-only: paste the changes and restart the replicas yourself." in shown
    assert "Never read: chat-70b-18. Their changes are unknown." in shown
    assert "--prefix-caching-hash-algo sha256_cbor" in codes(app)


def test_the_url_opens_it_again() -> None:
    """A link says what was seen; a cohort that is no more is as if nothing was asked."""
    assert ">Fixed: " in html(open_page(story(), "compare", pool="chat-70b", converge="A"))
    assert ">Fixed: " not in html(open_page(story(), "compare", pool="chat-70b", converge="Z"))


def test_a_pool_whose_replicas_agree_asks_nothing() -> None:
    """There is nothing to converge to, unless something was agreed."""
    one = open_page(story(), "compare", pool="gemma-27b")
    assert not [each for each in one.selectbox if each.key == "converge"]

    told = document()
    known = agreed(fleet(alike("chat", 3, told), [told]), "chat")
    app = open_page(known, "compare", pool="chat", converge="baseline")
    assert "<b>No replica would restart</b>: 3 replicas already match baseline agreed" in html(app)


def test_one_cohort_that_differs_inside_says_why_nothing_is_asked(demo_fleet: Fleet) -> None:
    """In the place of the control: Compare says above that the cohort differs, so somebody would look for it."""
    app = open_page(demo_fleet, "compare", pool="deepseek-v3/decode")

    assert not [each for each in app.selectbox if each.key == "converge"]
    assert "What-if needs a second cohort or a baseline" in html(app)
    assert "What-if needs" not in html(open_page(story(), "compare", pool="gemma-27b"))


def test_going_back_on_a_rollout_is_said_before_all_else(demo_fleet: Fleet) -> None:
    """And where the version changes, the image alone stands open; the rest is folded away."""
    app = open_page(demo_fleet, "compare", pool="gemma-27b", converge="A")
    shown = html(app)
    warned = shown.index("<b>Reverts a rollout</b>: gemma-27b is in rollout <code>0.32.0</code> → <code>0.32.1</code>")

    assert warned < shown.index("2 of 8 replicas would restart")
    onward = open_page(demo_fleet, "compare", pool="gemma-27b", converge="B")
    assert "Reverts a rollout" not in html(onward)
    later = next(each for each in onward.expander if each.label == "After the restart, look again")
    assert codes(later)[0] == "--enable-prefix-caching"


def test_a_baseline_can_be_chosen() -> None:
    """It stands first, by its name."""
    app = open_page(agreed(story()), "compare", pool="chat-70b", converge="baseline")

    assert app.selectbox(key="converge").options[1] == "baseline agreed"
    assert "<b>1 of 18 replicas would restart</b>; " in html(app)
    assert "--block-size 16" in codes(app)


def test_many_groups_are_folded() -> None:
    usual = document()
    odd = [document({"model_config.max_logprobs": number}) for number in range(1, 9)]
    members = [
        *alike("chat", 3, usual),
        *(replica(f"odd-{n}", pool="chat", document=each) for n, each in enumerate(odd)),
    ]
    app = open_page(fleet(members, [usual, *odd]), "compare", pool="chat", converge="A")

    assert "2 more groups" in [each.label for each in app.expander]


def test_what_servers_tell_stays_text() -> None:
    """Names, values and pools are escaped here too."""
    told = [document({"model_config.tokenizer": HOSTILE, HOSTILE: index}) for index in range(2)]
    members = [replica(f"{HOSTILE}{index}", pool=HOSTILE, document=each) for index, each in enumerate(told)]
    shown = html(open_page(fleet(members, told), "compare", pool=HOSTILE, converge="A"))

    assert "1 of 2 replicas would restart" in shown
    assert "<script>" not in shown
    assert "<img" not in shown
