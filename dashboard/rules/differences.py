"""Settings that must be equal, within a pool or across a prefill/decode pair, as drafts of findings."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dashboard.compare.equality import MeaningOf
from dashboard.compare.holders import Holders
from dashboard.compare.pool import MAJORITY_OF, is_majority
from dashboard.fleet import SettingChange, SettingValue, State
from dashboard.fleet.formatting import joined
from dashboard.fleet.grouping import grouped
from dashboard.fleet.pieces import Piece, Text, join_texts
from dashboard.rules import remedy
from dashboard.rules.findings import Draft, Evidence, Remedy, Severity, Way
from dashboard.rules.sentences import (
    MAX_VALUES,
    names_of,
    setting_label,
    setting_name,
    setting_piece,
    sides_text,
    value_piece,
    values_text,
    write,
)
from dashboard.rules.subject import PairSubject, PoolSubject

DEVICES = "devices"  # its values are lists of names
HoldersByPath = Mapping[str, Holders]  # path -> its values with their replicas


def pool_differences(
    pool: PoolSubject,
    paths: Iterable[str] | HoldersByPath,
    meaning: MeaningOf | None = None,
    consequence: str = "",
    severity: Severity | None = None,
) -> Iterator[Draft]:
    """Yield the differences of settings within a pool, as `differences` does, without those that fleet.yaml ignores.

    `paths` may have values that are already grouped. `severity` replaces that of the rule.
    """
    values = paths if isinstance(paths, Mapping) else {path: pool.values(path, meaning) for path in paths}
    compared = {path: holders for path, holders in values.items() if not pool.is_ignored(path)}
    return (replace(each, severity=severity) for each in differences(compared, consequence))


def differences(compared: HoldersByPath, consequence: str = "") -> Iterator[Draft]:
    """Yield a draft for all replicas that differ from the majority in the same way.

    A setting without a majority has its own draft for all replicas that report it. `consequence` is a second sentence.
    """
    odd: dict[str, list[SettingChange]] = defaultdict(list)
    for path, holders in compared.items():
        if len(holders) <= 1:
            continue
        reference = majority(holders)
        if reference is None:
            yield tie(path, holders)
            continue
        for own, replicas in holders.items():
            for replica in replicas if own != reference else ():
                odd[replica].append(SettingChange(path, own, reference))
    alike = grouped((tuple(odd[replica]), replica) for replica in sorted(odd))
    for contrasts, odd_ones in alike.items():
        yield deviation(compared, contrasts, tuple(odd_ones), consequence)


def majority(holders: Holders) -> SettingValue | None:
    """Return the value that more than half of at least three replicas report; None without one."""
    total = sum(map(len, holders.values()))
    return next((value for value, ids in holders.items() if is_majority(len(ids), total)), None)


def deviation(
    compared: HoldersByPath, contrasts: Sequence[SettingChange], replicas: tuple[str, ...], consequence: str = ""
) -> Draft:
    text = write(_contrasts_text(compared, contrasts), f". {consequence}" if consequence else "", ".")
    return Draft(replicas, text, contrast_evidence(compared, contrasts, replicas), use_majority(contrasts))


def contrast_evidence(
    compared: HoldersByPath, contrasts: Iterable[SettingChange], replicas: tuple[str, ...]
) -> tuple[Evidence, ...]:
    """Return the values of these replicas, each followed by the reference's."""
    return tuple(
        row
        for path, own, reference in contrasts
        for row in (
            Evidence(path, *own, replicas),
            Evidence(path, *reference, compared[path][reference], is_reference=True),
        )
    )


def _contrasts_text(compared: HoldersByPath, contrasts: Sequence[SettingChange]) -> Text:
    """Return `block_size is 32; 15 of 16 replicas use 16. kv_offloading_size is 64 GiB; unset on 15 of 16 replicas`."""
    set_elsewhere, unset_elsewhere = (
        [each for each in contrasts if (each.after.state is State.REPORTED) is is_set] for is_set in (True, False)
    )
    parts = []
    if set_elsewhere:
        references = join_texts((value_piece(each.after, each.path),) for each in set_elsewhere)
        share = _share(compared, set_elsewhere)
        parts.append(write(_own_values(set_elsewhere), f"; {share} use ", references))
    if unset_elsewhere:
        share = _share(compared, unset_elsewhere)
        parts.append(write(_own_values(unset_elsewhere), f"; unset on {share}"))
    return join_texts(parts, last=". ")


def _own_values(contrasts: Iterable[SettingChange]) -> Text:
    return join_texts(write(setting_label(path), " is ", value_piece(own, path)) for path, own, _ in contrasts)


def _share(compared: HoldersByPath, contrasts: Iterable[SettingChange]) -> str:
    """Return how many have the reference, of the setting where fewest do: `16 of 17 replicas`."""
    shares = []
    for contrast in contrasts:
        holders = compared[contrast.path]
        shares.append((len(holders[contrast.after]), sum(map(len, holders.values()))))
    number, total = min(shares)
    return f"{number:,} of {total:,} replicas"


def use_majority(contrasts: Sequence[SettingChange]) -> Remedy:
    """Return how to give replicas the reference's values, and what to remove where it is not set."""
    names = joined([code(setting_name(each.path)) for each in contrasts if each.after.state is State.REPORTED])
    unset = joined([code(remedy.lever(each.path)) for each in contrasts if each.after.state is not State.REPORTED])
    if not names:
        sentence = f"Remove {unset} from these replicas and restart them."
    else:
        removed = f", remove {unset}" if unset else ""
        sentence = f"Set {names} as on the rest of the pool{removed} and restart these replicas."
    return remedy.set_to([(each.path, each.after) for each in contrasts], sentence)


def tie(path: str, holders: Holders) -> Draft:
    """Draft a setting of which no value has a majority, for all replicas that report it."""
    is_small = sum(map(len, holders.values())) < MAJORITY_OF
    why = "too few replicas for a majority" if is_small else "no majority"
    choices = list(holders)[:MAX_VALUES]
    sentence = f"Choose one {code(setting_name(path))} for the pool and restart the other replicas."
    fix = remedy.one_of([Way(((path, value),)) for value in choices], sentence)
    return split(path, holders, None, write(setting_label(path), " differs: "), fix, tail=f" ({why}).")


def split(
    path: str,
    holders: Holders,
    reference: SettingValue | None,
    head: Text,
    fix: Remedy,
    *,
    tail: str = ".",
    noun: str = "value",
) -> Draft:
    """Draft all values with their numbers of replicas, for the replicas that do not have the reference."""
    texts = {value: names_of(value) if path == DEVICES else (value_piece(value, path),) for value in holders}
    sides = sides_text(((texts[value], len(replicas)) for value, replicas in holders.items()), noun)
    odd = sorted(replica for value, replicas in holders.items() if value != reference for replica in replicas)
    return Draft(tuple(odd), write(head, sides, tail), value_evidence(path, holders, reference), fix)


def pair_differences(
    pair: PairSubject, paths: Iterable[str] | Mapping[str, Sequence[Holders]], meaning: MeaningOf | None = None
) -> Iterator[Draft]:
    """Yield a draft per setting that has a value on one side of a pair and not on the other, unless it is ignored.

    `paths` may have values of both sides that are already grouped.
    """
    if not isinstance(paths, Mapping):
        paths = {path: [side.values(path, meaning) for side in pair.subjects] for path in paths}
    for path, sides in paths.items():
        if not pair.is_ignored(path) and are_unequal(sides):
            yield pair_difference(pair, path, sides)


def are_unequal(sides: Sequence[Holders]) -> bool:
    """Return whether both sides report a setting, and more than one value of it."""
    return all(sides) and len(sides[0].keys() | sides[1].keys()) > 1


def pair_difference(pair: PairSubject, path: str, sides: Sequence[Holders]) -> Draft:
    """Return one setting that differs between prefill and decode; the decode pool is the reference."""
    return two_sided(path, sides, pair.pools, ("prefill", "decode"))


def two_sided(path: str, sides: Sequence[Holders], holders: Sequence[str], places: Sequence[str]) -> Draft:
    """Return one setting that differs between two sides, of which the second is the reference.

    `holders` name the sides in the evidence, `places` in the sentence.
    """
    wanted = next(iter(sides[1]))
    evidence = tuple(
        Evidence(path, *value, replicas, holder, is_reference=side is sides[1])
        for side, holder in zip(sides, holders, strict=True)
        for value, replicas in side.items()
    )
    how = "" if wanted.state is State.REPORTED else f" (remove {code(remedy.lever(path))})"
    odd = {replica for side in sides for value, ids in side.items() if value != wanted for replica in ids}
    first, second = (write(values_text(side, path), f" on {place}") for side, place in zip(sides, places, strict=True))
    return Draft(
        tuple(sorted(odd)),
        write(setting_piece(path), " is ", first, " and ", second, "."),
        evidence,
        remedy.set_to(
            [(path, wanted)],
            f"Set the same {code(setting_name(path))} in both pools{how} and restart the changed replicas.",
        ),
    )


def value_evidence(path: str, holders: Holders, reference: SettingValue | None = None) -> tuple[Evidence, ...]:
    """Return the values of a setting as evidence; the others are compared with `reference`."""
    return tuple(Evidence(path, *value, ids, is_reference=value == reference) for value, ids in holders.items())


def extended(text: Text, *more: str | Piece | Text) -> Text:
    """Return a sentence with more before its full stop."""
    *rest, last = text
    return write(*rest, last._replace(text=last.text.removesuffix(".")), *more)


def code(name: str) -> str:
    return name if name == setting_name("version") else f"`{name}`"
