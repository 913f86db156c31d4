"""The command `poll`: the fleet as a table or as JSON."""

from typing import Annotated, Literal

import typer

from dashboard import service
from dashboard.cli.targets import (
    ConfigOption,
    PrometheusOption,
    TargetsArgument,
    TrafficOption,
    no_targets,
    options_of,
    polled,
    select_pool,
)
from dashboard.cli.terminal import UNREAD, is_terminal, put, say, width
from dashboard.documents.fleet import fleet_json
from dashboard.render.terminal import to_terminal
from dashboard.views.command_line import poll_view
from dashboard.views.excluded import unknown_hint


def poll(
    target: TargetsArgument = None,
    config: ConfigOption = None,
    prometheus: PrometheusOption = None,
    pool: Annotated[str | None, typer.Option(help="Print only this pool.")] = None,
    output: Annotated[Literal["table", "json"], typer.Option("--format", help="Output format.")] = "table",
    traffic: TrafficOption = None,
    *,
    full: Annotated[
        bool, typer.Option("--full", help="With json: every setting, and each replica's identity and probes.")
    ] = False,
) -> None:
    """Poll every replica once and print the fleet.

    Exit code 0 also with unreachable replicas, which the output lists; 2 for wrong usage or options, or no targets;
    3 where no target list can be read.
    """
    whole = polled(options_of(config, target, prometheus=prometheus), traffic=traffic)
    if not whole.replicas:
        no_targets(whole.discovery_errors, UNREAD)
    (fleet,) = select_pool([whole], pool, unknown="--pool: there is no pool")
    hint = unknown_hint(fleet)
    if output == "json":
        text = f"{fleet_json(fleet, service.utc_now(), full=full, indent=2).decode()}\n"
    else:
        text = to_terminal(poll_view(fleet), width=width(), colour=is_terminal())
        text += f"{hint}\n" if hint else ""
    put(text)
    if hint and output == "json":
        say(hint)
