"""FILE_OR_ID: a fleet that was saved, as a file or as a snapshot of the store, or the fleet as it is now."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.documents.load import MAX_BYTES
from dashboard.cli.files import hindered
from dashboard.cli.targets import polled
from dashboard.cli.terminal import say, wrong
from dashboard.config import Options
from dashboard.errors import SnapshotError
from dashboard.fleet.pools import Notes
from dashboard.sources.importing.files import unwrapped
from dashboard.store import Snapshots
from dashboard.store.carrying import carried_by
from dashboard.store.packing import EARLIER_DIGITS, id_of
from dashboard.store.redacting import opened_clean
from dashboard.store.snapshots import SHORTEST, TYPE_MORE

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
    carried = carried_by(raw)
    if carried.name or carried.notes or fleet.snapshot is None:
        return Noted(fleet, carried.name, carried.notes)
    try:
        stored = Snapshots(options.snapshots_folder).get(fleet.snapshot)
    except SnapshotError:
        return Noted(fleet, "", {})
    if stored.problem:
        say(stored.problem)
    return Noted(fleet, stored.beside.name, stored.notes)


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
