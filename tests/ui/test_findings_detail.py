"""What stands around the evidence of one finding."""

from __future__ import annotations

from dashboard.report.pools.domain_words import facet_of
from dashboard.rules.domain import Facet
from dashboard.rules.findings import Confidence
from dashboard.ui import findings_detail
from tests.builders import HOSTILE, story
from tests.findings_builder import finding, inspected_story, judged, suppression

FLEET = story()
CALM = judged(FLEET).inspection


def test_a_plain_finding_has_no_remarks() -> None:
    """Reported, known everywhere, in no rollout, never suppressed."""
    assert findings_detail.remarks(finding(FLEET), CALM) == ""


def test_everything_else_that_holds_is_a_line() -> None:
    """Expired, rollout, assumed, unknown: all of them may hold at once."""
    told = finding(
        FLEET,
        ["embed-8b-01"],
        expired=suppression(owner=HOSTILE),
        is_rollout=True,
        confidence=Confidence.ASSUMED,
        unknown=3,
        total=40,
    )
    html = findings_detail.remarks(told, inspected_story().inspection)

    assert html.count("<li>") == 4
    assert "<script" not in html
    assert "Unknown on 3 of 40 replicas: the settings that it names are not told there." in html
    assert "Holds unless something that no replica tells says otherwise." in html


def test_the_facet_is_the_one_whose_reason_the_finding_gives() -> None:
    """A rule or a reason that is not known has none."""
    assert facet_of(finding(FLEET)) is Facet.PREFIX_HASH
    assert facet_of(finding(FLEET, why="other")) is None
    assert facet_of(finding(FLEET, rule="ZZ-99")) is None


def test_the_head_has_no_markup_but_ours() -> None:
    """The sentence may hold what a server told."""
    html = findings_detail.head(finding(FLEET, sentence=HOSTILE, evidence=()), {"pool": HOSTILE})

    assert "<script" not in html
    assert "<img" not in html
    assert 'class="close"' in html
    assert "router assumed" not in html


def test_the_head_says_that_the_router_is_assumed_as_the_list_does() -> None:
    assert 'class="tag">router assumed</span>' in findings_detail.head(finding(FLEET), {}, router_assumed=True)
