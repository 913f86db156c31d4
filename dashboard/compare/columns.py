"""The columns of the difference matrix: cohorts or replicas, and the reference that they are compared with."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from dashboard.compare.baseline import agreed_settings
from dashboard.compare.cohorts import merge_rows
from dashboard.compare.encoding import NULL, Codes, has_contradiction, lookup_value
from dashboard.compare.pool import is_majority
from dashboard.compare.prefix import PREFIX_PATHS, short_name
from dashboard.fleet import Baseline, Document, Pool, SettingValue

REFERENCE_NOTE = "reference"
MAX_NOTED = 3  # settings that a note names before it counts the rest


class ReferenceKind(StrEnum):
    """What the values of a pool are compared with."""

    MAJORITY = "majority"
    COHORT = "cohort"
    REPLICA = "replica"
    BASELINE = "baseline"


class Reference(NamedTuple):
    """A reference; `key` is a cohort's letter, a replica's id, or empty."""

    kind: ReferenceKind
    key: str = ""

    @property
    def text(self) -> str:
        """How the reference is written in a URL: `parse_reference` reads it back."""
        return self.key or str(self.kind)


MAJORITY = Reference(ReferenceKind.MAJORITY)
BASELINE = Reference(ReferenceKind.BASELINE)


def parse_reference(text: str | None, pool: Pool, baseline: Baseline | None = None) -> Reference:
    """Read a reference from a URL: a cohort's letter, a replica's id, the pool's baseline; all else is the majority."""
    if text == BASELINE.text and baseline is not None:
        return BASELINE
    if text is not None and text in {cohort.letter for cohort in pool.cohorts}:
        return Reference(ReferenceKind.COHORT, text)
    if text is not None and any(text in cohort.documents_by_replica for cohort in pool.cohorts):
        return Reference(ReferenceKind.REPLICA, text)
    return MAJORITY


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """A cohort or a replica, `key` its letter or its id; or a baseline, which has no replicas.

    `note` names the settings that differ from the reference. `read_in_part` counts the replicas with incomplete data.
    """

    key: str
    title: str
    count: int
    replicas: tuple[str, ...]
    note: str
    read_in_part: int
    version: str | None
    cohort: str = ""  # of a replica that is not the reference: its letter

    @property
    def is_cohort(self) -> bool:
        """Return whether its key is a letter, not an address."""
        return self.key.isalpha() and self.key.isupper()

    @property
    def only(self) -> str:
        """Return the id of the replica that it is, or that its cohort consists of; empty for another column."""
        return self.replicas[0] if self.count == 1 and (self.is_cohort or self.key in self.replicas) else ""


def cohort_columns(pool: Pool, documents: Mapping[str, Document]) -> tuple[MatrixColumn, ...]:
    """Return a column for every cohort, the largest first, without notes."""
    return tuple(
        MatrixColumn(
            key=cohort.letter,
            title=cohort.letter,
            count=len(cohort.replicas),
            replicas=cohort.replicas,
            note="",
            read_in_part=len(cohort.read_in_part),
            version=next(filter(None, (documents[key].version for key in cohort.documents)), None),
        )
        for cohort in pool.cohorts
    )


def replica_columns(
    pool: Pool, documents: Mapping[str, Document], reference: Reference, replicas: Collection[str]
) -> tuple[MatrixColumn, ...]:
    """Return a column for every one of `replicas` that has a document, in the order given."""
    cohorts = {replica: cohort for cohort in pool.cohorts for replica in cohort.replicas}
    return tuple(
        MatrixColumn(
            key=replica,
            title=replica,
            count=1,
            replicas=(replica,),
            note=REFERENCE_NOTE if (ReferenceKind.REPLICA, replica) == reference else f"cohort {cohort.letter}",
            read_in_part=int(replica in cohort.read_in_part),
            version=documents[cohort.documents_by_replica[replica]].version,
            cohort="" if (ReferenceKind.REPLICA, replica) == reference else cohort.letter,
        )
        for replica in replicas
        if (cohort := cohorts.get(replica))
    )


def baseline_column(baseline: Baseline) -> MatrixColumn:
    return MatrixColumn(ReferenceKind.BASELINE.value, f"baseline {baseline.name}", 0, (), REFERENCE_NOTE, 0, None)


def with_note(
    pool: Pool, column: MatrixColumn, reference: Reference, differing: Collection[str], *, ties: bool
) -> MatrixColumn:
    """Return a cohort's column with a note: the settings that differ, those that decide prefix sharing first.

    `ties` is whether the cohort reports a setting without a majority.
    """
    read = sum(len(cohort.replicas) for cohort in pool.cohorts)
    if (ReferenceKind.COHORT, column.key) == reference:
        note = REFERENCE_NOTE
    elif reference.kind is ReferenceKind.MAJORITY and len(pool.cohorts) > 1 and is_majority(column.count, read):
        note = "reference: the majority"
    elif reference.kind is ReferenceKind.REPLICA and reference.key in column.replicas:
        note = "contains the reference"
    elif differing:
        names = [short_name(path) for path in sorted(differing, key=lambda path: path not in PREFIX_PATHS)]
        more = f" +{len(names) - MAX_NOTED:,} more" if len(names) > MAX_NOTED else ""
        note = ", ".join(names[:MAX_NOTED]) + more
    else:
        note = "no majority" if ties else "no setting differs"
    return replace(column, note=note)


def rows_of(pool: Pool, columns: Collection[MatrixColumn], codes: Codes) -> list[Codes]:
    """Return what the documents of each column report together. `codes` has a row for each document of the pool."""
    documents = {replica: key for cohort in pool.cohorts for replica, key in cohort.documents_by_replica.items()}
    rows = {key: row for row, key in enumerate(pool.documents)}
    return [merge_rows(codes[sorted({rows[documents[replica]] for replica in column.replicas})]) for column in columns]


def reference_values(pool: Pool, reference: Reference, baseline: Baseline | None) -> Mapping[str, SettingValue]:
    """Return the values of the reference by path: the majority has none where paths are tied."""
    table = pool.table
    if reference.kind is ReferenceKind.BASELINE and baseline is not None:
        agreed = agreed_settings(baseline)
        found = {path: lookup_value(agreed, path) for path in (*table.paths, *agreed)}
        return {path: value for path, value in found.items() if value is not None}
    if reference.kind is ReferenceKind.MAJORITY:
        majority = {each.path: each.majority for each in pool.differences if each.majority}
        codes = np.where(has_contradiction(table.codes), 0, merge_rows(table.codes))
    else:
        majority = {}
        is_cohort = reference.kind is ReferenceKind.COHORT
        keys = next(
            cohort.documents if is_cohort else (cohort.documents_by_replica[reference.key],)
            for cohort in pool.cohorts
            if reference.key in ({cohort.letter} if is_cohort else cohort.documents_by_replica)
        )
        codes = merge_rows(table.codes[[pool.documents.index(key) for key in keys]])
    known = zip(table.paths, codes.tolist(), strict=True)
    return {path: table.values[code] for path, code in known if code >= NULL} | majority
