"""The targets of a command: its options, its addresses, and one poll with progress."""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.clusters import clusters_of, only_cluster
from dashboard.analysis.parts import only_pool
from dashboard.cli.terminal import UNREAD, fail, no_such_pool, say, wrong, wrong_options
from dashboard.config import EVERY_POLL, NO_TRAFFIC, TRAFFIC_OFF, Options, TargetOptions, load_options
from dashboard.config.address import replica_id
from dashboard.errors import OptionsError
from dashboard.fleet.formatting import one_line, shortlist
from dashboard.fleet.times import LONGEST_TRAFFIC, parse_period
from dashboard.garbage import collect_rarely
from dashboard.sources.discovery import discover_once
from dashboard.sources.http.credentials import key_warnings
from dashboard.views.excluded import list_reasons, no_list_read
from vllm_fleet_provider.shared.redaction import also_redact

TARGETS_HELP = (
    "Addresses to poll instead of those of the options. FLEET_CREDENTIALS__TOKEN_ENV names the environment variable "
    "with their API key."
)
ConfigOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The options file.")]
PrometheusOption = Annotated[
    str | None,
    typer.Option(
        "--prometheus",
        metavar="URL",
        help="Poll the replicas that this Prometheus scrapes, instead of those of the options.",
    ),
]
TrafficOption = Annotated[
    str | None,
    typer.Option(
        metavar="PERIOD",
        help="Poll twice with this time in between (60s, 5m), for the hit rates of that time.",
    ),
]
TargetsArgument = Annotated[list[str] | None, typer.Argument(metavar="[TARGET]...", help=TARGETS_HELP)]


def options_of(
    config: Path | None,
    targets: Iterable[str] | None = None,
    *,
    snapshot: str | None = None,
    prometheus: str | None = None,
    traffic: str | None = None,
) -> Options:
    """Return the options, with these targets instead of their own if given; exit with 2 for mistakes.

    `snapshot`, `prometheus` and `traffic` are the options of these names. The first excludes the others and targets,
    the second targets.
    """
    polling = {"addresses": targets, "--prometheus": prometheus, "--traffic": traffic}
    if snapshot and (others := [name for name, value in polling.items() if value]):
        wrong(f"--snapshot cannot be combined with {others[0]}")
    if prometheus and targets:
        wrong("--prometheus cannot be combined with addresses")
    try:
        options = load_options(config)
    except OptionsError as error:
        wrong_options(error.mistakes)
    also_redact(options.redact.names, options.redact.patterns)
    if prometheus is not None:
        return options.with_prometheus(_address(prometheus, "--prometheus: "))
    given = tuple(map(_target, targets or ()))
    return options.with_targets(given) if given else options


def polled(options: Options, *, takes_addresses: bool = True, traffic: str | None = None) -> Fleet:
    """Poll every target once. Problems go to standard error; `takes_addresses`: whether the command does.

    `traffic` is the value of --traffic: the period between two polls of every target.
    Without targets the failures of their sources, the fleet's `discovery_errors`, are the reason why a command ends.
    """
    period = _traffic_period(traffic, options) if traffic is not None else timedelta()
    collect_rarely()
    found = discover_once(options, EVERY_POLL if period else NO_TRAFFIC)
    for failure in found.failures if found.has_replicas else ():
        say(failure)
    warnings = key_warnings(found.targets)
    if warnings:
        say(warnings)
    if not found.has_replicas and not found.failures:
        how = "name addresses, list them" if takes_addresses else "list addresses"
        empty = shortlist(one_line(each.name) for each in found.sources)
        say(f"No targets: {f'none listed by {empty}' if empty else f'{how} in {options.file}, or use --config FILE'}.")
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("polling", total=len(found.targets))

        def wait() -> None:
            if progress.disable:
                say(f"Polling again in {traffic}.")
            seconds = progress.add_task("seconds until the second poll", total=period.total_seconds())
            ends_at = time.monotonic() + period.total_seconds()
            while (left := ends_at - time.monotonic()) > 0:
                time.sleep(min(left, 1.0))
                progress.update(seconds, advance=1)
            progress.remove_task(seconds)

        fleet = service.poll_once(
            options,
            found,
            warnings,
            lambda done, _total: progress.update(task, completed=done),
            wait if period and found.has_replicas else None,
        )
    for router in fleet.routers:
        if router.failures:
            whys = (each.removeprefix(f"{router.name}: ").rstrip(".") for each in router.failures)
            say(f"Router {router.name}: {'; '.join(dict.fromkeys(whys))}.")
    return fleet


def _traffic_period(text: str, options: Options) -> timedelta:
    if not options.traffic.enabled:  # no counters are to be read: of whoever runs a command neither
        wrong(f"--traffic: {TRAFFIC_OFF}")
    try:
        period = parse_period(text, "60s or 5m")
    except ValueError as error:
        wrong(f"--traffic {text}: {error}")
    if period > LONGEST_TRAFFIC:
        wrong(f"--traffic {text}: longer than a day; write 60s or 5m")
    return period


def no_targets(unread_lists: Sequence[str], otherwise: str = "no targets") -> NoReturn:
    """Exit with 3: no target list could be read, or none has a target."""
    fail(f"exit {UNREAD}: {no_list_read(unread_lists) if unread_lists else otherwise}.", UNREAD)


def select_pool(fleets: Iterable[Fleet], pool: str | None, *, unknown: str) -> list[Fleet]:
    """Return the fleets with one pool only, unchanged for None; exit with 2 if none has it."""
    fleets = list(fleets)
    if pool is None:
        return fleets
    names = {each.name for fleet in fleets for each in fleet.pools}
    if pool not in names:
        no_such_pool(pool, names, unknown=unknown)
    return [only_pool(each, pool) for each in fleets]


ClusterOption = Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster.")]


def select_cluster(fleet: Fleet, cluster: str | None) -> Fleet:
    """Return one cluster of a fleet, all of it for None.

    Where it has none of this name exit with 2, or with 3 where a source could not be read that may have it.
    """
    if cluster is None:
        return fleet
    known = clusters_of(fleet)
    if cluster not in known:
        if fleet.discovery_errors:
            why = list_reasons(fleet.discovery_errors)
            fail(f"exit {UNREAD}: no replica of cluster {cluster!r} was read ({why}).", UNREAD)
        no_such_pool(cluster, known, unknown="--cluster: there is no cluster")
    return only_cluster(fleet, cluster)


def _target(text: str) -> TargetOptions:
    with suppress(OSError):  # a name that no file can have
        if Path(text).is_file():
            wrong(f"{text}: a file, not an address; use --snapshot with check, report and baseline")
    return TargetOptions(url=_address(text))


def _address(text: str, where: str = "") -> str:
    try:
        return replica_id(text)
    except ValueError as error:
        wrong(f"{where}{error}")
