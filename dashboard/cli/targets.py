"""The targets of a command: its options, its addresses, and one poll with progress."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dashboard import service
from dashboard.analysis.assembly import Fleet, only_pool
from dashboard.cli.terminal import fail, no_such_pool, say, wrong, wrong_options
from dashboard.config import Options, TargetOptions, load_options
from dashboard.config.address import replica_id
from dashboard.errors import OptionsError
from dashboard.garbage import collect_rarely
from dashboard.sources.discovery import discover_once
from dashboard.sources.http.credentials import key_warnings
from dashboard.views.excluded import no_list_read
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
TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TARGET]...", help=TARGETS_HELP),
]


def options_of(
    config: Path | None,
    targets: Iterable[str] | None = None,
    *,
    snapshot: str | None = None,
    prometheus: str | None = None,
) -> Options:
    """Return the options, with these targets instead of their own if given; exit with 2 for mistakes.

    `snapshot` and `prometheus` are the options of these names; they exclude each other and targets.
    """
    if snapshot and (targets or prometheus):
        wrong(f"--snapshot cannot be combined with {'addresses' if targets else '--prometheus'}")
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


def polled(options: Options, *, takes_addresses: bool = True) -> Fleet:
    """Poll every target once. Problems go to standard error; `takes_addresses`: whether the command does.

    Without targets the failures of their sources, the fleet's `discovery_errors`, are the reason why a command ends.
    """
    collect_rarely()
    found = discover_once(options)
    for failure in found.failures if found.targets else ():
        say(failure)
    warnings = key_warnings(found.targets)
    if warnings:
        say(warnings)
    if not found.targets and not found.failures:
        how = "name addresses, list them" if takes_addresses else "list addresses"
        say(f"No targets: {how} in {options.file}, or use --config FILE.")
    console = Console(stderr=True)
    columns = (TextColumn("polling"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("polling", total=len(found.targets))
        fleet = service.poll_once(options, found, warnings, lambda done, _total: progress.update(task, completed=done))
    for router in fleet.routers:
        if router.failures:
            whys = (each.removeprefix(f"{router.name}: ").rstrip(".") for each in router.failures)
            say(f"Router {router.name}: {'; '.join(dict.fromkeys(whys))}.")
    return fleet


def no_targets(unread_lists: Sequence[str], code: int, otherwise: str = "no targets") -> NoReturn:
    """Exit with a code where no target list could be read; with 2 and another sentence where none has a target."""
    if unread_lists:
        fail(f"exit {code}: {no_list_read(unread_lists)}.", code)
    wrong(otherwise)


def select_pool(fleets: Iterable[Fleet], pool: str | None, *, unknown: str) -> list[Fleet]:
    """Return the fleets with one pool only, unchanged for None; exit with 2 if none has it."""
    fleets = list(fleets)
    if pool is None:
        return fleets
    names = {each.name for fleet in fleets for each in fleet.pools}
    if pool not in names:
        no_such_pool(pool, names, unknown=unknown)
    return [only_pool(each, pool) for each in fleets]


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
