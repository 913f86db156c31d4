"""Instant queries to a Prometheus server: the series of all replicas, or of some, and their counters of use.

An answer that is too large is asked for in parts. Counters are one query in each interval of traffic. Their values are
those of the last scrape of each replica, with its time: an instant query alone has its own time.
"""

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TypeVar
from urllib.parse import urlencode

from dashboard.config import MAX_LABEL_CHARACTERS, PollOptions, PrometheusOptions, TrafficOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import STALE_SECONDS, FailureKind
from dashboard.garbage import uncollected
from dashboard.sources.http.client import Answer, Client
from dashboard.sources.http.credentials import ApiKey, authorized
from dashboard.sources.http.failures import Endpoint, endpoint_of
from dashboard.sources.prometheus.answers import (
    QueryResult,
    SeriesLabels,
    read_answer,
    read_by_labels,
    read_external_labels,
    said_error,
)
from dashboard.sources.source import Deadline, ScrapedCounts
from dashboard.vllm.metrics import DIGESTS
from dashboard.vllm.traffic import METRICS, CountSample, collect_counts
from dashboard.vllm.versions import label_type
from vllm_fleet_provider.shared.types import MAX_SECONDS

NO_KEY = ApiKey(missing="none is given; set authorization of this prometheus entry in fleet.yaml")
QUERY, CONFIG = "/api/v1/query", "/api/v1/status/config"
REFUSED = (FailureKind.STATUS, FailureKind.UNAUTHORIZED, FailureKind.TOO_LARGE)
BRIEF = 3.0  # seconds for the configuration: a path that does not answer must not delay the targets
BIG = 2**20  # bytes of an answer that is read in a thread: 20 ms, in which no replica could be polled
MOST_ADDRESSES = 1_000  # of one query for some replicas: 25 KB of text
SHORT = 200  # characters of a label that is kept as it is written
CACHE_CONFIG, CONFIG_INFO = "vllm:cache_config_info", "vllm_fleet_config_info"
DOWN_SINCE = "1h"  # a replica that Prometheus did not reach for longer is no target
_SPECIAL = re.compile(r"[^A-Za-z0-9_:/-]")
Found = TypeVar("Found")


def replicas_query(selector: str, label: str = "", addresses: Sequence[str] = (), by: Sequence[str] = ()) -> str:
    """Return the query for the series of all replicas, or of those with one of some addresses in a label.

    The value is the time of the scrape: an instant query alone gives its own time. It is 0 for a replica that
    Prometheus cannot reach: vLLM's series end with the first failed scrape, `up` stays. With `by`, series have these
    labels only: a fifth of the bytes.
    """
    chosen = narrowed(selector, label, addresses)
    series = [f"timestamp({name}{chosen})" for name in (CACHE_CONFIG, CONFIG_INFO)]
    known = f"present_over_time({CACHE_CONFIG}{chosen}[{DOWN_SINCE}])"
    series.append(f"(up{chosen} == 0 and on (job, instance) {known})")
    return " or ".join(f"max by ({', '.join(by)}) ({each})" if by else each for each in series)


def narrowed(selector: str, label: str, addresses: Sequence[str]) -> str:
    """Return the selector for these values of a label only; without values as it is."""
    if not addresses:
        return selector
    return with_matcher(selector, f'{label}=~"{"|".join(map(_escaped, addresses))}"')


def with_matcher(selector: str, matcher: str) -> str:
    """Return the selector with one more matcher."""
    inner = selector.removeprefix("{").removesuffix("}")
    return f"{{{inner}{inner and ','}{matcher}}}"


def _escaped(text: str) -> str:
    """Return a regular expression of this text, within a string of PromQL: a backslash is two there."""
    return _SPECIAL.sub(lambda match: f"\\\\x{{{ord(match[0]):x}}}", text)


class PrometheusServer:
    """Asks by `client`, a new one at each poll. `by` are the labels of the series that are asked for at each poll."""

    def __init__(self, options: PrometheusOptions, by: Sequence[str]) -> None:
        self._options = options
        self._by = by
        self._is_split = False
        # By their JSON: mostly those of the last poll are those of this one.
        self._labels: dict[bytes, SeriesLabels] = {}
        self._endpoint = endpoint_of(options.url, QUERY)
        self._external: dict[str, str] | None = None  # None: not asked yet

    async def ask_for_all(self, client: Client, deadline: Deadline) -> QueryResult:
        """Return the series of all replicas, with the labels `by`. Raise UnreadableError."""
        options, before = self._options, len(self._labels)
        answers: list[QueryResult] = []
        if not self._is_split:
            whole = await self.ask(client, replicas_query(options.selector, by=self._by), deadline, self._read_known)
            self._is_split = whole is None
            answers += [whole] if whole else []
        if self._is_split:
            addresses = await self._ask_for_addresses(client, deadline)
            answers.append(addresses._replace(samples=()))
            names = sorted({each.labels.get(options.address_label, "") for each in addresses.samples} - {""})
            query_of = partial(replicas_query, options.selector, options.address_label, by=self._by)
            answers += [each async for each in self.ask_in_parts(client, names, deadline, query_of, self._read_known)]
            self._is_split = len(answers) > 2  # noqa: PLR2004  the addresses, and one part that is the whole
        samples = tuple(sample for each in answers for sample in each.samples)
        if before and len(self._labels) > 2 * len(samples):
            self._labels.clear()
        return QueryResult(samples, next((each.warning for each in answers if each.warning), ""))

    def ask_for(self, client: Client, addresses: Sequence[str], deadline: Deadline) -> AsyncIterator[QueryResult]:
        """Yield the series of some replicas with all labels, some at a time. Raise UnreadableError."""
        query_of = partial(replicas_query, self._options.selector, self._options.address_label)
        return self.ask_in_parts(client, addresses, deadline, query_of, read_answer)

    async def ask_in_parts(
        self,
        client: Client,
        addresses: Sequence[str],
        deadline: Deadline,
        query_of: Callable[[Sequence[str]], str],
        read: Callable[[bytes], Found],
    ) -> AsyncIterator[Found]:
        """Yield the answers to the queries for some addresses at a time. Raise UnreadableError."""
        waiting = [addresses[start : start + MOST_ADDRESSES] for start in range(0, len(addresses), MOST_ADDRESSES)]
        while waiting:
            part = waiting.pop(0)
            answer = await self.ask(client, query_of(part), deadline, read)
            if answer is not None:
                yield answer
                continue
            middle = len(part) // 2
            if not middle:
                raise self._too_large()
            waiting[:0] = part[:middle], part[middle:]

    async def _ask_for_addresses(self, client: Client, deadline: Deadline) -> QueryResult:
        query = f"group by ({self._options.address_label}) ({replicas_query(self._options.selector)})"
        answer = await self.ask(client, query, deadline, read_answer)
        if answer is None:
            raise self._too_large()
        return answer

    async def ask(self, client: Client, query: str, deadline: Deadline, read: Callable[[bytes], Found]) -> Found | None:
        """Return the answer, read by `read`; None where it is larger than max_answer_bytes. Raise UnreadableError."""
        form = urlencode({"query": query}).encode()
        answer = await self._fetch(client, self._endpoint, deadline.left(), form)
        if answer.failure is None:
            if len(answer.body) < BIG:
                return _read(read, answer.body)
            return await asyncio.to_thread(_read, read, answer.body)
        if answer.failure.kind is FailureKind.TOO_LARGE and answer.status == 200:  # noqa: PLR2004
            return None
        said = said_error(answer.body)
        raise UnreadableError(answer.failure.kind, f"{answer.failure.detail.removesuffix('.')}{said and f': {said}'}")

    async def external_labels(self, client: Client, deadline: Deadline) -> Mapping[str, str]:
        """Return the external labels of the server, which its own series lack; none while it does not answer.

        It is asked until it answers once. Thanos and Mimir have no such path: their series have these labels.
        """
        if self._external is None:
            answer = await self._fetch(client, endpoint_of(self._options.url, CONFIG), min(deadline.left(), BRIEF))
            if answer.failure is None or answer.failure.kind in REFUSED:
                self._external = read_external_labels(answer.body) if answer.failure is None else {}
        return self._external or {}

    async def _fetch(self, client: Client, endpoint: Endpoint, seconds: float, form: bytes | None = None) -> Answer:
        options, own = self._options, self._options.authorization
        return await client.fetch(
            endpoint,
            seconds,
            limit=options.max_answer_bytes,
            key=authorized(own, NO_KEY),
            ca_file=own.ca_file if own else None,
            headers=[(b"X-Scope-OrgID", options.tenant.encode())] if options.tenant else [],
            form=form,
        )

    def _read_known(self, body: bytes) -> QueryResult:
        return read_answer(body, self._labels)

    def _too_large(self) -> UnreadableError:
        most = f"{self._options.max_answer_bytes:,}"
        return UnreadableError("too_large", f"the smallest answer has more than {most} bytes; raise max_answer_bytes")


def _read(read: Callable[[bytes], Found], body: bytes) -> Found:
    with uncollected():
        return read(body)


def kept_labels(labels: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return these labels of a series, cut to what a label of a target may have."""
    found = ((name, labels.get(name)) for name in names)
    return {name: text[:MAX_LABEL_CHARACTERS].encode(errors="replace").decode() for name, text in found if text}


def as_line(labels: Mapping[str, str]) -> bytes:
    """Return a series as the replica's /metrics has it, with the labels that are read: others may be Prometheus' own.

    The query leaves out the names: only the digests have a label `scheme`, only vLLM's series a size of blocks. Empty
    for `up`.
    """
    is_digests = "scheme" in labels
    if not is_digests and "block_size" not in labels:
        return b""
    name, is_own = (CONFIG_INFO, DIGESTS.__contains__) if is_digests else (CACHE_CONFIG, _is_setting)
    own = (each for each in sorted(labels) if each == "engine" or is_own(each))
    written = ",".join(
        [(_known_label if len(labels[each]) <= SHORT else _write_label)(each, labels[each]) for each in own]
    )
    return f"{name}{{{written}}} 1".encode(errors="replace")


@lru_cache(maxsize=1024)
def _is_setting(label: str) -> bool:
    return label_type(label) is not None


def _write_label(label: str, text: str) -> str:
    quoted = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{label}="{quoted}"'


_known_label = lru_cache(maxsize=1024)(_write_label)  # most labels have one value in a whole fleet


FIELDS = {metric.encode(): field for field, metric in METRICS.items()}
RANK = re.compile(r"\d{1,4}", re.ASCII)


def counters_query(selector: str, label: str, addresses: Sequence[str] = ()) -> str:
    """Return the query for the counters of all replicas, or of those with one of some addresses in a label.

    The series without a name are the times of the scrapes. A series that several servers of Prometheus or jobs have
    counts once.
    """
    chosen = narrowed(selector, label, addresses)
    names = "|".join(METRICS.values())
    counters = with_matcher(chosen, f'__name__=~"{names}"')
    by = f"__name__, {label}, pod, engine"
    counted = f"sum by ({by}) (max by ({by}, finished_reason) ({counters}))"
    return f"{counted} or max by ({label}, pod) (timestamp({CACHE_CONFIG}{chosen}))"


def read_counters(body: bytes, label: str) -> Mapping[str, ScrapedCounts]:
    """Return the counts by address; of several pods at one address those of the last scrape. Raise UnreadableError."""
    times: dict[tuple[str, str], float] = {}
    samples: dict[tuple[str, str], list[CountSample]] = defaultdict(list)
    for labels, values in read_by_labels(body):
        replica = labels.get(label, ""), labels.get("pod", "")
        rank = labels.get("engine", "")
        if RANK.fullmatch(rank):
            own = ((FIELDS.get(metric), value) for metric, value in values)
            samples[replica] += [(field, int(rank), value) for field, value in own if field]
        elif values[0][0] == b"":
            times[replica] = _time(values[0][1])
    newest: dict[str, tuple[float, str]] = {}
    for (address, pod), at in times.items():
        newest[address] = max(newest.get(address, (0.0, "")), (at, pod))
    return {address: ScrapedCounts(at, collect_counts(samples[address, pod])) for address, (at, pod) in newest.items()}


def _time(value: bytes) -> float:
    """Return seconds since 1970; 0 for what is no time."""
    try:
        seconds = float(value)
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds < MAX_SECONDS else 0.0


class Counters:
    """What Prometheus last had of the counters of use. `failure` is why it has no later ones; else empty."""

    def __init__(self, options: PrometheusOptions, traffic: TrafficOptions, limits: PollOptions) -> None:
        self._options = options
        self._traffic = traffic
        self._limits = limits
        self._asked_at = self._read_at = -math.inf
        self._is_split = False
        self._counts: Mapping[str, ScrapedCounts] = {}
        self.failure = ""

    async def refresh(self, client: Client, server: PrometheusServer, addresses: Sequence[str]) -> None:
        """Ask for the counters of these addresses if it is time."""
        now = asyncio.get_running_loop().time()
        if not self._traffic.are_due(now - self._asked_at, self._limits):
            return
        self._asked_at = now
        try:
            self._counts = await self._ask(client, server, addresses)
        except UnreadableError as error:
            self.failure = f"counters not read: {error.detail}"
        else:
            self._read_at, self.failure = now, ""

    def current(self) -> Mapping[str, ScrapedCounts]:
        """Return the counters by address; none where they are as old as a stale replica."""
        age = asyncio.get_running_loop().time() - self._read_at
        return self._counts if age <= self._traffic.interval_seconds + STALE_SECONDS else {}

    async def _ask(
        self, client: Client, server: PrometheusServer, addresses: Sequence[str]
    ) -> Mapping[str, ScrapedCounts]:
        label = self._options.address_label
        query_of = partial(counters_query, self._options.selector, label)
        read = partial(read_counters, label=label)
        deadline = Deadline(self._options.timeout_seconds)
        if not self._is_split and (whole := await server.ask(client, query_of(()), deadline, read)) is not None:
            return whole
        parts = [each async for each in server.ask_in_parts(client, addresses, deadline, query_of, read)]
        self._is_split = len(parts) > 1
        return {address: each for part in parts for address, each in part.items()}
