"""Every field of a review is heard under a name of its own, which says no more than it must."""

from dataclasses import replace

from dashboard.report.findings.listed import grouped, known_findings
from dashboard.rules.findings import Finding, Severity
from dashboard.web.review_labels import labels
from tests.builders import HOSTILE
from tests.report.judged import fleet, in_cohorts

ONE, TWO = in_cohorts(B=(1,)), in_cohorts(B=(2,))


def called(*found: Finding) -> list[str]:
    """What the entries of findings are called, each finding with a sentence of its own."""
    told = (replace(each, id=f"{place}", sentence=f"{place}") for place, each in enumerate(found))
    known = known_findings(fleet(*told))
    return labels(grouped(known.active), known.names)


def test_an_entry_is_called_by_its_rule_and_pools() -> None:
    assert called(ONE, replace(ONE, rule="RT-05"), replace(ONE, pools=("a", "b", "c", "d"))) == [
        "RT-01 in chat",
        "RT-05 in chat",
        "RT-01 in a, b, c and 1 more",
    ]
    assert called(replace(ONE, pools=())) == ["RT-01"]


def test_two_of_one_rule_in_one_pool_are_told_apart_by_severity() -> None:
    assert called(ONE, replace(ONE, severity=Severity.INFO), replace(ONE, rule="RT-05")) == [
        "RT-01 in chat, critical",
        "RT-01 in chat, info",
        "RT-05 in chat",
    ]


def test_two_of_one_severity_are_told_apart_by_their_replicas() -> None:
    assert called(ONE, TWO) == ["RT-01 in chat, chat-1", "RT-01 in chat, chat-2"]
    assert called(ONE, TWO, replace(ONE, severity=Severity.INFO)) == [
        "RT-01 in chat, critical, chat-1",
        "RT-01 in chat, critical, chat-2",
        "RT-01 in chat, info",
    ]


def test_two_on_the_same_replicas_are_counted() -> None:
    assert called(ONE, ONE) == ["RT-01 in chat, 1", "RT-01 in chat, 2"]


def test_one_on_no_replica_says_so_beside_one_on_some() -> None:
    assert called(ONE, replace(ONE, replicas=(), cohorts=())) == ["RT-01 in chat, chat-1", "RT-01 in chat, no replica"]


def test_foreign_names_are_no_markdown() -> None:
    hostile = replace(ONE, replicas=(HOSTILE,), pools=(HOSTILE,))

    assert not set("".join(called(hostile, replace(TWO, pools=(HOSTILE,))))) & set("<>![]()*`:$\\")
