"""The page Changes: what changed from one fleet to another, each name linked into the fleet that has it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dashboard.analysis.changes.models import Changes, FindingChanges, OtherSideStatus
from dashboard.capacity.outliers import TOLERANCE
from dashboard.fleet.formatting import count, first_of
from dashboard.fleet.pieces import Piece, plain, section
from dashboard.rules.findings import Finding
from dashboard.views import changes_entries as entries
from dashboard.views import changes_tables as tables
from dashboard.views import changes_text as text
from dashboard.views.blocks import Block, Entries, Figure, Figures, Paragraph, Section, Table, Tone, View
from dashboard.views.changes_entries import SideLinks, sides_of
from dashboard.views.changes_events import EventSummary
from dashboard.views.context import Context, compared
from dashboard.views.finding_text import severity_counts

MOST_ENTRIES = 40  # of one list; the appendix and the JSON document have all
MOST_PATHS = 6  # settings that a sentence names
MOST_NAMES = 8  # replicas that a sentence names


def changes_report(changes: Changes, before: Context, after: Context, between: EventSummary | None = None) -> View:
    """Return what changed; `before` and `after` are the contexts of both sides, `between` is what happened since."""
    sides = sides_of(changes)
    settings = tables.settings_table(changes.settings.groups, sides)
    replicas, ranks = tables.replicas_table(changes, sides), tables.ranks_table(changes.capacity.ranks, sides)
    findings = tuple(_findings(changes, sides))
    unchanged = () if findings else (Paragraph(plain(f"{text.unchanged_findings(changes)}.")),)
    titles = {"Changed settings": settings, "Changed replicas": replicas, "Changed ranks": ranks}
    parts = (
        Section("at-a-glance", "At a glance", tuple(_glance(changes, before, after, between))),
        Section("findings", "Findings", unchanged, findings),
        Section("settings", "Settings", tuple(_settings(changes, sides, settings)), tuple(_one_sided(changes, sides))),
        Section("replicas", "Replicas", tuple(_replicas(changes, sides, replicas))),
        Section("capacity", "Capacity", tuple(_capacity(changes, sides, ranks))),
        *([between.section] if between else []),
        *(Section(each.name, title, (each,), is_appendix=True) for title, each in titles.items() if each.rows),
    )
    headline = "; ".join(filter(None, (text.headline(changes), between.words if between else "")))
    return View("What changed", headline, text.lead(changes), compared(before, after), parts)


def _glance(changes: Changes, before: Context, after: Context, between: EventSummary | None) -> Iterator[Block]:
    yield from (Paragraph(plain(each), Tone.WARNING) for each in text.warnings(changes))
    yield Figures((*_figures(changes), *([between.figure] if between else [])))
    yield tables.sides_table(before, after)


def _figures(changes: Changes) -> Iterator[Figure]:
    found, replicas, settings = changes.findings, changes.replicas, changes.settings
    new, hidden = [each.finding for each in found.unsuppressed], len(found.new) - len(found.unsuppressed)
    note = "; ".join([*([severity_counts(new)] if new else []), *([f"{hidden:,} suppressed"] if hidden else [])])
    yield Figure("New findings", f"{len(new):,}", note, _worst(new), section("findings"))
    if found.spread:
        worst = _worst(each.after for each in found.spread)
        yield Figure("Spread", f"{len(found.spread):,}", text.spread_text(changes), worst, section("findings"))
    lost = f"{len(found.not_evaluated):,} no longer evaluated" if found.not_evaluated else ""
    yield Figure("Fixed findings", f"{len(found.fixed):,}", lost, _fixed_tone(found), section("findings"))
    compared = f"of {settings.compared:,} compared"
    yield Figure("Changed replicas", f"{len(settings.replicas):,}", compared, link=section("settings"))
    yield Figure("Added", f"{len(replicas.added):,}", "replicas", link=section("replicas"))
    yield Figure("Removed", f"{len(replicas.removed):,}", "replicas", link=section("replicas"))
    unknown = len(replicas.start_unknown)
    started = f"{unknown:,} unknown" if unknown else f"of {len(replicas.both):,}"
    yield Figure("Restarted", f"{len(replicas.restarted):,}", started, link=section("replicas"))
    pools = [each.pool for each in changes.capacity.pools]
    whose = text.pool_name(pools[0]) if len(pools) == 1 else "all pools"
    yield Figure("KV tokens", text.share_text(changes.capacity.total), whose, link=section("capacity"))


def _worst(found: Iterable[Finding]) -> Tone:
    return Tone(min((each.severity for each in found), key=lambda each: each.rank, default=Tone.PLAIN))


def _fixed_tone(found: FindingChanges) -> Tone:
    statuses = {each.other_side for each in found.no_longer_found}
    return Tone.UNKNOWN if OtherSideStatus.NOT_EVALUATED in statuses else Tone.GOOD if statuses else Tone.PLAIN


def _findings(changes: Changes, sides: SideLinks) -> Iterator[Section]:
    found = changes.findings
    for anchor, title, change, listed in (
        ("new-findings", "New", entries.NEW, found.new),
        ("fixed-findings", "Fixed", entries.FIXED, found.fixed),
        ("not-evaluated-findings", "No longer evaluated", entries.NOT_EVALUATED, found.not_evaluated),
        ("ended-suppressions", "Suppression expired", entries.CHANGED, [each for each in found.changed if each.ended]),
        ("changed-findings", "Changed", entries.CHANGED, [each for each in found.changed if not each.ended]),
    ):
        if listed:
            blocks = _cut(entries.finding_entries(change, listed, sides), "in the JSON document")
            yield Section(anchor, f"{title} ({len(listed):,})", blocks)


def _cut(listed: Entries, where: str) -> tuple[Block, ...]:
    """Return the first entries of a list, and how many more there are."""
    shown = replace(listed, items=listed.items[:MOST_ENTRIES])
    more = len(listed.items) - MOST_ENTRIES
    return (shown, Paragraph(plain(f"{more:,} more {where}."))) if more > 0 else (shown,)


def _settings(changes: Changes, sides: SideLinks, table: Table) -> Iterator[Block]:
    settings = changes.settings
    if settings.groups:
        listed = replace(entries.setting_entries(settings.groups, sides), data=table.data or table)
        yield from _cut(listed, "in the appendix")
    else:
        yield Paragraph(plain(f"No settings changed on {count(settings.compared, 'replica')}."))
    if settings.ignored:
        yield Paragraph(plain(f"Changed but ignored by fleet.yaml: {first_of(settings.ignored, MOST_PATHS)}."))
    before, after = set(settings.unread_before), set(settings.unread_after)
    for when, unread in (("on both sides", before & after), ("before", before - after), ("after", after - before)):
        if unread:
            start = f"Not compared (unreachable {when}): {count(len(unread), 'replica')} ("
            yield Paragraph((Piece(start), *sides.replicas(unread, MOST_NAMES), Piece(").")))


def _one_sided(changes: Changes, sides: SideLinks) -> Iterator[Section]:
    """Yield the settings that only one side reports: whether they changed is unknown."""
    settings = changes.settings
    listed = [
        entries.one_sided_entry(title, when, found)
        for title, when, found in (
            ("No longer reported", "now", settings.no_longer_reported),
            ("Newly reported", "before", settings.newly_reported),
        )
        if found
    ]
    if listed:
        block = Entries(tuple(listed), tables.one_sided_table(settings, sides))
        yield Section("one-sided", "Reported on one side only", (block,), is_aside=True)


def _replicas(changes: Changes, sides: SideLinks, table: Table) -> Iterator[Block]:
    listed = entries.replica_entries(changes, sides)
    if listed.items:
        yield replace(listed, data=table.data or table)
    else:
        yield Paragraph(plain("No replica was added, removed or known to have restarted."))
    if unknown := changes.replicas.start_unknown:
        start = f"Restart unknown: no start time reported by {count(len(unknown), 'replica')} ("
        yield Paragraph((Piece(start), *sides.replicas(unknown, MOST_NAMES), Piece(").")))


def _capacity(changes: Changes, sides: SideLinks, table: Table) -> Iterator[Block]:
    capacity = changes.capacity
    yield tables.capacity_table(changes, sides)
    if capacity.ranks:
        yield replace(entries.rank_entries(capacity.ranks, sides), data=table.data or table)
    else:
        ranks = count(capacity.compared, "compared rank")
        yield Paragraph(plain(f"No change above {TOLERANCE * 100:.0f} % on {ranks}."))
