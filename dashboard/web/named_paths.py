"""The findings that name a setting or a replica, as a list."""

from collections.abc import Iterable

from dashboard.rules.findings import Finding
from dashboard.views import pages
from dashboard.views.finding_text import rule_title
from dashboard.web import links, markup


def finding_lines(findings: Iterable[Finding]) -> str:
    """Return findings as HTML, each with its text and a link to it."""
    return markup.entries((finding.severity, _sentence(finding), _rule(finding)) for finding in findings)


def _sentence(finding: Finding) -> str:
    return f"{markup.glyph(finding.severity, f'{finding.severity}:')} {markup.pieces(finding.text)}"


def _rule(finding: Finding) -> str:
    return markup.link(links.to(pages.FINDINGS, finding=finding.id), markup.text(rule_title(finding.rule)))
