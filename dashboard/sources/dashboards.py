"""Other dashboards: a hub reads the replicas of their clusters from their documents, and asks no replica itself.

One that fails keeps its last replicas, marked stale. Of a dashboard only its URL in fleet.yaml is contacted.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from dashboard.config import DashboardOptions, PollOptions
from dashboard.documents.reported import MOST_BYTES, ReportReader
from dashboard.errors import UnreadableError
from dashboard.fleet import STALE_SECONDS
from dashboard.fleet.formatting import iso, visible
from dashboard.garbage import uncollected
from dashboard.sources.http.client import Client
from dashboard.sources.http.credentials import ApiKey, find
from dashboard.sources.http.failures import endpoint_of
from dashboard.sources.source import Listing
from vllm_fleet_provider.shared.redaction import redact_keys, redact_prose

log = logging.getLogger(__name__)

NO_KEY = ApiKey(missing="none is given; set token_env or token_file of this dashboards entry in fleet.yaml")
PATH, QUERY = "/api/v1/fleet", "?full=true"
PACKED = ((b"Accept-Encoding", b"gzip"),)
FRESH_INTERVALS = 3  # as of the replicas of this dashboard


class Dashboard:
    """One `dashboards` entry of the options."""

    kind = "dashboards"

    def __init__(
        self, options: DashboardOptions, limits: PollOptions, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """Ask nothing yet. `clock` gives UTC times."""
        self.name = options.url
        self._options = options
        self._limits = limits
        self._clock = clock
        self._endpoint = endpoint_of(options.url, PATH)._replace(query=QUERY)
        self._reader = ReportReader(options.labels)
        self._etag: str | None = None
        self._stale_seconds = max(STALE_SECONDS, FRESH_INTERVALS * limits.interval_seconds)

    async def read(self) -> list[Listing]:
        """Return the replicas that the dashboard reports now, or its last ones."""
        try:
            await self._ask()
        except UnreadableError as error:
            failure = visible(redact_prose(error.detail)).removesuffix(".")
            report = self._reader.report(self._clock(), self._stale_seconds, answers=False)
            kept = f"; keeping its last replicas ({len(report.replicas):,}), marked stale" if report.replicas else ""
            return [Listing(self.name, (), f"{self.name}: {failure}{kept}", reported=report)]
        now = self._clock()
        at, refused = self._reader.at, self._reader.refused
        is_old = at is not None and (now - at).total_seconds() > self._stale_seconds
        report = self._reader.report(now, self._stale_seconds, answers=not is_old)
        sentence = None
        if is_old and at is not None:
            sentence = f"its last poll was at {iso(at)}; check that it polls, and its clock"
        elif refused:
            rest = f" ({len(refused):,} parts of its document)" if len(refused) > 1 else ""
            sentence = f"cannot be read whole{rest}: {visible(redact_prose(refused[0])).removesuffix('.')}"
        return [Listing(self.name, (), sentence and f"{self.name}: {sentence}", reported=report)]

    async def _ask(self) -> None:
        """Read the document where it changed. Raise UnreadableError with a sentence."""
        places, limits = self._options.places(), self._limits
        key = find(places) if places.token_env or places.token_file else NO_KEY
        redact_keys([key.token] if key.token else [])
        async with Client(connections=1, max_answer_bytes=MOST_BYTES, max_headers=limits.max_headers) as client:
            answer = await client.fetch(
                self._endpoint,
                limits.replica_timeout_seconds,
                limit=MOST_BYTES,
                key=key,
                ca_file=places.ca_file,
                is_named=True,
                headers=PACKED,
                etag=self._etag,
            )
        if answer.is_unchanged:
            return
        self._etag = None
        if answer.failure:
            raise UnreadableError(answer.failure.kind, answer.failure.detail)
        try:
            with uncollected():
                self._reader.read(answer.body)
        except UnreadableError as error:
            raise UnreadableError(error.kind, f"{self._endpoint.where} {error.detail}") from None
        except Exception as error:  # its replicas must not stay as they were, without a mark
            log.exception("the document of a dashboard was not read")
            raise UnreadableError("internal", f"internal error {type(error).__name__}") from None
        self._etag = answer.etag
