"""Settings that must be equal: within a pool, and across a prefill/decode pair, as drafts of findings."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dashboard.compare.pool import MAJORITY_OF, is_majority
from dashboard.fleet import SettingValue, State
from dashboard.fleet.formatting import count, joined, told_text
from dashboard.rules import remedy
from dashboard.rules.findings import Draft, Evidence, Remedy
from dashboard.rules.subject import Holders, Meaning, PairSubject, PoolSubject

Compared = Mapping[str, tuple[str, Holders]]  # path -> (noun, who tells which value)

MOST_SIDES = 4  # values that a sentence names before it counts the rest


class Contrast(NamedTuple):
    """A setting of which some replicas tell another value than the reference."""

    path: str
    noun: str
    own: SettingValue
    reference: SettingValue


def drift(pool: PoolSubject, nouns: Mapping[str, str], meaning: Meaning | None = None) -> Iterator[Draft]:
    """Yield what differs within a pool, of the settings `path: noun`; see `apart`."""
    return apart(
        {path: (noun, pool.values(path, meaning)) for path, noun in nouns.items() if not pool.is_ignored(path)}
    )


def apart(told: Compared, consequence: str = "") -> Iterator[Draft]:
    """Yield what differs of `path: (noun, who tells which value)`.

    Replicas that differ from the majority in the same way share one draft; a path without a majority has a draft of
    its own that holds all who tell it. Nouns begin in lower case and need no article: `block size`. `consequence`
    ends the sentence; without it, how many have the other value.
    """
    odd: dict[str, list[Contrast]] = defaultdict(list)
    for path, (noun, holders) in told.items():
        if len(holders) <= 1:
            continue
        reference = majority(holders)
        if reference is None:
            yield tie(path, noun, holders)
            continue
        for own, replicas in holders.items():
            for replica in replicas if own != reference else ():
                odd[replica].append(Contrast(path, noun, own, reference))
    for contrasts, replicas in _alike(odd).items():
        yield deviation(told, contrasts, replicas, consequence)


def majority(holders: Holders) -> SettingValue | None:
    """Return the value that more than half of at least three replicas tell; None without one."""
    total = sum(map(len, holders.values()))
    return next((told for told, ids in holders.items() if is_majority(len(ids), total)), None)


def deviation(told: Compared, contrasts: Sequence[Contrast], replicas: tuple[str, ...], consequence: str = "") -> Draft:
    """Draft what some replicas tell otherwise than the majority."""
    evidence = []
    for contrast in contrasts:
        held = told[contrast.path][1][contrast.reference]
        evidence += [
            Evidence(contrast.path, *contrast.own, replicas),
            Evidence(contrast.path, *contrast.reference, held, is_reference=True),
        ]
    end = f": {consequence}" if consequence else ""
    sentence = f"{capital(_said(told, contrasts, has_end=bool(end)))}{end}."
    return Draft(replicas, sentence, tuple(evidence), same_as_the_rest(contrasts))


def _said(told: Compared, contrasts: Sequence[Contrast], *, has_end: bool) -> str:
    """Say what differs: first where the reference is another value, then where it is not set."""
    other, added = (
        [each for each in contrasts if (each.reference.state is State.REPORTED) is is_set] for is_set in (True, False)
    )
    parts = []
    if other:
        share = "" if has_end else f", which {_share(told, other)} have"
        parts.append(joined([contrasted(each) for each in other]) + share)
    if added:
        own = joined([f"{each.noun} is {say(each.own)}" for each in added])
        parts.append(f"{own}, which {_share(told, added)} do not set")
    return "; ".join(parts)


def contrasted(contrast: Contrast) -> str:
    """Say `block size is 32 instead of 16`."""
    return f"{contrast.noun} is {say(contrast.own)} instead of {say(contrast.reference)}"


def same_as_the_rest(contrasts: Sequence[Contrast]) -> Remedy:
    """Say how to give replicas the reference's values, and what to take away where it is not set."""
    nouns = joined([each.noun for each in contrasts if each.reference.state is State.REPORTED])
    unset = joined([remedy.lever(each.path) for each in contrasts if each.reference.state is not State.REPORTED])
    if not nouns:
        sentence = f"Remove {unset} from these replicas, and restart them."
    else:
        removed = f", remove {unset} from them" if unset else ""
        sentence = f"Give these replicas the same {nouns} as the rest of the pool{removed}, and restart them."
    return remedy.set_to([(each.path, each.reference) for each in contrasts], sentence)


def tie(path: str, noun: str, holders: Holders) -> Draft:
    """Draft a setting of which no value has a majority: all who tell it are concerned."""
    sides = [f"{say(told)} on {len(replicas):,}" for told, replicas in holders.items()]
    more = [count(len(sides) - MOST_SIDES, "more value")] if len(sides) > MOST_SIDES else []
    evidence = tuple(Evidence(path, told.value, told.state, replicas) for told, replicas in holders.items())
    everyone = tuple(sorted(replica for replicas in holders.values() for replica in replicas))
    few = sum(map(len, holders.values())) < MAJORITY_OF
    why = "too few tell it to call one the majority" if few else "no value has a majority"
    sentence = f"{capital(noun)} differs and {why}: {joined(sides[:MOST_SIDES] + more)}."
    choices = list(holders)[:MOST_SIDES]
    snippets = tuple(snippet for told in choices if (snippet := remedy.pasteable(path, told)))
    return Draft(
        everyone,
        sentence,
        evidence,
        Remedy(f"Choose one {noun} for the pool, and restart the others.", snippets, any_of=True),
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
    told = [" or ".join(say(value) for value in list(holders)[:MOST_SIDES]) for holders in sides]
    how = "" if wanted.state is State.REPORTED else f": remove {remedy.lever(path)} where it is set"
    odd = (ids for holders in sides for value, ids in holders.items() if value != wanted)
    return Draft(
        tuple(sorted(replica for ids in odd for replica in ids)),
        f"{capital(noun)} is {told[0]} on prefill and {told[1]} on decode.",
        evidence,
        remedy.set_to([(path, wanted)], f"Give both pools the same {noun}{how}, and restart those that change."),
    )


def say(told: SettingValue) -> str:
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


def _share(told: Compared, contrasts: Sequence[Contrast]) -> str:
    """Say how many have the reference: `16 of 17 replicas`; of several settings, of the one that fewest share."""
    shares = []
    for contrast in contrasts:
        _, holders = told[contrast.path]
        shares.append((len(holders[contrast.reference]), sum(map(len, holders.values()))))
    with_it, total = min(shares)
    return f"{with_it:,} of {total:,} replicas"
