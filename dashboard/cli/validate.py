"""The command `validate`: the mistakes in options files and baselines, without a network and without secrets."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel

from dashboard.cli.fleets import STANDARD_INPUT, describe_os_error
from dashboard.cli.terminal import FAILED, fail, put, say, wrong
from dashboard.config import DEFAULT_FILE, FILE_VARIABLE, Options, read_options
from dashboard.config.access import TokensFile
from dashboard.config.baselines import BaselineOptions, read_baseline
from dashboard.config.document import MAX_DOCUMENT_BYTES, LocatedMistake, OptionPath, dotted, read_document
from dashboard.config.rules import read_entries
from dashboard.errors import OptionsError
from dashboard.fleet.formatting import count, one_line, without_commands

MAY_BE_MISSING = ("data_folder", "suppressions_file")  # the dashboard creates them


def validate(
    file: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Files with options, baselines or tokens; - is standard input [default: that of the options].",
        ),
    ] = None,
    output: Annotated[Literal["text", "github"], typer.Option("--format", help="Output format.")] = "text",
) -> None:
    """Print the mistakes in fleet.yaml and in the files that it names, each with its line and column.

    Nothing is contacted, and no secret is needed: a variable or a file with a secret that is missing here is a note.
    The files of baselines and access.tokens_file are needed. Variables that override options (FLEET_*) are not read.

    Exit code 2 for wrong usage or a file that cannot be read, else 1 for a mistake, else 0.
    """
    files = file or [Path(os.environ.get(FILE_VARIABLE) or DEFAULT_FILE)]
    contents = [(each, _read(each)) for each in files]
    mistakes: list[str] = []
    notes: list[str] = []
    for each, raw in contents:
        try:
            notes += _notes_on(raw, each)
        except OptionsError as error:
            mistakes += error.mistakes
    mistakes = list(dict.fromkeys(mistakes))  # a file may be named, and in another one
    put("".join(f"{_written(each, 'error', output)}\n" for each in mistakes))
    put("".join(f"{_written(each, 'notice', output)}\n" for each in notes))
    if mistakes:
        fail(f"exit {FAILED}: {count(len(mistakes), 'mistake')}.")
    say(f"exit 0: {count(len(files), 'file')} without mistakes.")


def _read(file: Path) -> bytes:
    if str(file) == STANDARD_INPUT and sys.stdin is None:
        wrong(f"{file}: standard input is closed; name another file")
    try:
        if str(file) == STANDARD_INPUT:
            return sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
        with file.open("rb") as stream:
            return stream.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        wrong(f"{file}: {describe_os_error(error, 'name a file in it', 'name a file that can be read')}")


def _notes_on(raw: bytes, file: Path) -> Iterator[str]:
    """Return what the options in a file need and this machine lacks; raise OptionsError with the mistakes."""
    value = read_document(raw).value
    keys = value.keys() if isinstance(value, dict) else set()
    if len(keys & BaselineOptions.model_fields.keys()) > len(keys & Options.model_fields.keys()):
        _, wrong_lines = read_baseline(raw, file.name)
        if wrong_lines:
            raise OptionsError(*(LocatedMistake(file, *each) for each in wrong_lines))
        return iter(())
    if keys == TokensFile.model_fields.keys():
        read_entries(raw, file, TokensFile, "tokens")
        return iter(())
    options, document = read_options(raw, file)
    return (
        LocatedMistake(file, document.line(place), f"{dotted(place)}: {text}") for place, text in _missing(options, ())
    )


def _missing(part: BaseModel, at: OptionPath) -> Iterator[tuple[OptionPath, str]]:
    """Yield each variable and each file that options name and that is not here."""
    for name, value in part:
        place = (*at, name)
        if isinstance(value, tuple):
            for number, each in enumerate(value):
                if isinstance(each, BaseModel):
                    yield from _missing(each, (*place, number))
        elif isinstance(value, BaseModel):
            yield from _missing(value, place)
        elif name.endswith("_env") and value and not os.environ.get(value):
            yield place, f"the variable {value} is not set here"
        elif isinstance(value, Path) and name not in MAY_BE_MISSING and not value.exists():
            yield place, f"no file {value} here"


def _written(mistake: str, level: Literal["error", "notice"], output: str) -> str:
    """Return a mistake or note in the format of the output."""
    place = {}
    text = mistake
    if isinstance(mistake, LocatedMistake):
        place = {"file": mistake.file, "line": str(int(mistake.line)), "col": str(mistake.line.column)}
        text = mistake.sentence
    if output == "github":
        from dashboard.render.github_annotations import command  # imports what other commands do not need

        return command(level, "options", text, place)
    note = "note: " if level == "notice" else ""
    return without_commands(one_line(":".join([*place.values(), f" {note}{text}"])).lstrip())
