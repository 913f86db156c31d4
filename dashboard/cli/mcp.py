"""The command `mcp`: tools for agents over standard input and output."""

import asyncio
from datetime import datetime
from importlib.util import find_spec
from threading import Lock
from typing import Annotated

import typer

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.events import EventPeriod
from dashboard.analysis.plan import planned
from dashboard.cli.fleets import OF_A_DASHBOARD, CommandHistory, TokenEnvOption
from dashboard.cli.targets import ConfigOption, options_of, polled
from dashboard.cli.terminal import say, wrong
from dashboard.config import Options
from dashboard.errors import DashboardError, HistoryError, OptionsError
from dashboard.mcp import LACKS_SDK
from dashboard.views.excluded import no_list_read


class CommandFleets:
    """The fleet of a dashboard, or of the options, read when it is asked for and older than the interval of polls.

    Nothing is recorded and nobody is notified.
    """

    def __init__(self, options: Options, history: CommandHistory) -> None:
        """Read nothing yet. `history` is that of a dashboard, or of the options: then their replicas are polled."""
        self._options = options
        self._is_polled = not history.is_given
        self._history = history
        self._reading = Lock()
        self._fleet: Fleet | None = None
        self._read_at = service.utc_now()

    def current(self) -> Fleet:
        with self._reading:
            age = (service.utc_now() - self._read_at).total_seconds()
            if self._fleet is None or age >= self._options.poll.interval_seconds:
                try:
                    self._fleet = planned(self._read())
                except DashboardError as error:  # the agent may not show it to its user
                    say(str(error))
                    raise
                self._read_at = service.utc_now()
            return self._fleet

    def _read(self) -> Fleet:
        if not self._is_polled:
            return self._history.at(None)[0]
        fleet = polled(self._options, takes_addresses=False)
        if not fleet.replicas:
            lists = fleet.discovery_errors
            raise OptionsError(
                f"{no_list_read(lists)}." if lists else f"No targets: list them in {self._options.file}."
            )
        return fleet

    def happened(self, since: datetime | None, until: datetime) -> EventPeriod:
        found = self._history.between(since, until, self.current().name)
        if found is None:
            raise HistoryError("The history is that of another fleet; correct name in the options.")
        return found


def mcp(
    config: ConfigOption = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="Read this dashboard (http://host:8501) instead of polling the replicas."
        ),
    ] = None,
    token_env: TokenEnvOption = None,
) -> None:
    """Serve read-only tools for agents over standard input and output (Model Context Protocol).

    An agent starts this command: see docs/mcp.md. Without --url the replicas of the options are polled when a tool
    needs them, at most once in poll.interval_seconds; nothing is recorded. Exit code 2 for wrong usage or options, or
    where requirements-mcp.txt is not installed.
    """
    if url is not None and not url.startswith(OF_A_DASHBOARD):
        wrong("--url: expected the URL of a dashboard, such as http://host:8501")
    options = options_of(config)
    history = CommandHistory(options, url, token_env, "--url")
    if find_spec("mcp") is None:
        wrong(f"this command {LACKS_SDK}")
    from dashboard.mcp.server import serve_stdio
    from dashboard.mcp.tools import Fleets

    read = CommandFleets(options, history)
    asyncio.run(serve_stdio(Fleets(read.current, read.happened, service.utc_now)))
