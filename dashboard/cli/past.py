"""The history that a command reads: a database, or the API of a dashboard; and the times that its options name."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

import typer
from pydantic_core import from_json

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.events import EventPeriod, range_between
from dashboard.cli.terminal import WRONG_USAGE, fail, say, wrong
from dashboard.config import Options
from dashboard.documents.events import read_events_json
from dashboard.documents.load import MAX_BYTES, read_snapshot
from dashboard.errors import DashboardError, HistoryError
from dashboard.fleet import Gap, PastTime
from dashboard.fleet.formatting import end_cut, one_line
from dashboard.fleet.times import parse_since, parse_time, write_time
from dashboard.sources.http.client import Client
from dashboard.sources.http.credentials import ApiKey
from dashboard.sources.http.failures import Endpoint
from dashboard.store.history.past import PastFleets
from dashboard.store.opening import configured_history
from dashboard.views.context import gap_text

SECONDS = 60.0  # the longest wait for an answer: a full fleet of 1,000 replicas takes some
MOST_HEADERS = 100
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


class EvaluatedFleet(NamedTuple):
    """A fleet of the history, and the rule set that evaluated it when it was recorded."""

    fleet: Fleet
    rule_set: int


class CommandHistory:
    """The history of `--history`, else of the options. Every error is a HistoryError."""

    def __init__(self, options: Options, url: str | None) -> None:
        """Open nothing yet."""
        self._is_api = url is not None and url.startswith(OF_A_DASHBOARD)
        self._url = (url or "").rstrip("/")
        self._past = PastFleets(partial(configured_history, options, url), most=1)

    def at(self, time: datetime | None) -> EvaluatedFleet:
        """Return the fleet as it was last polled at a time, None for the newest poll."""
        if time is not None and time > service.utc_now():
            raise HistoryError(f"{write_time(time)} is in the future.")
        if self._is_api:
            return self._asked(time)
        when = time or service.utc_now()
        return EvaluatedFleet(self._past.at(when), self._past.reader().rule_set_at(when))

    def between(self, since: datetime, until: datetime, name: str) -> EventPeriod | None:
        """Return what happened to a fleet of this name; None where the history is that of another one."""
        if self._is_api:
            raw = asyncio.run(self._get("events", {"since": write_time(since), "until": write_time(until)}))
            with self._reading():
                of, happened = read_events_json(raw)
            return happened if of == name else None
        if self._past.at(until).name != name:
            return None
        return EventPeriod(self._past.reader().events(since, until), since, until)

    def _asked(self, time: datetime | None) -> EvaluatedFleet:
        choices = {"at": write_time(time)} if time else {}
        raw = asyncio.run(self._get("fleet", {**choices, "full": "true"}))
        with self._reading():
            fleet, written = read_snapshot(raw), from_json(raw)
            if time is not None:
                past = from_json(asyncio.run(self._get("findings", choices))).get("past") or {}
                fleet = replace(fleet, past=PastTime(time, _gap(past.get("gap"))))
        return EvaluatedFleet(fleet, written["rule_set"])

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
            answer = await client.fetch(
                endpoint, SECONDS, limit=MAX_BYTES, key=ApiKey(missing="the dashboard wants one")
            )
        if answer.failure is not None:
            raise HistoryError(_detail(answer.body) or answer.failure.detail)
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


def past_fleet(text: str, options: Options, history: str | None, *, option: str = "") -> Fleet:
    """Return the fleet of a written time; exit with 2 where it is none, or the history does not cover it."""
    fleet = recorded_at(CommandHistory(options, history), time_of(text, option)).fleet
    if fleet.past and fleet.past.gap:
        say(gap_text(fleet.past.gap))
    return fleet


def newest_fleet(options: Options, history: str | None) -> Fleet:
    """Return the newest fleet of the history; exit with 2 where there is none."""
    fleet = recorded_at(CommandHistory(options, history), None).fleet
    if fleet.past and fleet.past.gap:
        say(gap_text(fleet.past.gap))
    return replace(fleet, past=None)


def happened_between(before: Fleet, after: Fleet, options: Options, history: str | None) -> EventPeriod | None:
    """Return what happened between two fleets; None where none of them is of the history, or it has no list."""
    times = range_between(before, after)
    if times is None or (history is None and before.past is None and after.past is None):
        return None
    try:
        return CommandHistory(options, history).between(*times, after.name)
    except HistoryError as error:
        say(str(error))
        return None


def recorded_at(history: CommandHistory, time: datetime | None) -> EvaluatedFleet:
    """Return the fleet of a time, None for the newest; exit with 2 where the history does not cover it."""
    try:
        return history.at(time)
    except HistoryError as error:
        fail(f"exit {WRONG_USAGE}: {error}", WRONG_USAGE)


def time_of(text: str, option: str = "") -> datetime:
    """Return a written time, without a zone as UTC; exit with 2 for another text."""
    try:
        return parse_time(text)
    except ValueError as error:
        wrong(f"{option} {text}: {error}".lstrip())


def since_of(text: str, now: datetime, option: str) -> datetime:
    """Return the time that `24h` before `now`, or a written time, is; exit with 2 for another text."""
    try:
        return parse_since(text, now)
    except ValueError as error:
        wrong(f"{option} {text}: {error}")
