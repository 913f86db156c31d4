"""What changed between two fleets as lists: findings, groups of replicas with changed settings, replicas, ranks."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dashboard.analysis.changes import (
    Changes,
    OneSidedFinding,
    OneSidedSettings,
    OtherSideStatus,
    PersistingFinding,
    RankChange,
    ReplicaPair,
    ReplicaSide,
    SettingGroup,
)
from dashboard.compare.prefix import short_name
from dashboard.fleet import ReplicaState, SettingChange
from dashboard.fleet.formatting import STATE_WORDS, count, first_of, middle_cut, one_line, setting_text
from dashboard.fleet.pieces import Kind, Piece, Style, Target, Text, plain
from dashboard.report.replicas.standing import mark
from dashboard.rules.findings import Finding, OutcomeKind
from dashboard.views import changes_text as text
from dashboard.views.blocks import Cell, Column, Entries, Entry, Table, Tone, data_cell
from dashboard.views.finding_data import COLUMNS, finding_row
from dashboard.views.finding_entries import MOST_POOLS, head_of, side_of
from dashboard.views.finding_text import pools_of, rule_title, suppressions
from dashboard.views.names import MOST_NAMED, brief, replica_text
from dashboard.views.pages import LIVE, SNAPSHOT

Way = Callable[[ReplicaPair], tuple[str, str, Tone]]  # the values before and after, and their tone

LONGEST_PATH = 120  # characters of a setting's path
MOST_CHANGES = 6  # settings that an entry lists; the appendix has all
MOST_NAMES = 8  # replicas or settings that a line names
MOST_LINES = 12  # pools, or kinds of settings, that an entry lists
FINDING_NAMES = 4  # replicas that a sentence on a finding names
NOT_RUN = {
    OutcomeKind.ERROR: "rule error",
    OutcomeKind.SKIPPED: "rule skipped",
    OutcomeKind.NOT_APPLICABLE: "rule n/a",
}
TONES = {
    OtherSideStatus.JUDGED: Tone.GOOD,
    OtherSideStatus.NOT_JUDGED: Tone.UNKNOWN,
    OtherSideStatus.NOT_THERE: Tone.PLAIN,
}


class Sides(NamedTuple):
    """Makes targets in the fleet that has what they name. `names` is by replica id; the choices name the snapshots."""

    names: Mapping[str, str]
    before: tuple[tuple[str, str], ...]
    after: tuple[tuple[str, str], ...]
    removed: frozenset[str]

    def replicas(self, replicas: Iterable[str], most: int) -> Text:
        """Name replicas, of many the first ones; removed ones are linked in the fleet before."""
        return replica_text(
            replicas, self.names, most, lambda each: self.before if each in self.removed else self.after
        )

    def target(self, kind: Kind, key: str, pool: str = "", *, is_before: bool = False) -> Target:
        """Return what a text names in one of the fleets."""
        return Target(kind, key, pool, self.before if is_before else self.after)


def sides_of(changes: Changes) -> Sides:
    """Return how both fleets of a comparison are linked."""
    before, after = (((SNAPSHOT, each.snapshot or LIVE),) for each in (changes.before, changes.after))
    return Sides(changes.names, before, after, frozenset(each.id for each in changes.replicas.removed))


def new_entries(found: Iterable[OneSidedFinding], sides: Sides) -> Entries:
    """List new findings; the same one in several pools once."""
    told = ((each.finding, Tone(each.finding.severity), _one_sided(each, sides, is_new=True)) for each in found)
    return _findings("new", told, sides)


def fixed_entries(found: Iterable[OneSidedFinding], sides: Sides) -> Entries:
    """List findings that the second side does not have, and whether they were evaluated there."""
    told = ((each.finding, TONES[each.elsewhere], _one_sided(each, sides, is_new=False)) for each in found)
    return _findings("gone", told, sides)


def changed_entries(found: Iterable[PersistingFinding], sides: Sides) -> Entries:
    """List findings of both sides that changed, and how."""
    told = ((each.after, Tone(each.after.severity), tuple(_persisting(each, sides))) for each in found)
    return _findings("changed", told, sides)


def _findings(change: str, told: Iterable[tuple[Finding, Tone, tuple[Text, ...]]], sides: Sides) -> Entries:
    """List findings; `data` has a row for each, with what changed about it."""
    alike: dict[tuple[str, str, Tone, tuple[Text, ...]], list[Finding]] = defaultdict(list)
    rows: list[tuple[Cell, ...]] = []
    for finding, tone, lines in told:
        alike[finding.rule, finding.sentence, tone, lines].append(finding)
        words = tuple("".join(piece.text for piece in line) for line in lines)
        rows.append((data_cell(change), *finding_row(finding, sides.names), data_cell(words)))
    items = tuple(
        _finding(found, tone, lines, sides, is_before=change == "gone") for (_, _, tone, lines), found in alike.items()
    )
    columns = (Column("change"), *COLUMNS, Column("what_changed"))
    return Entries(items, Table("finding-changes", "Findings that changed", columns, tuple(rows)))


def _finding(found: Sequence[Finding], tone: Tone, lines: Iterable[Text], sides: Sides, *, is_before: bool) -> Entry:
    rule = found[0].rule
    named = Piece(rule_title(rule), Style.MUTED, sides.target(Kind.RULE, rule, is_before=is_before))
    pools = pools_of(found)
    where = [plain(f"In {first_of(map(brief, pools), MOST_LINES)}.")] if len(pools) > MOST_POOLS else []
    return Entry(tone, head_of(found), side_of(found, sides.names), ((named,), *lines, *where))


def _one_sided(lone: OneSidedFinding, sides: Sides, *, is_new: bool) -> tuple[Text, ...]:
    """Return why only one side has a finding: fixed, not evaluated, replicas added or removed."""
    number = len(lone.finding.replicas)
    its = "Its replica is" if number == 1 else f"Its {number:,} replicas are"
    lines: list[Text] = []
    if lone.elsewhere is OtherSideStatus.NOT_THERE:
        lines.append(plain(f"{its} {'new' if is_new else 'removed'}."))
    elif lone.elsewhere is OtherSideStatus.NOT_JUDGED:
        start = "Not evaluated before: " if is_new else "No longer evaluated: "
        lines.append((Piece(start), *_reason(lone, sides), Piece(".")))
    elif not is_new:
        removed = f" {len(lone.absent):,} removed." if lone.absent else ""
        lines.append(
            plain(f"Evaluated again on {count(number, 'replica')}.{removed}" if number else "Evaluated again.")
        )
    if lone.is_suppressed and (by := suppressions([lone.finding])):
        lines.append(plain(f"{'S' if is_new else 'Was s'}{by[1:].rstrip('.')}."))
    return tuple(lines)


def _reason(lone: OneSidedFinding, sides: Sides) -> Text:
    pieces: list[Piece] = []
    if lone.outcome is None:
        pieces.append(Piece("rule not run on this pool"))
    elif lone.outcome in NOT_RUN:
        pieces.append(Piece(f"{NOT_RUN[lone.outcome]} ({lone.reason.rstrip('.')})"))
    for replicas, verb in ((lone.unread, "unreachable"), (lone.silent, "setting not reported by")):
        if replicas:
            pieces += [Piece(", " if pieces else ""), Piece(f"{verb} "), *sides.replicas(replicas, FINDING_NAMES)]
    return tuple(pieces)


def _persisting(kept: PersistingFinding, sides: Sides) -> Iterator[Text]:
    """Yield how a finding of both sides changed, a sentence each."""
    if kept.has_other_severity:
        yield plain(f"Severity {kept.before.severity} -> {kept.after.severity}.")
    for replicas, known, unknown in (
        (kept.joined, ("Also on ", "."), ("Also on ", " (unreachable before).")),
        (kept.left, ("No longer on ", "."), ("No longer evaluated on ", " (unreachable).")),
    ):
        for is_unread, (start, end) in ((False, known), (True, unknown)):
            if own := [each for each in replicas if (each in kept.unread) is is_unread]:
                yield (Piece(start), *sides.replicas(own, FINDING_NAMES), Piece(end))
    if kept.ended is not None:
        yield plain(f"Suppression by {kept.ended.owner} expired on {kept.ended.until} ({kept.ended.reason}).")
    if kept.has_other_suppression:
        if kept.is_suppressed_after:
            yield plain(f"Now {suppressions([kept.after]).rstrip('.')}.")
        elif kept.suppressed_after:
            yield (Piece("Suppressed only on "), *sides.replicas(kept.suppressed_after, FINDING_NAMES), Piece("."))
        else:
            yield plain("No longer suppressed.")


def setting_entries(groups: Iterable[SettingGroup], sides: Sides) -> Entries:
    """List groups of replicas with the same changed settings; the same changes in several pools once."""
    alike: dict[tuple[SettingChange, ...], list[SettingGroup]] = defaultdict(list)
    for each in groups:
        alike[each.changes].append(each)
    return Entries(tuple(_group(same, sides) for same in alike.values()))


def _group(same: Sequence[SettingGroup], sides: Sides) -> Entry:
    first, is_one = same[0], len(same) == 1
    more, pools = len(first.changes) - MOST_CHANGES, len(same) - MOST_LINES
    number = sum(len(each.replicas) for each in same)
    who = text.group_text(first) if is_one else f"{count(number, 'replica')} of {len(same):,} pools"
    rest = f" and {count(len(first.changes) - 1, 'more setting')}" if len(first.changes) > 1 else ""
    lines = [
        *(_change_line(each, first.pools[1], sides) for each in first.changes[:MOST_CHANGES]),
        *([plain(f"and {count(more, 'more setting')}, in the appendix")] if more > 0 else []),
        *(_members(each, sides, is_one=is_one) for each in same[:MOST_LINES]),
        *([plain(f"and in {count(pools, 'more pool')}")] if pools > 0 else []),
    ]
    head = (Piece(who, Style.STRONG), Piece(f": {text.change_text(first.changes[0])}{rest}"))
    return Entry(Tone.PLAIN, head, text.cohorts_text(first) if is_one else "", tuple(lines))


def _change_line(change: SettingChange, pool: str | None, sides: Sides) -> Text:
    path = middle_cut(one_line(change.path), LONGEST_PATH)
    target = sides.target(Kind.SETTING, change.path, pool) if pool else None
    before, after = (Piece(setting_text(*each), Style.CODE) for each in (change.before, change.after))
    return (Piece(path, Style.CODE, target), Piece(" "), before, Piece(" -> "), after)


def _members(group: SettingGroup, sides: Sides, *, is_one: bool) -> Text:
    where = "" if is_one else f"{text.group_text(group)}: "
    names = sides.replicas(group.replicas, MOST_NAMES if is_one else MOST_NAMED)
    return (Piece(f"{where}{text.restarts_text(group)} "), *names)


def one_sided_entry(title: str, when: str, found: Sequence[OneSidedSettings]) -> Entry:
    """List settings that only one side reports; `when` is the side that does not."""
    lines = []
    for each in found[:MOST_LINES]:
        before, after = map(text.pool_name, each.pools)
        pool = after if before == after else f"{before}, now {after}"
        where = f"{count(len(each.replicas), 'replica')} of {pool}"
        paths = first_of((brief(short_name(path)) for path in each.paths), MOST_NAMES)
        lines.append(f"{count(len(each.paths), 'setting')} on {where}, {STATE_WORDS[each.why]} {when}: {paths}.")
    more = len(found) - MOST_LINES
    lines += [f"and {count(more, 'more group')}"] if more > 0 else []
    return Entry(Tone.UNKNOWN, plain(f"{title} (change unknown)"), lines=tuple(map(plain, lines)))


def replica_entries(changes: Changes, sides: Sides) -> Entries:
    """List replicas by what happened to them, and by pool."""
    replicas = changes.replicas
    moves: tuple[tuple[str, list[ReplicaPair], Way], ...] = (
        ("changed state", [each for each in replicas.changed if each.has_other_state], _state),
        ("changed version", [each for each in replicas.changed if each.has_other_version], _version),
        ("moved", [each for each in replicas.changed if each.has_other_pool], _pool),
        ("renamed", [each for each in replicas.changed if each.has_other_name], _name),
    )
    entries = [
        _replicas("added", Tone.PLAIN, replicas.added, sides),
        _replicas("removed", Tone.PLAIN, replicas.removed, sides),
        _replicas("restarted", Tone.PLAIN, [each.after for each in replicas.restarted], sides),
        *(entry for verb, found, way in moves for entry in _moves(verb, found, way, sides)),
    ]
    return Entries(tuple(each for each in entries if each.lines))


def _replicas(verb: str, tone: Tone, found: Sequence[ReplicaSide], sides: Sides) -> Entry:
    """Return how many replicas did something, and which, a line for each pool."""
    by_pool: dict[str, list[str]] = defaultdict(list)
    for each in found:
        by_pool[text.pool_name(each.pool)].append(each.id)
    lines: list[Text] = [
        (Piece(f"{pool}: "), *sides.replicas(ids, MOST_NAMES)) for pool, ids in list(by_pool.items())[:MOST_LINES]
    ]
    more = len(by_pool) - MOST_LINES
    lines += [plain(f"and in {count(more, 'more pool')}")] if more > 0 else []
    return Entry(tone, (Piece(count(len(found), "replica"), Style.STRONG), Piece(f" {verb}")), lines=tuple(lines))


def _moves(verb: str, found: Iterable[ReplicaPair], way: Way, sides: Sides) -> Iterator[Entry]:
    """Yield an entry for each pair of values that replicas changed between, most replicas first."""
    ways: dict[tuple[str, str, Tone], list[ReplicaSide]] = defaultdict(list)
    for each in found:
        ways[way(each)].append(each.after)
    for (before, after, tone), same in sorted(ways.items(), key=lambda item: (-len(item[1]), item[0])):
        yield _replicas(f"{verb}: {before} -> {after}", tone, same, sides)


def _state(each: ReplicaPair) -> tuple[str, str, Tone]:
    now = ReplicaState(each.after.state)
    return each.before.state, now, Tone.GOOD if now is ReplicaState.UP else mark(now)


def _version(each: ReplicaPair) -> tuple[str, str, Tone]:
    return brief(each.before.version or ""), brief(each.after.version or ""), Tone.PLAIN


def _pool(each: ReplicaPair) -> tuple[str, str, Tone]:
    return text.pool_name(each.before.pool), text.pool_name(each.after.pool), Tone.PLAIN


def _name(each: ReplicaPair) -> tuple[str, str, Tone]:
    return brief(each.before.name), brief(each.after.name), Tone.PLAIN


def rank_entries(ranks: Iterable[RankChange], sides: Sides) -> Entries:
    """List by pool how many ranks have clearly less or more KV cache."""
    by_pool: dict[tuple[str, bool], list[RankChange]] = defaultdict(list)
    for each in ranks:
        by_pool[text.pool_name(each.pool), each.after < each.before].append(each)
    return Entries(tuple(_ranks(pool, found, sides, is_less=less) for (pool, less), found in by_pool.items()))


def _ranks(pool: str, found: Sequence[RankChange], sides: Sides, *, is_less: bool) -> Entry:
    by_share = sorted(found, key=lambda each: each.share)
    shares = list(dict.fromkeys(text.percent(each.share) for each in (by_share[0], by_share[-1])))
    head = (
        Piece(count(len(found), "rank"), Style.STRONG),
        Piece(f" of {pool} with {'less' if is_less else 'more'} KV cache: {' to '.join(shares)}"),
    )
    lines: list[Text] = [
        (
            *sides.replicas([each.replica], 1),
            Piece(f", rank {each.dp_rank}: {text.rank_text(each.before, each.after, is_at_most=each.is_at_most)}"),
        )
        for each in found[:MOST_NAMED]
    ]
    more = len(found) - MOST_NAMED
    lines += [plain(f"and {count(more, 'more rank')}, in the appendix")] if more > 0 else []
    return Entry(Tone.WARNING if is_less else Tone.PLAIN, head, lines=tuple(lines))
