"""The reference of a comparison: the majority of a pool, one of its cohorts, one of its replicas, or its baseline."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from dashboard.compare.baseline import agreed_settings
from dashboard.compare.encoding import NULL, CodeTable
from dashboard.fleet import Baseline, Document, Pool, Setting, SettingValue


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


def reference_values(pool: Pool, reference: Reference, table: CodeTable) -> Mapping[str, SettingValue]:
    """Return the values of the reference by path: the majority has none where paths are tied.

    `table` begins with the pool's cohorts and ends with the settings of `reference_settings`, where there are any.
    """
    if reference.kind is ReferenceKind.MAJORITY:
        return _majority_values(pool, table)
    letters = [cohort.letter for cohort in pool.cohorts]
    row = letters.index(reference.key) if reference.kind is ReferenceKind.COHORT else -1
    codes = zip(table.paths, table.codes[row].tolist(), strict=True)
    return {path: table.values[code] for path, code in codes if code >= NULL}


def reference_settings(
    pool: Pool, documents: Mapping[str, Document], reference: Reference, baseline: Baseline | None = None
) -> list[Mapping[str, Setting]]:
    """Return the settings of a reference that is no cohort: those of a replica or a baseline, else nothing."""
    if reference.kind is ReferenceKind.BASELINE and baseline is not None:
        return [agreed_settings(baseline)]
    return [settings_of(pool, documents, reference.key)] if reference.kind is ReferenceKind.REPLICA else []


def settings_of(pool: Pool, documents: Mapping[str, Document], replica: str) -> Mapping[str, Setting]:
    """Return the settings of a replica's own document; none for a replica that was never read."""
    found = (each.documents_by_replica[replica] for each in pool.cohorts if replica in each.documents_by_replica)
    document = next(found, None)
    return documents[document].settings if document is not None else {}


def _majority_values(pool: Pool, table: CodeTable) -> Mapping[str, SettingValue]:
    values = {difference.path: difference.majority for difference in pool.differences if difference.majority}
    for path, column in zip(table.paths, table.codes[: len(pool.cohorts)].T.tolist(), strict=True):
        codes = {code for code in column if code >= NULL}
        if len(codes) == 1:
            values[path] = table.values[codes.pop()]
    return values
