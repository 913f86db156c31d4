"""FILE_OR_ID: a saved fleet, as a file, a snapshot or a time of the history, or the live one; files of commands."""

import glob
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from dashboard.analysis.assembly import Fleet
from dashboard.cli.past import past_fleet
from dashboard.cli.targets import no_targets, polled
from dashboard.cli.terminal import WRONG_USAGE, say, wrong, wrong_options
from dashboard.config import Options
from dashboard.config.baselines import load_baselines, merge_baselines
from dashboard.documents.load import MAX_BYTES, read_snapshot
from dashboard.errors import OptionsError, SnapshotError
from dashboard.fleet import Baseline
from dashboard.fleet.pools import Notes
from dashboard.fleet.times import EXAMPLE, is_time
from dashboard.sources.importing.answers import unwrapped
from dashboard.store.metadata import SHORTEST, TYPE_MORE, read_export_metadata
from dashboard.store.opening import configured_snapshots
from dashboard.store.packing import id_of
from dashboard.store.writing import write_whole


def write_file(option: str, file: Path, content: bytes) -> None:
    """Write the file of an option; print the error and exit with 2 where that fails."""
    try:
        write_whole(file, content)
    except OSError as error:
        another = "name another file"
        there = another if file.parent.exists() else f"make the folder {file.parent}, or {another}"
        wrong(f"{option} {file}: {describe_os_error(error, 'name a file in it', there)}")


def describe_os_error(error: OSError, of_folder: str, otherwise: str) -> str:
    """Return why a file cannot be opened, and the action: `of_folder` for a folder."""
    return f"{error.strerror or error}; {of_folder if isinstance(error, IsADirectoryError) else otherwise}"


def given_baselines(files: Iterable[Path]) -> tuple[Baseline, ...]:
    """Read the baselines of these files; exit with 2 where one is wrong."""
    try:
        return load_baselines([("--baseline", glob.escape(str(file))) for file in files], Path.cwd())
    except OptionsError as error:
        wrong_options(error.mistakes)


def all_baselines(own: Iterable[Baseline], given: Iterable[Baseline]) -> tuple[Baseline, ...]:
    """Return both sets of baselines; exit with 2 where two of one pool differ."""
    try:
        return merge_baselines(own, given)
    except OptionsError as error:
        wrong_options(error.mistakes)


STANDARD_INPUT = "-"
LIVE = "live"
SAVED = "a file of `poll --format json --full` or an export"
SnapshotOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE_OR_ID",
        help=(
            f"Use this fleet without polling: {SAVED}, the id of a frozen snapshot, or a time of the history "
            f"({EXAMPLE}). - is standard input."
        ),
    ),
]
# What an option takes besides; empty for the arguments of `diff`.
OTHER_FORMS = {"": ("live",), "--since": ("a period (24h, 7d)",)}
_DIGITS = re.compile(r"[0-9a-fA-F]+")


class NotedFleet(NamedTuple):
    """A fleet, and the name and notes of its snapshot; empty where it was not frozen."""

    fleet: Fleet
    name: str
    notes: Notes


def fleet_of(text: str | None, options: Options, *, option: str = "", history: str | None = None) -> Fleet:
    """Return the fleet that `text` names, with the findings of its time; exit with 2 where there is none.

    `-` is standard input, `live` polls every target now, else a file of `poll --format json --full` or an export, else
    the id of a frozen snapshot, or its first digits, or a time of the history: that of the URL `history`, else of the
    options. `option` is the option of `text`. None polls every target too: for a command that accepts addresses.
    """
    return _opened(text, options, option, history)[0]


def noted_fleet(text: str | None, options: Options, *, option: str = "", history: str | None = None) -> NotedFleet:
    """Return the same with the snapshot's name and notes: those in its file, else those of the folder."""
    fleet, raw = _opened(text, options, option, history)
    export = read_export_metadata(raw)
    if export.name or export.notes or fleet.snapshot is None:
        return NotedFleet(fleet, export.name, export.notes)
    try:
        stored = configured_snapshots(options).get(fleet.snapshot)
    except SnapshotError:
        return NotedFleet(fleet, "", {})
    if stored.problem:
        say(stored.problem)
    return NotedFleet(fleet, stored.metadata.name, stored.notes)


def _opened(text: str | None, options: Options, option: str, history: str | None) -> tuple[Fleet, bytes]:
    """Return the fleet that `text` names, and the bytes of its file; empty without a file."""
    if text is None or text == LIVE:
        return _live(text, options, option), b""
    try:
        raw = _read(text)
    except FileNotFoundError:
        if is_time(text):
            return past_fleet(text, options, history, option=option), b""
        return _frozen(text, options, option), b""
    except OSError as error:
        why = describe_os_error(error, f"name {SAVED}", "name another file")
        wrong(_with_option(text, option, why))
    try:
        content = unwrapped(raw, MAX_BYTES)
        return replace(read_snapshot(content), snapshot=_id(text, content)), raw
    except SnapshotError as error:
        wrong(_with_option(text, option, str(error)))


def _live(text: str | None, options: Options, option: str) -> Fleet:
    fleet, unread_lists = polled(options, takes_addresses=text is None)
    if not fleet.replicas:
        no_targets(
            unread_lists, WRONG_USAGE, "no targets" if text is None else _with_option(text, option, "no targets")
        )
    return fleet


def _read(text: str) -> bytes:
    """Return a file's content, up to one byte more than a snapshot may have."""
    if text == STANDARD_INPUT:
        if sys.stdin is None:
            raise OSError("standard input is closed")
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with Path(text).open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _frozen(text: str, options: Options, option: str) -> Fleet:
    """Open a snapshot of the store by its id or its first digits."""
    store = configured_snapshots(options)
    try:
        if not store.beginning(text) and (problem := store.problem()):
            wrong(_with_option(text, option, f"No such file. {problem}"))
        if not store.beginning(text):
            wrong(_with_option(text, option, f"No such file or directory{_no_snapshot(text, store.folder, option)}"))
        return store.fleet(store.named(text))
    except SnapshotError as error:
        wrong(_with_option(text, option, str(error)))


def _no_snapshot(text: str, folder: Path, option: str) -> str:
    """Return the reason why a missing file is no snapshot either, and the action."""
    if not _DIGITS.fullmatch(text):
        forms = [SAVED, "the id of a frozen snapshot", f"a time ({EXAMPLE})", *OTHER_FORMS.get(option, ())]
        return f"; name {', '.join(forms[:-1])} or {forms[-1]}"
    if len(text) < SHORTEST:
        return f"; if it is a snapshot, {TYPE_MORE}"
    return f", and no snapshot of that id in {folder}; for snapshots of another dashboard use its --config FILE"


def _id(text: str, content: bytes) -> str | None:
    """Return the id of an exported snapshot, in the name of its file and of its content."""
    key = id_of(content)
    return key if Path(text).name.partition(".")[0].endswith(key) else None


def _with_option(text: str, option: str, what: str) -> str:
    return f"{option} {text}: {what}".lstrip()
