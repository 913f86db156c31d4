"""Who can share prefixes, in a sentence or three: measured where engines tell block hashes, else from settings."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from dashboard.compare.prefix import (
    ALGORITHM_PATH,
    LENGTH_PATHS,
    MAX_NAMED,
    PREFIX_PATHS,
    VERSION_PATH,
    Part,
    Verdict,
    contrasts_between,
    difference,
    odd_cohorts,
    phrases,
    prefix_sentence,
)
from dashboard.compare.sharing import CACHING_OFF, LENGTH_ONLY, OTHER_ROOT, Share, although, why_not, within
from dashboard.wording import count, first_of, joined, middle_cut, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dashboard.compare.prefix import Odd
    from dashboard.compare.sharing import Hashing, PoolSharing
    from dashboard.models import Document, Pool, Replica

MEASURED, DERIVED = "Measured: ", "Derived from settings: "
MOST_GROUPS = 3  # of cohorts that share, named in a sentence: the matrix or the list below it names all
LONGEST_NAME = 40  # characters of a replica's name
FEWEST = 2  # engines that something can be measured of
# What hashing in another way makes one cohort do, and several.
_WAYS = {
    CACHING_OFF: ("has prefix caching off", "have prefix caching off"),
    LENGTH_ONLY: ("hashes blocks of another length", "hash blocks of another length"),
    OTHER_ROOT: ("starts its hashes from another root", "start their hashes from another root"),
}
_OTHER_WAY = ("hashes in another way", "hash in another way")


class SharingSentence(NamedTuple):
    """The parts joined are the sentences. `not_known` replicas do not tell what decides.

    `is_measured`: engines tell, at least some. `is_certain`: that not all can share; two versions alone leave it open.
    `split` are the cohorts that do not share within themselves, `apart` those that do not share with the cohort `base`.
    """

    verdict: Verdict
    parts: tuple[Part, ...]
    not_known: int
    is_measured: bool = False
    is_certain: bool = False
    split: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    base: str = ""


class _Measured(NamedTuple):
    """The cohorts of which engines tell.

    `alone`: no two replicas of it hash alike; `mixed`: some do. `classes` hash alike, all of them. `off` hash nothing.
    `base` is what others are held against: the first class or mixed cohort.
    """

    alone: list[Hashing]
    mixed: list[Hashing]
    classes: list[list[Hashing]]
    off: list[Hashing]
    base: list[Hashing]

    @property
    def partly(self) -> list[Hashing]:
        """Who shares with the base, but not all with all of it."""
        return [each for members in self._beside() if not self._is_disjoint(members) for each in members]

    @property
    def others(self) -> list[list[Hashing]]:
        """Who does not share with the base; empty without one. Those alone are spoken of as such."""
        apart = [members for members in self._beside() if self._is_disjoint(members)]
        return [*apart, *([self.off] if self.off else [])] if self.base else []

    def _beside(self) -> list[list[Hashing]]:
        return [members for members in (*self.classes, *([each] for each in self.mixed)) if members != self.base]

    def _is_disjoint(self, members: list[Hashing]) -> bool:
        return self.base[0].digests.keys().isdisjoint(members[0].digests)


def sharing_sentence(
    pool: Pool, sharing: PoolSharing, documents: Mapping[str, Document], replicas: Mapping[str, Replica]
) -> SharingSentence:
    """Say who of a pool can share prefixes with whom; where engines and settings settle the same, once."""
    settled = prefix_sentence(pool, documents)
    if sharing.cohorts and all(each.is_off and not each.digests for each in sharing.cohorts):
        return _of_nothing(sharing, settled.not_known)
    engines = sum(each.engines + each.off for each in sharing.cohorts)
    if engines < FEWEST:
        return _of_settings(pool, settled.verdict, settled.parts, settled.not_known)
    found = _sorted_out(sharing)
    silent = {each.letter for each in sharing.cohorts if not each.tells}
    odd = _untold(pool, silent)
    is_apart = sharing.ways > 1
    certain = [entry for entry in odd if any(contrast.path != VERSION_PATH for contrast in entry.contrasts)]
    parts = [*_measured(sharing, found, replicas, is_whole=not sharing.silent)]
    parts += [Part(f" {DERIVED}"), *difference(odd, is_first=True)] if odd else []
    parts += [*_silence(sharing.silent, len(pool.replicas))]
    verdict = Verdict.DIFFERS if is_apart or odd else _agreement(settled.verdict, is_whole=not sharing.silent)
    return SharingSentence(
        verdict,
        tuple(parts),
        sharing.silent,
        is_measured=True,
        is_certain=is_apart or bool(certain),
        split=tuple(each.letter for each in sharing.cohorts if each in found.alone or each in found.mixed),
        apart=_apart(sharing, found, odd),
        base=found.base[0].letter if found.base else "",
    )


def _of_nothing(sharing: PoolSharing, not_known: int) -> SharingSentence:
    """Say of a pool that hashes no blocks that nothing is shared: as it was set up, so nobody differs."""
    verdict = Verdict.UNKNOWN if sharing.unread else Verdict.AGREES
    replicas = sum(each.replicas for each in sharing.cohorts)
    text = f"Prefix caching is off on {count(replicas, 'replica')}, so no prefixes are shared."
    return SharingSentence(verdict, (Part(text), *_silence(sharing.unread, replicas + sharing.unread)), not_known)


def _of_settings(pool: Pool, verdict: Verdict, parts: tuple[Part, ...], not_known: int) -> SharingSentence:
    """Say what settings say, and that nobody measured it."""
    if verdict is Verdict.DIFFERS:
        deciding = [each.path for each in pool.differences if each.path in PREFIX_PATHS]
        is_certain = deciding != [VERSION_PATH]
        return SharingSentence(verdict, (Part(DERIVED), *parts), not_known, is_certain=is_certain)
    silence = (Part(" No replica tells its block hashes."),) if verdict is Verdict.AGREES else ()
    return SharingSentence(verdict, (*parts, *silence), not_known)


def _sorted_out(sharing: PoolSharing) -> _Measured:
    by_letter = {each.letter: each for each in sharing.cohorts}
    split = [each for each in sharing.cohorts if each.digests and each.ways > 1]
    mixed = [each for each in split if within(each).share is Share.PARTLY]
    classes = [[by_letter[letter] for letter in letters] for letters in sharing.groups]
    place = {each.letter: number for number, each in enumerate(sharing.cohorts)}
    return _Measured(
        alone=[each for each in split if within(each).share is Share.NO],
        mixed=mixed,
        classes=classes,
        off=[each for each in sharing.cohorts if each.off and not each.digests],
        base=min([*classes, *([each] for each in mixed)], key=lambda each: place[each[0].letter], default=[]),
    )


def _untold(pool: Pool, silent: set[str]) -> list[Odd]:
    """Return how settings part cohorts where one of the two does not tell its block hashes."""
    paths = [path for path in PREFIX_PATHS if path not in pool.ignored]
    odd = odd_cohorts(pool, paths) if silent else []
    kept = [entry._replace(letters=[a for a in entry.letters if entry.base in silent or a in silent]) for entry in odd]
    return [entry for entry in kept if entry.letters]


def _agreement(settled: Verdict, *, is_whole: bool) -> Verdict:
    if is_whole:
        return Verdict.AGREES
    return Verdict.UNKNOWN if settled is Verdict.DIFFERS else settled


def _apart(sharing: PoolSharing, found: _Measured, odd: Sequence[Odd]) -> tuple[str, ...]:
    """Return who does not share with the base, in the order of the cohorts."""
    letters = {each.letter for members in found.others for each in members}
    bases = {each.letter for each in found.base}
    letters |= {letter for entry in odd if entry.base in bases for letter in entry.letters}
    return tuple(each.letter for each in sharing.cohorts if each.letter in letters)


def _measured(
    sharing: PoolSharing, found: _Measured, replicas: Mapping[str, Replica], *, is_whole: bool
) -> Iterator[Part]:
    yield Part(MEASURED)
    sentences = [*_splits(sharing, found, replicas, is_whole=is_whole), *_shared(sharing, found, is_whole=is_whole)]
    if found.partly:
        names, base = _names(found.partly), _names(found.base)
        sentences.append([Part(f"{names} can share prefixes with {base} only in part.")])
    sentences += [[*_others(found)]] if found.others else []
    sentences += [[*_hash_nothing(found.off)]] if found.off and not found.base else []
    for number, sentence in enumerate(sentences):
        yield from ([Part(" ")] if number else [])
        yield from sentence


def _splits(
    sharing: PoolSharing, found: _Measured, replicas: Mapping[str, Replica], *, is_whole: bool
) -> Iterator[list[Part]]:
    """Say which cohorts do not share within themselves: equal settings, and yet other hashes."""
    by_reason: dict[str, list[Hashing]] = {}
    for each in found.alone:
        by_reason.setdefault(within(each).reason, []).append(each)
    for reason, entries in by_reason.items():
        yield [Part(_alone(sharing, entries, reason, is_whole=is_whole))]
    for each in found.mixed[:MAX_NAMED]:
        yield [*_mixed(each, replicas)]
    more = len(found.mixed) - MAX_NAMED
    if more > 0:
        yield [Part(f"So do those within {count(more, 'more cohort')}.")]


def _alone(sharing: PoolSharing, entries: Sequence[Hashing], reason: str, *, is_whole: bool) -> str:
    names = first_of([each.letter for each in entries], MAX_NAMED)
    is_one = len(entries) == 1 and entries[0].replicas == 1
    noun = "engine" if is_one else "replica"
    though = "" if is_one else ", though their settings agree"
    own = sum(len(each.digests) for each in entries)
    letters = {each.letter for each in entries}
    rest = [each for each in sharing.cohorts if each.letter not in letters]
    is_isolated = is_whole and sharing.ways == own + sum(each.off for each in entries) + _ways_of(rest)
    if is_isolated:
        return f"No {noun} of {names} can share prefixes with any other{though}: {reason}."
    return f"Within {names}, no two {noun}s can share prefixes{though}: {reason}."


def _ways_of(cohorts: Sequence[Hashing]) -> int:
    return len(set().union(*(each.digests for each in cohorts))) + sum(each.off for each in cohorts)


def _mixed(cohort: Hashing, replicas: Mapping[str, Replica]) -> Iterator[Part]:
    """Write `Within A, block hashes differ though settings agree: 15 replicas share ..., chat-03 does not.`."""
    yield Part(f"Within {cohort.letter}, block hashes differ though settings agree: ")
    most, *others = sorted(cohort.digests.values(), key=lambda held: (-len(held), held))
    odd = sorted({key for held in others for key in held}.difference(most))
    if cohort.off or not odd or len(odd) > MAX_NAMED:
        yield Part(f"its {count(cohort.replicas, 'replica')} hash blocks in {count(cohort.ways, 'way')}.")
        return
    yield Part(f"{len(most):,} replicas can share prefixes with each other; ")
    for place, key in enumerate(odd):
        yield Part("" if not place else " and " if place == len(odd) - 1 else ", ")
        yield Part(middle_cut(one_line(replicas[key].name), LONGEST_NAME), is_value=True)
    yield Part(" cannot share with them.")


def _shared(sharing: PoolSharing, found: _Measured, *, is_whole: bool) -> Iterator[list[Part]]:
    """Say which cohorts share with each other, also where settings would make one think that they do not."""
    engines = sum(each.engines for each in sharing.cohorts)
    if sharing.ways == 1 and is_whole:
        replicas = sum(each.replicas for each in sharing.cohorts)
        who = f"All {replicas:,} replicas" if replicas > 1 else f"The {engines:,} engines of the one replica"
        yield [Part(f"{who} can share prefixes{_although(found.classes[0])}.")]
        return
    for members in [each for each in found.classes if len(each) > 1][:MOST_GROUPS]:
        yield [Part(f"{_names(members)} can share prefixes with each other{_although(members)}.")]
    if sharing.ways == 1 and len(found.classes[0]) == 1:
        yield [Part(f"Those of {_names(found.classes[0])} that tell can share prefixes with each other.")]


def _although(members: Sequence[Hashing]) -> str:
    names = although(members)
    return f", although {joined(names)} {'differs' if len(names) == 1 else 'differ'}" if names else ""


def _others(found: _Measured) -> Iterator[Part]:
    """Write `B and C cannot share prefixes with A: B hashes with ...; C starts its hashes from another root.`."""
    groups: dict[tuple[Part, ...], list[Hashing]] = {}
    for members in found.others:
        groups.setdefault((*_how(members[0], found.base[0], is_plural=True),), []).extend(members)
    is_just_said = len(found.base) > 1 and not found.partly and sum(len(each) > 1 for each in found.classes) == 1
    others, base = _names([*chain(*groups.values())]), "them" if is_just_said else _names(found.base)
    yield Part(f"{others} cannot share prefixes with {base}: ")
    for place, members in enumerate([*groups.values()][:MAX_NAMED]):
        is_plural = len(members) > 1
        subject = _names(members) if len(groups) > 1 else "they" if is_plural else "it"
        yield Part(f"{'; ' if place else ''}{subject} ")
        yield from _how(members[0], found.base[0], is_plural=is_plural)
    more = len(groups) - MAX_NAMED
    yield Part(f"; {more:,} more part in other ways." if more > 0 else ".")


def _how(odd: Hashing, base: Hashing, *, is_plural: bool) -> Iterator[Part]:
    """Write what cohorts that hash alike do, which the cohort `base` does not."""
    reason = why_not(odd, base)
    wanted = LENGTH_PATHS if odd.canonical & base.canonical else (VERSION_PATH, ALGORITHM_PATH)
    found = [each for each in contrasts_between(odd.told, base.told) if each.path in wanted]
    is_told = found and reason not in _WAYS.keys() - {LENGTH_ONLY}
    yield from phrases(found, is_plural=is_plural) if is_told else [Part(_WAYS.get(reason, _OTHER_WAY)[is_plural])]


def _hash_nothing(off: Sequence[Hashing]) -> Iterator[Part]:
    yield Part(f"{_names(off)} {_WAYS[CACHING_OFF][len(off) > 1]}.")


def _silence(silent: int, total: int) -> Iterator[Part]:
    if silent:
        yield Part(f" {silent:,} of {count(total, 'replica')} {'does' if silent == 1 else 'do'} not tell block hashes.")


def _names(cohorts: Sequence[Hashing]) -> str:
    return first_of([each.letter for each in cohorts], MAX_NAMED)
