"""The columns of the difference matrix: cohorts or replicas, and the baseline where it is the reference."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from dashboard.compare.pool import is_majority
from dashboard.compare.prefix import PREFIX_PATHS, short_name
from dashboard.compare.reference import Reference, ReferenceKind
from dashboard.fleet import Baseline, Document, Pool

REFERENCE_NOTE = "reference"
MAX_NOTED = 3  # settings that a note names before it counts the rest


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
    """Return the column of a baseline."""
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
