"""What the page Findings says in words: its head, who is concerned, why a domain makes it bad."""

from collections.abc import Iterable, Mapping

from dashboard.fleet.formatting import joined
from dashboard.fleet.pieces import Style, Text
from dashboard.report.findings.cohorts import are_few, named_cohorts
from dashboard.rules.findings import CohortShare, Finding, Severity
from dashboard.views import pages
from dashboard.views.names import brief
from dashboard.web import links, markup

MOST_CHIPS = 4  # cohorts of one finding that a list shows


def text_html(text: Text) -> str:
    """Return the HTML of a text; values are in monospace."""
    return "".join(markup.code(each.text) if each.style is Style.CODE else markup.text(each.text) for each in text)


def chips(shares: Iterable[CohortShare], pools: int) -> str:
    """Show cohorts as `B ×2`, or `B` for one replica, with their pool where there are several. HTML."""
    shown = list(shares)
    words = [_chip(share, pools) for share in shown[:MOST_CHIPS]]
    words += [markup.muted(f"and {len(shown) - MOST_CHIPS:,} more cohorts")] if len(shown) > MOST_CHIPS else []
    return " ".join(f'<span class="chip">{word}</span>' for word in words)


def whose(finding: Finding, names: Mapping[str, str]) -> str:
    """Show the cohorts of a finding, each with the names of its replicas if all are few. HTML."""
    pools = len({share.pool for share in finding.cohorts})
    if not are_few(finding):
        return chips(finding.cohorts, pools)
    return beside(
        f"{chips([each.share], pools)} {markup.parts(', '.join(map(brief, each.names)), ',')}"
        for each in named_cohorts(finding, names)
    )


def beside(cohorts: Iterable[str]) -> str:
    """Put cohorts with their names beside each other: of several, a line breaks between them if it can. HTML."""
    told = list(cohorts)
    return markup.spans(told, ",") if len(told) > 1 else "".join(told)


def severity_mark(severity: Severity) -> str:
    """Draw a severity: colour, glyph and word. HTML."""
    return f'{markup.glyph(severity, "")}<span class="severity">{severity}</span>'


def pool_links(pools: Iterable[str]) -> str:
    """Link pools to Compare. HTML."""
    shown = [markup.link(links.to(pages.COMPARE, pool=pool), markup.text(brief(pool)), title=pool) for pool in pools]
    return joined(shown)


def _chip(share: CohortShare, pools: int) -> str:
    letter = markup.letter(share.letter) if share.letter else markup.muted("not read")
    where = f"{markup.text(brief(share.pool))} " if pools > 1 and share.pool else ""
    return f"{where}{letter} ×{share.number:,}" if share.number > 1 else f"{where}{letter}"
