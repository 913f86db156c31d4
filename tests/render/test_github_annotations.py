"""Findings as workflow commands of GitHub Actions: one line each; foreign text begins no other command."""

import re
from urllib.parse import unquote

from dashboard.analysis.assembly import Fleet
from dashboard.render.github_annotations import command, to_github_annotations
from dashboard.render.verdict import verdict_of
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import OutcomeKind, Remedy, Severity, Snippet
from tests.inspected_fleets import evil, finding, fleet, outcome, suppression

COMMAND = re.compile(r"::(error|warning|notice) title=([^:,\r\n]+)::([^\r\n]*)")
RAISED = outcome("CO-02", OutcomeKind.ERROR, "KeyError: 1")


def lines(checked: Fleet) -> list[str]:
    return to_github_annotations(checked, verdict_of(checked, Severity.CRITICAL, 100)).splitlines()


def test_special_characters_are_escaped_as_github_reads_them() -> None:
    assert command("error", "a:b,c%", "90 %, d: e\r\nf") == "::error title=a%3Ab%2Cc%25::90 %25, d: e%0Af"


def test_coverage_rule_errors_unused_options_and_suppressions_have_a_line() -> None:
    hidden = finding(suppression=suppression())
    rules = f"{len(ALL_RULES)} rules: 0 evaluated, 1 error, {len(ALL_RULES) - 1} n/a"

    assert lines(fleet(suppressed=[hidden], outcomes=[RAISED], inspected={"notes": ("Unused.",)}, down=1)) == [
        f"::notice title=vLLM fleet::prod-eu: 0 critical, 0 warning, 0 info; 1 suppressed; 4 of 5 answered. {rules}.",
        "::error title=coverage::only 4 of 5 answered, below --min-coverage 100%25 (unreachable: lost-1)",
        "::error title=rule error::CO-02 in chat: KeyError: 1",
        "::warning title=options::Unused.",
        (
            "::notice title=suppressed::critical RT-01 in chat, B x2 (chat-3 and chat-4): "
            "suppressed until 2026-04-30 by ann: canary"
        ),
    ]


def test_the_summary_is_first_and_the_worst_findings_follow() -> None:
    """GitHub shows ten lines of each level."""
    found = [finding(severity=severity) for severity in Severity]
    first, *rest = lines(fleet(*found, outcomes=[RAISED], inspected={"notes": ("Unused.",)}))

    assert first.startswith("::notice title=vLLM fleet::")
    assert [line.split(" ")[0] for line in rest] == ["::error", "::error", "::warning", "::warning", "::notice"]


def test_a_yaml_snippet_is_shown_once_and_a_flag_always() -> None:
    remedy = Remedy("x.", (Snippet("yaml", "a: 1"), Snippet("flag", "--a")))
    _, first, second = lines(fleet(finding(remedy=remedy), finding(severity=Severity.WARNING, remedy=remedy)))

    assert first.endswith("Do: x.%0Aa: 1%0A--a")
    assert second.endswith("Do: x.%0A--a")


def test_foreign_text_stays_inside_the_message() -> None:
    for line in lines(evil()):
        found = COMMAND.fullmatch(line)
        assert found
        assert "\x1b" not in unquote(found[3])
