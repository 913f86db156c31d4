"""Settings that must be equal: within a pool, and across a prefill/decode pair, as drafts of findings."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from dashboard.compare.pool import is_majority
from dashboard.models import State
from dashboard.rules import remedy
from dashboard.rules.findings import Draft, Evidence, Remedy
from dashboard.wording import joined, told_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dashboard.models import Told
    from dashboard.rules.subject import Holders, Meaning, PairSubject, PoolSubject

MOST_SIDES = 4  # values that a sentence names before it counts the rest


class Contrast(NamedTuple):
    """A setting of which some replicas tell another value than the reference."""

    path: str
    noun: str
    own: Told
    reference: Told


def drift(pool: PoolSubject, nouns: Mapping[str, str], meaning: Meaning | None = None) -> Iterator[Draft]:
    """Yield what differs within a pool, of the settings `path: noun`.

    Replicas that differ from the majority in the same way share one draft; a path without a majority has a draft of
    its own that holds all who tell it. Nouns begin in lower case and need no article: `block size`.
    """
    compared = {path: noun for path, noun in nouns.items() if not pool.is_ignored(path)}
    odd: dict[str, list[Contrast]] = defaultdict(list)
    for path, noun in compared.items():
        holders = pool.values(path, meaning)
        if len(holders) <= 1:
            continue
        reference = majority(holders)
        if reference is None:
            yield tie(path, noun, holders)
            continue
        for told, replicas in holders.items():
            for replica in replicas if told != reference else ():
                odd[replica].append(Contrast(path, noun, told, reference))
    for contrasts, replicas in _alike(odd).items():
        yield deviation(pool, contrasts, replicas, meaning)


def majority(holders: Holders) -> Told | None:
    """Return the value that most replicas tell, at least three and more than half of them; None without one."""
    total = sum(map(len, holders.values()))
    return next((told for told, ids in holders.items() if is_majority(len(ids), total)), None)


def deviation(
    pool: PoolSubject, contrasts: Sequence[Contrast], replicas: tuple[str, ...], meaning: Meaning | None = None
) -> Draft:
    """Draft what some replicas tell otherwise than the majority."""
    evidence = []
    for contrast in contrasts:
        held = pool.values(contrast.path, meaning)[contrast.reference]
        evidence += [
            Evidence(contrast.path, contrast.own.value, contrast.own.state, replicas),
            Evidence(contrast.path, *contrast.reference, held, is_reference=True),
        ]
    nouns = joined([contrast.noun for contrast in contrasts])
    sentence = f"{capital(joined([contrasted(each) for each in contrasts]))}, which {_share(pool, contrasts, meaning)}."
    return Draft(replicas, sentence, tuple(evidence), same_as_the_rest(contrasts, nouns))


def contrasted(contrast: Contrast) -> str:
    """Say `block size is 32 instead of 16`."""
    return f"{contrast.noun} is {say(contrast.own)} instead of {say(contrast.reference)}"


def same_as_the_rest(contrasts: Sequence[Contrast], nouns: str) -> Remedy:
    """Say how to give replicas the reference's values."""
    unset = [remedy.without(each.path) for each in contrasts if each.reference.state is not State.REPORTED]
    how = f"; {joined(unset)}" if unset else ""
    sentence = f"Give these replicas the same {nouns} as the rest of the pool, and restart them{how}."
    return remedy.set_to([(each.path, each.reference) for each in contrasts], sentence)


def tie(path: str, noun: str, holders: Holders) -> Draft:
    """Draft a setting of which no value has a majority: all who tell it are concerned."""
    sides = [f"{say(told)} on {len(replicas):,}" for told, replicas in holders.items()]
    more = [f"{len(sides) - MOST_SIDES:,} more values"] if len(sides) > MOST_SIDES else []
    evidence = tuple(Evidence(path, told.value, told.state, replicas) for told, replicas in holders.items())
    everyone = tuple(sorted(replica for replicas in holders.values() for replica in replicas))
    sentence = f"{capital(noun)} differs and no value has a majority: {joined(sides[:MOST_SIDES] + more)}."
    choices = list(holders)[:MOST_SIDES]
    snippets = tuple(snippet for told in choices if (snippet := remedy.pasteable(path, told)))
    return Draft(
        everyone, sentence, evidence, Remedy(f"Choose one {noun} for the pool, and restart the others.", snippets)
    )


def across(pair: PairSubject, nouns: Mapping[str, str], meaning: Meaning | None = None) -> Iterator[Draft]:
    """Yield what the prefill pool tells otherwise than the decode pool, a draft per setting `path: noun`.

    Drift inside one of the pools is a finding of that pool: here a value counts that the other side does not have.
    """
    for path, noun in nouns.items():
        sides = [side.values(path, meaning) for side in pair.sides]
        if pair.is_ignored(path) or not all(sides) or len(sides[0].keys() | sides[1].keys()) == 1:
            continue
        yield unequal(pair, path, noun, sides)


def unequal(pair: PairSubject, path: str, noun: str, sides: Sequence[Holders]) -> Draft:
    """Draft one setting whose values differ between prefill and decode; the decode pool is the reference."""
    wanted = next(iter(sides[1]))
    evidence = tuple(
        Evidence(path, told.value, told.state, replicas, side.name, is_reference=side is pair.decode)
        for side, holders in zip(pair.sides, sides, strict=True)
        for told, replicas in holders.items()
    )
    told = [joined([say(value) for value in list(holders)[:MOST_SIDES]]) for holders in sides]
    odd = (ids for holders in sides for value, ids in holders.items() if value != wanted)
    return Draft(
        tuple(sorted(replica for ids in odd for replica in ids)),
        f"{capital(noun)} is {told[0]} on prefill and {told[1]} on decode.",
        evidence,
        remedy.set_to([(path, wanted)], f"Give both pools the same {noun}, and restart those that change."),
    )


def say(told: Told) -> str:
    """Write a value for a sentence."""
    return "not set" if told.state is State.NULL else told_text(told.value, told.state)


def capital(text: str) -> str:
    """Begin a sentence."""
    return text[:1].upper() + text[1:]


def _alike(odd: Mapping[str, Sequence[Contrast]]) -> dict[tuple[Contrast, ...], tuple[str, ...]]:
    """Put replicas together that differ in the same way."""
    groups: dict[tuple[Contrast, ...], list[str]] = defaultdict(list)
    for replica in sorted(odd):
        groups[tuple(odd[replica])].append(replica)
    return {contrasts: tuple(replicas) for contrasts, replicas in groups.items()}


def _share(pool: PoolSubject, contrasts: Sequence[Contrast], meaning: Meaning | None) -> str:
    """Say how many have the reference: `16 of 17 replicas have`; of several settings, of the one that fewest share."""
    shares = []
    for contrast in contrasts:
        holders = pool.values(contrast.path, meaning)
        shares.append((len(holders[contrast.reference]), sum(map(len, holders.values()))))
    with_it, total = min(shares)
    return f"{with_it:,} of {total:,} replicas have"
