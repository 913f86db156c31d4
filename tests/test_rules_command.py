"""`rules`: the list of all rules, and the page of one."""

import pytest

from dashboard.rules.catalogue import ALL_RULES
from tests.commands import assert_wrong_usage, run

pytestmark = pytest.mark.usefixtures("working_folder")


def test_rules_lists_every_rule() -> None:
    done = run("rules")

    assert (done.exit_code, done.stderr) == (0, "")
    listed = [line.split("  ")[0] for line in done.stdout.splitlines() if line[:1].isupper()]
    assert listed == [rule.id for rule in ALL_RULES]


@pytest.mark.parametrize("name", ["RT-01", "rt-01", "rt-1", "RT_1", "rt01", "block-size-differs"])
def test_a_rule_has_several_spellings(name: str) -> None:
    assert run("rules", name).stdout.startswith("RT-01: ")


def test_an_unknown_rule_is_wrong_usage_with_the_likely_one() -> None:
    assert_wrong_usage(run("rules", "block-size-difers"), "block-size-difers: unknown rule; did you mean RT-01?")


def test_columns_sets_the_width_also_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = max(map(len, run("rules").stdout.splitlines()))
    monkeypatch.setenv("COLUMNS", "80")

    assert max(map(len, run("rules").stdout.splitlines())) <= 80 < wide <= 200
