"""What stands above a list of findings."""

from __future__ import annotations

from dashboard.report.findings.head import tally_words
from dashboard.rules.findings import Tally


def test_counts_are_written_by_severity_with_nothing_for_none() -> None:
    """One warning, two warnings; info has no plural."""
    assert tally_words(Tally(critical=2, warning=1, info=3)) == "2 critical, 1 warning, 3 info"
    assert tally_words(Tally(warning=1_000)) == "1,000 warnings"
