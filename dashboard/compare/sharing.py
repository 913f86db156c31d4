"""The verdict on prefix sharing: which cohorts of a pool share prefixes, measured by block hashes or from settings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from dashboard.compare.cohort_pairs import DECIDING_PATHS, MEASURABLE, SHARING_PATHS, compare_cohorts
from dashboard.compare.encoding import is_comparable
from dashboard.compare.hashes import CohortHashes, Share, SharingCause, SharingCell, cohort_hashes, lacks
from dashboard.compare.holders import document_values
from dashboard.compare.prefix import CONNECTOR_PATH, VERSION_PATH, WEIGHTS_PATHS, known_values
from dashboard.fleet import Document, Pool, Replica
from dashboard.vllm.canonical import FILLED_IN_LATER
from dashboard.vllm.versions import EARLIEST, is_unsupported

MOST_COHORTS = 12  # a matrix of more cannot be read, and its cells grow with their square


@dataclass(frozen=True, slots=True)
class SharingVerdict:
    """Whether the replicas of a pool share prefixes, with the cohorts that decide it.

    `known` has a cell of every pair of cohorts, each with itself and with those after it; of more than `MOST_COHORTS`
    each with itself, its neighbours, the first and the base. `share` is the weakest cell. `split` are the cohorts whose
    own replicas do not all share prefixes, caching being on. `unread` replicas are in no cohort. `incomplete` replicas
    do not report all settings that others report.
    """

    pool: Pool
    cohorts: tuple[CohortHashes, ...]
    unread: int
    incomplete: int
    known: Mapping[tuple[str, str], SharingCell]
    share: Share
    split: tuple[str, ...]

    @property
    def cells(self) -> tuple[SharingCell, ...]:
        """Every cohort with itself and with those after it; none where there are more than `MOST_COHORTS`."""
        return tuple(self.known.values()) if len(self.cohorts) <= MOST_COHORTS else ()

    def cell(self, one: CohortHashes, other: CohortHashes) -> SharingCell:
        return self.known.get((one.letter, other.letter)) or self.known[other.letter, one.letter]

    def renamed(self, names: Mapping[str, str]) -> "SharingVerdict":
        """Return the verdict with names in place of the cohorts' letters."""
        cells = {
            (names[one], names[other]): cell._replace(one=names[one], other=names[other])
            for (one, other), cell in self.known.items()
        }
        cohorts = tuple(replace(each, letter=names[each.letter]) for each in self.cohorts)
        return replace(self, cohorts=cohorts, known=cells, split=tuple(names[letter] for letter in self.split))

    @property
    def is_off(self) -> bool:
        return bool(self.cohorts) and all(each.is_off and not each.digests for each in self.cohorts)

    @property
    def is_certain(self) -> bool:
        """Whether it is certain that not all replicas share prefixes, caching being on."""
        return self.share is Share.NO and not self.is_off

    @property
    def is_split(self) -> bool:
        """Whether not all replicas share prefixes, or only their versions differ, which may or may not matter."""
        return self.is_certain or (self.is_unknown and bool(self.other_versions))

    @property
    def is_unknown(self) -> bool:
        """Whether sharing is unknown, caching being on."""
        return self.share is Share.UNKNOWN and not self.is_off

    @property
    def is_measured(self) -> bool:
        """Whether block hashes decide any of it: of two engines, or of one next to one that hashes nothing."""
        several = sum(each.engines for each in self.cohorts) >= MEASURABLE
        return several or any(each.digests and each.off for each in self.cohorts)

    @property
    def is_doubted(self) -> bool:
        """Whether sharing is unknown and unlikely: engines probably use random seeds."""
        is_several = sum(each.replicas for each in self.cohorts) > 1
        return self.is_unknown and is_several and any(each.is_maybe_random for each in self.cohorts)

    @property
    def not_known(self) -> int:
        """How many replicas do not report all that decides it: hashes where they are measured, else settings."""
        is_measurable = sum(each.engines + each.off for each in self.cohorts) >= MEASURABLE
        if is_measurable and not self.is_off:
            return self.silent
        if not self.is_unknown:
            return self.incomplete
        doubted = sum(each.replicas for each in self.cohorts if each.is_maybe_random) if self.is_doubted else 0
        return max(self.silent, self.incomplete, doubted if not self.is_split else 0)

    @property
    def other_versions(self) -> tuple[CohortHashes, ...]:
        """The cohorts with a different vLLM version than the first that reports one, where hashes do not settle it."""
        known = [each for each in self.cohorts if VERSION_PATH in each.values]
        return tuple(
            each
            for each in known[1:]
            if each.values[VERSION_PATH] != known[0].values[VERSION_PATH]
            and not (each.is_reporting and known[0].is_reporting)
        )

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Cohorts with equal hashes on all their engines; a cohort with silent replicas is in none."""
        silent = {each.letter for each in self.cohorts if each.silent}
        whole = (tuple(each.letter for each in group if each.letter not in silent) for group in self.classes)
        return tuple(filter(None, whole))

    @property
    def classes(self) -> tuple[tuple[CohortHashes, ...], ...]:
        """Cohorts with equal hashes on all engines that report them; a cohort with several hashes is in none."""
        alike: dict[str, list[CohortHashes]] = {}
        for each in self.cohorts:
            if each.ways == 1 and each.digests:
                alike.setdefault(next(iter(each.digests)), []).append(each)
        return tuple(map(tuple, alike.values()))

    @property
    def base(self) -> CohortHashes:
        """The cohort that others are compared with: the first that some replicas share hashes in, else the largest."""
        measured = (each for each in self.cohorts if each.digests and not (each.ways > 1 and each.is_each_alone))
        return next(measured, self.cohorts[0]) if self.is_measured else self.cohorts[0]

    @property
    def ways(self) -> int:
        """How many distinct hashes the engines of the pool report."""
        return len(set().union(*(each.digests for each in self.cohorts))) + sum(each.off for each in self.cohorts)

    @property
    def silent(self) -> int:
        return self.unread + sum(each.silent for each in self.cohorts)


def sharing_verdict(pool: Pool, replicas: Mapping[str, Replica], documents: Mapping[str, Document]) -> SharingVerdict:
    """Return the verdict on a pool. `replicas` and `documents` are by id, the pool's or more."""
    paths = (*DECIDING_PATHS, *WEIGHTS_PATHS, CONNECTOR_PATH, EARLIEST)
    compared = [path for path in paths if path not in pool.ignored]
    cohorts = tuple(cohort_hashes(cohort, replicas, known_values(cohort.settings, compared)) for cohort in pool.cohorts)
    unread = len(pool.replicas) - sum(len(cohort.replicas) for cohort in pool.cohorts)
    incomplete = unread + _count_incomplete(pool, documents)
    verdict = SharingVerdict(pool, cohorts, unread, incomplete, {}, Share.UNKNOWN, ())
    alone = {(each.letter, each.letter): compare_cohorts(each, each) for each in cohorts}
    others = (
        combinations(cohorts, 2) if len(cohorts) <= MOST_COHORTS else (*pairwise(cohorts), *_with(cohorts[0], cohorts))
    )
    known = alone | {(one.letter, other.letter): compare_cohorts(one, other) for one, other in others}
    found = {cell.share for cell in known.values()}
    if len(cohorts) > MOST_COHORTS:
        known |= {
            (one.letter, other.letter): compare_cohorts(one, other) for one, other in _with(verdict.base, cohorts)
        }
    if found & {Share.NO, Share.PARTLY} or verdict.ways > 1:
        share = Share.NO
    else:
        share = Share.YES if found == {Share.YES} and not unread else Share.UNKNOWN
    split = [
        cell.one
        for cell, cohort in zip(alone.values(), cohorts, strict=True)
        if cohort.replicas and cell.share in {Share.NO, Share.PARTLY} and cell.cause is not SharingCause.CACHING_OFF
    ]
    return replace(verdict, known=known, share=share, split=tuple(split))


def _with(one: CohortHashes, cohorts: Iterable[CohortHashes]) -> list[tuple[CohortHashes, CohortHashes]]:
    return [(one, each) for each in cohorts if each is not one]


def _count_incomplete(pool: Pool, documents: Mapping[str, Document]) -> int:
    """Count the replicas that lack a setting that others report and that their version has."""
    lacking: set[str] = set()
    for path in SHARING_PATHS:
        values = zip(pool.documents, document_values(pool, documents, path), strict=True)
        missing = [key for key, value in values if value is None or not is_comparable(value.state)]
        if path not in pool.ignored and len(missing) < len(pool.documents):
            lacking |= {key for key in missing if not is_unsupported(documents[key].version, path)}
    return sum(key in lacking for each in pool.cohorts for key in each.documents_by_replica.values())


def unreported_settings(verdict: SharingVerdict) -> tuple[str, ...]:
    """Return the settings that decide sharing and that no replica reports, though a version has them."""
    wanted = [path for path in SHARING_PATHS if path not in {*verdict.pool.ignored, *FILLED_IN_LATER}]
    silent = [path for path in wanted if not any(path in each.values for each in verdict.cohorts)]
    return tuple(path for path in silent if any(lacks(each, path) for each in verdict.cohorts))
