"""What is left out of the findings on purpose: those that somebody answers for, and differences that are ignored."""

from collections.abc import Iterable, Mapping, Sequence

from dashboard.fleet import Pool
from dashboard.fleet.formatting import count
from dashboard.report.findings.listed import Listed
from dashboard.rules.findings import Finding
from dashboard.views import pages
from dashboard.views.finding_entries import where_of
from dashboard.web import findings_words, links, markup

MOST_ROWS = 100  # rows of a table
MOST_PATHS = 8  # settings that a cell names


def suppressed_html(
    suppressed: Sequence[Listed], notes: Iterable[str], names: Mapping[str, str], address: Mapping[str, str]
) -> str:
    """List what is suppressed with who answers for it, and what in fleet.yaml has no effect. HTML."""
    said = "".join(markup.notice("warning", markup.text(note)) for note in notes)
    if not suppressed:
        return f'{said}<div class="foot">Nothing is suppressed.</div>'
    head = (("Finding", ""), ("Where", ""), ("Owner", ""), ("Reason", ""), ("Until", "short"))
    rows = [_suppressed(each, names, address) for each in suppressed[:MOST_ROWS]]
    table = markup.table("Suppressed findings", head, rows, {"Finding": "suppressed"})
    left = len(suppressed) - MOST_ROWS
    more = f'<div class="foot">and {left:,} more</div>' if left > 0 else ""
    return f'<div class="exempt">{said}{table}{more}</div>'


def ignored_html(pools: Iterable[Pool], globs: Sequence[str]) -> str:
    """List per pool the differences that fleet.yaml leaves out of all comparing. HTML."""
    if not globs:
        return '<div class="foot">fleet.yaml ignores nothing.</div>'
    said = f"fleet.yaml ignores {', '.join(map(markup.code, globs))}: these never make a finding."
    held = [pool for pool in pools if pool.ignored]
    if not held:
        return f'<div class="foot">{said} No pool differs in any of them.</div>'
    rows = [
        (findings_words.pool_links([pool.name]), f"{len(pool.ignored):,}", _paths(pool.ignored))
        for pool in held[:MOST_ROWS]
    ]
    left = len(held) - MOST_ROWS
    more = f" And {count(left, 'more pool')}." if left > 0 else ""
    table = markup.table("Ignored differences", (("Pool", ""), ("Differences", "number"), ("Settings", "")), rows)
    return f'<div class="exempt">{table}<div class="foot">{said}{more}</div></div>'


def _suppressed(listed: Listed, names: Mapping[str, str], address: Mapping[str, str]) -> tuple[str, ...]:
    finding, by = listed.finding, listed.finding.suppression
    sentence = findings_words.text_html(finding.text)
    link = markup.link(links.to(pages.FINDINGS, **address, finding=listed.key), sentence)
    what = f"{findings_words.severity_mark(finding.severity)} {markup.muted(finding.rule)}<br>{link}"
    told = (by.owner, by.reason, by.until) if by else ("", "", "")
    return (what, _where(finding, names), *map(markup.text, told))


def _where(finding: Finding, names: Mapping[str, str]) -> str:
    return f"{markup.bold(where_of(finding))}<br>{findings_words.whose(finding, names)}"


def _paths(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MOST_PATHS:,} more" if len(paths) > MOST_PATHS else ""
    return ", ".join(map(markup.code, paths[:MOST_PATHS])) + more
