"""Findings counted, as glyphs with numbers: what tables, cards and the header show."""

from dashboard.fleet.formatting import count
from dashboard.report.findings.head import NOUNS
from dashboard.rules.findings import Severity, Tally
from dashboard.views import pages
from dashboard.web import links, markup


def tally_glyphs(tally: Tally, *, pool: str | None = None) -> str:
    """Draw the counts by severity, each a link to the findings of that severity, in a pool if one is given. HTML.

    Empty where nothing was found: what that means, only the place that shows it knows.
    """
    return " ".join(
        markup.link(
            links.to(pages.FINDINGS, severity=severity, pool=pool),
            f"{markup.glyph(severity, '')}{markup.bold(f'{number:,}')}{markup.said(count(number, *NOUNS[severity]))}",
            title=count(number, *NOUNS[severity]),
            css="count",
        )
        for severity in Severity
        if (number := getattr(tally, severity))
    )
