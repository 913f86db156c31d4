"""The command `validate`: the mistakes in options files and baselines, without a network and without secrets."""

import glob
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dashboard.cli.fleets import STANDARD_INPUT, describe_os_error
from dashboard.cli.targets import ConfigOption
from dashboard.cli.terminal import FAILED, fail, put, say, wrong
from dashboard.config import DEFAULT_FILE, FILE_VARIABLE, Options, read_options
from dashboard.config import document as yaml_document
from dashboard.config.access import TokensFile
from dashboard.config.baselines import BaselineOptions, read_baseline
from dashboard.config.document import LocatedMistake, OptionPath, YamlDocument, dotted, read_document, read_file
from dashboard.config.rules import read_entries
from dashboard.errors import OptionsError
from dashboard.fleet.formatting import count, one_line, without_commands

NOT_NOTED = ("suppressions_file", "tokens_file")  # the dashboard creates the first, without the second it is a mistake


def validate(
    file: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Files with options, baselines or tokens; - is standard input [default: that of the options].",
        ),
    ] = None,
    config: ConfigOption = None,
    output: Annotated[Literal["text", "github"], typer.Option("--format", help="Output format.")] = "text",
) -> None:
    """Print the mistakes in fleet.yaml and in the files that it names, each with its line and column.

    Nothing is contacted, and no secret is needed: a variable or a file with a secret that is missing here is a note.
    The files of baselines and access.tokens_file are needed. Variables that override options (FLEET_*) are not read.

    Exit code 2 for wrong usage or a file that cannot be read, else 1 for a mistake, else 0.
    """
    files = [*(file or ()), *([config] if config else ())] or [Path(os.environ.get(FILE_VARIABLE) or DEFAULT_FILE)]
    mistakes: list[str] = []
    notes: list[str] = []
    for each, raw in [(each, _read(each)) for each in files]:
        document = read_document(raw)
        try:
            if _has_options(document.value, raw, each):
                notes += _missing(document, document.value or {}, (), each)
                read_options(raw, each)
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
            return sys.stdin.buffer.read(yaml_document.MAX_DOCUMENT_BYTES + 1)
        return read_file(file)
    except OSError as error:
        wrong(f"{file}: {describe_os_error(error, 'name a file in it', 'name a file that can be read')}")


def _has_options(value: object, raw: bytes, file: Path) -> bool:
    """Return whether a file has options; raise OptionsError with the mistakes in baselines and tokens."""
    keys = value.keys() if isinstance(value, dict) else set()
    if len(keys & BaselineOptions.model_fields.keys()) > len(keys & Options.model_fields.keys()):
        _, wrong_lines = read_baseline(raw, file.name)
        if wrong_lines:
            raise OptionsError(*(LocatedMistake(file, *each) for each in wrong_lines))
        return False
    if keys == TokensFile.model_fields.keys():
        read_entries(raw, file, TokensFile, "tokens")
        return False
    return True


def _missing(document: YamlDocument, part: Any, at: OptionPath, file: Path) -> Iterator[LocatedMistake]:
    """Yield a note for each variable and each file that options name, also wrong ones, and that is not here."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        place, note = (*at, key), ""
        if isinstance(value, dict | list) and key != "labels":  # they have any name
            yield from _missing(document, value, place, file)
        elif not isinstance(value, str) or "\0" in value:
            continue
        elif str(key).endswith("_env") and value.isidentifier() and not os.environ.get(value):
            note = f"the variable {value} is not set here"
        elif at[-1:] == ("files",) and not glob.glob(str(file.parent / value)):  # noqa: PTH207  as file_sd does
            note = f"no file matches {file.parent / value} here"
        elif key == "kubeconfig" or (str(key).endswith("_file") and key not in NOT_NOTED):
            is_here = os.path.exists(file.parent / value)  # noqa: PTH110  Path.exists fails on a long name
            note = "" if is_here else f"no file {file.parent / value} here"
        if note:
            yield LocatedMistake(file, document.line(place), f"{dotted(place)}: {note}")


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
