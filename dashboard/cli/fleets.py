"""The fleets that commands read: a file, a saved snapshot, a time of the history, or the live one."""

import asyncio
import glob
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer
from pydantic_core import from_json

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.events import EventPeriod, range_between
from dashboard.cli.targets import no_targets, polled
from dashboard.cli.terminal import PROGRAM, WRONG_USAGE, fail, say, token_of, wrong, wrong_options
from dashboard.config import Options
from dashboard.config.baselines import load_baselines, merge_baselines
from dashboard.documents.changes import read_events_json
from dashboard.documents.load import MAX_BYTES, read_snapshot
from dashboard.errors import DashboardError, HistoryError, OptionsError, SnapshotError
from dashboard.fleet import Baseline, FailureKind, Gap, PastTime
from dashboard.fleet.formatting import end_cut, one_line
from dashboard.fleet.times import EXAMPLE, is_time, parse_since, parse_time, write_time
from dashboard.sources.http.client import Client
from dashboard.sources.http.credentials import ApiKey
from dashboard.sources.http.failures import Endpoint
from dashboard.sources.importing import unwrapped
from dashboard.store.opening import PastFleets, configured_history, configured_snapshots
from dashboard.store.packing import SHORTEST, TYPE_MORE, ExportMetadata, id_of, read_export_metadata
from dashboard.store.writing import write_whole
from dashboard.views.context import gap_text


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
            f"Use this fleet without polling: {SAVED}, the id of a saved snapshot, or a time of the history "
            f"({EXAMPLE}). - is standard input."
        ),
    ),
]
# What an option takes besides; empty for the arguments of `diff`.
OTHER_FORMS = {"": ("live",), "--since": ("a period (24h, 7d)",)}
_DIGITS = re.compile(r"[0-9a-fA-F]+")


OF_A_DASHBOARD = ("http://", "https://")
HistoryOption = Annotated[
    str | None,
    typer.Option(
        "--history",
        metavar="URL",
        help="The history to read: a database (sqlite:///history.db, postgresql://host/name) or a dashboard "
        "(http://host:8501) [default: that of the options].",
    ),
]
TokenEnvOption = Annotated[
    str | None,
    typer.Option("--token-env", metavar="NAME", help="The variable with a token of that dashboard."),
]
WRONG_TOKEN = f"Set another one in the variable of --token-env; `{PROGRAM} token new NAME` makes one."
NO_TOKEN = ApiKey(missing="the dashboard needs a token; use --token-env")


def fleet_of(
    text: str | None,
    options: Options,
    *,
    option: str = "--snapshot",
    history: "CommandHistory | None" = None,
    traffic: str | None = None,
) -> tuple[Fleet, bytes]:
    """Return the fleet that `text` names, with the findings of its time, and the bytes of its file, empty without one.

    `-` is standard input, `live` polls every target now, else a file of `poll --format json --full` or an export, else
    the id of a saved snapshot, or its first digits, or a time of the history: that of the URL `history`, else of the
    options. `option` is the option of `text`. None polls every target too: for a command that accepts addresses, and
    with the value of --traffic twice. Exit with 2 where there is no fleet.
    """
    if text is None or text == LIVE:
        return _live(text, options, option, traffic), b""
    try:
        raw = _read(text)
    except FileNotFoundError:
        if is_time(text):
            return past_fleet(time_of(text, option), history or CommandHistory(options)), b""
        return _saved_snapshot(text, options, option), b""
    except OSError as error:
        why = describe_os_error(error, f"name {SAVED}", "name another file")
        wrong(_with_option(text, option, why))
    try:
        content = unwrapped(raw, MAX_BYTES)
        return replace(read_snapshot(content), snapshot=_id(text, content)), raw
    except SnapshotError as error:
        wrong(_with_option(text, option, str(error)))


def notes_of(fleet: Fleet, raw: bytes, options: Options) -> ExportMetadata:
    """Return name and notes of what `fleet_of` returns: those in its file, else those of the saved snapshot."""
    export = read_export_metadata(raw)
    if export.name or export.notes or fleet.snapshot is None:
        return export
    try:
        stored = configured_snapshots(options).get(fleet.snapshot)
    except SnapshotError:
        return export
    if stored.problem:
        say(stored.problem)
    return ExportMetadata(name=stored.metadata.name, notes=stored.metadata.notes)


def _live(text: str | None, options: Options, option: str, traffic: str | None) -> Fleet:
    fleet = polled(options, takes_addresses=text is None, traffic=traffic)
    if not fleet.replicas:
        why = "no targets" if text is None else _with_option(text, option, "no targets")
        no_targets(fleet.discovery_errors, why)
    return fleet


def _read(text: str) -> bytes:
    """Return a file's content, up to one byte more than a snapshot may have."""
    if text == STANDARD_INPUT:
        if sys.stdin is None:
            raise OSError("standard input is closed")
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with Path(text).open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _saved_snapshot(text: str, options: Options, option: str) -> Fleet:
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
        forms = [SAVED, "the id of a saved snapshot", f"a time ({EXAMPLE})", *OTHER_FORMS.get(option, ())]
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


SECONDS = 60.0  # the longest wait for an answer: a full fleet of 1,000 replicas takes some
MOST_HEADERS = 100


class CommandHistory:
    """The history of a URL, else of the options. Every error is a HistoryError."""

    def __init__(
        self, options: Options, url: str | None = None, token_env: str | None = None, option: str = "--history"
    ) -> None:
        """Open nothing yet. `url` is the value of `option`: a database or a dashboard, with the token of --token-env.

        Exit with 2 for a token that is missing or has no use.
        """
        self.is_given = bool(url)
        self._is_api = url is not None and url.startswith(OF_A_DASHBOARD)
        if token_env is not None and not self._is_api:
            wrong(f"--token-env needs {option} with the URL of a dashboard, such as http://host:8501")
        self._url = (url or "").rstrip("/")
        self._key = ApiKey(token_of(token_env)) if token_env is not None else NO_TOKEN
        self._past = PastFleets(partial(configured_history, options, url or None), most=1)

    def at(self, time: datetime | None) -> tuple[Fleet, int]:
        """Return the fleet as last polled at a time, None for the newest poll, and the rule set of its recording."""
        if time is not None and time > service.utc_now():
            raise HistoryError(f"{write_time(time)} is in the future.")
        if self._is_api:
            return self._asked(time)
        when = time or service.utc_now()
        return self._past.at(when), self._past.reader().rule_set_at(when)

    def between(self, since: datetime | None, until: datetime, name: str) -> EventPeriod | None:
        """Return what happened to a fleet of this name; None where the history is that of another one.

        `since` None: in the last 24 hours, or since the first poll.
        """
        if self._is_api:
            times = {"since": since, "until": until}
            raw = asyncio.run(self._get("events", {name: write_time(each) for name, each in times.items() if each}))
            with self._reading():
                of, happened = read_events_json(raw)
            return happened if of == name else None
        if self._past.at(until).name != name:
            return None
        reader = self._past.reader()
        since = since or reader.day_until(until)
        return EventPeriod(reader.events(since, until), since, until)

    def _asked(self, time: datetime | None) -> tuple[Fleet, int]:
        choices = {"at": write_time(time)} if time else {}
        raw = asyncio.run(self._get("fleet", {**choices, "full": "true"}))
        with self._reading():
            fleet, written = read_snapshot(raw), from_json(raw)
            if time is not None:
                past = from_json(asyncio.run(self._get("findings", choices))).get("past") or {}
                fleet = replace(fleet, past=PastTime(time, _gap(past.get("gap"))))
        return fleet, written["rule_set"]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise HistoryError for an answer that is none of a dashboard."""
        try:
            yield
        except (DashboardError, ValueError) as error:
            raise HistoryError(f"{self._url} is no dashboard of this version: {error}") from None

    async def _get(self, document: str, choices: dict[str, str]) -> bytes:
        scheme, _, rest = self._url.partition("://")
        server, slash, path = rest.partition("/")
        endpoint = Endpoint(
            f"{scheme}://{server}", f"{slash}{path}/api/v1/{document}", f"?{urlencode(choices)}", is_replica=False
        )
        async with Client(connections=1, max_answer_bytes=MAX_BYTES, max_headers=MOST_HEADERS) as client:
            answer = await client.fetch(endpoint, SECONDS, limit=MAX_BYTES, key=self._key)
        if answer.failure is not None:
            why = _detail(answer.body) or answer.failure.detail
            if answer.failure.kind is FailureKind.UNAUTHORIZED:
                why = f"{self._url}: {why} {WRONG_TOKEN if self._key.token else 'Use --token-env.'}"
            raise HistoryError(why)
        return answer.body


def _detail(body: bytes) -> str:
    """Return the sentence of an error of the API; empty where there is none."""
    try:
        detail = from_json(body)["detail"]
    except (ValueError, KeyError, TypeError):
        return ""
    return end_cut(one_line(str(detail)))


def _gap(written: dict[str, str | None] | None) -> Gap | None:
    ends = [parse_time(each) if each else None for each in (written or {}).values()]
    return Gap(ends[0], ends[1]) if ends and ends[0] else None


def check_is_of(past: Fleet, fleet: Fleet) -> None:
    """Exit with 2 where the history that `past` is of is that of another fleet."""
    if past.name != fleet.name:
        fail(
            f"exit {WRONG_USAGE}: The history is that of {past.name}, not of {fleet.name}; correct name or FLEET_NAME.",
            WRONG_USAGE,
        )


def past_fleet(time: datetime | None, history: CommandHistory) -> Fleet:
    """Return the fleet of a time, None for the newest poll; exit with 2 where the history does not cover it."""
    fleet, _ = recorded_at(history, time)
    if fleet.past and fleet.past.gap:
        say(gap_text(fleet.past.gap))
    return fleet if time else replace(fleet, past=None)


def happened_between(before: Fleet, after: Fleet, history: CommandHistory) -> EventPeriod | None:
    """Return what happened between two fleets; None where none of them is of the history, or it has no list."""
    times = range_between(before, after)
    if times is None or not (history.is_given or before.past or after.past):
        return None
    try:
        return history.between(*times, after.name)
    except HistoryError as error:
        say(str(error))
        return None


def recorded_at(history: CommandHistory, time: datetime | None) -> tuple[Fleet, int]:
    """Return the fleet of a time, None for the newest, and the rule set of its recording.

    Exit with 2 where the history does not cover the time.
    """
    try:
        return history.at(time)
    except HistoryError as error:
        fail(f"exit {WRONG_USAGE}: {error}", WRONG_USAGE)


def time_of(text: str, option: str, now: datetime | None = None) -> datetime:
    """Return a written time, without a zone as UTC; with `now` also that of `24h` before it. Exit with 2 for others."""
    try:
        return parse_since(text, now) if now else parse_time(text)
    except ValueError as error:
        wrong(_with_option(text, option, str(error)))
