"""The list of frozen snapshots: what each holds, the newest data first. HTML."""

from collections.abc import Sequence
from datetime import datetime

from dashboard.fleet.formatting import count, iso, one_line, short_id, size
from dashboard.report.findings.head import NOUNS
from dashboard.rules.findings import Severity
from dashboard.store import Stored
from dashboard.store.sidecar import Sidecar
from dashboard.views import pages
from dashboard.views.context import AS_OF, IMPORTED
from dashboard.web import links, markup

MOST_LISTED = 100  # the others are found by search
UNNAMED = "without a name"
_HEAD = (
    ("Snapshot", ""),
    ("Id", ""),
    ("Data as of", ""),
    ("Fleet", "short"),
    ("Answered", "number"),
    ("Findings", ""),
    ("Size", "number roomy"),
    ("Notes", "number"),
    ("", ""),
)
_TERMS = {"Answered": "coverage"}


def words(stored: Stored) -> str:
    """Write a snapshot on one line: its name, the time of its data unless the name says it, its id."""
    name, as_of = stored.beside.name or UNNAMED, iso(stored.beside.data_as_of)
    return " · ".join([name, *([] if as_of in name else [as_of]), short_id(stored.id)])


def name_or_default(typed: str | None, fleet: str, data_as_of: datetime | None) -> str:
    """Return what a snapshot is to be called: what somebody typed, else its fleet and the time of its data."""
    return one_line((typed or "").strip() or (f"{fleet} {iso(data_as_of)}" if data_as_of else fleet))


def as_of(beside: Sidecar) -> str:
    """Write the time of a snapshot's data, or where it was made of saved answers, that of their import."""
    return f"{IMPORTED if beside.saved_answers else AS_OF}{iso(beside.data_as_of)}"


def times(beside: Sidecar) -> str:
    """Say when a snapshot was frozen, and when it was imported if that was elsewhere."""
    imported = f" · imported {iso(beside.imported_at)}" if beside.imported_at else ""
    return f"frozen {iso(beside.frozen_at)}{imported}"


def matching(known: Sequence[Stored], search: str) -> tuple[Stored, ...]:
    """Return the snapshots whose name or fleet holds every word that is searched, or whose id begins so."""
    sought = search.lower().split()
    return tuple(
        each
        for each in known
        if all(each.id.startswith(word) or word in f"{each.beside.fleet} {each.beside.name}".lower() for word in sought)
    )


def table(known: Sequence[Stored], shown: str | None) -> str:
    """Draw the list; `shown` is the snapshot that is open."""
    rows = (_row(each, is_shown=each.id == shown) for each in known[:MOST_LISTED])
    more = len(known) - MOST_LISTED
    foot = f'<div class="foot">{count(more, "older snapshot")} not listed; search for them.</div>' if more > 0 else ""
    return f'<div class="snapshots">{markup.table("Frozen snapshots", _HEAD, rows, _TERMS)}</div>{foot}'


def _row(stored: Stored, *, is_shown: bool) -> Sequence[str]:
    beside = stored.beside
    name = markup.bold(beside.name) if beside.name else f"<i>{UNNAMED}</i>"
    opened = links.live(pages.OVERVIEW, snapshot=stored.id)
    return (
        markup.link(opened, name, title="Open this snapshot")
        + (' <span class="tag">open now</span>' if is_shown else ""),
        markup.code(short_id(stored.id)),
        f'<span title="{times(beside)}">{as_of(beside).removeprefix(AS_OF)}</span>',
        markup.text(beside.fleet),
        f"{beside.answered:,} of {beside.targets:,}",
        _findings(stored),
        size(stored.size_bytes),
        f"{len(stored.notes):,}" if stored.notes else markup.muted("–"),
        markup.link(links.to(pages.SNAPSHOTS, manage=stored.id), "Export, manage", title="Export, rename or delete"),
    )


def _findings(stored: Stored) -> str:
    """Count what the rules found when it was frozen; each count leads to them, as they are judged now."""
    counts = {severity: getattr(stored.beside, severity) for severity in Severity}
    drawn = [
        markup.link(
            links.live(pages.FINDINGS, snapshot=stored.id, severity=severity),
            f"{markup.glyph(severity, '')}{markup.bold(f'{number:,}')}{markup.said(count(number, *NOUNS[severity]))}",
            title=count(number, *NOUNS[severity]),
            css="count",
        )
        for severity, number in counts.items()
        if number
    ]
    return " ".join(drawn) or f"{markup.glyph('good', '')} {markup.muted('none')}"
