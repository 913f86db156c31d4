"""The findings of a fleet as Markdown, for a comment on a pull request: what is foreign can never become markup."""

from collections.abc import Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import without_commands
from dashboard.render.markdown_text import MOST_CHARACTERS, escaped, fenced, with_code, within
from dashboard.report.findings import words
from dashboard.report.findings.judged_rules import rules_words
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Finding, Inspection, Snippet
from dashboard.views.names import replica_names

MOST_LINES = 50  # of what is suppressed, skipped or not read; the rest is counted
PAGES = "`python -m dashboard rules ID` prints the page of a rule, such as `python -m dashboard rules RT-01`."
_LANGUAGES = {"flag": "sh", "env": "sh", "shell": "sh", "yaml": "yaml"}


def to_findings_markdown(fleet: Fleet) -> str:
    """Write the findings as one comment of at most MOST_CHARACTERS characters; what does not fit is counted."""
    inspection, names = fleet.inspection, replica_names(fleet)
    head = [
        f"## vLLM fleet: {within(fleet.name)}",
        f"**{words.counted(inspection.findings)}** · {words.answered(fleet)} · {rules_words(inspection)}",
    ]
    tail = [
        *_folded("assumptions (not configured)", words.assumptions(inspection)),
        *_folded("in a rollout", words.rollouts(inspection)),
        *_folded("suppressed", words.suppressed(inspection, names)),
        *_folded("not judged, for the rule itself raised an error", words.raised(inspection)),
        *_folded("skipped (not reported)", words.skipped(inspection)),
        *_folded("to mind", inspection.notes),
        *_folded("not read", words.unread(fleet)),
        *([PAGES] if inspection.findings else []),
    ]
    room = MOST_CHARACTERS - sum(map(len, [*head, *tail]))
    return without_commands("\n\n".join([*head, *_fitting(inspection, names, room), *tail]) + "\n")


def _fitting(inspection: Inspection, names: Mapping[str, str], room: int) -> list[str]:
    told: list[str] = []
    findings = inspection.findings
    for number, (finding, earlier) in enumerate(words.with_earlier(findings)):
        text = "\n\n".join(_finding(finding, names, earlier))
        room -= len(text)
        if room < 0:
            return [*told, f"**and {len(findings) - number:,} more, for which there is no room here**"]
        told.append(text)
    return told


def _finding(finding: Finding, names: Mapping[str, str], earlier: Finding | None) -> list[str]:
    title = f"{words.GLYPHS[finding.severity]} {finding.severity}: {finding.rule} {BY_ID[finding.rule].name}"
    return [
        f"### {title} in {within(words.where(finding))}",
        f"**{within(words.who(finding, names))}**: {within(finding.sentence)}",
        *([escaped(words.as_in(finding, earlier, names))] if earlier else _advice(finding)),
        *map(escaped, words.remarks(finding)),
    ]


def _advice(finding: Finding) -> list[str]:
    return [
        *([f"Why it matters: {with_code(finding.why)}"] if finding.why else []),
        f"What to do: {with_code(finding.remedy.sentence)}",
        *words.pasteable(finding.remedy, _pasteable),
    ]


def _pasteable(snippet: Snippet) -> str:
    return fenced(snippet.text, _LANGUAGES.get(snippet.kind, ""))


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    hidden = len(lines) - MOST_LINES
    told = [f"- {escaped(each)}" for each in lines[:MOST_LINES]] + ([f"- and {hidden:,} more"] if hidden > 0 else [])
    return [f"<details><summary>{len(lines):,} {title}</summary>", "\n".join(told), "</details>"]
