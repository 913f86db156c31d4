"""What changed as entries of lists: findings, groups of replicas whose settings changed, replicas, ranks."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from dashboard.analysis.changes import (
    OneSidedFinding,
    OtherSideStatus,
    PersistingFinding,
    RankChange,
    ReplicaChanges,
    Seen,
    SettingGroup,
    Stayed,
    ValueChange,
)
from dashboard.fleet import ReplicaState
from dashboard.fleet.formatting import count, first_of, middle_cut, one_line, told_text
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.report.changes import words
from dashboard.report.replicas.standing import mark
from dashboard.rules.findings import Finding
from dashboard.views.blocks import Cell, Column, Entries, Entry, Line, Table, Tone, data_cell
from dashboard.views.finding_data import COLUMNS, finding_row
from dashboard.views.finding_entries import MOST_POOLS, head_of, pools_of, rule_words, side_of
from dashboard.views.names import MOST_NAMED, brief

Names = Mapping[str, str]
Way = Callable[[Stayed], tuple[str, str, Tone]]  # from what, to what, and how that is

LONGEST_PATH = 120  # characters of a setting's path
MOST_CHANGES = 6  # settings of one group that its entry shows; all stand in the appendix
MOST_NAMES = 8  # replicas that a line names
MOST_LINES = 12  # pools that an entry on replicas speaks of


def new_entries(found: Iterable[OneSidedFinding], names: Names) -> Entries:
    """List findings that were not there before, each with its severity; the same one of several pools once."""
    told = ((each, Tone(each.finding.severity), words.lone_words(each, names, is_new=True)) for each in found)
    return _findings("new", ((each.finding, tone, tuple(lines)) for each, tone, lines in told), names)


def gone_entries(found: Iterable[OneSidedFinding], names: Names) -> Entries:
    """List findings that are no longer there: solved, with their replicas, or not judged any more."""
    tones = {
        OtherSideStatus.JUDGED: Tone.GOOD,
        OtherSideStatus.NOT_JUDGED: Tone.UNKNOWN,
        OtherSideStatus.NOT_THERE: Tone.PLAIN,
    }
    told = ((each, tones[each.elsewhere], words.lone_words(each, names, is_new=False)) for each in found)
    return _findings("gone", ((each.finding, tone, tuple(lines)) for each, tone, lines in told), names)


def kept_entries(found: Iterable[PersistingFinding], names: Names) -> Entries:
    """List findings that are the same but changed, and say how."""
    told = ((each.after, Tone(each.after.severity), tuple(words.kept_words(each, names))) for each in found)
    return _findings("changed", told, names)


def setting_entries(groups: Iterable[SettingGroup], names: Names) -> Entries:
    """List the groups of replicas in which the same settings changed; those of several pools in the same way once."""
    alike: dict[tuple[ValueChange, ...], list[SettingGroup]] = defaultdict(list)
    for each in groups:
        alike[each.changes].append(each)
    return Entries(tuple(_group(held, names) for held in alike.values()))


def replica_entries(replicas: ReplicaChanges) -> Entries:
    """List replicas by what became of them, and by pool."""
    came = [(words.pool_name(each.pool), each) for each in replicas.came]
    went = [(words.pool_name(each.pool), each) for each in replicas.went]
    restarted = [(words.pool_name(each.after.pool), each.after) for each in replicas.restarted]
    told = [
        _replicas("came", Tone.PLAIN, came),
        _replicas("went", Tone.PLAIN, went),
        _replicas("restarted", Tone.PLAIN, restarted),
        *_moves(
            ("changed state", "changed state"), (each for each in replicas.changed if each.has_other_state), _state
        ),
        *_moves(
            ("runs another version", "run another version"),
            (each for each in replicas.changed if each.has_other_version),
            _version,
        ),
        *_moves(
            ("moved to another pool", "moved to another pool"),
            (each for each in replicas.changed if each.has_other_pool),
            _pool,
        ),
        *_moves(
            ("is called something else", "are called something else"),
            (each for each in replicas.changed if each.has_other_name),
            _name,
        ),
    ]
    return Entries(tuple(each for each in told if each.lines))


def rank_entries(ranks: Iterable[RankChange], names: Names) -> Entries:
    """List by pool how many ranks hold clearly less or more, and by how much."""
    by_pool: dict[tuple[str, bool], list[RankChange]] = defaultdict(list)
    for each in ranks:
        by_pool[words.pool_name(each.pool), each.after < each.before].append(each)
    return Entries(tuple(_ranks(pool, held, names, is_less=less) for (pool, less), held in by_pool.items()))


def change_line(change: ValueChange) -> Line:
    """Write one setting with both values."""
    before, after = told_text(*change.before), told_text(*change.after)
    path = middle_cut(one_line(change.path), LONGEST_PATH)
    return (Piece(path), Piece(" "), Piece(before, Style.CODE), Piece(" to "), Piece(after, Style.CODE))


def _findings(change: str, told: Iterable[tuple[Finding, Tone, tuple[str, ...]]], names: Names) -> Entries:
    """List findings; for programs a row each, with what became of it."""
    alike: dict[tuple[str, str, Tone, tuple[str, ...]], list[Finding]] = defaultdict(list)
    rows: list[tuple[Cell, ...]] = []
    for finding, tone, lines in told:
        alike[finding.rule, finding.sentence, tone, lines].append(finding)
        rows.append((data_cell(change), *finding_row(finding, names), data_cell(lines)))
    items = tuple(_finding(held, tone, lines, names) for (_, _, tone, lines), held in alike.items())
    columns = (Column("change"), *COLUMNS, Column("what_changed"))
    return Entries(items, Table("finding-changes", "Findings that changed", columns, tuple(rows)))


def _finding(found: Sequence[Finding], tone: Tone, told: Iterable[str], names: Names) -> Entry:
    lines = [(Piece(rule_words(found[0].rule), Style.MUTED),), *map(plain, told)]
    if len(pools := pools_of(found)) > MOST_POOLS:
        lines.append(plain(f"In {first_of(map(brief, pools), MOST_LINES)}."))
    return Entry(tone=tone, head=head_of(found), side=side_of(found, names), lines=tuple(lines))


def _group(held: Sequence[SettingGroup], names: Names) -> Entry:
    """Tell a group; of several pools in which the same changed, their replicas together."""
    changes = held[0].changes
    more = len(changes) - MOST_CHANGES
    lines = [
        *map(change_line, changes[:MOST_CHANGES]),
        *([plain(f"and {count(more, 'more setting')}, in the appendix")] if more > 0 else []),
        *(plain(_members(each, names, is_one=len(held) == 1)) for each in held[:MOST_LINES]),
        *([plain(f"and in {count(len(held) - MOST_LINES, 'more pool')}")] if len(held) > MOST_LINES else []),
    ]
    number = sum(len(each.replicas) for each in held)
    who = words.group_who(held[0]) if len(held) == 1 else f"{count(number, 'replica')} of {len(held):,} pools"
    rest = f" and {count(len(changes) - 1, 'more setting')}" if len(changes) > 1 else ""
    head = (Piece(who, Style.STRONG), Piece(f": {words.change_words(changes[0])}{rest}"))
    side = words.cohorts_words(held[0]) if len(held) == 1 else ""
    return Entry(tone=Tone.PLAIN, head=head, side=side, lines=tuple(lines))


def _members(group: SettingGroup, names: Names, *, is_one: bool) -> str:
    who = words.some(group.replicas, names, MOST_NAMES if is_one else MOST_NAMED)
    before = "" if is_one else f"{words.group_who(group)}: "
    return f"{before}{words.restarts_words(group)} {who}"


def _replicas(verb: str, tone: Tone, told: Sequence[tuple[str, Seen]]) -> Entry:
    """Say how many replicas did something, and which, a line for each pool."""
    by_pool: dict[str, list[str]] = defaultdict(list)
    for pool, each in told:
        by_pool[pool].append(each.name)
    lines = [_named(pool, held) for pool, held in list(by_pool.items())[:MOST_LINES]]
    more = len(by_pool) - MOST_LINES
    lines += [plain(f"and in {count(more, 'more pool')}")] if more > 0 else []
    return Entry(tone, (Piece(count(len(told), "replica"), Style.STRONG), Piece(f" {verb}")), lines=tuple(lines))


def _moves(verbs: tuple[str, str], told: Iterable[Stayed], way: Way) -> list[Entry]:
    """Say of replicas that went from one thing to another how many took the same way, and which."""
    ways: dict[tuple[str, str, Tone], list[tuple[str, Seen]]] = defaultdict(list)
    for each in told:
        ways[way(each)].append((words.pool_name(each.after.pool), each.after))
    return [
        _replicas(f"{verbs[len(held) > 1]}: {before} to {after}", tone, held)
        for (before, after, tone), held in sorted(ways.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def _state(each: Stayed) -> tuple[str, str, Tone]:
    now = ReplicaState(each.after.state)
    return each.before.state, now, Tone.GOOD if now is ReplicaState.UP else mark(now)


def _version(each: Stayed) -> tuple[str, str, Tone]:
    return brief(each.before.version or ""), brief(each.after.version or ""), Tone.PLAIN


def _pool(each: Stayed) -> tuple[str, str, Tone]:
    return words.pool_name(each.before.pool), words.pool_name(each.after.pool), Tone.PLAIN


def _name(each: Stayed) -> tuple[str, str, Tone]:
    return brief(each.before.name), brief(each.after.name), Tone.PLAIN


def _named(pool: str, held: Sequence[str]) -> Line:
    return (Piece(f"{pool}: "), Piece(first_of(map(brief, held), MOST_NAMES), Style.MUTED))


def _ranks(pool: str, held: Sequence[RankChange], names: Names, *, is_less: bool) -> Entry:
    ends = sorted(held, key=lambda each: each.share)
    shares = list(dict.fromkeys(words.percent(each.share) for each in (ends[0], ends[-1])))
    how = "less" if is_less else "more"
    head = (
        Piece(count(len(held), "rank"), Style.STRONG),
        Piece(f" of {pool} {'holds' if len(held) == 1 else 'hold'} {how} than before: {' to '.join(shares)}"),
    )
    lines = [
        plain(f"{brief(names.get(each.replica, each.replica))}, rank {each.dp_rank}: {_tokens(each)}")
        for each in held[:MOST_NAMED]
    ]
    more = len(held) - MOST_NAMED
    lines += [plain(f"and {count(more, 'more rank')}, in the appendix")] if more > 0 else []
    return Entry(Tone.WARNING if is_less else Tone.PLAIN, head, lines=tuple(lines))


def _tokens(each: RankChange) -> str:
    return words.rank_words(each.before, each.after, is_at_most=each.is_at_most)
