"""Shared by the commands: standard output and error, exit codes, files, errors."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from dashboard.fleet.formatting import MOST, count, end_cut, natural, shortlist, uncapitalized, without_commands

FAILED = 1
WRONG_USAGE = 2
UNREAD = 3  # as of `check`: too little was read
PROGRAM = "python -m dashboard"
# For each app of typer: plain help, no completion, no tracebacks of typer's own.
APP: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
NARROWEST, WIDEST = 80, 200  # columns; without a terminal lines fold at the widest


def is_terminal() -> bool:
    """Return whether standard output is a terminal, with colour."""
    return sys.stdout is not None and sys.stdout.isatty()


def width() -> int:
    """Return the number of columns: the terminal's, or that of COLUMNS."""
    asked = is_terminal() or "COLUMNS" in os.environ
    return max(NARROWEST, shutil.get_terminal_size().columns) if asked else WIDEST


def put(content: str | bytes) -> None:
    """Write a result to standard output, always in UTF-8, the encoding of JSON and XML.

    Exit with 2 where that fails; silently for a closed pipe.
    """
    raw = content.encode(errors="replace") if isinstance(content, str) else content
    try:
        typer.echo(raw, nl=False)
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python tries again at its exit
        fail(f"exit {WRONG_USAGE}: standard output cannot be written: {error.strerror}; write elsewhere.", WRONG_USAGE)


def say(sentence: str) -> None:
    """Print sentences, a line each, on standard error."""
    lines = "\n".join(end_cut(line, 1000) for line in sentence.splitlines())
    print(without_commands(lines), file=sys.stderr, flush=True)


def fail(sentence: str, code: int = FAILED) -> NoReturn:
    say(sentence)
    raise typer.Exit(code)


def wrong(sentence: str) -> NoReturn:
    """Print what is wrong with the usage, and exit with 2."""
    fail(f"exit {WRONG_USAGE}: wrong usage: {_ended(sentence)}", WRONG_USAGE)


def wrong_options(mistakes: Sequence[str]) -> NoReturn:
    """Print one mistake per line, and exit with 2: the last line is the mistake, or their number."""
    if len(mistakes) == 1:
        fail(f"exit {WRONG_USAGE}: wrong options: {_ended(mistakes[0])}", WRONG_USAGE)
    for mistake in mistakes:
        say(mistake)
    fail(f"exit {WRONG_USAGE}: wrong options: {count(len(mistakes), 'mistake')}, see above.", WRONG_USAGE)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


@contextmanager
def usage_errors() -> Iterator[None]:
    """Print typer's usage errors like our own."""
    try:
        yield
    except typer.TyperException as error:
        context: typer.Context | None = getattr(error, "ctx", None)
        command = context.command_path if context else PROGRAM
        wrong(f"{_ended(_found(error))} See `{command} --help`")


def _found(error: typer.TyperException) -> str:
    """Return typer's error; pydantic's in the words of the options' mistakes."""
    cause = error.__cause__
    if isinstance(error, typer.BadParameter) and error.param is not None and cause is not None:
        from pydantic import ValidationError

        from dashboard.config.document import worded

        if isinstance(cause, ValidationError):
            default = error.param.default
            return f"{'/'.join(error.param.opts)}: {worded(cause.errors()[0], lambda: default)}"
    message = error.format_message()
    return uncapitalized(message)


def token_of(variable: str) -> str:
    """Return the token of `--token-env`; exit with 2 where the variable has none."""
    from dashboard.sources.http.credentials import check_key

    key = check_key(os.environ.get(variable, ""), f"the variable {variable}")
    if key.token is None:
        wrong(f"--token-env: {key.missing}")
    return key.token


def no_such_pool(name: str, pools: Iterable[str], *, unknown: str = "there is no pool") -> NoReturn:
    """Print the known pools, and exit with 2. `unknown` precedes the unknown name."""
    known = [repr(each) for each in sorted(set(pools), key=natural)]
    wrong(f"{unknown} {name!r}; there are: {shortlist(known, MOST) or 'none'}")
