"""The command `diff`: what changed between two fleets, saved or live."""

from typing import Annotated, Literal

import typer

from dashboard.analysis.assembly import Fleet, only_pool
from dashboard.analysis.changes import Changes, changes_between
from dashboard.cli.saved import LIVE, STANDARD_INPUT, fleet_of
from dashboard.cli.targets import ConfigOption, options_of
from dashboard.cli.terminal import is_terminal, no_such_pool, put, say, width, wrong
from dashboard.render.changes_json import changes_json
from dashboard.render.markdown import to_markdown
from dashboard.render.terminal import to_terminal
from dashboard.views.changes import changes_report
from dashboard.views.changes_text import summary
from dashboard.views.context import context_of

SAME, DIFFERENT = 0, 1  # as diff(1) has it; 2 is wrong usage
FORMATS = "What to print."
SIDE = "A file that `poll --format json --full` or an export wrote, the id of a frozen snapshot, - or live."
BeforeArgument = Annotated[str, typer.Argument(metavar="BEFORE", help=SIDE)]
AfterArgument = Annotated[str, typer.Argument(metavar="AFTER", help="In the same way, what it is compared with.")]


def diff(
    before: BeforeArgument,
    after: AfterArgument,
    config: ConfigOption = None,
    pool: Annotated[str | None, typer.Option(help="Compare this pool only.")] = None,
    output: Annotated[Literal["table", "json", "markdown"], typer.Option("--format", help=FORMATS)] = "table",
) -> None:
    """Say what changed from one fleet to another: findings, settings, replicas, capacity.

    A frozen snapshot can be named by the first digits of its id; - is standard input, and live asks every replica now.
    Each side is judged as it was when it was saved.

    Exit code 0 when nothing changed, 1 when something did, 2 for wrong usage or options. The last line on standard
    error says what.
    """
    if before == after and before in {LIVE, STANDARD_INPUT}:
        wrong(f"{before}: it can stand for one side only")
    options = options_of(config)
    sides = [fleet_of(each, options) for each in (before, after)]
    if pool is not None:
        sides = _chosen(sides, pool)
    changes = changes_between(*sides)
    put(_written(changes, sides, output, pool))
    code = SAME if changes.is_empty else DIFFERENT
    say(f"exit {code}: {summary(changes)}")
    raise typer.Exit(code)


def _chosen(sides: list[Fleet], pool: str) -> list[Fleet]:
    """Return the part of both sides that is one pool; one of them must have it."""
    names = {each.name for fleet in sides for each in fleet.pools}
    if pool not in names:
        no_such_pool(pool, names, said="--pool: neither side has a pool")
    return [only_pool(each, pool) for each in sides]


def _written(changes: Changes, sides: list[Fleet], output: str, pool: str | None) -> str:
    if output == "json":
        return changes_json(changes, indent=2).decode() + "\n"
    filters = [("pool", pool)] if pool is not None else []
    report = changes_report(changes, *(context_of(each, filters=filters) for each in sides))
    if output == "markdown":
        return to_markdown(report)
    return to_terminal(report, width=width(), colour=is_terminal())
