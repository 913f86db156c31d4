"""What a pool is compared with: its majority, one of its cohorts, or one of its replicas."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from dashboard.compare.encoding import NULL, encode
from dashboard.normalize.canonical import FILLED_IN_LATER

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dashboard.compare.encoding import Table
    from dashboard.models import Document, Pool, Setting, Told


class ReferenceKind(StrEnum):
    """What kind of thing the values of a pool are held against."""

    MAJORITY = "majority"
    COHORT = "cohort"
    REPLICA = "replica"


class Reference(NamedTuple):
    """A reference; `key` is a cohort's letter, a replica's id, or empty."""

    kind: ReferenceKind
    key: str = ""

    @property
    def text(self) -> str:
        """How the reference is written in a URL: `parse_reference` reads it back."""
        return self.key or str(self.kind)


MAJORITY = Reference(ReferenceKind.MAJORITY)


def parse_reference(text: str | None, pool: Pool) -> Reference:
    """Read a reference from a URL: a cohort's letter or a replica's id; all else is the majority."""
    if text is not None and text in {cohort.letter for cohort in pool.cohorts}:
        return Reference(ReferenceKind.COHORT, text)
    if text is not None and any(text in cohort.held for cohort in pool.cohorts):
        return Reference(ReferenceKind.REPLICA, text)
    return MAJORITY


def reference_values(
    pool: Pool,
    documents: Mapping[str, Document],
    reference: Reference,
    *,
    filled_in_later: Collection[str] = FILLED_IN_LATER,
) -> Mapping[str, Told]:
    """Return path -> value for all that the reference tells.

    The majority tells nothing of a path without one, such as a tie; where nothing differs, it is what
    the cohorts tell.
    """
    told = [cohort.settings for cohort in pool.cohorts] + reference_settings(pool, documents, reference)
    return told_by(pool, reference, encode(told, filled_in_later))


def told_by(pool: Pool, reference: Reference, table: Table) -> Mapping[str, Told]:
    """Return path -> value of the reference. `table` begins with the pool's cohorts and ends with the reference.

    The last row only counts when the reference is a replica: `reference_settings`.
    """
    if reference.kind is ReferenceKind.REPLICA:
        return _row(table, -1)
    if reference.kind is ReferenceKind.COHORT:
        return _row(table, [cohort.letter for cohort in pool.cohorts].index(reference.key))
    return _majority(pool, table)


def reference_settings(
    pool: Pool, documents: Mapping[str, Document], reference: Reference
) -> list[Mapping[str, Setting]]:
    """Return what the reference adds to the pool's cohorts: the settings of a replica, else nothing."""
    return [settings_of(pool, documents, reference.key)] if reference.kind is ReferenceKind.REPLICA else []


def settings_of(pool: Pool, documents: Mapping[str, Document], replica: str) -> Mapping[str, Setting]:
    """Return what a replica told itself. It must be in a cohort."""
    return next(documents[cohort.held[replica]].settings for cohort in pool.cohorts if replica in cohort.held)


def _row(table: Table, row: int) -> Mapping[str, Told]:
    codes = zip(table.paths, table.codes[row].tolist(), strict=True)
    return {path: table.told[code] for path, code in codes if code >= NULL}


def _majority(pool: Pool, table: Table) -> Mapping[str, Told]:
    values = {difference.path: difference.majority for difference in pool.differences if difference.majority}
    for path, column in zip(table.paths, table.codes[: len(pool.cohorts)].T.tolist(), strict=True):
        told = {code for code in column if code >= NULL}
        if len(told) == 1:
            values[path] = table.told[told.pop()]
    return values
