"""What bars of ranks do not show, in words: what is an upper bound, what is not known and why, what is not counted."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dashboard.fleet import Replica
from dashboard.fleet.formatting import count, joined
from dashboard.report.capacity.ranks import Measure, Rank, is_at_most, value, why_unknown
from dashboard.report.capacity.words import name_of, rank_name

MOST_NAMED = 4  # ranks named in one line, and reasons of upper bounds that are told


class Named(NamedTuple):
    """A replica and what it, or one of its ranks, is called in a sentence."""

    replica: Replica
    name: str


class Remark(NamedTuple):
    """A sentence of plain text with names in its middle. `is_unknown`: it is about what is not known."""

    before: str
    who: tuple[Named, ...] = ()
    after: str = ""
    is_unknown: bool = False

    @property
    def text(self) -> str:
        """Return the whole sentence."""
        return f"{self.before}{first_of_names([named.name for named in self.who])}{self.after}"


def remarks(ranks: Sequence[Rank], silent: Sequence[Replica], measure: Measure, left_out: int) -> list[Remark]:
    """Say what bars of these ranks do not show. `silent` are replicas of which no engine is known."""
    shown = len(ranks) - sum(value(rank, measure) is None for rank in ranks) - left_out
    said = (
        [Remark(f"The {shown:,} that hold least; {left_out:,} more stand in the table of ranks.")] if left_out else []
    )
    bounds = Counter(
        rank.engine.reason or "" for rank in ranks if value(rank, measure) is not None and is_at_most(rank, measure)
    )
    for reason, number in bounds.most_common(MOST_NAMED):
        said.append(Remark(f"Hatched, {count(number, 'rank')}: at most. {reason}"))
    missing: dict[str, list[Rank]] = defaultdict(list)
    for rank in ranks:
        if value(rank, measure) is None:
            missing[why_unknown(rank, measure)].append(rank)
    for reason, members in sorted(missing.items(), key=lambda item: -len(item[1])):
        verb = "is" if len(members) == 1 else "are"
        before = f"{count(len(members), 'rank')} {verb} not known: "
        said.append(Remark(before, _ranks(members), f". {reason}", is_unknown=True))
    if silent:
        named = tuple(Named(replica, name_of(replica.name)) for replica in silent)
        said.append(Remark("No engine is known of ", named, ".", is_unknown=True))
    return said


def uncounted(ranks: Sequence[Rank]) -> list[Remark]:
    """Name the ranks that are drawn pale, and say why no sum and no median counts them."""
    old = [rank for rank in ranks if not rank.counts and not rank.replica.fresh]
    twice = [rank for rank in ranks if not rank.counts and rank.replica.fresh]
    why = ((old, "they were last read too long ago"), (twice, "they are second addresses of one process"))
    return [Remark(f"Pale and not counted, for {reason}: ", _ranks(pale), ".") for pale, reason in why if pale]


def least(numbers: Sequence[tuple[int, float]], most: int) -> list[int]:
    """Return the places of the least values: what runs short matters, where not all can be shown."""
    if len(numbers) <= most:
        return [place for place, _ in numbers]
    return [place for place, _ in sorted(numbers, key=lambda one: one[1])[:most]]


def first_of_names(names: Sequence[str]) -> str:
    """Join the first names, each once; the rest is counted."""
    names = list(dict.fromkeys(names))
    shown = names if len(names) <= MOST_NAMED else [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1:,} more"]
    return joined(shown)


def _ranks(ranks: Iterable[Rank]) -> tuple[Named, ...]:
    return tuple(Named(rank.replica, rank_name(rank)) for rank in ranks)
