"""The command `plan`: the fix plan of a fleet."""

from typing import Annotated, Literal

import typer

from dashboard import service
from dashboard.analysis.plan import plan_of
from dashboard.cli import targets
from dashboard.cli.fleets import CommandHistory, HistoryOption, SnapshotOption, TokenEnvOption, fleet_of
from dashboard.cli.terminal import is_terminal, no_such_pool, put, width
from dashboard.documents.plan import plan_json
from dashboard.render.markdown import to_markdown
from dashboard.render.terminal import to_terminal
from dashboard.views.plan import plan_view


def plan(
    target: targets.TargetsArgument = None,
    config: targets.ConfigOption = None,
    prometheus: targets.PrometheusOption = None,
    snapshot: SnapshotOption = None,
    history: HistoryOption = None,
    token_env: TokenEnvOption = None,
    pool: Annotated[str | None, typer.Option(help="Only causes with findings in this pool.")] = None,
    cluster: targets.ClusterOption = None,
    output: Annotated[Literal["table", "json", "markdown"], typer.Option("--format", help="Output format.")] = "table",
    traffic: targets.TrafficOption = None,
) -> None:
    """Print what to change so that findings end, and what each change is predicted to do.

    Nothing is changed. Exit code 0 also with findings; 2 for wrong usage or options; 3 without targets, or where no
    target list can be read.
    """
    options = targets.options_of(config, target, snapshot=snapshot, prometheus=prometheus, traffic=traffic)
    past = CommandHistory(options, history, token_env)
    fleet, _ = fleet_of(snapshot, options, history=past, traffic=traffic)
    if not fleet.replicas:
        targets.no_targets(fleet.discovery_errors)
    fleet = targets.select_cluster(fleet, cluster)
    found = plan_of(fleet)
    if pool is not None:
        names = {each.name for each in fleet.pools}
        if pool not in names:
            no_such_pool(pool, names, unknown="--pool: there is no pool")
        found = found.of_pool(pool, fleet.replicas)
    if output == "json":
        put(f"{plan_json(fleet, service.utc_now(), plan=found, indent=2).decode()}\n")
    elif output == "markdown":
        put(to_markdown(plan_view(fleet, found, pool or "")))
    else:
        view = plan_view(fleet, found, pool or "", is_short=True)
        put(to_terminal(view, width=width(), colour=is_terminal()))
