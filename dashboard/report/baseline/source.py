"""Whose settings a baseline is made of: a cohort's or a replica's."""

from collections.abc import Mapping
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.compare.reference import settings_of
from dashboard.fleet import Pool, Setting
from dashboard.fleet.formatting import count


class Taken(NamedTuple):
    """Settings, and in words whose they are: `cohort A, 15 replicas`."""

    settings: Mapping[str, Setting]
    made_of: str


def taken_from(fleet: Fleet, pool: Pool, chosen: str) -> Taken | None:
    """Return what a cohort (its letter) or a replica (its id or its name) of a pool tells; None if there is none."""
    for cohort in pool.cohorts:
        if cohort.letter == chosen:
            return Taken(cohort.settings, f"cohort {chosen}, {count(len(cohort.replicas), 'replica')}")
    held = {member for cohort in pool.cohorts for member in cohort.held}
    for replica in fleet.replicas:
        if replica.id in held and chosen in {replica.id, replica.name}:
            return Taken(settings_of(pool, fleet.documents, replica.id), f"replica {replica.name}")
    return None
