"""The columns of the difference matrix: cohorts, or replicas, and a baseline where it is what they are held against."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from dashboard.compare.pool import is_majority
from dashboard.compare.prefix import PREFIX_PATHS, short_name
from dashboard.compare.reference import Reference, ReferenceKind
from dashboard.fleet import Baseline, Document, Pool

MAX_NOTED = 3  # settings that a note names before it counts the rest


@dataclass(frozen=True, slots=True)
class Column:
    """A cohort or a replica, `key` its letter or its id; a baseline, which no replica holds.

    `note` says in what it differs from the reference, or that it is the reference; `read_in_part` how many of
    its replicas told less than the cohort together; `version` is None when it is not known.
    """

    key: str
    title: str
    count: int
    replicas: tuple[str, ...]
    note: str
    read_in_part: int
    version: str | None


def cohort_columns(pool: Pool, documents: Mapping[str, Document]) -> tuple[Column, ...]:
    """Make a column of every cohort, the largest first; `noted` writes their notes."""
    return tuple(
        Column(
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
) -> tuple[Column, ...]:
    """Make a column of every one of `replicas` that has a document, in the order given."""
    cohorts = {replica: cohort for cohort in pool.cohorts for replica in cohort.replicas}
    return tuple(
        Column(
            key=replica,
            title=replica,
            count=1,
            replicas=(replica,),
            note="reference" if (ReferenceKind.REPLICA, replica) == reference else f"cohort {cohort.letter}",
            read_in_part=int(replica in cohort.read_in_part),
            version=documents[cohort.held[replica]].version,
        )
        for replica in replicas
        if (cohort := cohorts.get(replica))
    )


def baseline_column(baseline: Baseline) -> Column:
    """Make the column of what was agreed."""
    return Column(
        key=ReferenceKind.BASELINE.value,
        title=f"baseline {baseline.name}",
        count=0,
        replicas=(),
        note="reference",
        read_in_part=0,
        version=None,
    )


def noted(pool: Pool, column: Column, reference: Reference, differing: Collection[str], *, ties: bool) -> Column:
    """Note on a cohort's column in what it differs from the reference: first what decides prefix sharing.

    `differing` are the paths, the most telling first. `ties` says whether it tells a path that has no majority.
    """
    read = sum(len(cohort.replicas) for cohort in pool.cohorts)
    if (ReferenceKind.COHORT, column.key) == reference:
        return replace(column, note="reference")
    if reference.kind is ReferenceKind.MAJORITY and len(pool.cohorts) > 1 and is_majority(column.count, read):
        return replace(column, note="reference: the majority")
    if reference.kind is ReferenceKind.REPLICA and reference.key in column.replicas:
        return replace(column, note="holds the reference")
    if differing:
        return replace(column, note=_first(short_name(path) for path in _deciding_first(differing)))
    return replace(column, note="no majority" if ties else "no difference")


def _deciding_first(paths: Collection[str]) -> list[str]:
    return sorted(paths, key=lambda path: path not in PREFIX_PATHS)


def _first(words: Iterable[str]) -> str:
    names = list(words)
    more = f" +{len(names) - MAX_NOTED:,} more" if len(names) > MAX_NOTED else ""
    return ", ".join(names[:MAX_NOTED]) + more
