"""All rules as text for a terminal."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from dashboard.report.rule_page import headline, severities

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dashboard.rules.registry import Rule


def to_rule_table(rules: Iterable[Rule], *, width: int, colour: bool) -> str:
    """Write one line a rule: id, name, family, severities by what a pool shares, the problem."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("rule", "name", "family"):
        table.add_column(title, no_wrap=True)
    table.add_column("severity", ratio=2)
    table.add_column("problem", ratio=3)
    for rule in rules:
        table.add_row(rule.id, rule.name, str(rule.family), severities(rule), headline(rule))
    out = StringIO()
    console = Console(file=out, width=width, force_terminal=colour, no_color=not colour, highlight=False, markup=False)
    console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
