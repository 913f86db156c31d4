"""Findings as workflow commands of GitHub Actions: one line each, and foreign text begins no other command."""

from __future__ import annotations

import re
from urllib.parse import unquote

from dashboard.report.github_annotations import command, to_github_annotations
from dashboard.report.verdict import verdict_of
from dashboard.rules.findings import OutcomeKind, Severity
from tests.report.judged import evil, finding, fleet, outcome, suppression

CRITICAL, WARNING, INFO = Severity
COMMAND = re.compile(r"::(error|warning|notice) title=([^:,\r\n]+)::([^\r\n]*)")


def lines(judged: object, min_coverage: float = 100) -> list[str]:
    return to_github_annotations(judged, verdict_of(judged, CRITICAL, min_coverage)).splitlines()  # type: ignore[arg-type]


def test_a_finding_is_an_annotation_with_its_place_its_reason_and_its_remedy() -> None:
    assert lines(fleet(finding()))[0] == (
        "::error title=RT-01 block-size-differs in chat::B x2 (chat-3 and chat-4): Block size is 32 instead of 16, "
        "which 2 of 4 replicas have.%0AWhy: The router never finds what these replicas hold.%0A"
        "Do: Give these replicas the same block size.%0A--block-size 16"
    )


def test_severities_become_the_levels_that_github_has() -> None:
    judged = fleet(*(finding(severity=severity, why="") for severity in Severity))

    assert [line.split(" ")[0] for line in lines(judged)[:3]] == ["::error", "::warning", "::notice"]


def test_percent_signs_line_ends_colons_and_commas_are_written_as_github_reads_them() -> None:
    assert command("error", "a:b,c%", "90 %, d: e\r\nf") == "::error title=a%3Ab%2Cc%25::90 %25, d: e%0Af"


def test_what_is_hidden_raised_or_of_no_use_is_told_too() -> None:
    judged = fleet(
        suppressed=[finding(suppression=suppression())],
        outcomes=[outcome("CO-02", OutcomeKind.ERROR, "KeyError: 1")],
        inspected={"notes": ("take it out.",)},
        down=1,
    )

    entry = "suppressed by ann until 2026-04-30: canary"
    few = "only 4 of 5 answered, and --min-coverage is 100 %25 (not read: lost-1)"
    counts = "0 critical, 0 warning, 0 info; 1 suppressed; 4 of 5 answered. Rules on pools: 1 raised an error."
    assert lines(judged) == [
        f"::notice title=suppressed::critical RT-01 in chat, B x2 (chat-3 and chat-4): {entry}",
        "::error title=rule raised an error::CO-02 in chat: KeyError: 1",
        "::warning title=fleet.yaml::take it out.",
        f"::error title=too little could be read::{few}",
        f"::notice title=vLLM fleet::prod-eu: {counts}",
    ]


def test_an_attack_stays_inside_the_message() -> None:
    for line in lines(evil()):
        told = COMMAND.fullmatch(line)
        assert told
        assert "\x1b" not in unquote(told[3])
