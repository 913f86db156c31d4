"""All rules as text for a terminal."""

from collections.abc import Iterable

from rich.table import Table

from dashboard.render.console import printed
from dashboard.report.rules.page import headline, worst
from dashboard.rules.registry import Rule

NAMES_FROM = 120  # columns: with fewer the names would leave the problems too little room


def to_rule_table(rules: Iterable[Rule], *, width: int, colour: bool) -> str:
    """Write each rule: id, the worst severity that it can have, where there is room its name, and the problem."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rule", no_wrap=True)
    table.add_column("at worst", no_wrap=True)
    if width >= NAMES_FROM:
        table.add_column("name", no_wrap=True)
    table.add_column("problem")
    for rule in rules:
        table.add_row(rule.id, worst(rule), *([rule.name] if width >= NAMES_FROM else []), headline(rule))
    return printed(table, width=width, colour=colour)
