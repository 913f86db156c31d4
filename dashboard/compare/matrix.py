"""The difference matrix: what the compare page shows and its CSV holds, before anybody draws it."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from dashboard.compare.baseline import agreed_words, fits
from dashboard.compare.columns import Column, baseline_column, cohort_columns, noted, replica_columns
from dashboard.compare.encoding import MISSING, NULL, VALUELESS, Table, Unsupported, encode, why_missing
from dashboard.compare.pool import COMPARED_AT_LEAST
from dashboard.compare.prefix import short_name
from dashboard.compare.reference import Reference, ReferenceKind, reference_settings, settings_of, told_by
from dashboard.fleet import Baseline, Document, Pool, SettingValue
from dashboard.vllm.canonical import FILLED_IN_LATER, canonical_text
from dashboard.vllm.versions import is_unsupported

NOTHING_AGREED = "not agreed"  # of a path that the baseline does not name


class CellState(StrEnum):
    """How a cell stands to the reference, or why it has no value."""

    SAME = "same"
    DIFFERS = "differs"
    ABSENT = "absent"
    UNSUPPORTED = "unsupported"
    REDACTED = "redacted"
    UNKNOWN = "unknown"  # with a value: the value is known, but not whether the reference has it too


class Cell(NamedTuple):
    """`value` is canonical JSON text (`null` for an option that is not set), empty where there is none.

    `tellers` is how many of a cohort's replicas tell it themselves, None when all of them do.
    """

    state: CellState
    value: str
    tellers: int | None = None


class Row(NamedTuple):
    """A path with a cell per column.

    `tie`: no value has the majority, so every value is marked. `comparable` is False when the reference
    does not tell this path: then nothing is marked.
    """

    path: str
    label: str
    cells: tuple[Cell, ...]
    differs: bool
    tie: bool
    comparable: bool


@dataclass(frozen=True, slots=True)
class Matrix:
    """What is shown, and how many paths are not, by reason.

    `uncompared` are paths that fewer than two fresh replicas tell; `filtered` those that would be rows
    but for the search or the section. `sections` are the first path segments there are to choose from.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    sections: tuple[str, ...]
    equal: int
    uncompared: int
    identity: int
    ignored: int
    filtered: int


class _Drawing(NamedTuple):
    """All that a row depends on: `codes` maps a path to an entry per column, `silent` to the replicas that lack it."""

    table: Table
    codes: Mapping[str, Sequence[int]]
    silent: Mapping[str, Sequence[int]]
    counts: Sequence[int]
    versions: Sequence[str | None]
    reference: Mapping[str, SettingValue]
    marks_ties: bool
    unsupported: Unsupported
    baseline: Baseline | None

    def is_same(self, path: str, told: SettingValue) -> bool | None:
        """Tell whether a value stands as the reference has it; None where the reference says nothing of the path."""
        if self.baseline is not None and (fit := fits(self.baseline, path, told)) is not None:
            return fit
        return told == self.reference[path] if path in self.reference else None

    def is_comparable(self, path: str) -> bool:
        """Tell whether the reference says anything of a path."""
        return path in self.reference or bool(self.baseline and agreed_words(self.baseline, path))


class _HeldLess(NamedTuple):
    """A document that says less than its cohort, which is the column, and how many replicas hold it."""

    column: int
    document: str
    replicas: int


def build_matrix(
    pool: Pool,
    documents: Mapping[str, Document],
    reference: Reference,
    *,
    baseline: Baseline | None = None,
    only_differences: bool = True,
    section: str | None = None,
    search: str = "",
    paths: Sequence[str] | None = None,
    as_replicas: Collection[str] | None = None,
    unsupported: Unsupported = is_unsupported,
    filled_in_later: Collection[str] = FILLED_IN_LATER,
) -> Matrix:
    """Lay out a compared pool: a column per cohort, or per replica of `as_replicas`; a row per path.

    Rows are the pool's differences in their order, then, unless `only_differences`, all other paths. Where a
    cell differs from the reference, its path is a row in any case: a stale replica, say. `paths` asks for
    exactly these rows, told or not. Ignored paths are never rows. All words of `search` must stand in the path
    or the values of a row. `baseline` is the pool's: where it is the reference it has the first column, and what it
    tolerates is the same.
    """
    agreed = baseline if reference.kind is ReferenceKind.BASELINE else None
    if as_replicas is None:
        columns, first, shown = cohort_columns(pool, documents), 0, []
    else:
        columns, first = replica_columns(pool, documents, reference, as_replicas), len(pool.cohorts)
        shown = [settings_of(pool, documents, column.key) for column in columns]
    held_less = [] if as_replicas is not None else _held_less(pool)
    told = [cohort.settings for cohort in pool.cohorts] + shown
    before = len(told)
    told += [documents[held.document].settings for held in held_less]
    table = encode(told + reference_settings(pool, documents, reference, agreed), filled_in_later)
    drawing = _Drawing(
        table=table,
        codes=dict(zip(table.paths, table.codes[first : first + len(columns)].T.tolist(), strict=True)),
        silent=_silent(table, before, held_less, len(columns)),
        counts=[column.count for column in columns],
        versions=[column.version for column in columns],
        reference=told_by(pool, reference, table),
        marks_ties=reference.kind is ReferenceKind.MAJORITY,
        unsupported=unsupported,
        baseline=agreed,
    )
    if as_replicas is None:
        columns = tuple(_noted(pool, drawing, reference, columns))
    is_hiding = only_differences and paths is None
    rows = _rows(pool, drawing, is_hiding=is_hiding) if paths is None else _band(pool, drawing, paths)
    shown_anyway = rows[len(pool.differences) :] if is_hiding and agreed else []
    equal = sum(_tellers(row, columns) >= COMPARED_AT_LEAST for row in shown_anyway)
    if agreed is not None:
        columns, rows = (baseline_column(agreed), *columns), [_with_agreed(row, drawing, agreed) for row in rows]
    own = encode(told[:before], filled_in_later) if agreed and is_hiding else table  # paths that the pool itself tells
    kept = [row for row in rows if section in {None, _section(row.path)} and _matches(row, search)]
    return Matrix(
        columns=columns,
        rows=tuple(kept),
        sections=tuple(sorted({_section(row.path) for row in rows})),
        equal=pool.equal - equal if is_hiding else 0,
        uncompared=_count_uncompared(pool, own) - len(shown_anyway) + equal if is_hiding else 0,
        identity=pool.identity,
        ignored=len(pool.ignored),
        filtered=len(rows) - len(kept),
    )


def _held_less(pool: Pool) -> list[_HeldLess]:
    """Return the documents that say less than their cohort: place of the cohort, document, how many hold it."""
    return [
        _HeldLess(place, key, number)
        for place, cohort in enumerate(pool.cohorts)
        for key, number in Counter(cohort.held[replica] for replica in cohort.read_in_part).items()
    ]


def _silent(table: Table, first: int, held_less: Sequence[_HeldLess], columns: int) -> Mapping[str, Sequence[int]]:
    """Count for every path and column the replicas that do not tell it; no entry where all do."""
    if not held_less:
        return {}
    counts = np.zeros((columns, len(table.paths)), dtype=np.int64)
    for held, codes in zip(held_less, table.codes[first:], strict=False):
        counts[held.column] += held.replicas * (codes < NULL)
    return dict(zip(table.paths, counts.T.tolist(), strict=True))


def _noted(pool: Pool, drawing: _Drawing, reference: Reference, columns: Sequence[Column]) -> Iterator[Column]:
    paths = _ordered(pool, drawing)
    for place, column in enumerate(columns):
        own = [(path, drawing.table.told[code]) for path in paths if (code := drawing.codes[path][place]) >= NULL]
        differing = [path for path, told in own if drawing.is_same(path, told) is False]
        ties = drawing.marks_ties and any(path not in drawing.reference for path, _ in own)
        yield noted(pool, column, reference, differing, ties=ties)


def _ordered(pool: Pool, drawing: _Drawing) -> list[str]:
    """Return the paths that are told and not ignored: the pool's differences in their order, then by name."""
    differing = [difference.path for difference in pool.differences if difference.path in drawing.codes]
    return differing + sorted(set(drawing.table.paths).difference(differing, pool.ignored))


def _rows(pool: Pool, drawing: _Drawing, *, is_hiding: bool) -> list[Row]:
    differing = [difference.path for difference in pool.differences]
    others = sorted(set(drawing.table.paths).difference(differing, pool.ignored))
    rows = [_row(drawing, path, path) for path in differing]
    more = [_row(drawing, path, path) for path in others]
    return rows + [row for row in more if row.differs or not is_hiding]


def _band(pool: Pool, drawing: _Drawing, paths: Sequence[str]) -> list[Row]:
    return [_row(drawing, path, short_name(path)) for path in paths if path not in pool.ignored]


def _tellers(row: Row, columns: Sequence[Column]) -> int:
    """Count the replicas that tell a row's path."""
    pairs = zip(row.cells, columns, strict=True)
    return sum(column.count if cell.tellers is None else cell.tellers for cell, column in pairs if cell.value)


def _with_agreed(row: Row, drawing: _Drawing, baseline: Baseline) -> Row:
    """Put what was agreed before the values that are held against it: one value, several, or nothing."""
    words = agreed_words(baseline, row.path)
    if row.path in drawing.reference:
        cell = Cell(CellState.SAME, drawing.reference[row.path].value)
    else:
        cell = Cell(CellState.SAME if words else CellState.UNKNOWN, canonical_text(words or NOTHING_AGREED))
    return row._replace(cells=(cell, *row.cells))


def _count_uncompared(pool: Pool, table: Table) -> int:
    telling = int((table.codes >= NULL).any(axis=0).sum())
    return telling - len(pool.differences) - pool.equal - len(pool.ignored)


def _row(drawing: _Drawing, path: str, label: str) -> Row:
    codes = drawing.codes.get(path) or [MISSING] * len(drawing.versions)
    is_comparable = drawing.is_comparable(path)
    tie = drawing.marks_ties and not is_comparable and any(code >= NULL for code in codes)
    said = [
        code or why_missing(version, path, drawing.unsupported)
        for code, version in zip(codes, drawing.versions, strict=True)
    ]
    silent = drawing.silent.get(path) or [0] * len(said)
    cells = tuple(
        _cell(code, path, drawing, is_tie=tie)._replace(tellers=number - missing if missing and code >= NULL else None)
        for code, missing, number in zip(said, silent, drawing.counts, strict=True)
    )
    differs = any(cell.state is CellState.DIFFERS for cell in cells)
    return Row(path, label, cells, differs=differs, tie=tie, comparable=tie or is_comparable)


def _cell(code: int, path: str, drawing: _Drawing, *, is_tie: bool) -> Cell:
    if code < NULL:
        return Cell(CellState(VALUELESS[code]), "")
    told = drawing.table.told[code]
    if is_tie:
        return Cell(CellState.DIFFERS, told.value)
    is_same = drawing.is_same(path, told)
    if is_same is None:
        return Cell(CellState.UNKNOWN, told.value)
    return Cell(CellState.SAME if is_same else CellState.DIFFERS, told.value)


def _section(path: str) -> str:
    return path.partition(".")[0]


def _matches(row: Row, search: str) -> bool:
    text = "\n".join((row.path, row.label, *(cell.value for cell in row.cells))).casefold()
    return all(word in text for word in search.casefold().split())
