"""Which settings of a pool a finding names, and which findings those are: what Compare marks."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from dashboard.ui import findings_words, links, markup
from dashboard.ui.findings_controls import rule_title

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dashboard.rules.findings import Finding, Inspection, Severity


def by_path(inspection: Inspection, pool: str) -> Mapping[str, list[Finding]]:
    """Return the findings of a pool by the settings that they name, the worst first."""
    named: dict[str, list[Finding]] = defaultdict(list)
    for finding in inspection.findings:
        for path in finding.paths if pool in finding.pools else ():
            named[path].append(finding)
    return named


def worst(named: Mapping[str, list[Finding]]) -> dict[str, Severity]:
    """Return the worst severity of each setting that a finding names."""
    return {path: findings[0].severity for path, findings in named.items()}


def finding_lines(findings: Iterable[Finding]) -> str:
    """List findings, each with its sentence and a link to it. HTML."""
    return markup.entries((finding.severity, _sentence(finding), _rule(finding)) for finding in findings)


def _sentence(finding: Finding) -> str:
    glyph = markup.glyph(finding.severity, f"{finding.severity}:")
    return f"{glyph} {findings_words.sentence_html(finding.sentence, finding.evidence)}"


def _rule(finding: Finding) -> str:
    return markup.link(links.to(links.FINDINGS, finding=finding.id), markup.text(rule_title(finding.rule)))
