"""What a report does not judge or does not count, and why: replicas not read, rules not judged, what is suppressed."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica, ReplicaState, formatting
from dashboard.fleet.formatting import count, first_of, middle_cut, one_line
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.report.findings.cohorts import are_few, named_cohorts
from dashboard.report.findings.words import remarks
from dashboard.report.replicas.standing import mark, reason
from dashboard.rules.findings import Finding, Outcome, OutcomeKind
from dashboard.views.blocks import (
    Block,
    Cell,
    Column,
    Entries,
    Entry,
    Line,
    Paragraph,
    Table,
    Tone,
    data_cell,
    data_table,
    list_cell,
)
from dashboard.views.finding_data import COLUMNS, finding_row, findings_data
from dashboard.views.finding_entries import rule_words, side_of, where_of
from dashboard.views.names import brief, replica_names

MOST_UNREAD = 24  # groups of replicas with one reason
MOST_NAMED = 12  # replicas or pools that one entry names
MOST_ROWS = 100  # of the table of what is suppressed
MOST_REASONS = 2  # of one rule, the most frequent first
LONGEST_REASON = 240  # characters
_SUPPRESSED = (Column("Finding"), Column("Where"), Column("Suppressed by"), Column("Until"), Column("Reason"))


def unread_entries(replicas: Iterable[Replica]) -> tuple[Entries, ...]:
    """List the replicas that were not read whole, those with one reason together; empty where there is none."""
    groups: dict[tuple[ReplicaState, str, str], list[Replica]] = defaultdict(list)
    for replica in replicas:
        kind = formatting.FAILURE_WORDS[replica.failure.kind] if replica.failure else ""
        groups[replica.state, kind, reason(replica)].append(replica)
    items = [_unread(*key, members) for key, members in list(groups.items())[:MOST_UNREAD]]
    if len(groups) > MOST_UNREAD:
        rest = sum(len(members) for members in list(groups.values())[MOST_UNREAD:])
        items.append(Entry(Tone.UNKNOWN, plain(f"{count(rest, 'more replica')} for other reasons: see all replicas")))
    told = [each for members in groups.values() for each in members]
    return (Entries(tuple(items), _unread_data(told)),) if items else ()


def suppressed_blocks(fleet: Fleet) -> tuple[Block, ...]:
    """Show what is suppressed, by whom and until when, soonest to end first, and what is so no longer.

    Then which entries of fleet.yaml have no effect.
    """
    found = sorted(fleet.inspection.suppressed, key=_end)
    warned = (Paragraph(plain(note), Tone.WARNING) for note in fleet.inspection.notes)
    names = replica_names(fleet)
    notes: tuple[Block, ...] = (*_expired(fleet.inspection.findings, names), *warned)
    if not found:
        return (Paragraph(plain("Nothing is suppressed.")), *notes)
    left = len(found) - MOST_ROWS
    table = Table(
        name="suppressed",
        caption="Suppressed findings",
        columns=_SUPPRESSED,
        rows=tuple(_suppressed(each, names) for each in found[:MOST_ROWS]),
        note=f"{left:,} more are not listed." if left > 0 else "",
        data=_suppressed_data(found, names),
    )
    return (table, *notes)


def ignored_blocks(fleet: Fleet) -> tuple[Paragraph, ...]:
    """Say which settings fleet.yaml leaves out of all comparing, and in how many pools they differ."""
    if not fleet.ignored:
        return ()
    pools = sum(bool(pool.ignored) for pool in fleet.pools)
    globs = tuple(piece for glob in fleet.ignored for piece in (Piece(glob, Style.CODE), Piece(", ")))[:-1]
    where = f"{count(pools, 'pool differs', 'pools differ')} in them" if pools else "no pool differs in any of them"
    return (Paragraph((Piece("fleet.yaml ignores "), *globs, Piece(f": these never make a finding; {where}."))),)


def raised_blocks(fleet: Fleet) -> tuple[Paragraph, ...]:
    """Say which rules failed to run: a mistake of the program, never hidden. Empty where none did."""
    raised = _by_rule(fleet.inspection.outcomes, OutcomeKind.ERROR)
    if not raised:
        return ()
    title = f"{count(len(raised), 'rule')} failed to run and judged nothing there: "
    rules = first_of([f"{rule_words(rule)} on {_places(held)}" for rule, held in raised.items()], MOST_NAMED)
    text = ". That is a mistake of this program, not of the fleet: please report it."
    return (Paragraph((Piece(title, Style.STRONG), Piece(f"{rules}{text}")), Tone.CRITICAL),)


def skipped_table(outcomes: Sequence[Outcome]) -> Table | None:
    """List the rules that were not judged somewhere, with what was missing; None where every rule was judged."""
    rows = [
        (
            Cell(rule_words(rule)),
            list_cell(_places(held), (each.subject for each in held)),
            list_cell(_reasons(held), dict.fromkeys(each.reason for each in held)),
        )
        for rule, held in sorted(_by_rule(outcomes, OutcomeKind.SKIPPED).items())
    ]
    columns = (Column("Rule"), Column("Where"), Column("Why not"))
    return Table("rules-not-judged", "Rules that were not judged", columns, tuple(rows)) if rows else None


def _unread_data(replicas: Iterable[Replica]) -> Table:
    """Return a row for each replica."""
    columns = tuple(map(Column, ("replica", "address", "pool", "state", "failure", "reason", "observed_at")))
    rows = (
        (
            each.name,
            each.id,
            each.pool,
            each.state.value,
            each.failure.kind.value if each.failure else "",
            reason(each),
            formatting.iso(each.observed_at) if each.observed_at else "",
        )
        for each in replicas
    )
    return data_table("not-read", "Not read whole", columns, rows)


def _unread(state: ReplicaState, kind: str, why: str, members: Sequence[Replica]) -> Entry:
    names = first_of([brief(each.name) for each in members], MOST_NAMED)
    standing = "down" if state is ReplicaState.DOWN else "partial"
    head = (Piece(names, Style.STRONG), Piece(f" {standing}{f' · {kind}' if kind else ''}", Style.MUTED))
    side = count(len(members), "replica") if len(members) > 1 else ""
    return Entry(mark(state), head, side, (plain(one_line(why)), *_last_read(state, members)))


def _last_read(state: ReplicaState, members: Sequence[Replica]) -> tuple[Line, ...]:
    """Say of one that is down since when its values are old."""
    if state is not ReplicaState.DOWN or len(members) > 1 or members[0].observed_at is None:
        return ()
    return (plain(f"Last read {formatting.iso(members[0].observed_at)}; its values are kept and marked."),)


def _suppressed(finding: Finding, names: dict[str, str]) -> tuple[Cell, ...]:
    by = finding.suppression
    told = (brief(by.owner), f"{by.until}", one_line(by.reason)) if by else ("", "", "")
    in_order = [brief(name) for each in named_cohorts(finding, names) for name in each.names]
    many = "" if are_few(finding) else first_of(in_order, MOST_NAMED)
    where = " · ".join(filter(None, (where_of(finding), side_of([finding], names), many)))
    what = Cell(f"{finding.severity}: {finding.rule} {finding.sentence}", Tone(finding.severity))
    return (what, Cell(where), *map(Cell, told))


def _suppressed_data(found: Iterable[Finding], names: Mapping[str, str]) -> Table:
    columns = (*COLUMNS, Column("owner"), Column("until"), Column("reason"))
    rows = [
        (*finding_row(each, names), *map(data_cell, (by.owner, f"{by.until}", by.reason)))
        for each in found
        if (by := each.suppression)
    ]
    return Table("suppressed", "Suppressed findings", columns, tuple(rows))


def _end(finding: Finding) -> str:
    return f"{finding.suppression.until}" if finding.suppression else ""


def _expired(findings: Iterable[Finding], names: Mapping[str, str]) -> tuple[Entries, ...]:
    """List the findings that somebody answered for until a day that is over; empty where there is none."""
    found = [each for each in findings if each.expired]
    items = tuple(
        Entry(
            Tone(each.severity),
            (Piece(where_of(each), Style.STRONG), Piece(f" {each.rule} {each.sentence}")),
            lines=(plain(one_line(remarks(each)[0])),),
        )
        for each in found
    )
    return (Entries(items, findings_data(found, names)),) if items else ()


def _by_rule(outcomes: Iterable[Outcome], kind: OutcomeKind) -> dict[str, list[Outcome]]:
    by_rule: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.kind is kind:
            by_rule[outcome.rule].append(outcome)
    return by_rule


def _places(outcomes: Sequence[Outcome]) -> str:
    named = [brief(each.subject) if each.pools else "the whole fleet" for each in outcomes]
    noun = "pair" if all(len(each.pools) > 1 for each in outcomes) else "pool"
    return ", ".join(named) if len(named) <= MOST_REASONS + 1 else count(len(named), noun)


def _reasons(outcomes: Sequence[Outcome]) -> str:
    """Write the reasons, the most frequent first; what follows a colon in them is of one replica or pool."""
    found = Counter(one_line(each.reason).rpartition(": ")[0] or one_line(each.reason) for each in outcomes)
    told = [middle_cut(text.rstrip("."), LONGEST_REASON) for text, _ in found.most_common(MOST_REASONS)]
    more = [f"{len(found) - MOST_REASONS:,} more reasons"] if len(found) > MOST_REASONS else []
    return "; ".join([*told, *more]) + "."
