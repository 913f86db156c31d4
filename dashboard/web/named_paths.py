"""The findings that name a setting or a replica, as a list."""

from collections.abc import Iterable

from dashboard.rules.findings import Finding
from dashboard.views import pages
from dashboard.web import findings_words, links, markup
from dashboard.web.findings_controls import rule_title


def finding_lines(findings: Iterable[Finding]) -> str:
    """List findings, each with its sentence and a link to it. HTML."""
    return markup.entries((finding.severity, _sentence(finding), _rule(finding)) for finding in findings)


def _sentence(finding: Finding) -> str:
    glyph = markup.glyph(finding.severity, f"{finding.severity}:")
    return f"{glyph} {findings_words.text_html(finding.text)}"


def _rule(finding: Finding) -> str:
    return markup.link(links.to(pages.FINDINGS, finding=finding.id), markup.text(rule_title(finding.rule)))
