"""The list of the page Snapshots, and how a snapshot is described everywhere."""

from collections.abc import Sequence
from datetime import datetime

from dashboard.fleet.formatting import count, iso, one_line, short_id, size
from dashboard.fleet.pieces import Piece, Style, Text, join_texts, page, plain
from dashboard.rules.findings import Tally
from dashboard.store.packing import SnapshotMetadata, StoredSnapshot
from dashboard.views import pages
from dashboard.views.blocks import Cell, Column, Table, number_cell
from dashboard.views.context import AS_OF, IMPORTED
from dashboard.views.filters import write_filter
from dashboard.views.names import brief
from dashboard.views.summary import tally_texts

UNNAMED = "unnamed"
MOST_LISTED = 100  # search finds the others
_COLUMNS = (
    Column("Snapshot"),
    Column("Id"),
    Column("Data as of"),
    Column("Fleet"),
    Column("Reachable", is_number=True, term="coverage"),
    Column("Findings"),
    Column("Size", is_number=True),
    Column("Notes", is_number=True),
    Column(""),
)


def snapshots_table(known: Sequence[StoredSnapshot], shown: str | None) -> Table:
    """Return the first snapshots of `known`, one per row; `shown` is the id of the open one."""
    more = len(known) - MOST_LISTED
    note = f"{count(more, 'older snapshot')} not listed; use the search." if more > 0 else ""
    rows = tuple(_row(each, is_shown=each.id == shown) for each in known[:MOST_LISTED])
    return Table("snapshots", "Snapshots", _COLUMNS, rows, note)


def search_snapshots(known: Sequence[StoredSnapshot], search: str) -> tuple[StoredSnapshot, ...]:
    """Return the snapshots with every searched word in name or fleet, or at the beginning of the id."""
    words = search.lower().split()
    return tuple(
        each
        for each in known
        if all(
            each.id.startswith(word) or word in f"{each.metadata.fleet} {each.metadata.name}".lower() for word in words
        )
    )


def describe_snapshot(stored: StoredSnapshot) -> str:
    """Return a snapshot on one line: its name, the time of its data unless the name has it, its id."""
    name, as_of = stored.metadata.name or UNNAMED, iso(stored.metadata.data_as_of)
    return " · ".join([name, *([] if as_of in name else [as_of]), short_id(stored.id)])


def default_name(typed: str | None, fleet: str, data_as_of: datetime | None) -> str:
    """Return the name that was typed, else fleet and time of the data."""
    return one_line((typed or "").strip() or (f"{fleet} {iso(data_as_of)}" if data_as_of else fleet))


def data_time(metadata: SnapshotMetadata) -> str:
    """Return the time of a snapshot's data; of saved answers that of their import."""
    return f"{IMPORTED if metadata.saved_answers else AS_OF}{iso(metadata.data_as_of)}"


def saving_times(metadata: SnapshotMetadata) -> str:
    """Return when and by whom a snapshot was saved, and when it was imported if that was elsewhere."""
    imported = f" · imported {iso(metadata.imported_at)}" if metadata.imported_at else ""
    by = f" by {brief(metadata.author)}" if metadata.author else ""
    return f"saved {iso(metadata.saved_at)}{imported}{by}"


def _row(stored: StoredSnapshot, *, is_shown: bool) -> tuple[Cell, ...]:
    metadata = stored.metadata
    name = Piece(metadata.name, Style.STRONG) if metadata.name else Piece(UNNAMED, Style.MUTED)
    opened = name._replace(link=page(pages.OVERVIEW, **{pages.SNAPSHOT: short_id(stored.id)}))
    tag = (Piece(" "), Piece("open now", Style.TAG)) if is_shown else ()
    by = (Piece(f" by {brief(metadata.author)}", Style.MUTED),) if metadata.author else ()
    return (
        Cell("", pieces=(opened, *by, *tag)),
        Cell("", pieces=(Piece(short_id(stored.id), Style.CODE),)),
        Cell(data_time(metadata).removeprefix(AS_OF), hint=saving_times(metadata)),
        Cell(metadata.fleet),
        number_cell(f"{metadata.answered:,} of {metadata.targets:,}", metadata.answered),
        Cell("", pieces=_findings(stored)),
        number_cell(size(stored.size_bytes), stored.size_bytes),
        number_cell(f"{len(stored.metadata.notes):,}" if stored.metadata.notes else "–", len(stored.metadata.notes)),
        Cell("Export, manage", link=page(pages.SNAPSHOTS, **{pages.MANAGE: short_id(stored.id)})),
    )


def _findings(stored: StoredSnapshot) -> Text:
    """Return the findings by severity, each with a link to them in the snapshot."""
    metadata = stored.metadata
    tally = Tally(metadata.critical, metadata.warning, metadata.info)
    found: list[Text] = [
        (
            Piece(
                text, link=page(pages.FINDINGS, search=write_filter("severity", severity), snapshot=short_id(stored.id))
            ),
        )
        for severity, text in tally_texts(tally).items()
    ]
    return join_texts(found, last=", ") if found else plain("none")
