"""Baselines that are named on the command line, read beside those that the options or a saved fleet have."""

import glob
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.documents.load import MAX_BYTES
from dashboard.cli.targets import polled
from dashboard.cli.terminal import say, wrong, wrong_options
from dashboard.config import Options
from dashboard.config.baselines import load_baselines, with_given
from dashboard.errors import OptionsError, SnapshotError
from dashboard.fleet import Baseline
from dashboard.fleet.pools import Notes
from dashboard.sources.importing.answers import unwrapped
from dashboard.store import Snapshots
from dashboard.store.notes_file import read_export_metadata
from dashboard.store.packing import EARLIER_DIGITS, id_of, opened_clean
from dashboard.store.snapshots import SHORTEST, TYPE_MORE
from dashboard.store.writing import write_whole


def write_file(option: str, file: Path, content: bytes) -> None:
    """Write a file that was named with an option; say why it cannot be written, and end with 2."""
    try:
        write_whole(file, content)
    except OSError as error:
        another = "name another file"
        there = another if file.parent.exists() else f"make the folder {file.parent}, or {another}"
        wrong(f"{option} {file}: {hindered(error, 'name a file in it', there)}")


def hindered(error: OSError, of_folder: str, otherwise: str) -> str:
    """Say why a file cannot be opened, and what to do: `of_folder` where it is a folder."""
    return f"{error.strerror or error}; {of_folder if isinstance(error, IsADirectoryError) else otherwise}"


def given_baselines(files: Iterable[Path]) -> tuple[Baseline, ...]:
    """Read the baselines of these files; end with 2 where one is wrong."""
    try:
        return load_baselines([("--baseline", glob.escape(str(file))) for file in files], Path.cwd())
    except OptionsError as error:
        wrong_options(error.mistakes)


def beside(own: Iterable[Baseline], given: Iterable[Baseline]) -> tuple[Baseline, ...]:
    """Return baselines and those given beside them; end with 2 where two say different things of one pool."""
    try:
        return with_given(own, given)
    except OptionsError as error:
        wrong_options(error.mistakes)


STANDARD_INPUT = "-"
LIVE = "live"
SAVED = "what `poll --format json --full` or an export wrote"
_DIGITS = re.compile(r"[0-9a-fA-F]+")


class Noted(NamedTuple):
    """A fleet, what its snapshot is called, and the notes on it; empty where it was not frozen."""

    fleet: Fleet
    name: str
    notes: Notes


def fleet_of(text: str | None, options: Options, *, option: str = "") -> Fleet:
    """Return the fleet that `text` names, judged as it was when it was saved; end with 2 where there is none.

    `-` is standard input, `live` asks every target now, else a file that `poll --format json --full` or an export of a
    snapshot wrote, else the id of a frozen snapshot, or its first digits. `option` is what `text` was given with. None
    asks every target as well: of a command that takes their addresses, and to which nobody named a fleet.
    """
    return _opened(text, options, option)[0]


def noted_fleet(text: str | None, options: Options, *, option: str = "") -> Noted:
    """Return the same with the name and the notes of its snapshot: those in its file, else those that are kept here."""
    fleet, raw = _opened(text, options, option)
    carried = read_export_metadata(raw)
    if carried.name or carried.notes or fleet.snapshot is None:
        return Noted(fleet, carried.name, carried.notes)
    try:
        stored = Snapshots(options.snapshots_folder).get(fleet.snapshot)
    except SnapshotError:
        return Noted(fleet, "", {})
    if stored.problem:
        say(stored.problem)
    return Noted(fleet, stored.metadata.name, stored.notes)


def _opened(text: str | None, options: Options, option: str) -> tuple[Fleet, bytes]:
    """Return the fleet that `text` names, and its file as it was read; no bytes where it is none."""
    if text is None or text == LIVE:
        return _live(text, options, option), b""
    try:
        raw = _read(text)
    except FileNotFoundError:
        return _frozen(text, options, option), b""
    except OSError as error:
        why = hindered(error, f"name {SAVED}", "name another file")
        wrong(_said(text, option, why))
    try:
        content = unwrapped(raw, MAX_BYTES)
        return replace(opened_clean(content), snapshot=_id(text, content)), raw
    except SnapshotError as error:
        wrong(_said(text, option, str(error)))


def _live(text: str | None, options: Options, option: str) -> Fleet:
    fleet = polled(options, takes_addresses=text is None).fleet
    if not fleet.replicas:
        wrong("there is no target" if text is None else _said(text, option, "there is no target"))
    return fleet


def _read(text: str) -> bytes:
    """Return what a file holds; a byte more than a snapshot may have tells that it is too large."""
    if text == STANDARD_INPUT:
        if sys.stdin is None:
            raise OSError("standard input is closed")
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with Path(text).open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _frozen(text: str, options: Options, option: str) -> Fleet:
    """Open a snapshot of the store by its id or the first digits of it."""
    store = Snapshots(options.snapshots_folder)
    try:
        if not store.beginning(text):
            wrong(_said(text, option, f"No such file or directory{_no_snapshot(text, store.folder)}"))
        return store.fleet(store.named(text))
    except SnapshotError as error:
        wrong(_said(text, option, str(error)))


def _no_snapshot(text: str, folder: Path) -> str:
    """Go on after what is no file: why it is no snapshot either, and what to do."""
    if not _DIGITS.fullmatch(text):
        return f"; name {SAVED}, or the id of a frozen snapshot"
    if len(text) < SHORTEST:
        return f"; if it is a snapshot, {TYPE_MORE}"
    return (
        f", and no snapshot of that id in {folder}; "
        "snapshots of another configuration are found with --config FILE of that dashboard"
    )


def _id(text: str, content: bytes) -> str | None:
    """Return the id of an exported snapshot: its file bears it, and what is in the file has it."""
    key, stem = id_of(content), Path(text).name.partition(".")[0]
    return next((each for each in (key, key[:EARLIER_DIGITS]) if stem.endswith(each)), None)


def _said(text: str, option: str, what: str) -> str:
    return f"{option} {text}: {what}".lstrip()
