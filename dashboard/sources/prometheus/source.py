"""Targets from Prometheus: the replicas whose series of vLLM it has. A failure keeps the last targets, marked stale.

A poll asks for the few labels that change while a replica has the same digests. All labels are asked for only where
one of those changed.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from dashboard.config import NO_TRAFFIC, PollOptions, PrometheusOptions, TrafficOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import STALE_SECONDS, Credentials, ScrapedMetrics, Target
from dashboard.garbage import uncollected
from dashboard.sources.http.client import Client
from dashboard.sources.prometheus.answers import SeriesLabels, VectorSample
from dashboard.sources.prometheus.server import Counters, PrometheusServer, as_line, kept_labels
from dashboard.sources.source import MAX_TARGETS, Deadline, Listing, keep_targets, make_target
from dashboard.vllm.metrics import DIGESTS
from vllm_fleet_provider.shared.identity import FIELDS

KEPT = ("job", "namespace", "pod", "node", "pool", "cluster")  # labels of a series that its target has
# What can change while the digests of a replica stay: they cover all settings that are not identity settings.
NOT_IN_DIGESTS = ("engine", *DIGESTS, *sorted(FIELDS["cache_config"]))


class LatestSeries(NamedTuple):
    """The series of the pod at one address that was scraped last, and how many seconds before the query.

    `is_up`: Prometheus has series of vLLM of it now. `is_whole`: all series of the address are of this pod and current.
    """

    series: tuple[SeriesLabels, ...]
    age: float
    is_stale: bool
    is_up: bool
    is_whole: bool

    @classmethod
    def of(cls, samples: Sequence[VectorSample]) -> "LatestSeries":
        """Choose the series: an address can go to another pod while those of the last one are still there."""
        newest = samples[0]
        for each in samples:
            if each.value > newest.value:
                newest = each
        pod = newest.labels.get("pod")
        # From the scrape to the query, both by the server's clock; 0 is that of `up`: it has no series of vLLM now.
        age = max(newest.queried_at - newest.value, 0.0) if newest.value else 0.0
        since = newest.value - STALE_SECONDS if newest.value else 0.0
        series = tuple(each.labels for each in samples if each.value >= since and each.labels.get("pod") == pod)
        is_stale = age > STALE_SECONDS
        is_whole = newest.value > 0 and not is_stale and len(series) == len(samples)
        return cls(series, age, is_stale, newest.value > 0, is_whole)

    def is_same(self, other: "LatestSeries") -> bool:
        """Return whether only times differ; series have no order."""
        own, others = self.series, other.series
        return len(own) == len(others) and self.is_up == other.is_up and all(each in others for each in own)


@dataclass(slots=True)
class SeriesCache:
    """What was made of the series of one address: its lines as /metrics has them, and its target.

    `is_settled`: both stay while the series do. `series` are those of the last answer that prove it, none where
    `LatestSeries` has to choose.
    """

    latest: LatestSeries
    lines: bytes
    target: Target
    is_settled: bool
    series: tuple[SeriesLabels, ...] = ()
    age: float = 0.0

    def use(self, latest: LatestSeries) -> None:
        """Take over later series, of which only times differ."""
        self.latest, self.age = latest, latest.age
        self.series = latest.series if self.is_settled and latest.is_whole else ()

    def renew(self, samples: Sequence[VectorSample]) -> bool:
        """Take over the time of samples if all are current and have the labels of the last answer; return whether."""
        if len(samples) != len(self.series):
            return False
        queried_at = samples[0].queried_at
        newest = oldest = samples[0].value
        for (labels, value, _), known in zip(samples, self.series, strict=True):
            if labels is not known and labels != known:
                return False
            newest, oldest = (value, oldest) if value > newest else (newest, min(oldest, value))
        if queried_at - oldest > STALE_SECONDS:
            return False
        self.age = max(queried_at - newest, 0.0)
        return True


class Prometheus:
    """One `prometheus` entry of the options. It is asked at every poll."""

    kind = "prometheus"

    def __init__(
        self,
        options: PrometheusOptions,
        credentials: Credentials | None,
        limits: PollOptions,
        clock: Callable[[], float] = time.time,
        traffic: TrafficOptions = NO_TRAFFIC,
    ) -> None:
        """Ask nothing yet. `credentials` are for the targets; `clock` gives seconds since 1970."""
        self._options = options
        self._credentials = credentials
        self._limits = limits
        self._kept = (*KEPT, *options.keep_labels)
        self._by = tuple(dict.fromkeys((options.address_label, *self._kept, *NOT_IN_DIGESTS)))
        self._server = PrometheusServer(options, self._by)
        self._external: Mapping[str, str] = {}
        self._caches: dict[str, SeriesCache] = {}
        self._counters = Counters(options, traffic, limits)
        self._clock = clock
        self.name = options.url
        self._listing = Listing(self.name, ())

    async def read(self) -> list[Listing]:
        limits, most = self._limits, self._options.max_answer_bytes
        async with Client(connections=1, max_answer_bytes=most, max_headers=limits.max_headers) as client:
            try:
                self._listing = await self._list(client, Deadline(self._options.timeout_seconds))
            except UnreadableError as error:
                self._listing = keep_targets(self._listing, error.detail)
            else:
                if self._has_unasked():
                    await self._counters.refresh(client, self._server, tuple(self._caches))
        return [self._with_counts(self._listing)]

    def _has_unasked(self) -> bool:
        """Return whether a replica is not asked itself: the poll reads the counters of all others."""
        return self._options.direct != "always" and (
            self._options.direct == "never" or any(_has_digests(each.latest) for each in self._caches.values())
        )

    def _with_counts(self, listing: Listing) -> Listing:
        counts, failure = self._counters.current(), self._counters.failure
        found = {each.target.id: counts[address] for address, each in self._caches.items() if address in counts}
        if failure:
            listing = listing._replace(failure=f"{listing.failure or listing.name}: {failure}")
        return listing._replace(counts=found)

    async def _list(self, client: Client, deadline: Deadline) -> Listing:
        """Return the listing of complete or partial data; in partial data what lacks stays, marked stale."""
        options, name, now = self._options, self._listing.name, self._clock()
        answer = await self._server.ask_for_all(client, deadline)
        external = kept_labels(await self._server.external_labels(client, deadline), self._kept)
        if external != self._external:
            self._external, self._caches = external, {}
        with uncollected():
            by_address = self._by_address(answer.samples)
            is_nameless = by_address.pop("", None) is not None
            if len(by_address) > MAX_TARGETS:
                raise UnreadableError("schema", f"more than {MAX_TARGETS:,} targets")
            caches, unknown = self._look_up(by_address, now)
        warning = answer.warning
        async for part in self._server.ask_for(client, unknown, deadline):
            warning = warning or part.warning
            read = {
                address: self._read(address, LatestSeries.of(each), now)
                for address, each in self._by_address(part.samples).items()
            }
            caches |= {address: each for address, each in read.items() if address in by_address}
        order = self._caches if caches.keys() == self._caches.keys() else sorted(caches)
        self._caches = {address: caches[address] for address in order}
        found = {each.target.id: each.target for each in self._caches.values()}
        sentences = [warning] if warning else []
        if is_nameless:
            sentences.append(f"some series have no label {options.address_label}; correct address_label")
        times = {each.target.id: _scraped_at(each.age, now) for each in self._caches.values()}
        down = (each.target.id for each in self._caches.values() if not each.latest.is_up)
        earlier = self._listing.scraped_at
        times |= {each: earlier[each] for each in down if each in earlier}  # of the last scrape
        if warning:
            lost = [each for each in self._listing.targets if each.id not in found]
            times |= {each.id: earlier[each.id] for each in lost if each.id in earlier}
            found |= {each.id: replace(each, stale=True) for each in lost}
        if not answer.samples and not sentences and not self._listing.targets:
            sentences.append(f"has no series vllm:cache_config_info{options.selector}; correct selector, or wait")
        failure = f"{name}: {'; '.join(sentences)}" if sentences else None
        return Listing(name, tuple(found.values()), failure, times)

    def _look_up(
        self, samples: Mapping[str, Sequence[VectorSample]], now: float
    ) -> tuple[dict[str, SeriesCache], list[str]]:
        """Return what is known by address, and the addresses whose series changed: mostly only times did."""
        caches: dict[str, SeriesCache] = {}
        unknown = []
        for address, own in samples.items():
            before = self._caches.get(address)
            if before is not None and before.renew(own):
                caches[address] = before
                continue
            latest = LatestSeries.of(own)
            if before is not None and before.is_settled and before.latest.is_same(latest):
                caches[address] = self._renewed(before, latest, now)
            elif self._needs_lines(latest):
                unknown.append(address)
            else:
                caches[address] = self._make(address, latest, b"", now)
        return caches, sorted(unknown)

    def _needs_lines(self, latest: LatestSeries) -> bool:
        """Return whether the lines are used: those without digests only where no replica is asked directly."""
        direct = self._options.direct
        return latest.is_up and direct != "always" and (direct == "never" or _has_digests(latest))

    def _by_address(self, samples: Iterable[VectorSample]) -> dict[str, list[VectorSample]]:
        """Group samples by address; those without are at an empty one."""
        label = self._options.address_label
        found: dict[str, list[VectorSample]] = defaultdict(list)
        for sample in samples:
            found[sample.labels.get(label, "")].append(sample)
        return found

    def _read(self, address: str, latest: LatestSeries, now: float) -> SeriesCache:
        """Return what is made of series with all their labels."""
        lines = b"\n".join(sorted({as_line(each) for each in latest.series} - {b""}))
        before = self._caches.get(address)
        short = ({name: each[name] for name in self._by if name in each} for each in latest.series)
        latest = latest._replace(series=tuple(short))
        if before is not None and before.lines == lines and before.latest.is_same(latest):
            return self._renewed(before, latest, now)
        return self._make(address, latest, lines, now)

    def _make(self, address: str, latest: LatestSeries, lines: bytes, now: float) -> SeriesCache:
        options = self._options
        own = [kept_labels(each, self._kept) for each in latest.series]
        # Two jobs may scrape one pod: the first value of a label counts, so that they do not alternate.
        labels = {name: min(texts) for name in self._kept if (texts := [each[name] for each in own if name in each])}
        whole = address if "://" in address else f"{options.scheme}://{address}"
        target = make_target(whole, {**self._external, **options.labels, **labels}, self._credentials)
        is_settled = not self._needs_lines(latest) or _has_digests(latest)
        cache = SeriesCache(latest, lines, self._of(target, latest, lines, now), is_settled)
        cache.use(latest)
        return cache

    def _renewed(self, cache: SeriesCache, latest: LatestSeries, now: float) -> SeriesCache:
        """Return what is known of the same series with the time of a later scrape."""
        if latest.is_stale != cache.target.stale:
            cache.target = self._of(cache.target, latest, cache.lines, now)
        cache.use(latest)
        return cache

    def _of(self, target: Target, latest: LatestSeries, lines: bytes, now: float) -> Target:
        direct = self._options.direct
        at = datetime.fromtimestamp(_scraped_at(latest.age, now), UTC)
        scraped = None if direct == "always" else ScrapedMetrics(lines, at, direct == "missing")
        return Target(target.id, target.labels, target.credentials, latest.is_stale, target.failure, scraped)


def _scraped_at(age: float, now: float) -> float:
    """Return the time of a scrape by the clock of this machine."""
    return now - age if age < now else 0.0


def _has_digests(latest: LatestSeries) -> bool:
    return any("scheme" in each for each in latest.series)
