"""Findings as workflow commands of GitHub Actions: one line each, and foreign text begins no other command."""

import re
from urllib.parse import unquote

from dashboard.render.github_annotations import command, to_github_annotations
from dashboard.render.verdict import verdict_of
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import OutcomeKind, Remedy, Severity, Snippet
from tests.inspected_fleets import evil, finding, fleet, outcome, suppression

CRITICAL, WARNING, INFO = Severity
COMMAND = re.compile(r"::(error|warning|notice) title=([^:,\r\n]+)::([^\r\n]*)")


def lines(judged: object, min_coverage: float = 100) -> list[str]:
    return to_github_annotations(judged, verdict_of(judged, CRITICAL, min_coverage)).splitlines()  # type: ignore[arg-type]


def test_percent_signs_line_ends_colons_and_commas_are_written_as_github_reads_them() -> None:
    assert command("error", "a:b,c%", "90 %, d: e\r\nf") == "::error title=a%3Ab%2Cc%25::90 %25, d: e%0Af"


def test_what_is_hidden_raised_or_of_no_use_is_told_too() -> None:
    judged = fleet(
        suppressed=[finding(suppression=suppression())],
        outcomes=[outcome("CO-02", OutcomeKind.ERROR, "KeyError: 1")],
        inspected={"notes": ("take it out.",)},
        down=1,
    )

    entry = "suppressed until 2026-04-30 by ann: canary"
    few = "only 4 of 5 answered, below --min-coverage 100 %25 (unreachable: lost-1)"
    counts = "0 critical, 0 warning, 0 info; 1 suppressed; 4 of 5 answered"
    rules = f"{len(ALL_RULES)} rules: 0 evaluated, 1 error, {len(ALL_RULES) - 1} n/a"
    assert lines(judged) == [
        f"::notice title=vLLM fleet::prod-eu: {counts}. {rules}.",
        f"::error title=coverage::{few}",
        "::error title=rule error::CO-02 in chat: KeyError: 1",
        "::warning title=options::take it out.",
        f"::notice title=suppressed::critical RT-01 in chat, B x2 (chat-3 and chat-4): {entry}",
    ]


def test_github_shows_few_of_each_level_so_the_summary_comes_first_and_then_the_worst() -> None:
    found = [finding(severity=severity) for severity in Severity]
    raised = [outcome("CO-02", OutcomeKind.ERROR, "KeyError: 1")]
    told = lines(fleet(*found, outcomes=raised, inspected={"notes": ("take it out.",)}))

    assert told[0].startswith("::notice title=vLLM fleet::")
    assert [line.split(" ")[0] for line in told[1:]] == ["::error", "::error", "::warning", "::warning", "::notice"]


def test_the_same_finding_on_several_pools_is_one_annotation() -> None:
    told = lines(fleet(finding(), finding(subject="b", sentence="Block size is 8."), finding("RT-05")))

    assert len(told) == 3
    assert told[1].startswith("::error title=RT-01 block-size-differs in chat and b::chat, B x2 (chat-3 and chat-4): ")
    assert "%0Ab, B x2 (chat-3 and chat-4): Block size is 8.%0AWhy: " in told[1]
    assert told[1].count("--block-size 16") == 1


def test_yaml_is_told_once_and_what_is_typed_always() -> None:
    pasted = (Snippet("yaml", "a: 1"), Snippet("flag", "--a"))
    told = lines(fleet(finding(remedy=Remedy("x.", pasted)), finding(severity=WARNING, remedy=Remedy("x.", pasted))))

    assert told[1].endswith("Do: x.%0Aa: 1%0A--a")
    assert told[2].endswith("Do: x.%0A--a")


def test_an_attack_stays_inside_the_message() -> None:
    for line in lines(evil()):
        told = COMMAND.fullmatch(line)
        assert told
        assert "\x1b" not in unquote(told[3])
