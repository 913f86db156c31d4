"""The most telling differences of a fleet, one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard import wording
from dashboard.compare import PREFIX_PATHS
from dashboard.compare.prefix import is_tie
from dashboard.models import State
from dashboard.ui import links, markup
from dashboard.ui.prefix_words import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dashboard.fleet import Fleet
    from dashboard.models import Difference, Pool, ValueCount

MOST = 8  # sentences on Overview; Compare lists all
PAIR = 2  # values that make a sentence of this and the rest
LONG_NAME = 44  # characters of a name before it is cut in the middle
NAMES = 2  # replicas named before they are only counted


def most_telling(fleet: Fleet, most: int = MOST) -> list[tuple[str, str, str]]:
    """Return (kind of stripe, sentence, cohorts) as HTML: what decides prefix sharing, then the smallest minorities.

    Beyond `most`, the last entry says how many more there are.
    """
    found = sorted(_weighed(fleet), key=lambda entry: entry[0])
    names = {replica.id: replica.name for replica in fleet.replicas}
    rows = [_entry(pool, difference, names) for _, pool, difference in found[:most]]
    return [*rows, _more(found[most][1], len(found) - most)] if len(found) > most else rows


def _more(pool: Pool, number: int) -> tuple[str, str, str]:
    """Lead to Compare at the pool that the next one belongs to."""
    words = markup.text(wording.count(number, "more difference"))
    return "unknown", markup.link(links.to(links.COMPARE, pool=pool.name), words), ""


def _weighed(fleet: Fleet) -> Iterator[tuple[tuple[bool, bool, int, str, str], Pool, Difference]]:
    """Give each difference its place: what only follows from another vLLM version tells less than the version."""
    for pool in fleet.pools:
        by_version = next((_sides(each) for each in pool.differences if each.path == VERSION), None)
        for difference in pool.differences:
            counts = [value.count for value in told(difference)]
            follows = difference.path != VERSION and _sides(difference) == by_version
            place = (difference.path not in PREFIX_PATHS, follows, sum(counts) - max(counts))
            yield (*place, pool.name, difference.path), pool, difference


def told(difference: Difference) -> list[ValueCount]:
    """Return the values that replicas told, the most frequent last; who tells nothing is no side of a difference."""
    values_told = [value for value in difference.values if value.state in {State.REPORTED, State.NULL}]
    return sorted(values_told, key=lambda value: value.count)


def _sides(difference: Difference) -> set[tuple[str, ...]]:
    return {value.cohorts for value in told(difference)}


def _entry(pool: Pool, difference: Difference, names: dict[str, str]) -> tuple[str, str, str]:
    kind, note = _weight(difference.path)
    glyph = markup.glyph("differs" if kind == "info" else kind, "")
    address = links.to(links.COMPARE, pool=pool.name, path=difference.path)
    sentence = f"{glyph} {markup.link(address, markup.bold(pool.name))} {_sentence(difference)}"
    below = f"<small>{markup.code(wording.middle_cut(difference.path, 2 * LONG_NAME))}{markup.text(note)}</small>"
    return kind, sentence + below, _minority(pool, difference, names)


def _weight(path: str) -> tuple[str, str]:
    if path not in PREFIX_PATHS:
        return "info", ""
    return ("warning", " · may keep prefixes apart") if path == VERSION else ("critical", " · decides prefix sharing")


def _sentence(difference: Difference) -> str:
    ordered = told(difference)
    leaf = markup.code(wording.middle_cut(difference.path.rpartition(".")[2], LONG_NAME))
    if difference.majority is None or len(ordered) > PAIR:
        most, *rest = reversed(ordered)
        parts = [f"{_value(most)} on {wording.count(most.count, 'replica')}"]
        reservation = "; there is no majority" if is_tie(difference) else ""
        return (
            f"{leaf} is {wording.joined(_first([*parts, *(f'{_value(value)} on {value.count:,}' for value in rest)]))}"
            f"{reservation}"
        )
    few, many = ordered
    return (
        f"{wording.count(few.count, 'replica')} {_has(few)} {leaf} {_value(few)}; "
        f"the other {many.count:,} {_has(many)} {_value(many)}"
    )


def _first(parts: list[str], most: int = 4) -> list[str]:
    return parts if len(parts) <= most else [*parts[: most - 1], f"{len(parts) - most + 1:,} more values"]


def _has(value: ValueCount) -> str:
    return "has" if value.count == 1 else "have"


def _value(value: ValueCount) -> str:
    return markup.code(wording.told_text(value.value, value.state))


def _minority(pool: Pool, difference: Difference, names: dict[str, str]) -> str:
    """Name the cohorts that stand apart, and their replicas when they are few; on a tie every cohort."""
    *apart, kept = told(difference)
    letters = {letter for value in apart for letter in value.cohorts if letter not in kept.cohorts}
    letters |= set(kept.cohorts) if is_tie(difference) else set()
    cohorts = [cohort for cohort in pool.cohorts if cohort.letter in letters]
    return " &nbsp; ".join(
        f"{markup.letter(cohort.letter)} {_members(cohort.replicas, names)}" for cohort in cohorts[:3]
    )


def _members(replicas: tuple[str, ...], names: dict[str, str]) -> str:
    if len(replicas) > NAMES:
        return markup.text(f"×{len(replicas):,}")
    return ", ".join(
        markup.link(
            links.to(links.REPLICA_PAGE, replica=replica),
            markup.text(wording.middle_cut(names.get(replica, replica), LONG_NAME)),
        )
        for replica in replicas
    )
