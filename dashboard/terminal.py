"""What the commands share: options, targets, one poll with its progress, sentences on standard error."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

from dashboard import service
from dashboard.collect.credentials import exposed_keys
from dashboard.discovery import Discovery, replica_id
from dashboard.errors import OptionsError
from dashboard.options import Options, TargetOptions, load_options
from dashboard.options.mistakes import worded
from dashboard.redaction import also_redact
from dashboard.report.plain import plain
from dashboard.text import without_commands
from dashboard.wording import count, uncapitalized

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dashboard.fleet import Fleet

FAILED = 1
WRONG_USAGE = 2
PROGRAM = "python -m dashboard"
NARROWEST, WIDEST = 80, 200  # columns; where standard output is no terminal, lines are folded at the widest only

TARGETS_HELP = (
    "Addresses to ask instead of those of the options. FLEET_CREDENTIALS__TOKEN_ENV names the environment variable "
    "that holds their API key."
)
BESIDE_ADDRESSES = "--snapshot: the file says what was asked; name no addresses beside it"
ConfigOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The file with the options.")]
TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TARGET]...", help=TARGETS_HELP),
]


class Polled(NamedTuple):
    """A poll of the command line; `unread_lists` says of each list of targets that could not be read why."""

    fleet: Fleet
    unread_lists: tuple[str, ...] = ()


class Commands(TyperGroup):
    """The commands. Wrong usage of any of them ends with 2 and one sentence that says what is wrong."""

    def make_context(self, *given: Any, **more: Any) -> Any:
        """Read what stands before the command."""
        with _in_our_words():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        """Read what stands after the command, and run it."""
        with _in_our_words():
            return super().invoke(ctx)


def options_of(config: Path | None, targets: Iterable[str] | None = None) -> Options:
    """Return the options, with these targets instead of their own if any are given; end with 2 where they are wrong."""
    try:
        options = load_options(config)
    except OptionsError as error:
        wrong_options(error.mistakes)
    also_redact(options.redact.names, options.redact.patterns)
    given = tuple(map(_target, targets or ()))
    return options.model_copy(update={"targets": given, "file_sd": ()}) if given else options


def polled(options: Options, *, takes_addresses: bool = True) -> Polled:
    """Ask every target once. What hinders is said on standard error; `takes_addresses` as the command does."""
    discovery = Discovery(options)
    targets = discovery.discover()
    for failure in discovery.failures:
        say(failure)
    if exposed := exposed_keys(targets):
        say(exposed)
    if not targets:
        say(f"There is nothing to ask: {_how(options.file, takes_addresses=takes_addresses)}.")
    console = Console(stderr=True)
    columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("asking", total=len(targets))
        fleet = service.poll_once(
            options, targets, lambda done, _total: progress.update(task, completed=done), discovery.failures
        )
    return Polled(fleet, discovery.failures)


def is_terminal() -> bool:
    """Tell whether somebody reads standard output in colour."""
    return sys.stdout is not None and sys.stdout.isatty()


def width() -> int:
    """Return the number of columns to write: the terminal's, or those that COLUMNS asks for."""
    asked = is_terminal() or "COLUMNS" in os.environ
    return max(NARROWEST, shutil.get_terminal_size().columns) if asked else WIDEST


def put(content: str | bytes) -> None:
    """Write a result to standard output, text in UTF-8 whatever the terminal's encoding: JSON and XML are read as that.

    Where it cannot be written, end with 2; where nobody reads on, typer ends without a word.
    """
    raw = content.encode(errors="replace") if isinstance(content, str) else content
    try:
        typer.echo(raw, nl=False)
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python tries once more when it ends
        fail(f"exit {WRONG_USAGE}: standard output cannot be written: {error.strerror}; write elsewhere.", WRONG_USAGE)


def say(sentence: str) -> None:
    """Print sentences, a line each, on standard error."""
    lines = "\n".join(plain(line, 1000) for line in sentence.splitlines())
    print(without_commands(lines), file=sys.stderr, flush=True)


def fail(sentence: str, code: int = FAILED) -> NoReturn:
    """Say why, and end."""
    say(sentence)
    raise typer.Exit(code)


def wrong(sentence: str) -> NoReturn:
    """Say what is wrong with the usage, and end with 2."""
    fail(f"exit {WRONG_USAGE}: wrong usage: {_ended(sentence)}", WRONG_USAGE)


def wrong_options(mistakes: Sequence[str]) -> NoReturn:
    """Say every mistake on a line, and end with 2: the last line is the mistake, or how many there are."""
    if len(mistakes) == 1:
        fail(f"exit {WRONG_USAGE}: wrong options: {_ended(mistakes[0])}", WRONG_USAGE)
    for mistake in mistakes:
        say(mistake)
    told = f"{count(len(mistakes), 'mistake')}, told on the lines before this one"
    fail(f"exit {WRONG_USAGE}: wrong options: {told}.", WRONG_USAGE)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


@contextmanager
def _in_our_words() -> Iterator[None]:
    """Say what typer finds wrong with the usage as everything else is said."""
    try:
        yield
    except typer.TyperException as error:
        context: typer.Context | None = getattr(error, "ctx", None)
        command = context.command_path if context else PROGRAM
        wrong(f"{_ended(_found(error))} `{command} --help` tells what there is")


def _found(error: typer.TyperException) -> str:
    """Return what typer found; what pydantic found for it in the words of the options' mistakes."""
    cause = error.__cause__
    if isinstance(error, typer.BadParameter) and isinstance(cause, ValidationError) and error.param is not None:
        default = error.param.default
        return f"{'/'.join(error.param.opts)}: {worded(cause.errors()[0], lambda: default)}"
    message = error.format_message()
    return uncapitalized(message)


def _how(file: str, *, takes_addresses: bool) -> str:
    """Say how a command learns its targets."""
    listed = (
        f"list {'them' if takes_addresses else 'addresses'} in {file}, or name the file that has them with --config"
    )
    return f"name addresses, {listed}" if takes_addresses else listed


def _target(text: str) -> TargetOptions:
    with suppress(OSError):  # a name that no file can have
        if Path(text).is_file():
            wrong(f"{text}: a file, and no address; check, report and baseline read it after --snapshot")
    try:
        return TargetOptions(url=replica_id(text))
    except ValueError as error:
        wrong(str(error))
