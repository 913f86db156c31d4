"""The difference matrix: rows are settings, columns are cohorts or replicas, cells compare with the reference."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from dashboard.compare.baseline import EMPTY_SECTIONS, agreed_settings, choices_text, is_expected
from dashboard.compare.columns import (
    MatrixColumn,
    Reference,
    ReferenceKind,
    baseline_column,
    cohort_columns,
    reference_values,
    replica_columns,
    rows_of,
    with_note,
)
from dashboard.compare.encoding import MISSING, NULL, VALUELESS, Codes, codes_of, missing_code
from dashboard.compare.pool import COMPARED_AT_LEAST
from dashboard.compare.prefix import short_name
from dashboard.fleet import Baseline, Document, Pool, Replica, SettingValue, State
from dashboard.fleet.formatting import setting_text
from vllm_fleet_provider.shared.spelling import canonical_text

HASH_LABEL = "block hashes"
DIGEST_LENGTH = 12  # characters of a digest that are shown: enough to see which are equal
NO_EXPECTATION = "not agreed"  # cell of a path that is not in the baseline


class CellState(StrEnum):
    """How a cell compares with the reference, or why it has no value."""

    SAME = "same"
    DIFFERS = "differs"
    ABSENT = "absent"
    UNSUPPORTED = "unsupported"
    REDACTED = "redacted"
    UNKNOWN = "unknown"  # with a value: whether the reference has the same value is unknown


_STATES = {None: CellState.UNKNOWN, True: CellState.SAME, False: CellState.DIFFERS}  # by whether it is the reference's


class MatrixCell(NamedTuple):
    """`value` is canonical JSON text (`null` for an option that is not set), empty where there is none.

    `reported_by` is the number of a cohort's replicas that report the value themselves, None when all of them do.
    """

    state: CellState
    value: str
    reported_by: int | None = None

    @property
    def text(self) -> str:
        """Return it on one line: its value, or the reason without one."""
        return setting_text(self.value, State.REPORTED) if self.value else setting_text("null", State(self.state))


class MatrixRow(NamedTuple):
    """A path with a cell per column.

    `tie`: no value has the majority, so every value is marked.
    """

    path: str
    label: str
    cells: tuple[MatrixCell, ...]
    differs: bool
    tie: bool

    @property
    def mark(self) -> str:
        """Return `differs`, `same`, or `unknown` where a cell has no value to compare."""
        if self.differs:
            return "differs"
        return "same" if all(cell.state is CellState.SAME for cell in self.cells) else "unknown"


@dataclass(frozen=True, slots=True)
class Matrix:
    """A compared pool in columns, `rows` chosen by `band` or `table`, and how many paths these hide, by reason.

    Per path `codes` has one code for each cohort or replica, `silent` the replicas of a cohort without it. `values` are
    those of the reference. `baseline` is set where it is the reference: it has the first column.

    `uncompared` paths are reported by fewer than two fresh replicas; `filtered` ones are excluded by search, section
    or origin, `unknown_origin` ones because their origin is unknown. `sections` are the first path segments to choose
    from.
    """

    pool: Pool
    columns: tuple[MatrixColumn, ...]
    codes: Mapping[str, Sequence[int]]
    silent: Mapping[str, Sequence[int]]
    values: Mapping[str, SettingValue]
    marks_ties: bool
    baseline: Baseline | None
    rows: tuple[MatrixRow, ...] = ()
    sections: tuple[str, ...] = ()
    equal: int = 0
    uncompared: int = 0
    filtered: int = 0
    unknown_origin: int = 0

    def band(self, paths: Sequence[str]) -> "Matrix":
        """Return the rows of some paths, without ignored ones."""
        rows = tuple(self._row(path, short_name(path)) for path in paths if path not in self.pool.ignored)
        return replace(self, rows=rows, sections=_sections(rows))

    def table(self, *, only_differences: bool = True, section: str | None = None, search: str = "") -> "Matrix":
        """Return the pool's differences in their order, then, unless `only_differences`, all other paths.

        A path with a cell that differs from the reference is always a row, for example of a stale replica. Ignored
        paths are never rows. All words of `search` must be in the path or the values of a row.
        """
        differing = [difference.path for difference in self.pool.differences]
        others = sorted(set(self.codes).difference(differing, self.pool.ignored))
        shown = [path for path in others if not only_differences or self._differs(path)]
        listed = [self._row(path, path) for path in (*differing, *shown)]
        kept = tuple(row for row in listed if section in {None, _section(row.path)} and _matches(row, search))
        found = replace(self, rows=kept, sections=_sections(listed), filtered=len(listed) - len(kept))
        if not only_differences:
            return found
        extra = listed[len(differing) :] if self.baseline else []
        equal = max(self.pool.equal - sum(map(self._is_compared, extra)), 0)
        reported = int((self.pool.table.codes >= NULL).any(axis=0).sum())
        hidden = reported - len(differing) - len(extra) - len(self.pool.ignored)
        return replace(found, equal=equal, uncompared=hidden - equal)

    @property
    def _compared(self) -> tuple[MatrixColumn, ...]:
        """The cohorts or replicas, without the baseline."""
        return self.columns[1:] if self.baseline else self.columns

    def with_notes(self, reference: Reference) -> "Matrix":
        """Note at each cohort the settings that differ from the reference, in the order of the rows."""
        first = [difference.path for difference in self.pool.differences]
        paths = first + sorted(set(self.codes).difference(first, self.pool.ignored))
        columns = [*self.columns[: len(self.columns) - len(self._compared)]]
        for place, column in enumerate(self._compared):
            own = {path: self.codes[path][place] for path in paths if self.codes[path][place] >= NULL}
            differing = [path for path, code in own.items() if self._is_same(path, code) is False]
            ties = self.marks_ties and not own.keys() <= self.values.keys()
            columns.append(with_note(self.pool, column, reference, differing, ties=ties))
        return replace(self, columns=tuple(columns))

    def _is_same(self, path: str, code: int) -> bool | None:
        """Return whether a value matches the reference; None where the reference has no value of the path."""
        value = self.pool.table.values[code]
        if self.baseline is not None and (allowed := is_expected(self.baseline, path, value)) is not None:
            return allowed
        return value == self.values[path] if path in self.values else None

    def _differs(self, path: str) -> bool:
        """Return whether a value of a path differs from the reference, or is marked because of a tie."""
        same = {self._is_same(path, code) for code in {*self.codes.get(path, ())} if code >= NULL}
        return False in same or (self.marks_ties and None in same)

    def _row(self, path: str, label: str) -> MatrixRow:
        codes = self.codes.get(path) or [MISSING] * len(self._compared)
        silent = self.silent.get(path) or [0] * len(codes)
        choices = choices_text(self.baseline, path) if self.baseline else ""
        has_reference = path in self.values or bool(choices)
        tie = self.marks_ties and not has_reference and any(code >= NULL for code in codes)
        cells = []
        if self.baseline is not None and path in self.values:
            cells.append(MatrixCell(CellState.SAME, self.values[path].value))
        elif self.baseline is not None:
            state = CellState.SAME if choices else CellState.UNKNOWN
            cells.append(MatrixCell(state, canonical_text(choices or NO_EXPECTATION)))
        for code, column, missing in zip(codes, self._compared, silent, strict=True):
            if code < NULL:
                state = CellState(VALUELESS[code or missing_code(column.version, path)])
                cells.append(MatrixCell(state, ""))
            else:
                state = _STATES[False if tie else self._is_same(path, code)]
                reported_by = column.count - missing if missing else None
                cells.append(MatrixCell(state, self.pool.table.values[code].value, reported_by))
        return MatrixRow(path, label, tuple(cells), differs=self._differs(path), tie=tie)

    def _is_compared(self, row: MatrixRow) -> bool:
        pairs = zip(row.cells[1:], self._compared, strict=True)
        reporting = sum(
            column.count if cell.reported_by is None else cell.reported_by for cell, column in pairs if cell.value
        )
        return reporting >= COMPARED_AT_LEAST


def lay_out(
    pool: Pool,
    documents: Mapping[str, Document],
    reference: Reference,
    *,
    baseline: Baseline | None = None,
    as_replicas: Collection[str] | None = None,
    as_columns: tuple[MatrixColumn, ...] = (),
) -> Matrix:
    """Return a compared pool without rows: a column per cohort, or per replica of `as_replicas`, or `as_columns`.

    `baseline` is the pool's.
    """
    expected = baseline if reference.kind is ReferenceKind.BASELINE else None
    if as_replicas is None:
        columns = as_columns or cohort_columns(pool, documents)
    else:
        columns = replica_columns(pool, documents, reference, as_replicas)
    added = _added_paths(pool, expected) if expected else []
    table = np.column_stack([pool.table.codes, *(codes_of(pool.table, path) for path in added)])
    paths = [*pool.table.paths, *added]
    codes = np.array(rows_of(pool, columns, table), dtype=np.int32).reshape(len(columns), len(paths))
    has_silent = as_replicas is None and any(each.read_in_part for each in pool.cohorts)
    silent = _silent(pool, columns, table) if has_silent else None
    matrix = Matrix(
        pool=pool,
        columns=(baseline_column(expected), *columns) if expected else columns,
        codes=dict(zip(paths, codes.T.tolist(), strict=True)),
        silent={} if silent is None else dict(zip(paths, silent.T.tolist(), strict=True)),
        values=reference_values(pool, reference, expected),
        marks_ties=reference.kind is ReferenceKind.MAJORITY,
        baseline=expected,
    )
    return matrix if as_replicas is not None else matrix.with_notes(reference)


def _added_paths(pool: Pool, baseline: Baseline) -> list[str]:
    """Return the paths that only the baseline has, without empty sections of which there are settings."""
    agreed = agreed_settings(baseline)
    known = {*pool.table.paths, *agreed}
    added = []
    for path in sorted(agreed.keys() - set(pool.table.paths)):
        is_section = path in pool.table.sections or any(each.startswith(f"{path}.") for each in known)
        if not (is_section and agreed[path].value in EMPTY_SECTIONS):
            added.append(path)
    return added


def _silent(pool: Pool, columns: Sequence[MatrixColumn], codes: Codes) -> Codes:
    """Return per column and path how many replicas do not report it, of those that report fewer than their cohort."""
    rows = {key: row for row, key in enumerate(pool.documents)}
    incomplete = {key: each.documents_by_replica[key] for each in pool.cohorts for key in each.read_in_part}
    silent = np.zeros((len(columns), codes.shape[1]), dtype=np.int32)
    for place, column in enumerate(columns):
        for key, number in Counter(incomplete[each] for each in column.replicas if each in incomplete).items():
            silent[place] += number * (codes[rows[key]] < NULL)
    return silent


def hash_row(
    path: str, pool: Pool, reference: Reference, columns: Sequence[MatrixColumn], replicas: Mapping[str, Replica]
) -> MatrixRow | None:
    """Return a row with the digests of the engines of each column; None where no engine reports one.

    The reference is the digest of its cohort or replica, or the digest of most replicas. Without a single reference
    digest, such as for a baseline, nothing is marked; a tie marks all. A column with replicas that report no digest is
    unknown.
    """
    reported = [{*_digests([replicas[key]])} for column in columns for key in column.replicas]
    first, *others = Counter(digest for own in reported for digest in own).most_common(2) or [("", 0)]
    if not first[0]:
        return None
    is_majority = reference.kind is ReferenceKind.MAJORITY
    is_tie = is_majority and bool(others) and others[0][1] == first[1]
    wanted = ("" if is_tie else first[0]) if is_majority else _reference_digest(pool, reference, replicas)
    cells = [_hash_cell([replicas[key] for key in column.replicas], wanted) for column in columns]
    if reference.kind is ReferenceKind.BASELINE:
        cells[0] = MatrixCell(CellState.UNKNOWN, json.dumps(NO_EXPECTATION))
    differs = any(cell.state is CellState.DIFFERS for cell in cells)
    return MatrixRow(path, HASH_LABEL, tuple(cells), differs=differs, tie=is_tie)


def _reference_digest(pool: Pool, reference: Reference, replicas: Mapping[str, Replica]) -> str | None:
    """Return the digest of the cohort or replica that is the reference; None where it has none or several."""
    members = {cohort.letter: cohort.replicas for cohort in pool.cohorts}
    keys = [reference.key] if reference.kind is ReferenceKind.REPLICA else members.get(reference.key, ())
    digests = {*_digests(replicas[key] for key in keys)}
    return digests.pop() if len(digests) == 1 else None


def _digests(replicas: Iterable[Replica]) -> list[str]:
    marks = (engine.fingerprint for each in replicas for engine in each.engines)
    return [mark.engine for mark in marks if mark and mark.engine]


def _hash_cell(replicas: Sequence[Replica], wanted: str | None) -> MatrixCell:
    """Return the cell of one column; `wanted` is the reference, empty for a tie, None where nothing is marked."""
    digests = _digests(replicas)
    if not digests:
        has_reason = any(each.fingerprint and each.fingerprint.reason for own in replicas for each in own.engines)
        return MatrixCell(CellState.UNKNOWN, json.dumps("none")) if has_reason else MatrixCell(CellState.ABSENT, "")
    distinct = set(digests)
    text = digests[0][:DIGEST_LENGTH]
    if len(distinct) > 1:
        text = f"{len(distinct):,} {'different' if len(distinct) == len(digests) else 'ways'}"
    reporting = sum(bool(each.engines) and len(_digests([each])) == len(each.engines) for each in replicas)
    is_whole = reporting == len(replicas)
    if wanted is not None and distinct != {wanted}:
        state = CellState.DIFFERS
    else:
        state = CellState.SAME if is_whole and wanted is not None else CellState.UNKNOWN
    return MatrixCell(state, json.dumps(text), None if is_whole else reporting)


def _sections(rows: Sequence[MatrixRow]) -> tuple[str, ...]:
    return tuple(sorted({_section(row.path) for row in rows}))


def _section(path: str) -> str:
    return path.partition(".")[0]


def _matches(row: MatrixRow, search: str) -> bool:
    text = "\n".join((row.path, row.label, *(cell.value for cell in row.cells))).casefold()
    return all(word in text for word in search.casefold().split())
