"""The difference matrix: rows are settings, columns are cohorts or replicas, cells compare with the reference."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from dashboard.compare.baseline import choices_text, is_expected
from dashboard.compare.columns import MatrixColumn, baseline_column, cohort_columns, replica_columns, with_note
from dashboard.compare.encoding import MISSING, NULL, VALUELESS, CodeTable, encode, missing_code
from dashboard.compare.pool import COMPARED_AT_LEAST
from dashboard.compare.prefix import short_name
from dashboard.compare.reference import Reference, ReferenceKind, reference_settings, reference_values, settings_of
from dashboard.fleet import Baseline, Document, Pool, SettingValue
from vllm_fleet_provider.shared.spelling import canonical_text

NO_EXPECTATION = "not agreed"  # cell of a path that is not in the baseline


class CellState(StrEnum):
    """How a cell compares with the reference, or why it has no value."""

    SAME = "same"
    DIFFERS = "differs"
    ABSENT = "absent"
    UNSUPPORTED = "unsupported"
    REDACTED = "redacted"
    UNKNOWN = "unknown"  # with a value: whether the reference has the same value is unknown


class MatrixCell(NamedTuple):
    """`value` is canonical JSON text (`null` for an option that is not set), empty where there is none.

    `reported_by` is the number of a cohort's replicas that report the value themselves, None when all of them do.
    """

    state: CellState
    value: str
    reported_by: int | None = None


class MatrixRow(NamedTuple):
    """A path with a cell per column.

    `tie`: no value has the majority, so every value is marked.
    """

    path: str
    label: str
    cells: tuple[MatrixCell, ...]
    differs: bool
    tie: bool


@dataclass(frozen=True, slots=True)
class Matrix:
    """The rows and columns of a table, and how many paths are hidden, by reason.

    `uncompared` paths are reported by fewer than two fresh replicas; `filtered` ones are excluded by search, section
    or origin, `unknown_origin` ones because their origin is unknown. `sections` are the first path segments to choose
    from.
    """

    columns: tuple[MatrixColumn, ...]
    rows: tuple[MatrixRow, ...]
    sections: tuple[str, ...]
    equal: int
    uncompared: int
    identity: int
    ignored: int
    filtered: int
    unknown_origin: int = 0


class Matrices(NamedTuple):
    """The band of the requested paths, and the table of settings: both from one encoding of the documents."""

    band: Matrix
    table: Matrix


def build_matrix(
    pool: Pool,
    documents: Mapping[str, Document],
    reference: Reference,
    *,
    baseline: Baseline | None = None,
    band: Sequence[str] = (),
    only_differences: bool = True,
    section: str | None = None,
    search: str = "",
    as_replicas: Collection[str] | None = None,
) -> Matrices:
    """Lay out a compared pool: a column per cohort, or per replica of `as_replicas`; a row per path.

    The table lists the pool's differences in their order, then, unless `only_differences`, all other paths. A path
    with a cell that differs from the reference is always a row, for example of a stale replica. Ignored paths are
    never rows. All words of `search` must be in the path or the values of a row. `baseline` is the pool's: as the
    reference it has the first column.
    """
    source = _encode_pool(pool, documents, reference, baseline, as_replicas)
    own = source.pool_columns if as_replicas is not None else tuple(_with_notes(source))
    columns = (*((baseline_column(source.baseline),) if source.baseline else ()), *own)
    named = [source.row(path, short_name(path)) for path in band if path not in pool.ignored]
    listed = source.rows(is_hiding=only_differences)
    kept = [row for row in listed if section in {None, _section(row.path)} and _matches(row, search)]
    equal, uncompared = source.hidden(listed) if only_differences else (0, 0)
    return Matrices(
        Matrix(columns, tuple(named), _sections(named), 0, 0, pool.identity, len(pool.ignored), 0),
        Matrix(
            columns=columns,
            rows=tuple(kept),
            sections=_sections(listed),
            equal=equal,
            uncompared=uncompared,
            identity=pool.identity,
            ignored=len(pool.ignored),
            filtered=len(listed) - len(kept),
        ),
    )


@dataclass(frozen=True)
class _EncodedPool:
    """The encoded documents of a pool: per path `codes` has an entry per column, `silent` the replicas without it.

    `reported` counts the paths that the pool reports. `baseline` is set where it is the reference.
    """

    pool: Pool
    pool_columns: tuple[MatrixColumn, ...]
    table: CodeTable
    codes: Mapping[str, Sequence[int]]
    silent: Mapping[str, Sequence[int]]
    reported: int
    reference: Reference
    values: Mapping[str, SettingValue]
    baseline: Baseline | None

    @property
    def marks_ties(self) -> bool:
        """Whether every value is marked where none has the majority."""
        return self.reference.kind is ReferenceKind.MAJORITY

    def is_same(self, path: str, value: SettingValue) -> bool | None:
        """Return whether a value matches the reference; None where the reference has no value of the path."""
        if self.baseline is not None and (allowed := is_expected(self.baseline, path, value)) is not None:
            return allowed
        return value == self.values[path] if path in self.values else None

    def rows(self, *, is_hiding: bool) -> list[MatrixRow]:
        """Return the rows of the differences, then the other rows; with `is_hiding` only those that differ."""
        differing = [difference.path for difference in self.pool.differences]
        others = sorted(set(self.table.paths).difference(differing, self.pool.ignored))
        shown = [path for path in others if not is_hiding or self._differs(path)]
        return [self.row(path, path) for path in (*differing, *shown)]

    def _differs(self, path: str) -> bool:
        """Return whether a value of a path differs from the reference, or is marked because of a tie."""
        values = {self.table.values[code] for code in self.codes.get(path, ()) if code >= NULL}
        same = {self.is_same(path, value) for value in values}
        return False in same or (self.marks_ties and None in same)

    def row(self, path: str, label: str) -> MatrixRow:
        """Return the row of a path."""
        codes = self.codes.get(path) or [MISSING] * len(self.pool_columns)
        choices = choices_text(self.baseline, path) if self.baseline else ""
        has_reference = path in self.values or bool(choices)
        tie = self.marks_ties and not has_reference and any(code >= NULL for code in codes)
        silent = self.silent.get(path) or [0] * len(codes)
        cells = [self._baseline_cell(path, choices)] if self.baseline else []
        for code, column, missing in zip(codes, self.pool_columns, silent, strict=True):
            cell = self._cell(code or missing_code(column.version, path), path, is_tie=tie)
            cells.append(cell._replace(reported_by=column.count - missing if missing and code >= NULL else None))
        return MatrixRow(path, label, tuple(cells), differs=self._differs(path), tie=tie)

    def _cell(self, code: int, path: str, *, is_tie: bool) -> MatrixCell:
        if code < NULL:
            return MatrixCell(CellState(VALUELESS[code]), "")
        value = self.table.values[code]
        is_same = False if is_tie else self.is_same(path, value)
        states = {None: CellState.UNKNOWN, True: CellState.SAME, False: CellState.DIFFERS}
        return MatrixCell(states[is_same], value.value)

    def _baseline_cell(self, path: str, choices: str) -> MatrixCell:
        """Return the cell of the baseline: one value, several, or none."""
        if path in self.values:
            return MatrixCell(CellState.SAME, self.values[path].value)
        return MatrixCell(CellState.SAME if choices else CellState.UNKNOWN, canonical_text(choices or NO_EXPECTATION))

    def hidden(self, listed: Sequence[MatrixRow]) -> tuple[int, int]:
        """Return how many paths are equal, and reported by fewer than two fresh replicas, and not in these rows."""
        extra = listed[len(self.pool.differences) :] if self.baseline else []
        equal = max(self.pool.equal - sum(self._is_compared(row) for row in extra), 0)
        hidden = self.reported - len(self.pool.differences) - len(extra) - len(self.pool.ignored)
        return equal, hidden - equal

    def _is_compared(self, row: MatrixRow) -> bool:
        pairs = zip(row.cells[1:], self.pool_columns, strict=True)
        reporting = sum(
            column.count if cell.reported_by is None else cell.reported_by for cell, column in pairs if cell.value
        )
        return reporting >= COMPARED_AT_LEAST


def _encode_pool(
    pool: Pool,
    documents: Mapping[str, Document],
    reference: Reference,
    baseline: Baseline | None,
    as_replicas: Collection[str] | None,
) -> _EncodedPool:
    """Encode cohorts, replicas that are columns, incomplete documents and the reference, in this order."""
    expected = baseline if reference.kind is ReferenceKind.BASELINE else None
    rows = [cohort.settings for cohort in pool.cohorts]
    incomplete: list[tuple[int, str, int]] = []
    if as_replicas is None:
        first, columns = 0, cohort_columns(pool, documents)
        incomplete = _incomplete(pool)
    else:
        first, columns = len(rows), replica_columns(pool, documents, reference, as_replicas)
        rows += [settings_of(pool, documents, column.key) for column in columns]
    extra = [documents[key].settings for _, key, _ in incomplete]
    table = encode(rows + extra + reference_settings(pool, documents, reference, expected))
    silent = np.zeros((len(columns), len(table.paths)), dtype=np.int64)
    for (place, _, number), codes in zip(incomplete, table.codes[len(rows) :], strict=False):
        silent[place] += number * (codes < NULL)
    return _EncodedPool(
        pool=pool,
        pool_columns=columns,
        table=table,
        codes=dict(zip(table.paths, table.codes[first : first + len(columns)].T.tolist(), strict=True)),
        silent=dict(zip(table.paths, silent.T.tolist(), strict=True)) if incomplete else {},
        reported=int((table.codes[: len(rows)] >= NULL).any(axis=0).sum()),
        reference=reference,
        values=reference_values(pool, reference, table),
        baseline=expected,
    )


def _incomplete(pool: Pool) -> list[tuple[int, str, int]]:
    """Return the documents that are less complete than their cohort: place of the cohort, document, its replicas."""
    return [
        (place, key, number)
        for place, cohort in enumerate(pool.cohorts)
        for key, number in Counter(cohort.documents_by_replica[replica] for replica in cohort.read_in_part).items()
    ]


def _with_notes(source: _EncodedPool) -> Iterator[MatrixColumn]:
    """Yield the cohorts' columns with the settings that differ from the reference, in the order of the rows."""
    first = [difference.path for difference in source.pool.differences if difference.path in source.codes]
    paths = first + sorted(set(source.table.paths).difference(first, source.pool.ignored))
    for place, column in enumerate(source.pool_columns):
        own = [(path, source.table.values[code]) for path in paths if (code := source.codes[path][place]) >= NULL]
        differing = [path for path, value in own if source.is_same(path, value) is False]
        ties = source.marks_ties and any(path not in source.values for path, _ in own)
        yield with_note(source.pool, column, source.reference, differing, ties=ties)


def _sections(rows: Sequence[MatrixRow]) -> tuple[str, ...]:
    return tuple(sorted({_section(row.path) for row in rows}))


def _section(path: str) -> str:
    return path.partition(".")[0]


def _matches(row: MatrixRow, search: str) -> bool:
    text = "\n".join((row.path, row.label, *(cell.value for cell in row.cells))).casefold()
    return all(word in text for word in search.casefold().split())
