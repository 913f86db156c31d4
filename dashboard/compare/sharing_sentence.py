"""Who can share prefixes, in a sentence or three: measured where engines tell block hashes, else from settings."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from dashboard.compare.derived_sentence import (
    DERIVED,
    SharingSentence,
    doubt,
    named,
    of_nothing,
    of_settings,
    silence,
    upgrade,
)
from dashboard.compare.prefix import (
    ALGORITHM_PATH,
    LENGTH_PATHS,
    MAX_NAMED,
    SHARING_PATHS,
    VERSION_PATH,
    Odd,
    Part,
    Verdict,
    contrasts_between,
    difference,
    odd_cohorts,
    phrases,
    prefix_sentence,
)
from dashboard.compare.random_root import SEED_POLICY_PATH
from dashboard.compare.sharing import (
    LENGTH_ONLY,
    OTHER_ROOT,
    Hashing,
    PoolSharing,
    Share,
    although,
    differ,
    same_kv_cache,
    why_not,
    within,
)
from dashboard.fleet import Document, Pool, Replica
from dashboard.fleet.formatting import count, middle_cut, one_line
from dashboard.vllm.lookahead import LOOKAHEAD

MEASURED = "Measured: "
MOST_GROUPS = 3  # of cohorts that share, named in a sentence: the matrix or the list below it names all
LONGEST_NAME = 40  # characters of a replica's name
FEWEST = 2  # engines that something can be measured of
# What hashing in another way makes one cohort do, and several.
_WAYS = {
    LENGTH_ONLY: ("hashes blocks of another length", "hash blocks of another length"),
    OTHER_ROOT: ("starts its hashes from another root", "start their hashes from another root"),
}
_STARTS = ("starts its hashes from ", "start their hashes from ")
# What the provider's seed policies make a root.
_ROOTS = {
    '"random"': "a random root",
    '"default"': "the fixed root of vLLM",
    '"environment"': "a root from PYTHONHASHSEED",
}
_OTHER_WAY = ("hashes in another way", "hash in another way")


class _Measured(NamedTuple):
    """The cohorts of which engines tell.

    `alone`: no two replicas of it hash alike; `mixed`: some do. `classes` hash alike, as far as they tell. `off` hash
    nothing, which is a setting.
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
        return [members for members in self._beside() if self._is_disjoint(members)] if self.base else []

    def _beside(self) -> list[list[Hashing]]:
        return [members for members in (*self.classes, *([each] for each in self.mixed)) if members != self.base]

    def _is_disjoint(self, members: list[Hashing]) -> bool:
        return self.base[0].digests.keys().isdisjoint(members[0].digests)


def sharing_sentence(
    pool: Pool, sharing: PoolSharing, documents: Mapping[str, Document], replicas: Mapping[str, Replica]
) -> SharingSentence:
    """Say who of a pool can share prefixes with whom. The verdict is that of the weakest cell."""
    told, share = _sentence(pool, sharing, documents, replicas), sharing.share
    if told.verdict is Verdict.DIFFERS and told.is_certain:
        share = Share.NO
    if told.verdict is Verdict.OFF or share is Share.YES:
        return told._replace(share=share, verdict=Verdict.AGREES if share is Share.YES else told.verdict)
    if share is Share.UNKNOWN:
        verdict = told.verdict if told.verdict is Verdict.DIFFERS else Verdict.UNKNOWN
        not_known = max(told.not_known, sharing.silent)
        parts = (*told.parts, *_same_kv_unknown(sharing))
        return told._replace(verdict=verdict, not_known=not_known, share=share, parts=parts)
    apart, more = _other_kv(sharing)
    first = sharing.cohorts[0].letter if sharing.cohorts else ""
    return told._replace(
        verdict=Verdict.DIFFERS,
        is_certain=True,
        share=share,
        parts=(*told.parts, *more),
        apart=tuple(dict.fromkeys((*told.apart, *apart))),
        base=told.base or first,
    )


def _other_kv(sharing: PoolSharing) -> tuple[list[str], list[Part]]:
    """Return which cohorts hold other KV cache than the first, and a sentence for each way in which it differs."""
    first, *others = sharing.cohorts
    held: dict[str, list[Hashing]] = {}
    for each in others:
        share, why = same_kv_cache(first, each)
        if share is Share.NO:
            held.setdefault(why, []).append(each)
    parts = [Part(f" {named(each)} cannot share KV cache with {first.letter}: {why}.") for why, each in held.items()]
    return [each.letter for members in held.values() for each in members], parts


def _same_kv_unknown(sharing: PoolSharing) -> Iterator[Part]:
    """Say why replicas that hash alike may still not share: what the KV cache depends on is not reported."""
    if sharing.ways == 1 and not sharing.silent:
        whys = (same_kv_cache(sharing.cohorts[0], each)[1] for each in sharing.cohorts)
        yield from ([Part(f" Sharing KV cache is unknown: {why}.")] if (why := next(filter(None, whys), "")) else [])


def _sentence(
    pool: Pool, sharing: PoolSharing, documents: Mapping[str, Document], replicas: Mapping[str, Replica]
) -> SharingSentence:
    """Say it by what was measured, and by settings for the rest; where both settle the same, once."""
    settled = prefix_sentence(pool, documents)
    if sharing.cohorts and all(each.is_off and not each.digests for each in sharing.cohorts):
        return of_nothing(sharing, settled.not_known)
    engines = sum(each.engines + each.off for each in sharing.cohorts)
    if engines < FEWEST:
        return of_settings(pool, sharing, settled)
    found = _sorted_out(sharing)
    silent = {each.letter for each in sharing.cohorts if not each.tells}
    odd = _untold(pool, silent, {each.letter for each in found.off})
    is_apart = sharing.ways > 1
    certain = [entry for entry in odd if any(contrast.path != VERSION_PATH for contrast in entry.contrasts)]
    measured = [*_measured(sharing, found, replicas, is_whole=not sharing.silent)]
    parts = [Part(MEASURED), *measured] if measured else []
    parts += [Part(f"{' ' if parts else ''}{DERIVED}")] if found.off or odd else []
    parts += [*_hash_nothing(found.off), *difference(odd, is_first=not found.off)]
    parted = {letter for entry in certain for letter in entry.letters}
    doubtful = [
        each for each in sharing.cohorts if each.is_doubtful and (each.replicas > 1 or each.letter not in parted)
    ]
    parts += [Part(f" {doubt(doubtful, sharing)}")] if doubtful else []
    parts += [*silence(sharing.silent, len(pool.replicas)), *upgrade(sharing)]
    agreement = _agreement(settled.verdict, is_whole=not sharing.silent, is_doubted=bool(doubtful))
    verdict = Verdict.DIFFERS if is_apart or odd else agreement
    return SharingSentence(
        verdict,
        tuple(parts),
        sharing.silent,
        is_measured=bool(measured),
        is_certain=is_apart or bool(certain),
        is_doubted=bool(doubtful),
        split=tuple(each.letter for each in sharing.cohorts if each in found.alone or each in found.mixed),
        apart=_apart(sharing, found, odd),
        base=found.base[0].letter if found.base else "",
    )


def _sorted_out(sharing: PoolSharing) -> _Measured:
    by_letter = {each.letter: each for each in sharing.cohorts}
    split = [each for each in sharing.cohorts if each.digests and each.ways > 1]
    mixed = [each for each in split if within(each).share is Share.PARTLY]
    classes = [[by_letter[letter] for letter in letters] for letters in sharing.classes]
    place = {each.letter: number for number, each in enumerate(sharing.cohorts)}
    return _Measured(
        alone=[each for each in split if within(each).share is Share.NO],
        mixed=mixed,
        classes=classes,
        off=[each for each in sharing.cohorts if each.off and not each.digests],
        base=min([*classes, *([each] for each in mixed)], key=lambda each: place[each[0].letter], default=[]),
    )


def _untold(pool: Pool, silent: set[str], off: set[str]) -> list[Odd]:
    """Return how settings part cohorts where one of the two does not tell its block hashes; `off` have none."""
    paths = [path for path in SHARING_PATHS if path not in pool.ignored]
    odd = odd_cohorts(pool, paths) if silent else []
    kept = [
        entry._replace(letters=[a for a in entry.letters if {entry.base, a} & silent and a not in off]) for entry in odd
    ]
    return [entry for entry in kept if entry.letters]


def _agreement(settled: Verdict, *, is_whole: bool, is_doubted: bool) -> Verdict:
    if is_whole:
        return Verdict.AGREES
    return Verdict.UNKNOWN if is_doubted or settled is Verdict.DIFFERS else settled


def _apart(sharing: PoolSharing, found: _Measured, odd: Sequence[Odd]) -> tuple[str, ...]:
    """Return who does not share with the base, in the order of the cohorts."""
    letters = {each.letter for members in found.others for each in members}
    letters |= {each.letter for each in found.off if found.base}
    bases = {each.letter for each in found.base}
    letters |= {letter for entry in odd if entry.base in bases for letter in entry.letters}
    return tuple(each.letter for each in sharing.cohorts if each.letter in letters)


def _measured(
    sharing: PoolSharing, found: _Measured, replicas: Mapping[str, Replica], *, is_whole: bool
) -> Iterator[Part]:
    sentences = [*_splits(sharing, found, replicas, is_whole=is_whole), *_shared(sharing, found, is_whole=is_whole)]
    if found.partly:
        who, base = _capital(_tellers(found.partly)), _tellers(found.base)
        sentences.append([Part(f"{who} can share prefixes with {base} only in part.")])
    sentences += [[*_others(found)]] if found.others else []
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
    names = named(entries)
    is_one = len(entries) == 1 and entries[0].replicas == 1
    noun = "engine" if is_one else "replica"
    though = "" if is_one else ", though their settings agree"
    own = sum(len(each.digests) for each in entries)
    letters = {each.letter for each in entries}
    rest = [each for each in sharing.cohorts if each.letter not in letters]
    is_isolated = is_whole and sharing.ways == own + sum(each.off for each in entries) + _ways_of(rest)
    if is_isolated:
        return f"No {noun} of {names} can share prefixes with any other{though}: {reason}."
    tell = " that tell" if any(each.silent for each in entries) else ""
    return f"Within {names}, no two {noun}s{tell} can share prefixes{though}: {reason}."


def _ways_of(cohorts: Sequence[Hashing]) -> int:
    return len(set().union(*(each.digests for each in cohorts))) + sum(each.off for each in cohorts)


def _mixed(cohort: Hashing, replicas: Mapping[str, Replica]) -> Iterator[Part]:
    """Write `Within A, block hashes differ though settings agree: 15 replicas share ..., chat-03 does not.`."""
    yield Part(f"Within {cohort.letter}, block hashes differ though settings agree: ")
    most, *others = sorted(cohort.digests.values(), key=lambda held: (-len(held), held))
    odd = sorted({key for held in others for key in held}.difference(most))
    if cohort.off or not odd or len(odd) > MAX_NAMED:
        tell = " that tell" if cohort.silent else ""
        yield Part(f"its {count(cohort.telling, 'replica')}{tell} hash blocks in {count(cohort.ways, 'way')}.")
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
        yield [Part(f"{who} {_sharing(found.classes[0])}{_although(found.classes[0])}.")]
        return
    for members in [each for each in found.classes if len(each) > 1][:MOST_GROUPS]:
        each_other = _sharing(members, " with each other")
        yield [Part(f"{_capital(_tellers(members))} {each_other}{_although(members)}.")]
    if len(found.classes) == 1 and not (found.mixed or found.alone):
        only, *more = found.classes[0]
        if not more and only.engines >= FEWEST:
            who = _tellers([only]) if only.silent else f"the replicas of {only.letter}"
            yield [Part(f"{_capital(who)} {_sharing([only], ' with each other')}.")]


def _sharing(members: Sequence[Hashing], more: str = "") -> str:
    """Write `can share prefixes`, or only that they hash alike where the KV cache is not known to be the same."""
    is_same = all(same_kv_cache(members[0], each)[0] is Share.YES for each in members)
    return f"can share prefixes{more}" if is_same else "hash alike"


def _although(members: Sequence[Hashing]) -> str:
    names = although(members)
    return f", although {differ(names)}" if names else ""


def _others(found: _Measured) -> Iterator[Part]:
    """Write `B and C cannot share prefixes with A: B hashes with ...; C starts its hashes from another root.`."""
    groups: dict[tuple[Part, ...], list[Hashing]] = {}
    for members in found.others:
        groups.setdefault((*_how(members[0], found.base[0], is_plural=True),), []).extend(members)
    is_just_said = len(found.base) > 1 and not found.partly and sum(len(each) > 1 for each in found.classes) == 1
    others, base = _capital(_tellers([*chain(*groups.values())])), "them" if is_just_said else _tellers(found.base)
    yield Part(f"{others} cannot share prefixes with {base}: ")
    for place, members in enumerate([*groups.values()][:MAX_NAMED]):
        is_plural = len(members) > 1
        is_plural |= any(each.silent for each in members) and len(groups) == 1
        subject = named(members) if len(groups) > 1 else "they" if is_plural else "it"
        yield Part(f"{'; ' if place else ''}{subject} ")
        yield from _how(members[0], found.base[0], is_plural=is_plural)
    more = len(groups) - MAX_NAMED
    yield Part(f"; {more:,} more part in other ways." if more > 0 else ".")


def _how(odd: Hashing, base: Hashing, *, is_plural: bool) -> Iterator[Part]:
    """Write what cohorts that hash alike do, which the cohort `base` does not.

    A version is no reason: it stands beside what is one, or beside that none is known.
    """
    found = {each.path: each for each in contrasts_between(odd.told, base.told)}
    is_length = bool(odd.canonical & base.canonical)
    why = [found[path] for path in (LENGTH_PATHS if is_length else (ALGORITHM_PATH, LOOKAHEAD)) if path in found]
    if why:
        yield from phrases(why, is_plural=is_plural)
    elif not is_length and (root := _root(odd, base)):
        yield Part(f"{_STARTS[is_plural]}{root}")
    else:
        yield Part(_WAYS.get(why_not(odd, base), _OTHER_WAY)[is_plural])
    if VERSION_PATH in found and not is_length:
        yield Part(f", and {'they' if is_plural else 'it'} ")
        yield from phrases([found[VERSION_PATH]], is_plural=is_plural)


def _root(odd: Hashing, base: Hashing) -> str:
    """Name the root of `odd`, and that of `base` where it is another; nothing where nobody tells."""
    own, other = (
        _ROOTS.get(each.told[SEED_POLICY_PATH].value, "") if SEED_POLICY_PATH in each.told else ""
        for each in (odd, base)
    )
    if own == other:
        return own if odd.is_random else ""
    return f"{own} instead of {other}" if own and other else ""


def _hash_nothing(off: Sequence[Hashing]) -> Iterator[Part]:
    if off:
        verbs = ("have", "share") if len(off) > 1 else ("has", "shares")
        yield Part(f"{named(off)} {verbs[0]} prefix caching off and {verbs[1]} no prefixes.")


def _tellers(cohorts: Sequence[Hashing]) -> str:
    """Name cohorts, or those of them that tell, where not all do: of the others nothing is claimed."""
    names = named(cohorts)
    return f"those of {names} that tell" if any(each.silent for each in cohorts) else names


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
