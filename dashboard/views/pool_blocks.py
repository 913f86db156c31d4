"""One pool as blocks of a report: whether prefixes are shared, its cohorts, in which settings they differ."""

from collections.abc import Mapping, Sequence

from dashboard.compare import Matrix, Share, SharingVerdict
from dashboard.compare.sharing import MOST_COHORTS, within
from dashboard.fleet import Cohort, Pool, Replica
from dashboard.fleet.formatting import count, first_of, told_text
from dashboard.fleet.pieces import Piece, Style
from dashboard.report.pools.compared import Compared
from dashboard.report.pools.sharing import ABOUT, SHARE_WORDS, SPLIT, group_lines
from dashboard.views.blocks import Block, Cell, Column, DifferenceTable, Paragraph, Table, Tone, list_cell, number_cell
from dashboard.views.capacity_text import name_of
from dashboard.views.names import brief, names_of

MOST_NAMED = 12  # replicas of one cohort by name
MOST_TOLD = 4  # settings that tell a cohort from the others
_SHARE_TONES = {
    Share.YES: Tone.GOOD,
    Share.NO: Tone.WARNING,
    Share.PARTLY: Tone.WARNING,
    Share.UNKNOWN: Tone.UNKNOWN,
}


def sharing_band(found: Compared) -> Paragraph:
    """Say who can share prefixes with whom, values set as code."""
    return Paragraph(found.text, Tone(found.kind))


def sharing_blocks(sharing: SharingVerdict, slug: str) -> tuple[Block, ...]:
    """Show the cohorts against each other where there is something to see; of very many, the groups as lines."""
    about = Paragraph((Piece(ABOUT, Style.MUTED),))
    if len(sharing.cohorts) > MOST_COHORTS:
        lines = [Paragraph((Piece(f"{line}."),)) for line in group_lines(sharing)]
        return (*lines, about) if lines else ()
    is_split = any(cell.share in SPLIT for cell in sharing.cells)
    is_told = is_split or any(each.is_reporting for each in sharing.cohorts)
    is_shown = is_split or (len(sharing.cohorts) > 1 and is_told)
    return (_sharing_table(sharing, slug), about) if is_shown else ()


def cohorts_table(pool: Pool, replicas: Mapping[str, Replica], slug: str) -> Table:
    """List the cohorts: how many replicas, what tells them from the others, who they are."""
    columns = (Column("Cohort"), Column("Replicas", is_number=True), Column("Told from the others by"), Column("Who"))
    silent = len(pool.replicas) - sum(len(cohort.replicas) for cohort in pool.cohorts)
    return Table(
        name=f"cohorts-{slug}",
        caption=f"Cohorts of {name_of(pool.name)}",
        columns=columns,
        rows=tuple(_cohort_row(cohort, replicas, is_only=len(pool.cohorts) == 1) for cohort in pool.cohorts),
        note=f"{count(silent, 'replica was never read and is', 'replicas were never read and are')} in no cohort."
        if silent
        else "",
    )


def difference_table(
    found: Compared, matrix: Matrix, names: Mapping[str, str], *, name: str, caption: str, notes: Sequence[str] = ()
) -> DifferenceTable:
    """Return a matrix of this pool as a table; what a finding names has the finding's severity."""
    return DifferenceTable(
        name, caption, matrix, names, {path: str(kind) for path, kind in found.named.items()}, (*notes,)
    )


def _sharing_table(sharing: SharingVerdict, slug: str) -> Table:
    by_pair = {frozenset((cell.one, cell.other)): cell for cell in sharing.cells}
    letters = [each.letter for each in sharing.cohorts]
    is_mixed = len({cell.is_measured for cell in sharing.cells if cell.share is not Share.UNKNOWN}) > 1
    alone = {each.letter for each in sharing.cohorts if each.replicas == 1 and within(each).share not in SPLIT}

    def cell(own: str, other: str) -> Cell:
        if own == other and own in alone:
            return Cell("one replica")
        found = by_pair[frozenset((own, other))]
        derived = ", derived" if is_mixed and not found.is_measured and found.share is not Share.UNKNOWN else ""
        return Cell(f"{SHARE_WORDS[found.share]}{derived}", _SHARE_TONES[found.share])

    return Table(
        name=f"prefix-sharing-{slug}",
        caption="Which cohorts can share prefixes",
        columns=(Column("Can share with"), *(Column(f"{each.letter} ×{each.replicas:,}") for each in sharing.cohorts)),
        rows=tuple((Cell("", letter=own), *(cell(own, other) for other in letters)) for own in letters),
    )


def _cohort_row(cohort: Cohort, replicas: Mapping[str, Replica], *, is_only: bool) -> tuple[Cell, ...]:
    told = [f"{each.path} = {told_text(each.value, each.state)}" for each in cohort.distinguishing]
    names = {each: replicas[each].name for each in cohort.replicas}
    members = names_of(cohort.replicas, names)
    who = first_of(map(brief, members), MOST_NAMED)
    part = f"; {len(cohort.read_in_part):,} of them read in part" if cohort.read_in_part else ""
    return (
        Cell("", letter=cohort.letter),
        number_cell(f"{len(cohort.replicas):,}", len(cohort.replicas)),
        list_cell(first_of(told, MOST_TOLD) or ("the only cohort" if is_only else "no single setting"), told),
        list_cell(who + part, members),
    )
