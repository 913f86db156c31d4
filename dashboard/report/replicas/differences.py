"""In which settings a document differs from the majority of its pool."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.fleet import Document, Pool, SettingValue


class Apart(NamedTuple):
    """A setting in which a document differs. `majority` is None where no value has the majority."""

    path: str
    majority: SettingValue | None


def apart_from_majority(pool: Pool, document: Document) -> tuple[Apart, ...]:
    """Return the pool's differences in which a document has another value than the majority.

    What it does not tell is left out. Where no value has the majority, every value is marked, as in Compare.
    """
    found = []
    for difference in pool.differences:
        told = lookup_setting(document.settings, difference.path)
        if told is None or not is_comparable(told.state):
            continue
        majority = difference.majority
        if majority is None or (told.value, told.state) != (majority.value, majority.state):
            found.append(Apart(difference.path, majority))
    return tuple(found)


def from_majority(apart: Sequence[Apart]) -> int:
    """Count the settings in which a document differs from a majority: a tie is no difference of this one."""
    return sum(each.majority is not None for each in apart)


def numbers(pools: tuple[Pool, ...], documents: Mapping[str, Document]) -> Mapping[tuple[str, str], int]:
    """Return in how many settings each document differs from the majority, by (pool, document): once per document."""
    return {
        (pool.name, document): from_majority(apart_from_majority(pool, documents[document]))
        for pool in pools
        for cohort in pool.cohorts
        for document in cohort.documents
    }
