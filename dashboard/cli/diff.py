"""The command `diff`: the changes between two fleets, saved or live."""

from typing import Annotated, Literal

import typer

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.events import ChangeFilter, EventPeriod, filter_events
from dashboard.analysis.changes.models import Changes
from dashboard.cli import fleets
from dashboard.cli.targets import ConfigOption, options_of, select_pool
from dashboard.cli.terminal import is_terminal, put, say, width, wrong
from dashboard.documents.changes import changes_json
from dashboard.fleet.times import is_time
from dashboard.render.markdown import to_markdown
from dashboard.render.terminal import to_terminal
from dashboard.views.changes import changes_report
from dashboard.views.changes_text import EventSummary, sentences, summary, what_happened
from dashboard.views.context import context_of

SAME, DIFFERENT = 0, 1  # as diff(1); 2 is wrong usage
BeforeArgument = Annotated[
    str,
    typer.Argument(
        metavar="BEFORE",
        help=(
            "A file of `poll --format json --full` or an export, the id of a saved snapshot, a time of the history, "
            "- or live."
        ),
    ),
]
AfterArgument = Annotated[str, typer.Argument(metavar="AFTER", help="The other side, named in the same way.")]


def diff(
    before: BeforeArgument,
    after: AfterArgument,
    config: ConfigOption = None,
    history: fleets.HistoryOption = None,
    token_env: fleets.TokenEnvOption = None,
    pool: Annotated[str | None, typer.Option(help="Compare only this pool.")] = None,
    output: Annotated[Literal["table", "json", "markdown"], typer.Option("--format", help="Output format.")] = "table",
) -> None:
    """Compare two fleets: findings, settings, replicas, capacity.

    The first digits of a saved snapshot's id are enough; - is standard input. A time without a zone is UTC:
    2026-11-22T14:00Z. live polls every replica now; next to a time, and with --history, it is the newest poll of the
    history. Each side has the findings of its own time. Between times of the history it also lists what changed back.

    Exit code 0 without changes, 1 with changes, 2 for wrong usage or options, 3 without targets. The last line on
    standard error counts the changes.
    """
    if before == after and before in {fleets.LIVE, fleets.STANDARD_INPUT}:
        wrong(f"{before}: valid for one side only")
    options = options_of(config)
    past = fleets.CommandHistory(options, history, token_env)
    of_history = history is not None or is_time(before) or is_time(after)
    sides = []
    for each in (before, after):
        is_newest = each == fleets.LIVE and of_history
        fleet = fleets.past_fleet(None, past) if is_newest else None
        sides.append(fleet or fleets.fleet_of(each, options, option="", history=past)[0])
    sides = select_pool(sides, pool, unknown="--pool: neither side has a pool")
    changes = changes_between(*sides)
    happened = fleets.happened_between(sides[0], sides[1], past)
    if happened is not None:
        happened = happened._replace(events=filter_events(happened.events, ChangeFilter(pool or ""), ()))
    between = what_happened(*happened) if happened else None
    put(_written(changes, happened, between, sides, output, pool))
    code = SAME if changes.is_empty else DIFFERENT
    say(f"exit {code}: {summary(changes, between.words if between else '')}")
    raise typer.Exit(code)


def _written(
    changes: Changes,
    happened: EventPeriod | None,
    between: EventSummary | None,
    sides: list[Fleet],
    output: str,
    pool: str | None,
) -> str:
    if output == "json":
        return changes_json(changes, happened, **sentences(changes), indent=2).decode() + "\n"
    filters = [("pool", pool)] if pool is not None else []
    before, after = (context_of(each, filters=filters) for each in sides)
    report = changes_report(changes, before, after, between)
    if output == "markdown":
        return to_markdown(report)
    return to_terminal(report, width=width(), colour=is_terminal())
