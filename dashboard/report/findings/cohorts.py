"""Whose a finding is: its cohorts, each with the names of its own replicas, in one order everywhere."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dashboard.fleet.formatting import natural
from dashboard.rules.findings import CohortShare, Finding
from dashboard.views.names import MOST_NAMED


class NamedCohort(NamedTuple):
    """The replicas of a finding in one cohort: their ids, in the order in which people count their names."""

    share: CohortShare
    replicas: tuple[str, ...]
    names: tuple[str, ...]


def named_cohorts(finding: Finding, names: Mapping[str, str]) -> list[NamedCohort]:
    """Return the cohorts of a finding in the order in which its letters stand, each with its own names.

    Whoever writes names beside letters takes both from here: no name stands beside the letter of another cohort.
    `names` is by the replicas' ids.
    """
    return [_named(share, names) for share in finding.cohorts]


def are_few(finding: Finding) -> bool:
    """Tell whether a list names the replicas of a finding, each beside its cohort; of more it shows cohorts alone."""
    return len(finding.replicas) <= MOST_NAMED


def room_for(cohorts: Sequence[NamedCohort], most: int) -> list[int]:
    """Share out the `most` names that a line has room for: a cohort of one replica is the first to be named."""
    room = [0] * len(cohorts)
    for place in sorted(range(len(cohorts)), key=lambda place: len(cohorts[place].names)):
        room[place] = min(most - sum(room), len(cohorts[place].names))
    return room


def _named(share: CohortShare, names: Mapping[str, str]) -> NamedCohort:
    ids = sorted(share.replicas, key=lambda each: natural(names.get(each, each)))
    return NamedCohort(share, tuple(ids), tuple(names.get(each, each) for each in ids))
