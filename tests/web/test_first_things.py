"""The worst findings stand on Overview as sentences with what they break, on whom, and links."""

from dataclasses import replace
from typing import Any

from dashboard.fleet import State
from dashboard.report.findings.first import MOST
from dashboard.rules.findings import CohortShare, Confidence, Evidence, Finding, Inspection, Remedy, Severity, Tally
from dashboard.views.pool_comparison import findings_by_path, worst_by_path
from dashboard.web import markup, named_paths
from dashboard.web.first_things import first_things
from tests.builders import HOSTILE, fleet, replica

BLOCKS = "cache_config.block_size"


def finding(number: int = 1, **more: Any) -> Finding:
    """A critical finding of one replica."""
    given: dict[str, Any] = {
        "id": f"id{number}",
        "rule": "RT-01",
        "severity": Severity.CRITICAL,
        "confidence": Confidence.REPORTED,
        "subject": "chat",
        "pools": ("chat",),
        "replicas": ("http://chat-1:8000",),
        "cohorts": (CohortShare("chat", "B", ("http://chat-1:8000",)),),
        "sentence": f"Block size is {number}.",
        "why": "Prefixes are not found.",
        "remedy": Remedy("Change it."),
        "evidence": (Evidence(BLOCKS, str(number), State.REPORTED),),
    }
    return Finding(**{**given, **more})


def drawn(*findings: Finding, **more: Any) -> list[tuple[str, str, str]]:
    members = [replica(f"chat-{number}") for number in range(1, 9)]
    return first_things(replace(fleet(members), inspection=Inspection(findings=findings, **more)))


def test_an_entry_says_what_is_wrong_what_it_breaks_and_who() -> None:
    ((kind, what, whose),) = drawn(finding())

    assert kind == "critical"
    assert 'href="findings?finding=id1"><b>chat</b></a> Block size is <code>1</code>.' in what
    assert "<small>Prefixes are not found.</small>" in what
    assert 'href="replica?replica=http%3A%2F%2Fchat-1%3A8000"' in whose
    assert ">B</span>" in whose


def test_an_entry_says_quietly_that_its_router_is_assumed_and_nothing_of_one_that_fleet_yaml_tells() -> None:
    resting = replace(finding(), assumptions=("router is approximate",))
    ((_, assumed, _),), ((_, known, _),) = (drawn(each) for each in (resting, finding()))

    assert 'Prefixes are not found. <span class="mute">Assumed: router is approximate.</span></small>' in assumed
    assert "ssumed" not in known


def test_what_is_not_shown_is_counted_and_information_is_left_to_its_page() -> None:
    many = [finding(number) for number in range(MOST + 3)]
    rows = drawn(*many, finding(99, severity=Severity.INFO))

    assert len(rows) == MOST + 1
    assert ">4 more findings</a>" in rows[-1][1]


def test_what_stands_in_the_list_beside_is_only_counted() -> None:
    """Replicas that could not be read; without anything else no list of one line is drawn for them."""
    unread = finding(7, rule="ID-05", severity=Severity.WARNING)

    assert [kind for kind, _, _ in drawn(finding(), unread)] == ["critical", "unknown"]
    assert ">1 more finding</a>" in drawn(finding(), unread)[-1][1]
    assert drawn(unread) == []


def test_information_alone_is_shown() -> None:
    assert [kind for kind, _, _ in drawn(finding(severity=Severity.INFO))] == ["info"]


def test_the_same_of_many_pools_is_one_entry() -> None:
    same = [finding(1, id=f"id{pool}", pools=(pool,), subject=pool) for pool in ("a", "b", "c")]
    two = [finding(2, id=f"x{pool}", pools=(pool,)) for pool in ("a", "b")]
    (_, first, whose), (_, second, _) = drawn(*same, *two)

    assert "<b>3 pools</b>" in first
    assert "<b>a and b</b>" in second
    assert whose == "1 replica"


def test_many_replicas_are_told_by_cohort_and_a_finding_without_a_pool_is_of_the_fleet() -> None:
    ids = tuple(f"http://chat-{number}:8000" for number in range(1, 6))
    rows = drawn(finding(replicas=ids, cohorts=(CohortShare("chat", "B", ids),), pools=(), is_rollout=True))

    assert "<b>fleet</b>" in rows[0][1]
    assert "Rollout in progress." in rows[0][1]
    assert "×5" in rows[0][2]


def test_hostile_text_stays_text() -> None:
    rows = drawn(finding(sentence=HOSTILE, pools=(HOSTILE,), replicas=(HOSTILE,), why=HOSTILE))

    assert "<script>" not in "".join(rows[0])
    assert "<img" not in "".join(rows[0])


def test_counts_link_to_the_findings_of_their_severity() -> None:
    html = markup.tally_glyphs(Tally(critical=2, info=1), pool="chat")

    assert 'href="findings?severity=critical&amp;pool=chat"' in html
    assert 'title="2 critical findings"' in html
    assert 'title="1 finding for information"' in html
    assert "warning" not in html
    assert markup.tally_glyphs(Tally(unknown=3)) == ""


def test_a_setting_is_marked_by_the_worst_finding_that_names_it_in_this_pool() -> None:
    mild = finding(2, severity=Severity.INFO)
    inspection = Inspection(findings=(finding(1), mild, finding(3, pools=("other",))))
    named = findings_by_path(inspection, "chat")

    assert worst_by_path(inspection, "chat") == {BLOCKS: Severity.CRITICAL}
    assert [each.id for each in named[BLOCKS]] == ["id1", "id2"]
    html = named_paths.finding_lines(named[BLOCKS])
    assert "Block size is <code>1</code>." in html
    assert 'href="findings?finding=id2">RT-01 block-size-differs</a>' in html
