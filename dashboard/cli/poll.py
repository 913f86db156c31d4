"""The command `poll`: the fleet as a table or as JSON."""

from typing import Annotated, Literal

import typer

from dashboard import service
from dashboard.cli import targets
from dashboard.cli.terminal import is_terminal, put, say, width
from dashboard.documents.fleet import fleet_json
from dashboard.render.terminal import to_terminal
from dashboard.views.command_line import poll_view
from dashboard.views.excluded import unknown_hint


def poll(
    target: targets.TargetsArgument = None,
    config: targets.ConfigOption = None,
    prometheus: targets.PrometheusOption = None,
    pool: Annotated[str | None, typer.Option(help="Print only this pool.")] = None,
    output: Annotated[Literal["table", "json"], typer.Option("--format", help="Output format.")] = "table",
    traffic: targets.TrafficOption = None,
    *,
    full: Annotated[
        bool, typer.Option("--full", help="With json: every setting, and each replica's identity and probes.")
    ] = False,
) -> None:
    """Poll every replica once and print the fleet.

    Exit code 0 also with unreachable replicas, which the output lists; 2 for wrong usage or options;
    3 without targets, or where no target list can be read.
    """
    whole = targets.polled(targets.options_of(config, target, prometheus=prometheus), traffic=traffic)
    if not whole.replicas:
        targets.no_targets(whole.discovery_errors)
    (fleet,) = targets.select_pool([whole], pool, unknown="--pool: there is no pool")
    hint = unknown_hint(fleet)
    if output == "json":
        text = f"{fleet_json(fleet, service.utc_now(), full=full, indent=2).decode()}\n"
    else:
        text = to_terminal(poll_view(fleet), width=width(), colour=is_terminal())
        text += f"{hint}\n" if hint else ""
    put(text)
    if hint and output == "json":
        say(hint)
