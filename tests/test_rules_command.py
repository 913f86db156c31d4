"""`rules`: the list of all rules, and the page of one."""

import pytest
from typer.testing import CliRunner, Result

from dashboard.cli import cli
from dashboard.rules.catalogue import ALL_RULES


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_rules_lists_them_all() -> None:
    done = run("rules")

    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split("  ")[0] for line in done.stdout.splitlines() if line[:1].isupper()] == [
        rule.id for rule in ALL_RULES
    ]


def test_a_rule_that_is_not_there_is_wrong_usage_with_the_one_that_was_meant() -> None:
    done = run("rules", "block-size-difers")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "exit 2: wrong usage: block-size-difers: unknown rule; did you mean RT-01?\n"


def test_the_width_that_is_asked_for_holds_in_a_pipe_too(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = max(map(len, run("rules").stdout.splitlines()))
    monkeypatch.setenv("COLUMNS", "80")

    assert max(map(len, run("rules").stdout.splitlines())) <= 80 < wide <= 200
