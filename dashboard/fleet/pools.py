"""Pools, compared: cohorts and differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dashboard.fleet.replies import Setting
from dashboard.fleet.words import Role, State


class SettingValue(NamedTuple):
    """A value and how it stands, without who said it."""

    value: str
    state: State


class Distinction(NamedTuple):
    """A setting that tells a cohort from the others."""

    path: str
    value: str
    state: State


@dataclass(frozen=True, slots=True)
class Cohort:
    """Replicas of a pool whose documents do not contradict each other.

    `document` is the most completely read one; `settings` is what the members say together;
    `read_in_part` names the replicas whose own document says less than that.
    """

    letter: str
    document: str
    documents: tuple[str, ...]
    replicas: tuple[str, ...]
    settings: Mapping[str, Setting]
    read_in_part: tuple[str, ...] = ()
    distinguishing: tuple[Distinction, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)  # replica id -> id of its own document


@dataclass(frozen=True, slots=True)
class ValueCount:
    """One of the values of a difference: how many fresh replicas have it, in which cohorts."""

    value: str
    state: State
    count: int
    cohorts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting whose values are not all equal in a pool. `majority` is None on a tie or too few."""

    path: str
    majority: SettingValue | None
    values: tuple[ValueCount, ...]


def cohort_letters(pools: Iterable[Pool]) -> dict[str, str]:
    """Return the letter of each replica's cohort, by the replica's id; who was never read has none."""
    return {member: cohort.letter for pool in pools for cohort in pool.cohorts for member in cohort.replicas}


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool, compared. Counts of paths say what a view of the differences hides."""

    name: str
    role: Role
    replicas: tuple[str, ...]
    fresh: int
    majority_document: str | None
    cohorts: tuple[Cohort, ...]
    differences: tuple[Difference, ...]
    equal: int
    identity: int
    ignored: tuple[str, ...]
