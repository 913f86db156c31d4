"""Every format of `check` has what was measured on the replicas of a finding on prefix sharing."""

from typing import get_args

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.render.export import CheckFormat, written_check
from dashboard.render.verdict import verdict_of
from dashboard.rules.findings import Severity
from dashboard.views.finding_text import MOST_RULES
from tests.frozen import AT
from tests.used import with_traffic

MEASURED = (
    "Effect, measured: Prefix hit rate 10%; unaffected replicas 60%. "
    "Recomputed, avoidable (estimate): 20.0 k tokens/min."
)


def written(fleet: Fleet, kind: CheckFormat) -> str:
    verdict = verdict_of(fleet, Severity.CRITICAL, 0)
    return written_check(
        kind, fleet, verdict, Severity.CRITICAL, at=AT, options="fleet.yaml", width=200, colour=False, is_brief=False
    )


@pytest.mark.parametrize("kind", [each for each in get_args(CheckFormat) if each != "json"])
def test_what_was_measured_is_beside_the_finding_and_absent_without_traffic(
    demo_fleet: Fleet, kind: CheckFormat
) -> None:
    (found, *_) = (each for each in demo_fleet.inspection.findings if each.rule == "RT-01")
    used = with_traffic(demo_fleet, dict.fromkeys(found.replicas, 0.1), usual=0.6)

    assert MEASURED in written(used, kind).replace("%25", "%"), "GitHub unescapes it"
    assert "Effect, measured" not in written(demo_fleet, kind)


def test_the_summary_of_check_names_every_rule_with_findings(demo_fleet: Fleet) -> None:
    """Those on hit rates are never critical: in a fleet with worse findings they are in its last line."""
    summary = written(demo_fleet, "table").partition("\nSummary:\n")[2].partition("\n\n")[0]
    rules = {each.rule for each in demo_fleet.inspection.findings}

    assert len(rules) > MOST_RULES
    assert {each for each in rules if summary.count(each) != 1} == set()
