"""The columns of the difference matrix: cohorts, or replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboard.compare.pool import is_majority
from dashboard.compare.prefix import short_name
from dashboard.compare.reference import ReferenceKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dashboard.compare.reference import Reference
    from dashboard.models import Cohort, Document, Pool

MAX_NOTED = 3  # distinguishing settings that a note names before it counts the rest


@dataclass(frozen=True, slots=True)
class Column:
    """A cohort or a replica, `key` its letter or its id.

    `note` says what tells it from the others, or that it is the reference; `read_in_part` how many of
    its replicas told less than the cohort together; `version` is None when it is not known.
    """

    key: str
    title: str
    count: int
    replicas: tuple[str, ...]
    note: str
    read_in_part: int
    version: str | None


def cohort_columns(pool: Pool, documents: Mapping[str, Document], reference: Reference) -> tuple[Column, ...]:
    """Make a column of every cohort, the largest first."""
    read = sum(len(cohort.replicas) for cohort in pool.cohorts)
    return tuple(
        Column(
            key=cohort.letter,
            title=cohort.letter,
            count=len(cohort.replicas),
            replicas=cohort.replicas,
            note=_cohort_note(cohort, reference, read),
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
            note="the reference" if (ReferenceKind.REPLICA, replica) == reference else f"cohort {cohort.letter}",
            read_in_part=int(replica in cohort.read_in_part),
            version=documents[cohort.held[replica]].version,
        )
        for replica in replicas
        if (cohort := cohorts.get(replica))
    )


def _cohort_note(cohort: Cohort, reference: Reference, read: int) -> str:
    if reference.kind is ReferenceKind.COHORT and reference.key == cohort.letter:
        return "the reference"
    if reference.kind is ReferenceKind.MAJORITY and is_majority(len(cohort.replicas), read):
        return "reference: the majority"
    names = [short_name(distinction.path) for distinction in cohort.distinguishing]
    more = f" and {len(names) - MAX_NOTED} more" if len(names) > MAX_NOTED else ""
    return ", ".join(names[:MAX_NOTED]) + more
