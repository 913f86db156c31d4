"""The top findings of Overview: the worst first, equal ones once, with links; and what is left out."""

from typing import Any

from dashboard.fleet.pieces import to_plain
from dashboard.rules.findings import Finding, Severity
from dashboard.views.blocks import Entries, Paragraph, Section
from dashboard.views.finding_list import MOST_TOP
from dashboard.views.overview import FIRST, overview_report
from tests import findings_builder
from tests.builders import fleet, replica
from tests.findings_builder import DOMAIN, with_findings
from tests.views.walking import part

BUILT = fleet([replica(f"chat-{number}") for number in range(1, 9)])


def finding(number: int = 1, **more: Any) -> Finding:
    given = {"id": f"id{number}", "sentence": f"Block size is {number}.", **more}
    return findings_builder.finding(BUILT, ["chat-1"], **given)


def top(*findings: Finding) -> Section:
    domains = dict.fromkeys(("chat", *(pool for each in findings for pool in each.pools)), DOMAIN)
    return part(overview_report(with_findings(BUILT, *findings, domains=domains)), FIRST)


def entries(*findings: Finding) -> Entries:
    return next(block for block in top(*findings).blocks if isinstance(block, Entries))


def left(*findings: Finding) -> str:
    return to_plain(next(block for block in reversed(top(*findings).blocks) if isinstance(block, Paragraph)).line)


def test_findings_beyond_the_first_are_counted_and_info_is_shown_only_alone() -> None:
    info = finding(99, severity=Severity.INFO)
    many = [finding(number, assumptions=(f"{number}",)) for number in range(MOST_TOP + 3)]

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
    two = [finding(2, id=f"x{pool}", pools=(pool,), rule="RT-02") for pool in ("a", "b")]
    first, second = entries(*same, *two).items

    assert first.head[0].text == "3 pools"
    assert first.side_text == "1 replica"
    assert second.head[0].text == "a and b"
