"""The findings of a fleet as workflow commands of GitHub Actions: annotations on the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.report import finding_words as words
from dashboard.report.table import plain
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Severity

if TYPE_CHECKING:
    from dashboard.fleet import Fleet
    from dashboard.report.verdict import Verdict
    from dashboard.rules.findings import Finding

LEVELS = {Severity.CRITICAL: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
LONGEST = 1000  # characters of one line
# How the runner reads a command back (actions/toolkit, packages/core/src/command.ts).
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def to_github_annotations(fleet: Fleet, verdict: Verdict) -> str:
    """Write one command a line: each finding, what was suppressed or raised, and whether too few answered."""
    inspection, names = fleet.inspection, words.replica_names(fleet)
    lines = [_finding(each, words.who(each, names)) for each in inspection.findings]
    lines += [command("notice", "suppressed", each) for each in words.suppressed(inspection, names)]
    lines += [command("error", "rule raised an error", each) for each in words.raised(inspection)]
    lines += [command("warning", "fleet.yaml", each) for each in inspection.notes]
    lines += [command("notice", "rollout", each) for each in words.rollouts(inspection)]
    if verdict.too_little:
        lines.append(command("error", "too little could be read", verdict.too_little))
    counts = f"{words.counted(inspection.findings)}; {len(inspection.suppressed):,} suppressed; {words.answered(fleet)}"
    lines.append(command("notice", "vLLM fleet", f"{fleet.name}: {counts}. {words.judged(inspection)}"))
    return "".join(f"{line}\n" for line in lines)


def command(level: str, title: str, message: str) -> str:
    """Write one workflow command; foreign text in it can begin no other."""
    lines = "\n".join(plain(line, LONGEST) for line in message.splitlines())
    return f"::{level} title={_escaped(plain(title), _PROPERTY)}::{_escaped(lines, _DATA)}"


def _finding(finding: Finding, who: str) -> str:
    title = f"{finding.rule} {BY_ID[finding.rule].name} in {finding.subject}"
    lines = [
        f"{who}: {finding.sentence}",
        *([f"Why: {finding.why}"] if finding.why else []),
        f"Do: {finding.remedy.sentence}",
        *(snippet.text for snippet in finding.remedy.snippets),
        *words.remarks(finding),
    ]
    return command(LEVELS[finding.severity], title, "\n".join(lines))


def _escaped(text: str, rules: dict[str, str]) -> str:
    return "".join(rules.get(character, character) for character in text)
