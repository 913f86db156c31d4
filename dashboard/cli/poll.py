"""The command `poll`: every replica once, as a table or as JSON."""

from typing import Annotated, Literal

import typer

from dashboard import service
from dashboard.analysis.assembly import Fleet, only_pool
from dashboard.analysis.documents.fleet import fleet_json
from dashboard.cli.targets import ConfigOption, TargetsArgument, options_of, polled
from dashboard.cli.terminal import is_terminal, no_such_pool, put, width, wrong
from dashboard.render.terminal import to_terminal
from dashboard.views.poll import poll_view


def poll(
    target: TargetsArgument = None,
    config: ConfigOption = None,
    pool: Annotated[str | None, typer.Option(help="Print this pool only.")] = None,
    output: Annotated[Literal["table", "json"], typer.Option("--format", help="What to print.")] = "table",
    *,
    full: Annotated[
        bool, typer.Option("--full", help="With json: every setting, and each replica's identity and probes.")
    ] = False,
) -> None:
    """Ask every replica once and print what they say.

    Exit code 0 also when replicas are down, for they are in the answer; 2 for wrong usage or options, or when there is
    nothing to ask.
    """
    fleet = polled(options_of(config, target)).fleet
    if not fleet.replicas:
        wrong("there is no target")
    if pool is not None:
        fleet = _chosen(fleet, pool)
    if output == "json":
        text = f"{fleet_json(fleet, service.utc_now(), full=full, indent=2).decode()}\n"
    else:
        text = to_terminal(poll_view(fleet), width=width(), colour=is_terminal())
    put(text)


def _chosen(fleet: Fleet, pool: str) -> Fleet:
    names = [each.name for each in fleet.pools]
    if pool not in names:
        no_such_pool(pool, names, said="--pool: there is no pool")
    return only_pool(fleet, pool)
