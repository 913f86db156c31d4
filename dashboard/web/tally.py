"""Findings counted, as glyphs with numbers: in tables, cards and the header."""

from dashboard.fleet.formatting import count
from dashboard.report.findings.head import NOUNS
from dashboard.rules.findings import Severity, Tally
from dashboard.views import pages
from dashboard.web import links, markup


def tally_glyphs(tally: Tally, **choices: str) -> str:
    """Return the counts by severity as HTML, each a link to these findings with more URL choices; empty without any."""
    counts = [(severity, getattr(tally, severity)) for severity in Severity if getattr(tally, severity)]
    return " ".join(
        markup.link(
            links.to(pages.FINDINGS, severity=severity, **choices),
            f"{markup.glyph(severity, '')}{markup.bold(f'{number:,}')}{markup.said(count(number, *NOUNS[severity]))}",
            title=count(number, *NOUNS[severity]),
            css="count",
        )
        for severity, number in counts
    )
