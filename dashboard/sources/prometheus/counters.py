"""The counters of use of all replicas that Prometheus scrapes: one query in each interval of traffic.

The values are those of the last scrape of each replica, with its time: an instant query alone has its own time.
"""

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from dashboard.config import PollOptions, PrometheusOptions, TrafficOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import STALE_SECONDS
from dashboard.sources.http.client import Client
from dashboard.sources.prometheus.answers import read_by_labels
from dashboard.sources.prometheus.server import CACHE_CONFIG, PrometheusServer, narrowed, with_matcher
from dashboard.sources.source import Deadline, ScrapedCounts
from dashboard.vllm.traffic import METRICS, CountSample, collect_counts
from vllm_fleet_provider.shared.types import MAX_SECONDS

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
        """Ask nothing yet."""
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
