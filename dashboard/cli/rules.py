"""The command `rules`: the list of the rules, or the page of one."""

from typing import Annotated

import typer

from dashboard.cli.terminal import is_terminal, put, width, wrong
from dashboard.render.console import to_rule_page, to_rule_table
from dashboard.rules.catalogue import ALL_RULES, find_rule, unknown_rule


def rules(
    rule: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Print the page of this rule, such as RT-01.")
    ] = None,
) -> None:
    """List the rules, or print the page of one."""
    if rule is None:
        put(to_rule_table(ALL_RULES, width=width(), colour=is_terminal()))
        return
    found = find_rule(rule)
    if found is None:
        wrong(f"{rule}: {unknown_rule(rule)}")
    put(to_rule_page(found, width=width(), colour=is_terminal()))
