"""What changed from one fleet to another, as a report: what matters first, every replica and setting at the end."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dashboard.analysis.changes import Changes, FindingChanges, OneSidedSettings, OtherSideStatus, PersistingFinding
from dashboard.capacity.outliers import TOLERANCE
from dashboard.fleet.formatting import count, first_of
from dashboard.fleet.pieces import plain, section
from dashboard.report.changes import words
from dashboard.report.findings.words import counted
from dashboard.rules.findings import Finding
from dashboard.views import change_entries as entries
from dashboard.views import change_tables as tables
from dashboard.views.blocks import Block, Entries, Entry, Figure, Figures, Paragraph, Section, Table, Tone, View
from dashboard.views.context import Context, compared

MOST_GROUPS = 40  # groups of settings, and findings of one kind, that are told before the appendix
MOST_SILENCES = 12  # sentences on settings that only one side tells
MOST_NAMES = 8


def changes_report(changes: Changes, before: Context, after: Context) -> View:
    """Return what changed as a report, under the context of both sides."""
    found = tuple(_findings(changes))
    parts = (
        Section("at-a-glance", "At a glance", tuple(_glance(changes, before, after))),
        Section("findings", "Findings", () if found else (_as_before(changes),), found),
        Section("settings", "Settings that changed", tuple(_settings(changes)), tuple(_untold(changes))),
        Section("replicas", "Replicas", tuple(_replicas(changes))),
        Section("capacity", "Capacity", tuple(_capacity(changes))),
        *_appendices(changes),
    )
    return View("What changed", words.headline(changes), words.lead(changes), compared(before, after), parts)


def _glance(changes: Changes, before: Context, after: Context) -> Iterable[Block]:
    yield from (Paragraph(plain(each), Tone.WARNING) for each in words.warnings(changes))
    found, replicas = changes.findings, changes.replicas
    worst = _worst(each.finding for each in found.standing)
    yield Figures(
        (
            Figure("New findings", f"{len(found.standing):,}", _new_note(found), worst, section("findings")),
            *_spread(found.spread),
            Figure("Gone findings", f"{len(found.over):,}", _gone_note(found), _gone_tone(found), section("findings")),
            Figure(
                "Replicas with other settings",
                f"{len(changes.settings.replicas):,}",
                f"of {changes.settings.compared:,} compared",
                target=section("settings"),
            ),
            Figure("Replicas that came", f"{len(replicas.came):,}", target=section("replicas")),
            Figure("Replicas that went", f"{len(replicas.went):,}", target=section("replicas")),
            Figure("Restarted", f"{len(replicas.restarted):,}", _untold_note(changes), target=section("replicas")),
            Figure(
                "KV tokens", words.share_words(changes.capacity.total), "all pools together", target=section("capacity")
            ),
        )
    )
    yield tables.sides_table(before, after)


def _spread(found: Sequence[PersistingFinding]) -> Iterable[Figure]:
    """Count what more replicas have than before: it is not new, but worse."""
    if found:
        worst = _worst(each.after for each in found)
        yield Figure("Findings that spread", f"{len(found):,}", words.spread_to(found), worst, section("findings"))


def _worst(found: Iterable[Finding]) -> Tone:
    worst = min((each.severity for each in found), key=lambda each: each.rank, default=None)
    return Tone(worst or Tone.PLAIN)


def _new_note(found: FindingChanges) -> str:
    told = [counted(each.finding for each in found.standing)] if found.standing else []
    hidden = len(found.new) - len(found.standing)
    return "; ".join([*told, *([f"{hidden:,} suppressed"] if hidden else [])])


def _gone_note(found: FindingChanges) -> str:
    return f"{len(found.unjudged):,} more not judged any more" if found.unjudged else ""


def _gone_tone(found: FindingChanges) -> Tone:
    kinds = {each.elsewhere for each in found.gone}
    return Tone.UNKNOWN if OtherSideStatus.NOT_JUDGED in kinds else Tone.GOOD if kinds else Tone.PLAIN


def _untold_note(changes: Changes) -> str:
    untold = len(changes.replicas.start_untold)
    if not untold:
        return f"of {len(changes.replicas.both):,}"
    return count(untold, "does not tell its start", "do not tell their start")


def _as_before(changes: Changes) -> Block:
    """Say what the lead says already, for a part that would be empty."""
    return Paragraph(plain(f"{words.as_before(changes)}."))


def _findings(changes: Changes) -> Iterable[Section]:
    found, names = changes.findings, changes.names
    gone, lost = found.over, found.unjudged
    ended = [each for each in found.changed if each.ended]
    changed = [each for each in found.changed if not each.ended]
    yield from _part("new-findings", "New", len(found.new), entries.new_entries(found.new, names))
    yield from _part("gone-findings", "Gone", len(gone), entries.gone_entries(gone, names))
    yield from _part("unjudged-findings", "Not judged any more", len(lost), entries.gone_entries(lost, names))
    yield from _part("ended-suppressions", "Suppressions that ended", len(ended), entries.kept_entries(ended, names))
    yield from _part("changed-findings", "The same, changed", len(changed), entries.kept_entries(changed, names))


def _part(anchor: str, title: str, number: int, listed: Entries) -> Iterable[Section]:
    if not number:
        return
    more = len(listed.items) - MOST_GROUPS
    rest = [Paragraph(plain(f"{more:,} more in the JSON document."))] if more > 0 else []
    shown = replace(listed, items=listed.items[:MOST_GROUPS])
    yield Section(anchor, f"{title} ({number:,})", (shown, *rest))


def _settings(changes: Changes) -> Iterable[Block]:
    settings = changes.settings
    groups = settings.groups
    if groups:
        listed = entries.setting_entries(groups, changes.names).items
        yield Entries(listed[:MOST_GROUPS], _whole(tables.settings_table(groups, changes.names)))
        if (more := len(listed) - MOST_GROUPS) > 0:
            yield Paragraph(plain(f"{more:,} more groups of replicas stand in the appendix."))
    else:
        compared = count(settings.compared, "replica")
        yield Paragraph(plain(f"No setting has another value on the {compared} that were compared."))
    yield from (Paragraph(plain(each)) for each in _left_out(changes))


def _untold(changes: Changes) -> Iterable[Section]:
    """Name what only one side tells, apart: it is no change, but nobody knows that nothing changed."""
    settings = changes.settings
    sides = (("No longer told", settings.no_longer_told, False), ("Now told", settings.now_told, True))
    listed = [_silences(title, told, is_told_now=is_now) for title, told, is_now in sides if told]
    if listed:
        told = Entries(tuple(listed), tables.silences_table(settings, changes.names))
        yield Section("one-sided", "Told on one side only", (told,), is_aside=True)


def _silences(title: str, silences: Sequence[OneSidedSettings], *, is_told_now: bool) -> Entry:
    told = [words.silence_words(each, is_told_now=is_told_now) for each in silences[:MOST_SILENCES]]
    more = len(silences) - MOST_SILENCES
    rest = [f"And {more:,} more such groups."] if more > 0 else []
    head = plain(f"{title}, so no change is known")
    return Entry(Tone.UNKNOWN, head, lines=tuple(map(plain, [*told, *rest])))


def _left_out(changes: Changes) -> Iterable[str]:
    settings = changes.settings
    if settings.ignored:
        what = first_of(settings.ignored, words.MOST_PATHS)
        yield f"Changed, but left out because fleet.yaml says that it does not matter: {what}."
    before, after = set(settings.unread_before), set(settings.unread_after)
    for when, unread in (("on either side", before & after), ("before", before - after), ("after", after - before)):
        if unread:
            who = words.some(unread, changes.names, MOST_NAMES)
            yield f"Not compared, for they were not read {when}: {count(len(unread), 'replica')} ({who})."


def _replicas(changes: Changes) -> Iterable[Block]:
    listed = entries.replica_entries(changes.replicas)
    if listed.items:
        yield replace(listed, data=_whole(tables.replicas_table(changes)))
    else:
        yield Paragraph(plain("No replica came, went or restarted, as far as they tell."))
    if untold := changes.replicas.start_untold:
        who = words.some(untold, changes.names, MOST_NAMES)
        number, they = count(len(untold), "replica does", "replicas do"), "it" if len(untold) == 1 else "they"
        told = f"Nobody knows whether {they} restarted: {number} not tell when {they} started ({who})."
        yield Paragraph(plain(told))


def _capacity(changes: Changes) -> Iterable[Block]:
    capacity = changes.capacity
    yield tables.capacity_table(changes)
    if capacity.ranks:
        found = entries.rank_entries(capacity.ranks, changes.names)
        yield replace(found, data=_whole(tables.ranks_table(capacity.ranks, changes.names)))
    else:
        ranks = count(capacity.compared, "rank")
        yield Paragraph(plain(f"None of the {ranks} compared holds {TOLERANCE * 100:.0f} % less or more than before."))


def _whole(table: Table) -> Table:
    """Return a table as programs read it."""
    return table.data or table


def _appendices(changes: Changes) -> Iterable[Section]:
    names = changes.names
    for anchor, title, table in (
        ("setting-changes", "Settings, one by one", tables.settings_table(changes.settings.groups, names)),
        ("replica-changes", "Replicas, one by one", tables.replicas_table(changes)),
        ("rank-changes", "Ranks, one by one", tables.ranks_table(changes.capacity.ranks, names)),
    ):
        if table.rows:
            yield Section(anchor, title, (table,), is_appendix=True)
