"""What the commands share: options, targets, one poll with its progress, sentences on standard error."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dashboard import service
from dashboard.discovery import Discovery, replica_id
from dashboard.errors import OptionsError
from dashboard.options import Options, TargetOptions, load_options
from dashboard.report.table import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dashboard.fleet import Fleet

FAILED = 1
WRONG_USAGE = 2
NARROWEST, WIDEST = 80, 200  # columns; where standard output is no terminal, lines are folded at the widest only

ConfigOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The file with the options.")]
TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TARGET]...", help="Addresses to ask instead of those of the options."),
]


class Polled(NamedTuple):
    """A poll of the command line; `unread_lists` is how many lists of targets could not be read."""

    fleet: Fleet
    unread_lists: int


def options_of(config: Path | None, targets: Iterable[str] | None = None) -> Options:
    """Return the options, with these targets instead of their own if any are given; end with 2 where they are wrong."""
    try:
        options = load_options(config)
    except OptionsError as error:
        for mistake in error.mistakes:
            say(mistake)
        raise typer.Exit(WRONG_USAGE) from None
    given = tuple(map(_target, targets or ()))
    return options.model_copy(update={"targets": given, "file_sd": ()}) if given else options


def polled(options: Options) -> Polled:
    """Ask every target once. What hinders is said on standard error."""
    discovery = Discovery(options)
    targets = discovery.discover()
    for failure in discovery.failures:
        say(failure)
    if not targets:
        say("There is nothing to ask: name addresses, or list them in fleet.yaml.")
    console = Console(stderr=True)
    columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("asking", total=len(targets))
        fleet = service.poll_once(options, targets, lambda done, _total: progress.update(task, completed=done))
    return Polled(fleet, len(discovery.failures))


def is_terminal() -> bool:
    """Tell whether somebody reads standard output in colour."""
    return sys.stdout.isatty()


def width() -> int:
    """Return the number of columns to write."""
    return max(NARROWEST, shutil.get_terminal_size().columns) if is_terminal() else WIDEST


def say(sentence: str) -> None:
    """Print sentences, a line each, on standard error."""
    print("\n".join(plain(line, 1000) for line in sentence.splitlines()), file=sys.stderr, flush=True)


def fail(sentence: str, code: int = FAILED) -> NoReturn:
    """Say why, and end."""
    say(sentence)
    raise typer.Exit(code)


def wrong(sentence: str) -> NoReturn:
    """Say what is wrong with the usage, and end with 2."""
    fail(sentence, WRONG_USAGE)


def _target(text: str) -> TargetOptions:
    try:
        return TargetOptions(url=replica_id(text))
    except ValueError as error:
        wrong(str(error))
