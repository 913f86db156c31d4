"""What the settings say of whether replicas can share prefixes, and one plain sentence about it."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from dashboard.compare.encoding import Unsupported, is_comparable, lookup_value
from dashboard.fleet import Difference, Document, Pool, Setting, SettingValue, State
from dashboard.fleet.formatting import first_of
from dashboard.vllm.canonical import FILLED_IN_LATER
from dashboard.vllm.lookahead import LOOKAHEAD
from dashboard.vllm.versions import is_unsupported

FindingContext = Mapping[str, SettingValue]  # of some paths, those that have a value

VERSION_PATH = "version"
CACHING_PATH = "cache_config.enable_prefix_caching"
ALGORITHM_PATH = "cache_config.prefix_caching_hash_algo"
LENGTH_PATHS = ("cache_config.block_size", "cache_config.hash_block_size", "cache_config.prefix_match_unit")
# What goes into the hash of a block, or into where a block ends (vllm/config/cache.py,
# vllm/v1/core/kv_cache_utils.py); the version, because both change between releases.
PREFIX_PATHS = (
    VERSION_PATH,
    CACHING_PATH,
    ALGORITHM_PATH,
    *LENGTH_PATHS,
)
# And what is mostly derived: no row of the matrix, as most documents do not hold it.
SHARING_PATHS = (*PREFIX_PATHS, LOOKAHEAD)
# Path: what one does, what several do, what stands after the value.
_VERBS = {
    VERSION_PATH: ("runs vLLM ", "run vLLM ", ""),
    ALGORITHM_PATH: ("hashes with ", "hash with ", ""),
    "cache_config.block_size": ("cuts blocks of ", "cut blocks of ", " tokens"),
    "cache_config.hash_block_size": ("hashes every ", "hash every ", " tokens"),
    "cache_config.prefix_match_unit": ("matches prefixes in units of ", "match prefixes in units of ", " tokens"),
}
_SWITCH = {"true": "on", "false": "off"}
MAX_NAMED = 5  # letters, and ways to differ, that a sentence names before it counts the rest


class Verdict(StrEnum):
    """What is known of the settings that decide prefix sharing."""

    DIFFERS = "differs"
    AGREES = "agrees"
    UNKNOWN = "unknown"  # nothing contradicts, but something is not reported, or there is only one replica
    OFF = "off"  # prefix caching is off everywhere


class Part(NamedTuple):
    """A piece of a sentence: plain words, or a value that came from a server."""

    text: str
    is_value: bool = False


class PrefixSentence(NamedTuple):
    """The parts joined are the sentence. It speaks of settings: whether prefixes are shared, nobody measured.

    `not_known` is how many replicas do not tell all that others tell of it.
    """

    verdict: Verdict
    parts: tuple[Part, ...]
    not_known: int


class Contrast(NamedTuple):
    """A setting of which a cohort tells another value than the one it is held against."""

    path: str
    own: SettingValue
    other: SettingValue


class Odd(NamedTuple):
    """Cohorts that part from the cohort `base` in the same settings, with the same values."""

    base: str
    contrasts: tuple[Contrast, ...]
    letters: list[str]


def prefix_sentence(
    pool: Pool,
    documents: Mapping[str, Document],
    *,
    unsupported: Unsupported = is_unsupported,
    filled_in_later: Collection[str] = FILLED_IN_LATER,
) -> PrefixSentence:
    """Say whether the replicas of a pool agree on all that decides prefix sharing, and which cohorts do not.

    A path of which no replica can tell, because the engine fills it in later, is not spoken of: the table shows it.
    On a tie no cohort is held against another: all are named.
    """
    paths = [path for path in SHARING_PATHS if path not in pool.ignored]
    told = {
        key: telling_of(documents[key].settings, paths, filled_in_later)
        for cohort in pool.cohorts
        for key in cohort.documents
    }
    telling = [path for path in paths if any(path in of_document for of_document in told.values())]
    lacking = {
        key: [path for path in paths if path not in told[key] and not unsupported(documents[key].version, path)]
        for key in told
    }
    complete = {key for key, missing in lacking.items() if not set(missing) & set(telling)}
    known = sum(key in complete for cohort in pool.cohorts for key in cohort.held.values())
    silent = [path for path in paths if path not in telling and any(path in missing for missing in lacking.values())]
    silent = [path for path in silent if path not in filled_in_later]
    not_known = len(pool.replicas) - known
    remarks = (*_not_known(known, pool), *_silence(silent), *_ignored(pool))
    ties = [each for each in pool.differences if each.path in paths and is_tie(each)]
    tied = {each.path for each in ties}
    odd = odd_cohorts(pool, [path for path in paths if path not in tied], filled_in_later)
    if odd or ties:
        apart = (*_no_majority(sorted(ties, key=_place)), *difference(odd, is_first=not ties))
        return PrefixSentence(Verdict.DIFFERS, (*apart, *remarks), not_known)
    is_compared = bool(telling) and len(pool.replicas) > 1
    is_known = is_compared and known == len(pool.replicas) and not silent
    verdict = Verdict.AGREES if is_known else Verdict.UNKNOWN
    return PrefixSentence(verdict, (*_agreement(pool, known, telling), *remarks), not_known)


def is_tie(difference: Difference) -> bool:
    """Tell whether the most frequent value of a difference has an equal: then nobody is the odd one out."""
    counts = sorted(value.count for value in difference.values if is_comparable(value.state))
    return len(counts) > 1 and counts[-1] == counts[-2]


def short_name(path: str) -> str:
    """Name a setting in a place where its section is understood."""
    return "vLLM version" if path == VERSION_PATH else path.rpartition(".")[2]


def telling_of(
    settings: Mapping[str, Setting], paths: Sequence[str], filled_in_later: Collection[str] = FILLED_IN_LATER
) -> FindingContext:
    """Return what settings tell of some paths: values only."""
    found = {path: lookup_value(settings, path, filled_in_later) for path in paths}
    return {path: value for path, value in found.items() if value is not None}


def odd_cohorts(pool: Pool, paths: Sequence[str], filled_in_later: Collection[str] = FILLED_IN_LATER) -> list[Odd]:
    """Hold every cohort against the first larger one that it contradicts.

    It is enough to hold it against those that were the first to tell a path: at most one per path.
    """
    bases: list[tuple[str, FindingContext]] = []
    odd: dict[tuple[str, tuple[Contrast, ...]], Odd] = {}
    for cohort in pool.cohorts:
        own = telling_of(cohort.settings, paths, filled_in_later)
        against = [(base, contrasts_between(own, other)) for base, other in bases]
        base, contrasts = next((pair for pair in against if pair[1]), ("", ()))
        if contrasts:
            odd.setdefault((base, contrasts), Odd(base, contrasts, [])).letters.append(cohort.letter)
        elif any(all(path not in other for _, other in bases) for path in own):
            bases.append((cohort.letter, own))
    return list(odd.values())


def contrasts_between(own: FindingContext, other: FindingContext) -> tuple[Contrast, ...]:
    """Return what both tell, but not alike."""
    return tuple(
        Contrast(path, told, other[path]) for path, told in own.items() if path in other and told != other[path]
    )


def _place(difference: Difference) -> int:
    return SHARING_PATHS.index(difference.path)


def _no_majority(ties: Sequence[Difference]) -> Iterator[Part]:
    """Write `There is no majority: A has block_size 32, B has 16.` and what follows from it."""
    for number, tie in enumerate(ties):
        yield Part("; " if number else "There is no majority: ")
        sides = sorted((value for value in tie.values if is_comparable(value.state)), key=lambda value: value.cohorts)
        for place, side in enumerate(sides[:MAX_NAMED]):
            verb = "has" if len(side.cohorts) == 1 else "have"
            name = "" if place else f"{short_name(tie.path)} "
            yield Part(f"{', ' if place else ''}{_named(side.cohorts)} {verb} {name}")
            yield _value(SettingValue(side.value, side.state))
        more = len(sides) - MAX_NAMED
        yield from (Part(f", and {more:,} more values"),) if more > 0 else ()
    if ties:
        modal = "cannot" if any(tie.path != VERSION_PATH for tie in ties) else "may not"
        yield Part(f". They {modal} share prefixes with each other.")


def difference(odd: Sequence[Odd], *, is_first: bool) -> Iterator[Part]:
    """Write `B and C cannot share prefixes with A: B hashes with ...; C cuts blocks of ....`, once per base.

    A release alone may or may not hash in another way; all else is certain.
    """
    groups: dict[tuple[str, bool], list[Odd]] = {}
    for entry in odd:
        is_certain = any(contrast.path != VERSION_PATH for contrast in entry.contrasts)
        groups.setdefault((entry.base, is_certain), []).append(entry)
    for number, ((base, is_certain), entries) in enumerate(groups.items()):
        letters = [letter for entry in entries for letter in entry.letters]
        modal = "cannot" if is_certain else "may not"
        yield Part(f"{'' if is_first and not number else ' '}{_named(letters)} {modal} share prefixes with {base}: ")
        for place, entry in enumerate(entries[:MAX_NAMED]):
            yield Part(f"{'; ' if place else ''}{_subject(entry, entries)} ")
            yield from phrases(entry.contrasts, is_plural=len(entry.letters) > 1)
        more = len(entries) - MAX_NAMED
        yield Part(f"; {more} more part in other ways." if more > 0 else ".")


def _subject(entry: Odd, entries: Sequence[Odd]) -> str:
    if len(entries) > 1:
        return _named(entry.letters)
    return "they" if len(entry.letters) > 1 else "it"


def phrases(contrasts: Sequence[Contrast], *, is_plural: bool) -> Iterator[Part]:
    """Write what settings make cohorts do that tell others: `hashes with ... and cuts blocks of ...`."""
    last = len(contrasts) - 1
    for place, contrast in enumerate(contrasts):
        if place:
            yield Part(" and " if place == last else ", ")
        yield from _phrase(contrast, is_plural=is_plural)


def _phrase(contrast: Contrast, *, is_plural: bool) -> Iterator[Part]:
    """Write what one setting makes a cohort do: `cuts blocks of 32 tokens instead of 16`."""
    path, own, other = contrast
    if path == CACHING_PATH and own.value in _SWITCH:
        yield Part(f"{'have' if is_plural else 'has'} prefix caching {_SWITCH[own.value]}")
        return
    verbs = _VERBS.get(path)
    if verbs is None or State.NULL in {own.state, other.state}:
        verbs = (f"has {short_name(path)} ", f"have {short_name(path)} ", "")
    yield Part(verbs[is_plural])
    yield _value(own)
    yield Part(f"{verbs[2]} instead of ")
    yield _value(other)


def _value(told: SettingValue) -> Part:
    value = json.loads(told.value)
    return Part(value if isinstance(value, str) else told.value, is_value=True)


def _agreement(pool: Pool, known: int, telling: Sequence[str]) -> Iterator[Part]:
    total = len(pool.replicas)
    if not telling:
        yield Part("No replica tells what decides prefix sharing.")
    elif total == 1:
        yield Part("There is one replica, and nothing to compare it with.")
    elif known == total:
        yield Part(f"No difference in what all {total:,} replicas tell of prefix sharing.")
    else:
        yield Part("No difference in what was told of prefix sharing.")


def _not_known(known: int, pool: Pool) -> Iterator[Part]:
    total = len(pool.replicas)
    if known < total:
        yield Part(f" Not known for {total - known:,} of {total:,}.")


def _silence(silent: Sequence[str]) -> Iterator[Part]:
    if silent:
        yield Part(f" No replica tells {_named([short_name(path) for path in silent])}.")


def _ignored(pool: Pool) -> tuple[Part, ...]:
    names = [short_name(path) for path in SHARING_PATHS if path in pool.ignored]
    return (Part(f" Ignored, though it differs: {_named(names)}."),) if names else ()


def _named(names: Sequence[str]) -> str:
    """Write `A`, `A and B`, `A, B and C`, or the first ones and how many more there are."""
    return first_of(names, MAX_NAMED)
