"""The top findings of Overview: the worst first, equal ones once, with links; and what is left out."""

from dataclasses import replace
from typing import Any

from dashboard.fleet.pieces import Kind, Link, plain, to_plain
from dashboard.rules.findings import CohortShare, Confidence, Finding, Inspection, Remedy, Severity
from dashboard.views.blocks import Entries, Paragraph, Section, Tone
from dashboard.views.finding_list import MOST_TOP
from dashboard.views.overview import FIRST, overview_report
from tests.builders import HOSTILE, fleet, replica
from tests.findings_builder import DOMAIN


def finding(number: int = 1, **more: Any) -> Finding:
    given: dict[str, Any] = {
        "id": f"id{number}",
        "rule": "RT-01",
        "severity": Severity.CRITICAL,
        "confidence": Confidence.REPORTED,
        "subject": "chat",
        "pools": ("chat",),
        "replicas": ("http://chat-1:8000",),
        "cohorts": (CohortShare("chat", "B", ("http://chat-1:8000",)),),
        "text": plain(f"Block size is {number}."),
        "why": "Prefixes are not found.",
        "remedy": Remedy("Change it."),
        "evidence": (),
    }
    return Finding(**{**given, **more})


def top(*findings: Finding) -> Section:
    members = [replica(f"chat-{number}") for number in range(1, 9)]
    domains = dict.fromkeys(("chat", *(pool for each in findings for pool in each.pools)), DOMAIN)
    view = overview_report(replace(fleet(members), inspection=Inspection(findings=findings, domains=domains)))
    return next(part for part in view.parts if part.anchor == FIRST)


def entries(*findings: Finding) -> Entries:
    return next(block for block in top(*findings).blocks if isinstance(block, Entries))


def left(*findings: Finding) -> str:
    return to_plain(next(block for block in reversed(top(*findings).blocks) if isinstance(block, Paragraph)).line)


def test_an_entry_links_its_finding_its_cohort_and_its_replica() -> None:
    (entry,) = entries(finding(assumptions=("router is approximate",))).items
    targets = [piece.link for piece in entry.side if not isinstance(piece, str)]

    assert entry.tone is Tone.CRITICAL
    assert entry.head[0].link == Link(Kind.FINDING, "id1")
    assert to_plain(entry.head) == "chat Block size is 1."
    assert Link(Kind.COHORT, "B", "chat") in targets
    assert Link(Kind.REPLICA, "http://chat-1:8000") in targets
    assert list(map(to_plain, entry.lines)) == ["Prefixes are not found.", "Assumed: router is approximate."]


def test_findings_beyond_the_first_are_counted_and_info_is_shown_only_alone() -> None:
    info = finding(99, severity=Severity.INFO)
    many = [finding(number) for number in range(MOST_TOP + 3)]

    assert len(entries(*many, info).items) == MOST_TOP
    assert left(*many, info) == "4 more findings"
    assert len(entries(info).items) == 1


def test_unreachable_replicas_have_their_own_list_and_are_only_counted() -> None:
    unread = finding(7, rule="ID-05", severity=Severity.WARNING)

    assert len(entries(finding(), unread).items) == 1
    assert left(finding(), unread) == "1 more finding"
    assert not any(isinstance(block, Entries) for block in top(unread).blocks)


def test_equal_findings_of_several_pools_are_one_entry() -> None:
    same = [finding(1, id=f"id{pool}", pools=(pool,), subject=pool) for pool in ("a", "b", "c")]
    two = [finding(2, id=f"x{pool}", pools=(pool,)) for pool in ("a", "b")]
    first, second = entries(*same, *two).items

    assert first.head[0].text == "3 pools"
    assert first.side_text == "1 replica"
    assert second.head[0].text == "a and b"


def test_many_replicas_are_shown_by_cohort_and_a_finding_without_pool_is_about_the_fleet() -> None:
    ids = tuple(f"http://chat-{number}:8000" for number in range(1, 6))
    (entry,) = entries(finding(replicas=ids, cohorts=(CohortShare("chat", "B", ids),), pools=(), is_rollout=True)).items

    assert entry.head[0].text == "fleet"
    assert entry.side_text == "B ×5"
    assert to_plain(entry.lines[-1]) == "Rollout in progress."


def test_a_hostile_name_stays_text() -> None:
    (entry,) = entries(finding(text=plain(HOSTILE), pools=(HOSTILE,))).items

    assert "<script>" in to_plain(entry.head)
