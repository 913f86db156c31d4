"""What is said of prefix sharing where nobody measured it, and of roots that are probably random."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dashboard.compare.prefix import MAX_NAMED, PREFIX_PATHS, VERSION_PATH, Part, PrefixSentence, Verdict
from dashboard.compare.random_root import made_up
from dashboard.compare.sharing import OWN_ROOTS, Hashing, PoolSharing, Share
from dashboard.fleet import Pool
from dashboard.fleet.formatting import count, first_of, joined, uncapitalized
from dashboard.vllm.lookahead import LOOKAHEAD, UPGRADE

DERIVED = "Derived from settings: "


class SharingSentence(NamedTuple):
    """The parts joined are the sentences. `not_known` replicas do not report what decides; `share`: the weakest cell.

    `is_measured`: engines tell, at least some. `is_certain`: that not all can share; two versions alone leave it open.
    `is_doubted`: roots are probably random, though settings agree. `split` are the cohorts that do not share within
    themselves, `apart` those that do not share with the cohort `base`.
    """

    verdict: Verdict
    parts: tuple[Part, ...]
    not_known: int
    is_measured: bool = False
    is_certain: bool = False
    is_doubted: bool = False
    share: Share = Share.UNKNOWN
    split: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    base: str = ""


def of_nothing(sharing: PoolSharing, not_known: int) -> SharingSentence:
    """Say of a pool that hashes no blocks that nothing is shared: as it was set up, so nobody differs."""
    replicas = sum(each.replicas for each in sharing.cohorts)
    text = f"Prefix caching is off on {count(replicas, 'replica')}, so no prefixes are shared."
    return SharingSentence(Verdict.OFF, (Part(text), *silence(sharing.unread, replicas + sharing.unread)), not_known)


def of_settings(pool: Pool, sharing: PoolSharing, settled: PrefixSentence) -> SharingSentence:
    """Say what settings say, and that nobody measured it. Roots that are random, or probably, are no agreement."""
    is_several = sum(each.replicas for each in sharing.cohorts) > 1
    random = [each for each in sharing.cohorts if each.is_random and is_several]
    doubtful = [each for each in sharing.cohorts if each.is_doubtful and is_several]
    if settled.verdict is Verdict.DIFFERS or random:
        return _differing(pool, sharing, settled, random, doubtful)
    if doubtful:
        return _doubted(sharing, settled, doubtful)
    untold = (
        (Part(" Sharing is unknown: no replica reports its block hashes."),)
        if settled.verdict is Verdict.AGREES
        else ()
    )
    return SharingSentence(settled.verdict, (*settled.parts, *untold, *upgrade(sharing)), settled.not_known)


def _differing(
    pool: Pool, sharing: PoolSharing, settled: PrefixSentence, random: list[Hashing], doubtful: list[Hashing]
) -> SharingSentence:
    """Say which settings differ, and whose roots are random. One replica that differs for certain needs no doubt."""
    deciding = [each.path for each in pool.differences if each.path in PREFIX_PATHS]
    looking_ahead = {told for each in sharing.cohorts if (told := each.told.get(LOOKAHEAD))}
    is_certain = bool(random) or deciding != [VERSION_PATH] or len(looking_ahead) > 1
    doubtful = [each for each in doubtful if each.replicas > 1 or not is_certain]
    own = f"No replica of {named(random)} can share prefixes with any other: {OWN_ROOTS}." if random else ""
    more = " ".join(filter(None, (own, doubt(doubtful, sharing) if doubtful else "")))
    parts = settled.parts if settled.verdict is Verdict.DIFFERS else ()
    return SharingSentence(
        Verdict.DIFFERS,
        (Part(DERIVED), *parts, *((Part(f"{' ' if parts else ''}{more}"),) if more else ())),
        settled.not_known,
        is_certain=is_certain,
        is_doubted=bool(doubtful),
        split=tuple(each.letter for each in random if each.replicas > 1),
    )


def _doubted(sharing: PoolSharing, settled: PrefixSentence, doubtful: list[Hashing]) -> SharingSentence:
    """Say that nothing contradicts, and why that is no good news."""
    said = doubt(doubtful, sharing)
    not_known = max(settled.not_known, sum(each.replicas for each in doubtful))
    if settled.verdict is Verdict.AGREES:
        parts = (Part(f"Settings agree, but {uncapitalized(said)}"), *settled.parts[1:])
    else:
        parts = (*settled.parts, Part(f" {said}"))
    return SharingSentence(Verdict.UNKNOWN, parts, not_known, is_doubted=True)


def doubt(doubtful: Sequence[Hashing], sharing: PoolSharing) -> str:
    """Say that roots are random unless a seed is set, and of whom, where not of all."""
    of = f" of {named(doubtful)}" if len(doubtful) < len(sharing.cohorts) else ""
    ways = joined(sorted({made_up(each.told) for each in doubtful}))
    teller = "which not all tell" if any(each.tells for each in doubtful) else "which no replica tells"
    return (
        f"Each engine process{of} makes up its root {ways} unless PYTHONHASHSEED is set, {teller}: "
        "probably they cannot share prefixes."
    )


def silence(silent: int, total: int) -> Iterator[Part]:
    """Say how many replicas of all do not tell block hashes, where some do not."""
    if silent:
        yield Part(f" {silent:,} of {count(total, 'replica')} {'does' if silent == 1 else 'do'} not tell block hashes.")


def upgrade(sharing: PoolSharing) -> Iterator[Part]:
    """Say on how many replicas the provider is too old for what their vLLM hashes."""
    if outdated := sum(each.outdated for each in sharing.cohorts):
        yield Part(f" {UPGRADE} ({count(outdated, 'replica')}).")


def named(cohorts: Sequence[Hashing]) -> str:
    """Name cohorts, of many the first ones."""
    return first_of([each.letter for each in cohorts], MAX_NAMED)
