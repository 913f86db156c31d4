"""The command `poll`: the fleet as a table or as JSON."""

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
    pool: Annotated[str | None, typer.Option(help="Print only this pool.")] = None,
    output: Annotated[Literal["table", "json"], typer.Option("--format", help="Output format.")] = "table",
    *,
    full: Annotated[
        bool, typer.Option("--full", help="With json: every setting, and each replica's identity and probes.")
    ] = False,
) -> None:
    """Poll every replica once and print the fleet.

    Exit code 0 also with unreachable replicas, which the output lists; 2 for wrong usage or options, or no targets.
    """
    fleet = polled(options_of(config, target)).fleet
    if not fleet.replicas:
        wrong("no targets")
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
