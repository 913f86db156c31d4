"""The server's API: the series of all replicas, or of some. An answer that is too large is asked for in parts."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlencode

from dashboard.config import PrometheusOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import FailureKind
from dashboard.garbage import uncollected
from dashboard.sources.http.client import Client
from dashboard.sources.http.credentials import ApiKey, authorized
from dashboard.sources.http.failures import endpoint_of
from dashboard.sources.prometheus.answers import (
    QueryResult,
    SeriesLabels,
    addresses_query,
    read_answer,
    replicas_query,
    said_error,
)
from dashboard.sources.source import Deadline

NO_KEY = ApiKey(missing="none is given; set authorization of this prometheus entry in fleet.yaml")
QUERY = "/api/v1/query"
BIG = 2**20  # bytes of an answer that is read in a thread: 20 ms, in which no replica could be polled
MOST_ADDRESSES = 1_000  # of one query for some replicas: 25 KB of text


class PrometheusServer:
    """Asks by `client`, a new one at each poll. `by` are the labels of the series that are asked for at each poll."""

    def __init__(self, options: PrometheusOptions, by: Sequence[str]) -> None:
        self._options = options
        self._by = by
        self._is_split = False
        self._labels: dict[
            bytes, SeriesLabels
        ] = {}  # by their JSON: mostly those of the last poll are those of this one
        self._endpoint = endpoint_of(options.url, QUERY)

    async def ask_for_all(self, client: Client, deadline: Deadline) -> QueryResult:
        """Return the series of all replicas, with the labels `by`. Raise UnreadableError."""
        options, before = self._options, len(self._labels)
        answers: list[QueryResult] = []
        if not self._is_split:
            whole = await self._ask(client, replicas_query(options.selector, by=self._by), deadline)
            self._is_split = whole is None
            answers += [whole] if whole else []
        if self._is_split:
            addresses = await self._ask_for_addresses(client, deadline)
            answers.append(addresses._replace(samples=()))
            names = sorted({each.labels.get(options.address_label, "") for each in addresses.samples} - {""})
            answers += [each async for each in self.ask_for(client, names, deadline, self._by)]
            self._is_split = len(answers) > 2  # noqa: PLR2004  the addresses, and one part that is the whole
        samples = tuple(sample for each in answers for sample in each.samples)
        if before and len(self._labels) > 2 * len(samples):
            self._labels.clear()
        return QueryResult(samples, next((each.warning for each in answers if each.warning), ""))

    async def ask_for(
        self, client: Client, addresses: Sequence[str], deadline: Deadline, by: Sequence[str] = ()
    ) -> AsyncIterator[QueryResult]:
        """Yield the series of some replicas, some at a time; without `by` with all labels. Raise UnreadableError."""
        waiting = [addresses[start : start + MOST_ADDRESSES] for start in range(0, len(addresses), MOST_ADDRESSES)]
        while waiting:
            part = waiting.pop(0)
            query = replicas_query(self._options.selector, self._options.address_label, part, by)
            answer = await self._ask(client, query, deadline)
            if answer is not None:
                yield answer
                continue
            middle = len(part) // 2
            if not middle:
                raise self._too_large()
            waiting[:0] = part[:middle], part[middle:]

    async def _ask_for_addresses(self, client: Client, deadline: Deadline) -> QueryResult:
        query = addresses_query(self._options.selector, self._options.address_label)
        answer = await self._ask(client, query, deadline)
        if answer is None:
            raise self._too_large()
        return answer

    async def _ask(self, client: Client, query: str, deadline: Deadline) -> QueryResult | None:
        """Return the answer; None where it is larger than max_answer_bytes. Raise UnreadableError."""
        options = self._options
        own = options.authorization
        answer = await client.fetch(
            self._endpoint,
            deadline.left(),
            limit=options.max_answer_bytes,
            key=authorized(own, NO_KEY),
            ca_file=own.ca_file if own else None,
            headers=[(b"X-Scope-OrgID", options.tenant.encode())] if options.tenant else [],
            form=urlencode({"query": query}).encode(),
        )
        if answer.failure is None:
            known = self._labels if query.startswith("max by") else None
            if len(answer.body) < BIG:
                return _read(answer.body, known)
            return await asyncio.to_thread(_read, answer.body, known)
        if answer.failure.kind is FailureKind.TOO_LARGE and answer.status == 200:  # noqa: PLR2004
            return None
        said = said_error(answer.body)
        raise UnreadableError(answer.failure.kind, f"{answer.failure.detail.removesuffix('.')}{said and f': {said}'}")

    def _too_large(self) -> UnreadableError:
        most = f"{self._options.max_answer_bytes:,}"
        return UnreadableError("too_large", f"the smallest answer has more than {most} bytes; raise max_answer_bytes")


def _read(body: bytes, known: dict[bytes, SeriesLabels] | None) -> QueryResult:
    with uncollected():
        return read_answer(body, known)
