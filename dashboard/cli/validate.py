"""The command `validate`: the mistakes in options files and baselines, without a network and without secrets."""

import glob
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dashboard.cli.fleets import STANDARD_INPUT
from dashboard.cli.targets import ConfigOption
from dashboard.cli.terminal import FAILED, fail, put, say, wrong
from dashboard.config import DEFAULT_FILE, FILE_VARIABLE, Options, read_options
from dashboard.config.access import TokensFile
from dashboard.config.baselines import BaselineOptions, read_baseline
from dashboard.config.document import MAX_DOCUMENT_BYTES, LocatedMistake, OptionPath, dotted, read_document, read_file
from dashboard.config.rules import read_entries
from dashboard.errors import OptionsError
from dashboard.fleet.formatting import count, one_line, without_commands

# Names of a file. The dashboard creates that of suppressions; without that of tokens it is a mistake.
NEEDED = re.compile("kubeconfig|(?!suppressions_|tokens_).*_file")


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
                found = _missing(document.value or (), (), each.parent)
                notes += [LocatedMistake(each, document.line(at), f"{dotted(at)}: {note}") for at, note in found]
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
    if str(file) == STANDARD_INPUT:
        return sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
    try:
        return read_file(file, "name a file that can be read")
    except OptionsError as error:
        wrong(str(error))


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


def _missing(part: Any, at: OptionPath, folder: Path) -> Iterator[tuple[OptionPath, str]]:
    """Yield each variable and each file that options name, also wrong ones, and that is not here."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        place = (*at, key)
        if isinstance(value, dict | list) and key != "labels":  # they have any name
            yield from _missing(value, place, folder)
        elif not isinstance(value, str) or "\0" in value:
            continue
        elif str(key).endswith("_env") and value.isidentifier() and not os.environ.get(value):
            yield place, f"the variable {value} is not set here"
        elif at[-1:] == ("files",) and not glob.glob(str(folder / value)):  # noqa: PTH207  as file_sd does
            yield place, f"no file matches {folder / value} here"
        elif NEEDED.fullmatch(str(key)) and not os.path.exists(folder / value):  # noqa: PTH110  .exists fails on long names
            yield place, f"no file {folder / value} here"


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
