"""Text for a terminal, made by rich; the table of all rules. Loads no frames."""

from collections.abc import Iterable
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dashboard.fleet.formatting import without_commands
from dashboard.render.rule_markdown import headline, rule_page, worst
from dashboard.rules.registry import Rule

WIDEST_PAGE = 100  # columns: longer lines are hard to read
NAMES_FROM = 120  # columns: with fewer the names would leave the problems too little room


def printed(*parts: RenderableType, width: int, colour: bool) -> str:
    """Return what rich prints, at most `width` columns wide, without blanks at the end of lines.

    Lines are folded, so a value may begin one: none is a command to the CI system that reads its log.
    """
    out = StringIO()
    console = Console(file=out, width=width, force_terminal=colour, no_color=not colour, highlight=False, markup=False)
    console.print(Group(*parts))
    return without_commands("".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines()))


def to_rule_page(rule: Rule, *, width: int, colour: bool) -> str:
    """Write the page of a rule without the signs of its Markdown."""
    from rich.markdown import Markdown  # noqa: PLC0415  only this needs its parser

    title, _, body = rule_page(rule).partition("\n")
    page = Markdown(body, hyperlinks=False, code_theme="ansi_dark")
    return printed(Text(title.removeprefix("# "), "bold"), Text(""), page, width=min(width, WIDEST_PAGE), colour=colour)


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
