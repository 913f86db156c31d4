"""The table of figures that the benchmarks print."""

from collections.abc import Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """A measured figure and its budget, in one unit."""

    name: str
    measured: float
    budget: float


def print_table(rows: Iterable[Row], unit: str = "") -> int:
    """Print each figure with its budget and its share of it. Returns 1 if a budget is exceeded, else 0."""
    known = list(rows)
    print(f"{unit:<64}{'measured':>10}{'budget':>8}{'share':>8}")
    for name, measured, budget in known:
        print(f"{name:<64}{measured:>10.3f}{budget:>8.2f}{measured / budget:>8.0%}")
    return int(any(row.measured > row.budget for row in known))
