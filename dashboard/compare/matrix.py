"""The difference matrix of the Compare page and its CSV: rows are settings, columns are cohorts or replicas."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from dashboard.compare.baseline import choices_text, is_expected
from dashboard.compare.columns import Column, baseline_column, cohort_columns, replica_columns, with_note
from dashboard.compare.encoding import MISSING, NULL, VALUELESS, Table, Unsupported, encode, missing_code
from dashboard.compare.pool import COMPARED_AT_LEAST
from dashboard.compare.prefix import short_name
from dashboard.compare.reference import (
    Reference,
    ReferenceKind,
    reference_settings,
    settings_of,
    values_of_reference,
)
from dashboard.fleet import Baseline, Document, Engine, Pool, Replica, SettingValue
from dashboard.vllm.canonical import FILLED_IN_LATER, canonical_text
from dashboard.vllm.versions import is_unsupported

NO_EXPECTATION = "not agreed"  # cell of a path that is not in the baseline
HASH_LABEL = "block hashes"
DIGEST_LENGTH = 12  # characters of a digest that are shown: enough to see which are equal


class CellState(StrEnum):
    """How a cell compares with the reference, or why it has no value."""

    SAME = "same"
    DIFFERS = "differs"
    ABSENT = "absent"
    UNSUPPORTED = "unsupported"
    REDACTED = "redacted"
    UNKNOWN = "unknown"  # with a value: the value is known, but not whether the reference has it too


class Cell(NamedTuple):
    """`value` is canonical JSON text (`null` for an option that is not set), empty where there is none.

    `tellers` is how many of a cohort's replicas report the value themselves, None when all of them do.
    """

    state: CellState
    value: str
    tellers: int | None = None


class Row(NamedTuple):
    """A path with a cell per column.

    `tie`: no value has the majority, so every value is marked. `comparable` is False when the reference has no value
    of this path: then nothing is marked.
    """

    path: str
    label: str
    cells: tuple[Cell, ...]
    differs: bool
    tie: bool
    comparable: bool


@dataclass(frozen=True, slots=True)
class Matrix:
    """The rows and columns that are shown, and how many paths are not, by reason.

    `uncompared` paths are reported by fewer than two fresh replicas; `filtered` ones are excluded by the search or the
    section. `sections` are the first path segments to choose from.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    sections: tuple[str, ...]
    equal: int
    uncompared: int
    identity: int
    ignored: int
    filtered: int


class _Source(NamedTuple):
    """What rows are made of: per path `codes` has an entry per column, `silent` counts replicas that lack the path."""

    table: Table
    codes: Mapping[str, Sequence[int]]
    silent: Mapping[str, Sequence[int]]
    counts: Sequence[int]
    versions: Sequence[str | None]
    reference: Mapping[str, SettingValue]
    marks_ties: bool
    unsupported: Unsupported
    baseline: Baseline | None

    def is_same(self, path: str, value: SettingValue) -> bool | None:
        """Return whether a value matches the reference; None where the reference has no value of the path."""
        if self.baseline is not None and (allowed := is_expected(self.baseline, path, value)) is not None:
            return allowed
        return value == self.reference[path] if path in self.reference else None

    def row(self, path: str, label: str) -> Row:
        """Return the row of a path."""
        codes = self.codes.get(path) or [MISSING] * len(self.versions)
        choices = choices_text(self.baseline, path) if self.baseline else ""
        is_comparable = path in self.reference or bool(choices)
        tie = self.marks_ties and not is_comparable and any(code >= NULL for code in codes)
        silent = self.silent.get(path) or [0] * len(codes)
        cells = []
        for code, version, missing, number in zip(codes, self.versions, silent, self.counts, strict=True):
            cell = self._cell(code or missing_code(version, path, self.unsupported), path, is_tie=tie)
            cells.append(cell._replace(tellers=number - missing if missing and code >= NULL else None))
        differs = any(cell.state is CellState.DIFFERS for cell in cells)
        return Row(path, label, tuple(cells), differs=differs, tie=tie, comparable=tie or is_comparable)

    def _cell(self, code: int, path: str, *, is_tie: bool) -> Cell:
        if code < NULL:
            return Cell(CellState(VALUELESS[code]), "")
        value = self.table.values[code]
        is_same = False if is_tie else self.is_same(path, value)
        states = {None: CellState.UNKNOWN, True: CellState.SAME, False: CellState.DIFFERS}
        return Cell(states[is_same], value.value)


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

    Rows are the pool's differences in their order, then, unless `only_differences`, all other paths. A path with a
    cell that differs from the reference is always a row: of a stale replica, say. `paths` asks for exactly these rows.
    Ignored paths are never rows. All words of `search` must be in the path or the values of a row. `baseline` is the
    pool's: as the reference it has the first column.
    """
    expected = baseline if reference.kind is ReferenceKind.BASELINE else None
    if as_replicas is None:
        columns, first, shown = cohort_columns(pool, documents), 0, []
    else:
        columns, first = replica_columns(pool, documents, reference, as_replicas), len(pool.cohorts)
        shown = [settings_of(pool, documents, column.key) for column in columns]
    settings = [cohort.settings for cohort in pool.cohorts] + shown
    incomplete = _incomplete(pool) if as_replicas is None else []
    extra = [documents[key].settings for _, key, _ in incomplete]
    table = encode(settings + extra + reference_settings(pool, documents, reference, expected), filled_in_later)
    source = _Source(
        table=table,
        codes=dict(zip(table.paths, table.codes[first : first + len(columns)].T.tolist(), strict=True)),
        silent=_silent(table, len(settings), incomplete, len(columns)),
        counts=[column.count for column in columns],
        versions=[column.version for column in columns],
        reference=values_of_reference(pool, reference, table),
        marks_ties=reference.kind is ReferenceKind.MAJORITY,
        unsupported=unsupported,
        baseline=expected,
    )
    if as_replicas is None:
        columns = tuple(_with_notes(pool, source, reference, columns))
    is_hiding = only_differences and paths is None
    if paths is None:
        rows = _rows(pool, source, is_hiding=is_hiding)
    else:
        rows = [source.row(path, short_name(path)) for path in paths if path not in pool.ignored]
    shown_anyway = rows[len(pool.differences) :] if is_hiding and expected else []
    equal = sum(_count_reporting(row, columns) >= COMPARED_AT_LEAST for row in shown_anyway)
    if expected is not None:
        columns, rows = (baseline_column(expected), *columns), [_with_expected(row, source, expected) for row in rows]
    own = encode(settings, filled_in_later) if expected and is_hiding else table  # paths that the pool itself reports
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


def hash_row(
    path: str, pool: Pool, reference: Reference, columns: Sequence[Column], replicas: Mapping[str, Replica]
) -> Row | None:
    """Return a row with the digests of the engines of each column; None where no engine reports one.

    The reference is the digest of its cohort or replica, or the digest of most replicas. Without a single reference
    digest, such as for a baseline, nothing is marked; a tie marks all. A column with replicas that report no digest is
    unknown.
    """
    own = {key: {*_digests([replicas[key]])} for column in columns for key in column.replicas}
    first, *others = Counter(digest for held in own.values() for digest in held).most_common(2) or [("", 0)]
    if not first[0]:
        return None
    is_majority = reference.kind is ReferenceKind.MAJORITY
    is_tie = is_majority and bool(others) and others[0][1] == first[1]
    wanted = ("" if is_tie else first[0]) if is_majority else _reference_digest(pool, reference, replicas)
    cells = [_hash_cell([replicas[key] for key in column.replicas], wanted) for column in columns]
    if reference.kind is ReferenceKind.BASELINE:
        cells[0] = Cell(CellState.UNKNOWN, json.dumps(NO_EXPECTATION))
    differs = any(cell.state is CellState.DIFFERS for cell in cells)
    return Row(path, HASH_LABEL, tuple(cells), differs=differs, tie=is_tie, comparable=wanted is not None)


def _incomplete(pool: Pool) -> list[tuple[int, str, int]]:
    """Return the documents that are less complete than their cohort: place of the cohort, document, its replicas."""
    return [
        (place, key, number)
        for place, cohort in enumerate(pool.cohorts)
        for key, number in Counter(cohort.held[replica] for replica in cohort.read_in_part).items()
    ]


def _silent(
    table: Table, first: int, incomplete: Sequence[tuple[int, str, int]], columns: int
) -> Mapping[str, Sequence[int]]:
    """Count for every path and column the replicas that do not report it; no entry where all do."""
    if not incomplete:
        return {}
    counts = np.zeros((columns, len(table.paths)), dtype=np.int64)
    for (column, _, number), codes in zip(incomplete, table.codes[first:], strict=False):
        counts[column] += number * (codes < NULL)
    return dict(zip(table.paths, counts.T.tolist(), strict=True))


def _with_notes(pool: Pool, source: _Source, reference: Reference, columns: Sequence[Column]) -> Iterator[Column]:
    first = [difference.path for difference in pool.differences if difference.path in source.codes]
    paths = first + sorted(set(source.table.paths).difference(first, pool.ignored))
    for place, column in enumerate(columns):
        own = [(path, source.table.values[code]) for path in paths if (code := source.codes[path][place]) >= NULL]
        differing = [path for path, value in own if source.is_same(path, value) is False]
        ties = source.marks_ties and any(path not in source.reference for path, _ in own)
        yield with_note(pool, column, reference, differing, ties=ties)


def _rows(pool: Pool, source: _Source, *, is_hiding: bool) -> list[Row]:
    differing = [difference.path for difference in pool.differences]
    others = sorted(set(source.table.paths).difference(differing, pool.ignored))
    rows = [source.row(path, path) for path in others]
    return [source.row(path, path) for path in differing] + [row for row in rows if row.differs or not is_hiding]


def _count_reporting(row: Row, columns: Sequence[Column]) -> int:
    pairs = zip(row.cells, columns, strict=True)
    return sum(column.count if cell.tellers is None else cell.tellers for cell, column in pairs if cell.value)


def _with_expected(row: Row, source: _Source, baseline: Baseline) -> Row:
    """Add the cell of the baseline: one value, several, or none."""
    choices = choices_text(baseline, row.path)
    if row.path in source.reference:
        cell = Cell(CellState.SAME, source.reference[row.path].value)
    else:
        cell = Cell(CellState.SAME if choices else CellState.UNKNOWN, canonical_text(choices or NO_EXPECTATION))
    return row._replace(cells=(cell, *row.cells))


def _count_uncompared(pool: Pool, table: Table) -> int:
    reported = int((table.codes >= NULL).any(axis=0).sum())
    return reported - len(pool.differences) - pool.equal - len(pool.ignored)


def _section(path: str) -> str:
    return path.partition(".")[0]


def _matches(row: Row, search: str) -> bool:
    text = "\n".join((row.path, row.label, *(cell.value for cell in row.cells))).casefold()
    return all(word in text for word in search.casefold().split())


def _reference_digest(pool: Pool, reference: Reference, replicas: Mapping[str, Replica]) -> str | None:
    """Return the digest of the cohort or replica that is the reference; None where it has none or several."""
    members = {
        ReferenceKind.COHORT: [key for each in pool.cohorts if each.letter == reference.key for key in each.replicas],
        ReferenceKind.REPLICA: [reference.key],
    }
    digests = {*_digests(replicas[key] for key in members.get(reference.kind, ()))}
    return digests.pop() if len(digests) == 1 else None


def _digests(replicas: Iterable[Replica]) -> list[str]:
    engines: list[Engine] = [engine for each in replicas for engine in each.engines]
    return [mark.engine for each in engines if (mark := each.fingerprint) and mark.engine]


def _hash_cell(replicas: Sequence[Replica], wanted: str | None) -> Cell:
    """Return the cell of one column; `wanted` is the reference, empty for a tie, None where nothing is marked."""
    digests = _digests(replicas)
    if not digests:
        marks = [engine.fingerprint for each in replicas for engine in each.engines]
        has_reason = any(mark.reason for mark in marks if mark)
        return Cell(CellState.UNKNOWN, json.dumps("none")) if has_reason else Cell(CellState.ABSENT, "")
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
    return Cell(state, json.dumps(text), None if is_whole else reporting)
