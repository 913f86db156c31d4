"""What stands above a list of findings."""

from dataclasses import replace

import pytest

from dashboard.fleet import Baseline
from dashboard.report.findings.head import lead, tally_words
from dashboard.rules.findings import Inspection, Tally
from dashboard.rules.policy import Policy
from tests.builders import story


def test_counts_are_written_by_severity_with_nothing_for_none() -> None:
    """One warning, two warnings; info has no plural."""
    assert tally_words(Tally(critical=2, warning=1, info=3)) == "2 critical, 1 warning, 3 info"
    assert tally_words(Tally(warning=1_000)) == "1,000 warnings"


@pytest.mark.parametrize(
    ("baselines", "words"),
    [
        ((), "1 entry of fleet.yaml without effect"),
        ((Baseline("agreed", "chat"),), "1 entry of fleet.yaml or a baseline without effect"),
    ],
)
def test_what_has_no_effect_is_looked_for_where_it_is_written(baselines: tuple[Baseline, ...], words: str) -> None:
    """A misspelt path of a baseline is no entry of fleet.yaml."""
    fleet = replace(story(), inspection=Inspection(notes=("x matches nothing.",)), policy=Policy(baselines=baselines))

    assert lead(fleet).endswith(words)
