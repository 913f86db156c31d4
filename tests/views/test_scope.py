"""One pool of a fleet keeps its findings, and the rest is counted."""

from dataclasses import replace

from dashboard.rules.findings import Inspection
from dashboard.views import pages
from dashboard.views.scope import only_scope, outside_text
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
