"""What stands around the evidence of one finding."""

from dashboard.web import findings_detail
from tests.builders import HOSTILE, story
from tests.findings_builder import finding, inspected_story, suppression, with_findings

FLEET = story()
CALM = with_findings(FLEET).inspection


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
        assumptions=(HOSTILE,),
        unknown=3,
        total=40,
    )
    html = findings_detail.remarks(told, inspected_story().inspection)

    assert html.count("<li>") == 4
    assert "<script" not in html
    assert "Unknown on 3 of 40 replicas: the settings that it names are not told there." in html
    assert "Assumed: " in html


def test_the_head_has_no_markup_but_ours() -> None:
    """The sentence may hold what a server told."""
    html = findings_detail.head(finding(FLEET, sentence=HOSTILE, evidence=()), {"pool": HOSTILE})

    assert "<script" not in html
    assert "<img" not in html
    assert 'class="close"' in html
    assert "assumed" not in html


def test_the_head_says_that_the_router_is_assumed_as_the_list_does() -> None:
    resting = finding(FLEET, assumptions=("router is approximate",))

    assert 'class="tag">assumed: router is approximate</span>' in findings_detail.head(resting, {})
