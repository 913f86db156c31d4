"""A review of many pools stays readable: what is alike is told once."""

from dataclasses import replace

import pytest

from dashboard.render.html_page import to_html
from dashboard.render.markdown import to_markdown
from dashboard.views.review import AGENDA, review_report
from tests.builders import fleet, story
from tests.findings_builder import finding, with_findings
from tests.views.large_fleets import large
from tests.views.walking import (
    entries_of,
    part,
    tables_of,
    text_of,
)

STORY = story()


@pytest.mark.no_cover
def test_a_thousand_replicas_stay_readable_and_below_two_megabytes() -> None:
    """The same of two hundred pools is told once; what is left out is counted."""
    report = review_report(fleet(*large()))
    agenda = report.parts[: len(AGENDA) + 1]

    assert len(entries_of(agenda)) < 60
    assert len(part(report, "differences").parts) == 1
    assert len(part(report, "capacity").parts) == 1
    assert part(report, "differences").parts[0].title == "pool-000 and 199 more like it"
    assert len(tables_of([part(report, "all-replicas")])[0].rows) == 1_000
    assert len(to_html(report).encode()) < 2_000_000


@pytest.mark.no_cover
def test_a_thousand_replicas_fit_into_a_comment_that_says_what_is_left_out() -> None:
    """GitHub takes 65,536 characters."""
    usual, told = fleet(*large()), large()[0]
    found = [finding(usual, [each.name], id=each.name, sentence=f"{each.name} differs.") for each in told]
    text = to_markdown(review_report(with_findings(usual, *found), before=usual))

    assert len(text) < 65_536
    assert "\n\nAppendices, in the HTML, PDF and JSON of this report: All findings, All replicas" in text


def test_many_findings_of_one_rule_with_other_values_are_one_entry() -> None:
    """The first ones are told, the others counted with their pools; all of them stand in the appendix."""
    built = fleet(*large(8))
    found = [
        finding(built, [f"pool-{place:03}-05"], id=f"{place:010}", sentence=f"Block size is {place}.")
        for place in range(8)
    ]
    report = review_report(with_findings(built, *found))
    critical = part(report, "severity-critical")

    assert critical.title == "8 critical findings"
    assert len(entries_of([critical])) == 1
    lines = text_of(critical)
    assert "Also: 7 more findings of this rule, with other values." in lines
    assert "Block size is 3." in lines
    assert "And in pool-004, pool-005, pool-006 and pool-007." in lines
    assert len(tables_of([part(report, "all-findings")])[0].rows) == 8


def test_where_all_others_are_told_none_is_counted() -> None:
    """Four: the first with its advice, three more below it."""
    built = fleet(*large(4))
    found = [
        finding(built, [f"pool-{place:03}-05"], id=f"{place:010}", sentence=f"Block size is {place}.")
        for place in range(4)
    ]
    lines = text_of(part(review_report(with_findings(built, *found)), "severity-critical"))

    assert "Also: 3 more findings of this rule, with other values." in lines
    assert "And in " not in lines


@pytest.mark.parametrize("number", [1, 3])
def test_few_findings_of_one_rule_are_told_one_by_one(number: int) -> None:
    """Then nothing has to be looked up."""
    built = fleet(*large(3))
    found = [
        finding(built, [f"pool-{place:03}-05"], id=f"{place:010}", sentence=f"Block size is {place}.")
        for place in range(number)
    ]
    report = review_report(with_findings(built, *found))

    assert len(entries_of([part(report, "severity-critical")])) == number
    assert "all-findings" not in {each.anchor for each in report.parts}


def test_a_remedy_that_is_of_one_pool_says_of_which() -> None:
    """What is told of three pools at once must hold for all three, or name the one."""
    built = fleet(*large(3))
    found = [finding(built, [f"pool-{place:03}-05"], id=f"{place:010}", sentence="S.") for place in range(3)]
    found[1] = replace(found[1], remedy=found[1].remedy._replace(sentence="Start it anew."))
    report = review_report(with_findings(built, *found))
    lines = text_of(part(report, "severity-critical"))

    assert "What to do in pool-000: " in lines
    assert "Why it matters: " in lines
