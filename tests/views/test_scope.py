"""One pool of a fleet keeps its findings, and the rest is counted."""

from dataclasses import replace

import pytest

from dashboard.rules.findings import Inspection
from dashboard.views import pages
from dashboard.views.blocks import View
from dashboard.views.context import context_of
from dashboard.views.summary import name_scope, only_scope, outside_text, scoped_title
from tests.builders import story


def test_a_pool_keeps_every_finding_on_it_also_those_that_span_pools() -> None:
    built = story()
    first, *rest = built.inspection.findings
    found = (replace(first, pools=("chat-70b", "gemma-27b")), *rest)
    whole = replace(built, inspection=replace(built.inspection, findings=found))
    part = only_scope(whole, "chat-70b")

    assert [each.name for each in part.pools] == ["chat-70b"]
    assert part.inspection.findings == tuple(each for each in whole.inspection.findings if "chat-70b" in each.pools)
    assert found[0] in part.inspection.findings


def test_what_other_pools_have_is_counted_as_the_page_counts() -> None:
    whole = story()

    assert "critical" in outside_text(whole, "gemma-27b", pages.OVERVIEW)
    assert outside_text(whole, "gemma-27b", pages.CAPACITY).startswith("capacity findings: ")
    assert outside_text(whole, "chat-70b", pages.SETTINGS) == "1 setting with different values"
    assert outside_text(whole, "gemma-27b", pages.REPLICAS) == "32 replicas, 1 down, 1 partial"


def test_other_pools_without_findings_are_said_to_have_none() -> None:
    calm = replace(story(), inspection=Inspection())

    assert outside_text(calm, "gemma-27b", pages.FINDINGS) == "no findings"
    assert outside_text(calm, "gemma-27b", pages.CAPACITY) == "no capacity findings"


def test_changes_compare_the_replicas_of_the_pool_only() -> None:
    assert outside_text(story(), "gemma-27b", pages.CHANGES) == "32 replicas in 4 pools, not compared"


@pytest.mark.parametrize(
    ("title", "named"),
    [
        ("2 critical, 1 warning", "chat: 2 critical, 1 warning"),
        ("All ranks are close", "chat: all ranks are close"),
        ("KV cache capacity: not reported", "chat: KV cache capacity: not reported"),
        ("9 of 14 replicas (64%) share prefixes with their pool", "9 of 14 replicas (64%) of chat share prefixes"),
        ("Fleet is consistent: 3 replicas, 1 pool", "chat is consistent: 3 replicas, 1 pool"),
    ],
)
def test_a_headline_names_the_pool_that_it_is_about(title: str, named: str) -> None:
    assert scoped_title(title, "chat") == named
    assert scoped_title(title, None) == title


def test_an_export_says_first_what_it_leaves_out() -> None:
    whole = story()
    view = View("Replicas", "chat: 8 replicas", "8 of 8 shown.", context_of(whole), ())

    assert name_scope(view, whole, "gemma-27b", pages.REPLICAS).lead == (
        "Only pool gemma-27b. Other pools: 32 replicas, 1 down, 1 partial. 8 of 8 shown."
    )
