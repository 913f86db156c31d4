"""Targets from a URL in Prometheus' http_sd shape. A URL that fails keeps its last targets, marked stale.

https://prometheus.io/docs/prometheus/latest/http_sd/
"""

import re
import time
from collections.abc import Callable

from dashboard.config import HttpSdOptions, PollOptions
from dashboard.config.document import MAX_DOCUMENT_BYTES
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials
from dashboard.sources.groups import read_targets
from dashboard.sources.http.client import Client
from dashboard.sources.http.credentials import ApiKey, find
from dashboard.sources.http.failures import endpoint_of, plain
from dashboard.sources.source import Listing, keep_targets

NO_KEY = ApiKey(missing="none is given; set authorization of this http_sd entry in fleet.yaml")
# What Prometheus accepts: prometheus/prometheus, discovery/http/http.go, matchContentType.
_JSON = re.compile(r'application/json(;\s*charset=("utf-8"|utf-8))?', re.IGNORECASE)


class HttpSd:
    """One `http_sd` entry of the options."""

    kind = "http_sd"

    def __init__(
        self,
        options: HttpSdOptions,
        authorization: Credentials | None,
        credentials: Credentials | None,
        limits: PollOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask nothing yet. `credentials` are for the targets; `clock` is monotonic, in seconds."""
        self._options = options
        self._authorization = authorization
        self._credentials = credentials
        self._limits = limits
        self._clock = clock
        self._due = clock()
        self._endpoint = endpoint_of(options.url)
        self.name = options.url.partition("?")[0]
        self._listing = Listing(self.name, ())

    async def read(self) -> list[Listing]:
        """Return the listing of the URL, which is asked again after `refresh_seconds`."""
        if self._clock() >= self._due:
            self._due = self._clock() + self._options.refresh_seconds
            self._listing = await self._ask()
        return [self._listing]

    async def close(self) -> None:
        """Do nothing: no connection stays open."""

    async def _ask(self) -> Listing:
        interval = f"{self._options.refresh_seconds:.0f}".encode()
        limits = self._limits
        async with Client(connections=1, max_answer_bytes=MAX_DOCUMENT_BYTES, max_headers=limits.max_headers) as client:
            answer = await client.fetch(
                self._endpoint,
                limits.probe_timeout_seconds,
                limit=MAX_DOCUMENT_BYTES,
                key=find(self._authorization) if self._authorization else NO_KEY,
                ca_file=self._authorization.ca_file if self._authorization else None,
                headers=[(b"X-Prometheus-Refresh-Interval-Seconds", interval)],
            )
        if answer.failure:
            return keep_targets(self._listing, answer.failure.detail)
        if not _JSON.fullmatch(answer.content_type or ""):
            sent = f"Content-Type {plain(answer.content_type)}" if answer.content_type else "no Content-Type"
            said = f"{self._endpoint.where} answered {self._endpoint.path} with {sent}"
            return keep_targets(self._listing, f"{said}; serve application/json, as Prometheus requires")
        try:
            targets = read_targets(answer.body, self.name, self._options.labels, self._credentials, is_json=True)
        except UnreadableError as error:
            return keep_targets(self._listing, error.detail)
        return Listing(self.name, targets)
