"""The findings of a fleet as workflow commands of GitHub Actions: annotations on the run, the worst first.

GitHub shows ten errors and ten warnings of a step, the rest only in the log. So the same finding in several pools is
one annotation, and the summary is first.
"""

from collections.abc import Iterator, Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import end_cut, without_commands
from dashboard.render.verdict import Verdict
from dashboard.rules.catalogue import places
from dashboard.rules.findings import Finding, OutcomeKind, Remedy, Severity, Snippet
from dashboard.views import finding_text
from dashboard.views.effect import finding_line
from dashboard.views.summary import rules_text

LEVELS = {Severity.CRITICAL: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
LONGEST = 1000  # characters of one line
YAML = "yaml"
# How the runner reads a command back (actions/toolkit, packages/core/src/command.ts).
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def to_github_annotations(fleet: Fleet, verdict: Verdict) -> str:
    """Return one command a line: summary, coverage, findings, rule errors, rollouts, suppressions."""
    inspection, names = fleet.inspection, fleet.names
    counts = f"{finding_text.severity_counts(inspection.findings)}; {len(inspection.suppressed):,} suppressed"
    summary = f"{fleet.name}: {counts}; {finding_text.answered(fleet)}. {rules_text(inspection)}. {verdict.left_out}"
    lines = [command("notice", "vLLM fleet", summary.rstrip())]
    if verdict.too_little:
        lines.append(command("error", "coverage", verdict.too_little))
    found = list(_findings(fleet))
    lines += [line for level, line in found if level == "error"]
    lines += [command("error", "rule error", each) for each in finding_text.reasons_of(inspection, OutcomeKind.ERROR)]
    lines += [line for level, line in found if level == "warning"]
    lines += _together("warning", "options", inspection.notes)
    lines += [line for level, line in found if level == "notice"]
    lines += _together("notice", "rollout", finding_text.rollouts(inspection))
    lines += _together("notice", "suppressed", finding_text.suppressed(inspection, names))
    return "".join(f"{line}\n" for line in lines)


def command(level: str, title: str, message: str, place: Mapping[str, str] | None = None) -> str:
    """Write one workflow command; foreign text in it can begin no other. `place` has `file`, `line` and `col`."""
    lines = without_commands("\n".join(end_cut(line, LONGEST) for line in message.splitlines()))
    properties = {"title": title, **(place or {})}
    written = (f"{name}={_escaped(without_commands(end_cut(each)), _PROPERTY)}" for name, each in properties.items())
    return f"::{level} {','.join(written)}::{_escaped(lines, _DATA)}"


def _together(level: str, title: str, lines: Sequence[str]) -> list[str]:
    return [command(level, title, "\n".join(lines))] if lines else []


def _findings(fleet: Fleet) -> Iterator[tuple[str, str]]:
    """Yield (level, command), one for all findings that differ only in where they are and in numbers.

    A YAML snippet is shown once: it is pasted once.
    """
    alike: dict[tuple[str, Severity, str, Remedy], list[Finding]] = {}
    for each in fleet.inspection.findings:
        alike.setdefault((each.rule, each.severity, each.why, each.remedy), []).append(each)
    shown: set[Snippet] = set()
    for (rule, severity, why, remedy), same in alike.items():
        fresh = tuple(each for each in remedy.snippets if each.kind != YAML or each not in shown)
        shown.update(fresh)
        lines = [
            *(_where(each, fleet, is_only=len(same) == 1) for each in same),
            *([f"Why: {why}"] if why else []),
            f"Do: {remedy.sentence}",
            *finding_text.paste_lines(remedy._replace(snippets=fresh)),
        ]
        where = dict.fromkeys(place for each in same for place in places(each))
        title = f"{finding_text.rule_title(rule)} in {finding_text.first_names(where)}"
        yield LEVELS[severity], command(LEVELS[severity], title, "\n".join(lines))


def _where(finding: Finding, fleet: Fleet, *, is_only: bool) -> str:
    place = "" if is_only else f"{finding_text.where(finding)}, "
    found = f"{place}{finding_text.replicas_text(finding, fleet.names)}: {finding.sentence}"
    return " ".join(filter(None, (found, *finding_text.remarks(finding), finding_line(fleet, finding))))


def _escaped(text: str, rules: dict[str, str]) -> str:
    return "".join(rules.get(character, character) for character in text)
