"""What a pool is compared with: its majority, one of its cohorts, one of its replicas, or its baseline."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple

from dashboard.compare.baseline import agreed_settings
from dashboard.compare.encoding import NULL, Table, encode
from dashboard.fleet import Baseline, Document, Pool, Setting, SettingValue
from dashboard.vllm.canonical import FILLED_IN_LATER


class ReferenceKind(StrEnum):
    """What kind of thing the values of a pool are held against."""

    MAJORITY = "majority"
    COHORT = "cohort"
    REPLICA = "replica"
    BASELINE = "baseline"


# References that are not among a pool's cohorts.
BESIDE = frozenset({ReferenceKind.REPLICA, ReferenceKind.BASELINE})


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
    if text is not None and any(text in cohort.held for cohort in pool.cohorts):
        return Reference(ReferenceKind.REPLICA, text)
    return MAJORITY


def reference_values(
    pool: Pool,
    documents: Mapping[str, Document],
    reference: Reference,
    *,
    baseline: Baseline | None = None,
    filled_in_later: Collection[str] = FILLED_IN_LATER,
) -> Mapping[str, SettingValue]:
    """Return path -> value for all that the reference tells.

    The majority tells nothing of a path without one, such as a tie; where nothing differs, it is what
    the cohorts tell. A baseline tells one value of each path, also where it tolerates others.
    """
    told = [cohort.settings for cohort in pool.cohorts] + reference_settings(pool, documents, reference, baseline)
    return told_by(pool, reference, encode(told, filled_in_later))


def told_by(pool: Pool, reference: Reference, table: Table) -> Mapping[str, SettingValue]:
    """Return path -> value of the reference. `table` begins with the pool's cohorts and ends with the reference.

    The last row only counts when the reference is no part of the pool's comparison: `reference_settings`.
    """
    if reference.kind in BESIDE:
        return _row(table, -1)
    if reference.kind is ReferenceKind.COHORT:
        return _row(table, [cohort.letter for cohort in pool.cohorts].index(reference.key))
    return _majority(pool, table)


def reference_settings(
    pool: Pool, documents: Mapping[str, Document], reference: Reference, baseline: Baseline | None = None
) -> list[Mapping[str, Setting]]:
    """Return what the reference adds to the pool's cohorts: the settings of a replica or a baseline, else nothing."""
    if reference.kind is ReferenceKind.BASELINE and baseline is not None:
        return [agreed_settings(baseline)]
    return [settings_of(pool, documents, reference.key)] if reference.kind is ReferenceKind.REPLICA else []


def settings_of(pool: Pool, documents: Mapping[str, Document], replica: str) -> Mapping[str, Setting]:
    """Return what a replica told itself. It must be in a cohort."""
    return next(documents[cohort.held[replica]].settings for cohort in pool.cohorts if replica in cohort.held)


def _row(table: Table, row: int) -> Mapping[str, SettingValue]:
    codes = zip(table.paths, table.codes[row].tolist(), strict=True)
    return {path: table.told[code] for path, code in codes if code >= NULL}


def _majority(pool: Pool, table: Table) -> Mapping[str, SettingValue]:
    values = {difference.path: difference.majority for difference in pool.differences if difference.majority}
    for path, column in zip(table.paths, table.codes[: len(pool.cohorts)].T.tolist(), strict=True):
        told = {code for code in column if code >= NULL}
        if len(told) == 1:
            values[path] = table.told[told.pop()]
    return values
