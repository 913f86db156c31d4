"""The sentence on what some replicas of a pool share, and the rest of it does not."""

from collections.abc import Collection
from itertools import groupby, islice

from dashboard.analysis.assembly import Fleet
from dashboard.compare.traits import Trait, shared_traits
from dashboard.fleet.formatting import middle_cut, one_line
from dashboard.fleet.pieces import Piece, Style, Text, join_texts
from dashboard.views.blocks import Paragraph

MOST_TRAITS = 6
PAIR = 2  # replicas, which `both` names
LONGEST = 60  # characters of a foreign text


def trait_paragraphs(fleet: Fleet, group: Collection[str], pools: Collection[str]) -> tuple[Paragraph, ...]:
    """Return what all replicas of a group share and the rest of these pools does not; empty without such a trait.

    A line for each number of others: `All 3: image 4f2, started 2026-03-02 14:00 to 14:36 UTC; none of the other 37.`
    """
    own = [each for each in fleet.replicas if each.id in group]
    rest = [each for each in fleet.replicas if each.pool in pools and each.id not in group]
    traits = islice(shared_traits(own, rest), MOST_TRAITS)
    head = Piece(f"All {len(own):,}: " if len(own) > PAIR else "Both: ", Style.STRONG)
    lines = [
        (head, *join_texts(map(_trait, same), last=", "), Piece(f"; {_others(*numbers, len(rest))}."))
        for numbers, same in groupby(traits, key=lambda each: (each.others, each.known))
    ]
    return (Paragraph(join_texts(lines, "\n", "\n")),) if lines else ()


def _trait(trait: Trait) -> Text:
    if trait.name == "started" and not trait.is_label:
        return (Piece(f"{trait.name} {trait.value}"),)
    name, value = (middle_cut(one_line(text), LONGEST) for text in (trait.name, trait.value))
    return (Piece(f"{name} "), Piece(value, Style.CODE))


def _others(others: int, known: int, rest: int) -> str:
    """Return how many of the rest have it as well, and of how many that is not known."""
    number = f"{others:,}" if others else "none"
    return f"{number} of the other {known:,}" + (f" (not reported by {rest - known:,} more)" if known < rest else "")
