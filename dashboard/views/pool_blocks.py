"""One pool as blocks: whether its replicas share prefixes, its cohorts, its difference matrix."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dashboard.analysis.sharing_text import cause_text
from dashboard.compare import Matrix, Share, SharingCell, SharingVerdict
from dashboard.compare.hashes import SharingCause
from dashboard.compare.sharing import MOST_COHORTS
from dashboard.fleet import Cohort, Pool, Replica
from dashboard.fleet.formatting import count, first_of, setting_text
from dashboard.fleet.pieces import Kind, Link, Piece, Style
from dashboard.fleet.sightings import NO_SIGHTINGS, Sighting
from dashboard.views.blocks import Block, Cell, Column, DifferenceTable, Paragraph, Table, Tone, list_cell, number_cell
from dashboard.views.names import brief, names_of
from dashboard.views.pool_comparison import PoolComparison
from dashboard.views.sharing import ABOUT, SHARE_WORDS, SPLIT, group_lines
from dashboard.views.since import SIGHTING_COLUMNS, SINCE, sighting_cells, since_cell

MOST_NAMED = 12  # replicas of one cohort by name
MOST_SETTINGS = 4  # that distinguish a cohort
_COHORTS = (Column("Cohort"), Column("Replicas", is_number=True), Column("Distinguished by"), Column("Names"))
MEASURED_IN_PART = "hash alike where measured"  # as the sentence about the pool says


def sharing_band(found: PoolComparison) -> Paragraph:
    """Return which cohorts share prefixes, values set as code."""
    return Paragraph(found.text, Tone(found.kind))


def sharing_blocks(sharing: SharingVerdict, slug: str, kind: str) -> tuple[Block, ...]:
    """Return the cohorts against each other where anything is known; of very many, the groups as lines.

    `kind` is the severity of the verdict: cohorts that do not share have its colour.
    """
    about = Paragraph((Piece(ABOUT, Style.MUTED),))
    if len(sharing.cohorts) > MOST_COHORTS:
        lines = [Paragraph((Piece(f"{line}."),)) for line in group_lines(sharing)]
        return (*lines, about) if lines else ()
    is_split = any(cell.share in SPLIT for cell in sharing.cells)
    is_measured = any(each.is_reporting for each in sharing.cohorts)
    is_shown = is_split or (len(sharing.cohorts) > 1 and is_measured)
    return (_sharing_table(sharing, slug, Tone(kind)), about) if is_shown else ()


def _sharing_table(sharing: SharingVerdict, slug: str, worst: Tone) -> Table:
    is_mixed = len({cell.is_measured for cell in sharing.cells if cell.share is not Share.UNKNOWN}) > 1
    rows = []
    for own in sharing.cohorts:
        row = [Cell("", letter=own.letter)]
        for other in sharing.cohorts:
            found = sharing.cell(own, other)
            is_one = own is other and own.replicas == 1 and found.share not in SPLIT
            row.append(Cell("one replica") if is_one else _sharing_cell(found, worst, is_mixed=is_mixed))
        rows.append(tuple(row))
    return Table(
        name=f"prefix-sharing-{slug}",
        caption="Which cohorts can share prefixes",
        columns=(Column("Can share with"), *(Column(f"{each.letter} ×{each.replicas:,}") for each in sharing.cohorts)),
        rows=tuple(rows),
    )


def _sharing_cell(cell: SharingCell, worst: Tone, *, is_mixed: bool) -> Cell:
    source = "" if cell.share is Share.UNKNOWN else "measured" if cell.is_measured else "derived from settings"
    derived = ", derived" if is_mixed and source and not cell.is_measured else ""
    hint = ", ".join(filter(None, (source, cause_text(cell))))
    word = MEASURED_IN_PART if cell.cause is SharingCause.SOME_SILENT else f"{SHARE_WORDS[cell.share]}{derived}"
    tones = {Share.YES: Tone.GOOD, Share.UNKNOWN: Tone.UNKNOWN}
    return Cell(word, tones.get(cell.share, worst), hint=hint)


def cohorts_table(
    pool: Pool, replicas: Mapping[str, Replica], slug: str, sightings: Mapping[str, Sighting] = NO_SIGHTINGS.findings
) -> Table:
    """Return the cohorts of a pool: replicas, distinguishing settings, names, since when. `sightings` are by letter."""
    rows = [_cohort_row(cohort, pool, replicas) for cohort in pool.cohorts]
    seen = [sightings.get(cohort.letter) for cohort in pool.cohorts]
    unread = len(pool.replicas) - sum(len(cohort.replicas) for cohort in pool.cohorts)
    table = Table(
        name=f"cohorts-{slug}",
        caption=f"Cohorts of {brief(pool.name)}",
        columns=_COHORTS,
        rows=tuple(rows),
        note=f"{count(unread, 'replica')} never read, in no cohort." if unread else "",
    )
    if not sightings:
        return table
    times = [(*row, *sighting_cells(each)) for row, each in zip(rows, seen, strict=True)]
    data = replace(table, columns=(*_COHORTS, *SIGHTING_COLUMNS), rows=tuple(times))
    shown = [(*row, since_cell(each)) for row, each in zip(rows, seen, strict=True)]
    return replace(table, columns=(*_COHORTS, SINCE), rows=tuple(shown), for_programs=lambda: data)


def _cohort_row(cohort: Cohort, pool: Pool, replicas: Mapping[str, Replica]) -> tuple[Cell, ...]:
    settings = [f"{path} = {setting_text(*value)}" for path, value in cohort.distinguishing.items()]
    names = names_of(cohort.replicas, {each: replicas[each].name for each in cohort.replicas})
    incomplete = f"; {len(cohort.read_in_part):,} with incomplete data" if cohort.read_in_part else ""
    none = "the only cohort" if len(pool.cohorts) == 1 else "no single setting"
    return (
        Cell("", letter=cohort.letter, link=Link(Kind.COHORT, cohort.letter, pool.name)),
        number_cell(f"{len(cohort.replicas):,}", len(cohort.replicas)),
        list_cell(first_of(settings, MOST_SETTINGS) or none, settings),
        list_cell(first_of(map(brief, names), MOST_NAMED) + incomplete, names),
    )


def difference_table(
    found: PoolComparison,
    matrix: Matrix,
    pool: Pool,
    names: Mapping[str, str],
    *,
    name: str,
    caption: str,
    notes: Sequence[str] = (),
) -> DifferenceTable:
    """Return a matrix of a pool; settings of findings are marked with their severity."""
    kinds = {path: str(kind) for path, kind in found.named.items()}
    return DifferenceTable(
        name,
        caption,
        matrix,
        names,
        kinds,
        (*notes,),
        pool.name,
        sightings={row.path: found.sightings[row.path] for row in matrix.rows if row.path in found.sightings},
        column_sightings=found.cohort_sightings,
        now=found.now,
    )
