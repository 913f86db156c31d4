"""Who changed what: the entries of the audit log as a table."""

from collections.abc import Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.timeline import Period
from dashboard.fleet.formatting import count, end_cut, iso, short_id
from dashboard.fleet.pieces import Link, Piece, page, plain
from dashboard.store.audit import AuditEntry
from dashboard.views import pages
from dashboard.views.blocks import Cell, Section, Table, Tone, View
from dashboard.views.context import context_of
from dashboard.views.names import brief
from dashboard.views.table import Field, to_table

ANCHOR, TITLE = "audit", "Who changed what"
MOST_ENTRIES = 500
CHANGES: Mapping[str, str] = {  # actions that change something, and what a page calls them
    "save": "Save snapshot",
    "note": "Edit note",
    "rename": "Rename snapshot",
    "rename_of_another": "Rename snapshot of another",
    "delete": "Delete snapshot",
    "import": "Import snapshot",
    "accept": "Accept findings",
    "undo": "Undo acceptance",
    "undo_of_another": "Undo acceptance of another",
}
DONE = "done"
DELETED = "delete"
UNSHOWN = frozenset({"snapshot", "name"})  # details that are not named: they are the object itself
NOTHING = frozenset({"", "{}"})


def audit_report(fleet: Fleet, entries: Sequence[AuditEntry], period: Period, *, is_whole: bool) -> View:
    """Return the entries of a period; `is_whole`: with refusals, sign-ins and addresses, which admins see."""
    who = {each.visitor for each in entries}
    number = count(len(entries), "entry", "entries") if is_whole else count(len(entries), "change")
    lead = "Actions, refusals and sign-ins" if is_whole else "Snapshots, notes and accepted findings"
    return View(
        title=TITLE,
        headline=f"{number} by {count(len(who), 'visitor')}" if entries else TITLE,
        lead=f"{lead} from {iso(period.since)} to {iso(period.until)}. Entries are kept for 400 days.",
        context=context_of(fleet),
        parts=(Section(ANCHOR, "", (_table(entries, is_whole=is_whole),)),) if entries else (),
    )


def action_words(action: str) -> str:
    """Return what a page calls an action: of one that changes nothing its name."""
    return {**CHANGES, "token": "Use token"}.get(action) or action.replace("_", " ").capitalize()


def _table(entries: Sequence[AuditEntry], *, is_whole: bool) -> Table:
    note = f"Only the newest {MOST_ENTRIES:,}." if len(entries) == MOST_ENTRIES else ""
    return to_table(entries, FIELDS if is_whole else FIELDS[:-2], "audit", TITLE, note)


def _visitor(entry: AuditEntry) -> str:
    return f"{brief(entry.visitor)} (token)" if entry.means == "token" else brief(entry.visitor)


def _object(entry: AuditEntry) -> Cell:
    """Return what an action was on: a snapshot by its name, with a link while there is one, and other details."""
    snapshot, name = str(entry.details.get("snapshot", "")), str(entry.details.get("name", ""))
    named = end_cut(name or short_id(snapshot))
    more = [
        f"{key} {end_cut(str(value))}"
        for key, value in entry.details.items()
        if key not in UNSHOWN and value not in NOTHING
    ]
    rest = ", ".join(more)
    is_there = snapshot and entry.action != DELETED and entry.result == DONE
    link = page(pages.OVERVIEW, **{pages.SNAPSHOT: short_id(snapshot)}) if is_there else None
    text = ", ".join(filter(None, (named, rest)))
    return Cell(text, pieces=_linked(named, rest, link) if link else plain(text))


def _linked(named: str, rest: str, link: Link) -> tuple[Piece, ...]:
    return (Piece(named, link=link), *([Piece(f", {rest}")] if rest else []))


def _result(entry: AuditEntry) -> Cell:
    tone = Tone.PLAIN if entry.result == DONE else Tone.WARNING
    return Cell(entry.result, tone, note=end_cut(entry.reason))


FIELDS = (
    Field("at", "Time"),
    Field("", "Who", _visitor),
    Field("role", "Role"),
    Field("", "Action", lambda entry: action_words(entry.action)),
    Field("", "Object", _object),
    Field("", "Result", _result),
    Field("client", "Client", is_code=True),
)
