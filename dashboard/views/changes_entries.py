"""What changed between two fleets as lists: findings, groups of replicas with changed settings, replicas, ranks."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from dashboard.analysis.changes import models
from dashboard.compare.prefix import short_name
from dashboard.fleet import Replica, ReplicaState, SettingChange
from dashboard.fleet.formatting import MANY, MOST, STATE_WORDS, count, middle_cut, one_line, setting_text, shortlist
from dashboard.fleet.grouping import grouped
from dashboard.fleet.history import Sighting
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, plain, to_plain
from dashboard.rules.findings import Finding, OutcomeKind
from dashboard.views import changes_text as text
from dashboard.views.blocks import Cell, Column, Entries, Entry, Table, Tone
from dashboard.views.excluded import state_tone
from dashboard.views.finding_list import MOST_POOLS, head_of, side_of
from dashboard.views.finding_text import COLUMNS, finding_fields, pools_of, rule_title, suppressions
from dashboard.views.names import MOST_NAMED, brief, replica_text
from dashboard.views.pages import LIVE, SNAPSHOT, choices_of

LONGEST_PATH = 120  # characters of a setting's path
MOST_CHANGES = 6  # settings that an entry lists; the appendix has all
FINDING_NAMES = 4  # replicas that a sentence on a finding names
NEW, FIXED, NOT_EVALUATED, CHANGED = "new", "fixed", "not evaluated", "changed"  # what happened to a finding
LIVING = ((SNAPSHOT, LIVE),)  # the choices that leave a snapshot or a past time
NOT_RUN = {
    OutcomeKind.ERROR: "rule error",
    OutcomeKind.SKIPPED: "rule skipped",
    OutcomeKind.NOT_APPLICABLE: "rule n/a",
}
TONES = {
    models.OtherSideStatus.EVALUATED: Tone.GOOD,
    models.OtherSideStatus.NOT_EVALUATED: Tone.UNKNOWN,
    models.OtherSideStatus.NOT_THERE: Tone.PLAIN,
}
FIELD_VERBS = {"state": "changed state", "version": "changed version", "pool": "moved", "name": "renamed"}


class SideLinks(NamedTuple):
    """Makes links in the fleet that has what they name. `names` is by replica id; the choices name the fleets.

    `sightings` of findings are by fingerprint.
    """

    names: Mapping[str, str]
    before: tuple[tuple[str, str], ...]
    after: tuple[tuple[str, str], ...]
    removed: frozenset[str]
    sightings: Mapping[str, Sighting]

    def replicas(self, replicas: Iterable[str], most: int) -> Text:
        """Name replicas, of many the first ones; removed ones are linked in the fleet before."""
        return replica_text(
            replicas, self.names, most, lambda each: self.before if each in self.removed else self.after
        )

    def link(self, kind: Kind, key: str, pool: str = "", *, is_before: bool = False) -> Link:
        return Link(kind, key, pool, self.before if is_before else self.after)


def sides_of(changes: models.Changes) -> SideLinks:
    before, after = (tuple(choices_of(each).items()) or LIVING for each in (changes.before, changes.after))
    removed = frozenset(each.id for each in changes.replicas.removed)
    sightings = {**changes.before.sightings.findings, **changes.after.sightings.findings}
    return SideLinks(changes.names, before, after, removed, sightings)


def finding_entries(
    change: str, found: Iterable[models.OneSidedFinding | models.PersistingFinding], sides: SideLinks
) -> Entries:
    """List findings of one kind of `change`, the same one in several pools once; `data` has a row each."""
    grouped: dict[tuple[str, str, Tone, tuple[Text, ...]], list[Finding]] = defaultdict(list)
    rows: list[tuple[Finding, tuple[Text, ...]]] = []
    for each in found:
        if isinstance(each, models.PersistingFinding):
            finding, tone = each.after, Tone(each.after.severity)
            lines = tuple(_persisting(each, sides))
        else:
            finding = each.finding
            tone = Tone(finding.severity) if change == NEW else TONES[each.other_side]
            lines = tuple(_one_sided(each, sides, is_new=change == NEW))
        grouped[finding.rule, finding.sentence, tone, lines].append(finding)
        rows.append((finding, lines))
    items = []
    for (rule, _, tone, lines), same in grouped.items():
        named = Piece(
            rule_title(rule), Style.MUTED, sides.link(Kind.RULE, rule, is_before=change in {FIXED, NOT_EVALUATED})
        )
        pools = pools_of(same)
        where = [plain(f"In {shortlist(map(brief, pools), MOST)}.")] if len(pools) > MOST_POOLS else []
        items.append(Entry(tone, head_of(same), side_of(same, sides.names), ((named,), *lines, *where)))
    return Entries(tuple(items), partial(_finding_changes, change, rows, sides))


def _finding_changes(change: str, rows: Iterable[tuple[Finding, tuple[Text, ...]]], sides: SideLinks) -> Table:
    fields = finding_fields(sides.names, sides.sightings)
    cells = []
    for finding, lines in rows:
        of_finding = (field.cell(finding) for field in fields)
        cells.append((Cell("", value=change), *of_finding, Cell("", value=tuple(map(to_plain, lines)))))
    columns = (Column("change"), *COLUMNS, Column("what_changed"))
    return Table("finding-changes", "Findings that changed", columns, tuple(cells))


def _one_sided(found: models.OneSidedFinding, sides: SideLinks, *, is_new: bool) -> Iterator[Text]:
    """Yield why only one side has a finding: fixed, not evaluated, replicas added or removed."""
    number = len(found.finding.replicas)
    if found.other_side is models.OtherSideStatus.NOT_THERE:
        its = "Its replica is" if number == 1 else f"Its {number:,} replicas are"
        yield plain(f"{its} {'new' if is_new else 'removed'}.")
    elif found.other_side is models.OtherSideStatus.NOT_EVALUATED:
        start = "Not evaluated before: " if is_new else "No longer evaluated: "
        yield (Piece(start), *_reason(found, sides), Piece("."))
    elif not is_new:
        removed = f" {len(found.absent):,} removed." if found.absent else ""
        yield plain(f"Evaluated again on {count(number, 'replica')}.{removed}" if number else "Evaluated again.")
    if found.is_suppressed and (by := suppressions([found.finding])):
        yield plain(f"{'S' if is_new else 'Was s'}{by[1:].rstrip('.')}.")


def _reason(found: models.OneSidedFinding, sides: SideLinks) -> Text:
    pieces: list[Piece] = []
    if found.outcome is None:
        pieces.append(Piece("rule not run on this pool"))
    elif found.outcome in NOT_RUN:
        pieces.append(Piece(f"{NOT_RUN[found.outcome]} ({found.reason.rstrip('.')})"))
    for replicas, verb in ((found.unread, "unreachable"), (found.silent, "setting not reported by")):
        if replicas:
            pieces += [Piece(", " if pieces else ""), Piece(f"{verb} "), *sides.replicas(replicas, FINDING_NAMES)]
    return tuple(pieces)


def _persisting(found: models.PersistingFinding, sides: SideLinks) -> Iterator[Text]:
    """Yield how a finding of both sides changed, a sentence each."""
    if found.has_other_severity:
        yield plain(f"Severity {found.before.severity} -> {found.after.severity}.")
    joined, left, unread = set(found.joined), set(found.left), set(found.unread)
    for replicas, start, end in (
        (joined - unread, "Also on ", "."),
        (joined & unread, "Also on ", " (unreachable before)."),
        (left - unread, "No longer on ", "."),
        (left & unread, "No longer evaluated on ", " (unreachable)."),
    ):
        if replicas:
            yield (Piece(start), *sides.replicas(replicas, FINDING_NAMES), Piece(end))
    if found.ended is not None:
        yield plain(f"Suppression by {found.ended.owner} expired on {found.ended.until} ({found.ended.reason}).")
    if found.has_other_suppression:
        if found.is_suppressed_after:
            yield plain(f"Now {suppressions([found.after]).rstrip('.')}.")
        elif found.suppressed_after:
            yield (Piece("Suppressed only on "), *sides.replicas(found.suppressed_after, FINDING_NAMES), Piece("."))
        else:
            yield plain("No longer suppressed.")


def setting_entries(groups: Iterable[models.SettingGroup], sides: SideLinks) -> Entries:
    """List groups of replicas with the same changed settings; the same changes in several pools once."""
    alike = grouped((each.changes, each) for each in groups)
    return Entries(tuple(_group(same, sides) for same in alike.values()))


def _group(same: Sequence[models.SettingGroup], sides: SideLinks) -> Entry:
    first, is_one = same[0], len(same) == 1
    number = sum(len(each.replicas) for each in same)
    members_text = text.group_text(first) if is_one else f"{count(number, 'replica')} of {len(same):,} pools"
    rest = f" and {count(len(first.changes) - 1, 'more setting')}" if len(first.changes) > 1 else ""
    changes = [_change_line(each, first.pools[1], sides) for each in first.changes]
    members: list[Text] = []
    for each in same:
        where = "" if is_one else f"{text.group_text(each)}: "
        names = sides.replicas(each.replicas, MANY if is_one else MOST_NAMED)
        members.append((Piece(f"{where}{text.restarts_text(each)} "), *names))
    lines = (
        *_first(changes, MOST_CHANGES, "and {}, in the appendix", "setting"),
        *_first(members, MOST, "and in {}", "pool"),
    )
    head = (Piece(members_text, Style.STRONG), Piece(f": {text.change_text(first.changes[0])}{rest}"))
    return Entry(Tone.PLAIN, head, text.cohorts_text(first) if is_one else "", lines)


def _first(lines: Sequence[Text], most: int, rest: str, noun: str) -> tuple[Text, ...]:
    more = len(lines) - most
    return (*lines[:most], *([plain(rest.format(count(more, f"more {noun}")))] if more > 0 else []))


def _change_line(change: SettingChange, pool: str | None, sides: SideLinks) -> Text:
    path = middle_cut(one_line(change.path), LONGEST_PATH)
    link = sides.link(Kind.SETTING, change.path, pool) if pool else None
    before, after = (Piece(setting_text(*each), Style.CODE) for each in (change.before, change.after))
    return (Piece(path, Style.CODE, link), Piece(" "), before, Piece(" -> "), after)


def one_sided_entry(title: str, when: str, found: Iterable[models.OneSidedSettings]) -> Entry:
    """List settings that only one side reports; `when` is the side that does not."""
    lines = []
    for each in found:
        before, after = map(text.pool_name, each.pools)
        pool = after if before == after else f"{before}, now {after}"
        where = f"{count(len(each.replicas), 'replica')} of {pool}"
        paths = shortlist((brief(short_name(path)) for path in each.paths), MANY)
        lines.append(plain(f"{count(len(each.paths), 'setting')} on {where}, {STATE_WORDS[each.why]} {when}: {paths}."))
    listed = _first(lines, MOST, "and {}", "group")
    return Entry(Tone.UNKNOWN, plain(f"{title} (change unknown)"), lines=listed)


def replica_entries(changes: models.Changes, sides: SideLinks) -> Entries:
    replicas = changes.replicas
    entries = [
        _replicas("added", Tone.PLAIN, replicas.added, sides),
        _replicas("removed", Tone.PLAIN, replicas.removed, sides),
        _replicas("restarted", Tone.PLAIN, [each.after for each in replicas.restarted], sides),
    ]
    for field, verb in FIELD_VERBS.items():
        ways: dict[tuple[str, ...], list[Replica]] = defaultdict(list)
        for pair in replicas.changed:
            if pair.differs_in(field):
                ways[tuple(text.pool_name(getattr(replica, field)) for replica in pair)].append(pair.after)
        for (before, after), same in sorted(ways.items(), key=lambda item: (-len(item[1]), item[0])):
            state = same[0].state
            tone = Tone.GOOD if state is ReplicaState.UP else state_tone(state)
            entries.append(
                _replicas(f"{verb}: {before} -> {after}", tone if field == "state" else Tone.PLAIN, same, sides)
            )
    return Entries(tuple(each for each in entries if each.lines))


def _replicas(verb: str, tone: Tone, found: Sequence[Replica], sides: SideLinks) -> Entry:
    """Return what happened to how many replicas, and to which, a line for each pool."""
    by_pool = grouped((text.pool_name(each.pool), each.id) for each in found)
    lines: list[Text] = [(Piece(f"{pool}: "), *sides.replicas(ids, MANY)) for pool, ids in by_pool.items()]
    head = (Piece(count(len(found), "replica"), Style.STRONG), Piece(f" {verb}"))
    return Entry(tone, head, lines=_first(lines, MOST, "and in {}", "pool"))


def rank_entries(ranks: Iterable[models.RankChange], sides: SideLinks) -> Entries:
    """List by pool how many ranks have clearly less or more KV cache."""
    by_pool = grouped(((text.pool_name(each.pool), each.after < each.before), each) for each in ranks)
    items = []
    for (pool, is_less), found in by_pool.items():
        shares = [each.share for each in found]
        span = " to ".join(dict.fromkeys(map(text.percent, (min(shares), max(shares)))))
        kind = f" of {pool} with {'less' if is_less else 'more'} KV cache: {span}"
        lines: list[Text] = [
            (
                *sides.replicas([each.replica], 1),
                Piece(f", rank {each.dp_rank}: {text.rank_text(each.before, each.after, is_at_most=each.is_at_most)}"),
            )
            for each in found
        ]
        head = (Piece(count(len(found), "rank"), Style.STRONG), Piece(kind))
        listed = _first(lines, MOST_NAMED, "and {}, in the appendix", "rank")
        items.append(Entry(Tone.WARNING if is_less else Tone.PLAIN, head, lines=listed))
    return Entries(tuple(items))
