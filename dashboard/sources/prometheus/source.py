"""Targets from Prometheus: the replicas whose series of vLLM it has. A failure keeps the last targets, marked stale.

A poll asks for the few labels that change while a replica has the same digests. All labels are asked for only where
one of those changed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import is_
from typing import NamedTuple

from dashboard.config import PollOptions, PrometheusOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials, Scraped, Target
from dashboard.garbage import uncollected
from dashboard.sources.groups import MAX_TARGETS, make_target
from dashboard.sources.http.client import Client
from dashboard.sources.prometheus.answers import Labels, Sample, as_line, kept_labels
from dashboard.sources.prometheus.server import Server
from dashboard.sources.source import Listing, keep_targets
from dashboard.vllm.identity import FIELDS
from dashboard.vllm.metrics import DIGESTS

# A series that ends without a mark stays for 5 minutes. Prometheus advises against intervals above 2 minutes
# (https://prometheus.io/docs/prometheus/latest/querying/basics/#staleness); half a minute is for a late scrape.
STALE_SECONDS = 150.0
KEPT = ("job", "namespace", "pod", "node", "pool")  # labels of a series that its target has
# What can change while the digests of a replica stay: they cover all settings that are not identity settings.
NOT_IN_DIGESTS = ("engine", *DIGESTS, *sorted(FIELDS["cache_config"]))


class Latest(NamedTuple):
    """The series of the pod at one address that was scraped last, and when (seconds since 1970).

    `is_up`: Prometheus has series of vLLM of it now.
    """

    series: Sequence[Labels]
    at: float
    is_stale: bool
    is_up: bool

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> "Latest":
        """Choose the series: an address can go to another pod while those of the last one are still there."""
        newest = samples[0]
        for each in samples:
            if each.value > newest.value:
                newest = each
        pod = newest.labels.get("pod")
        at = newest.value or newest.queried_at  # 0 is that of `up`: it has no series of vLLM now
        since = at - STALE_SECONDS if newest.value else 0.0
        series = [each.labels for each in samples if each.value >= since and each.labels.get("pod") == pod]
        return cls(series, at, newest.queried_at - at > STALE_SECONDS, newest.value > 0)

    def is_same(self, other: "Latest") -> bool:
        """Return whether only times differ; series have no order."""
        own, others = self.series, other.series
        if len(own) != len(others) or self.is_up != other.is_up:
            return False
        return all(map(is_, own, others)) or all(each in others for each in own)


@dataclass(slots=True)
class Known:
    """What was made of the series of one address: its lines as /metrics has them, and its target since `latest`.

    `is_settled`: both stay while the series do.
    """

    latest: Latest
    lines: bytes
    target: Target
    is_settled: bool


class Prometheus:
    """One `prometheus` entry of the options. It is asked at every poll."""

    kind = "prometheus"

    def __init__(self, options: PrometheusOptions, credentials: Credentials | None, limits: PollOptions) -> None:
        """Ask nothing yet. `credentials` are for the targets."""
        self._options = options
        self._credentials = credentials
        self._limits = limits
        self._kept = (*KEPT, *options.keep_labels)
        self._by = tuple(dict.fromkeys((options.address_label, *self._kept, *NOT_IN_DIGESTS)))
        self._server = Server(options, self._by)
        self._known: dict[str, Known] = {}
        self._listing = Listing(options.url, ())

    async def read(self) -> list[Listing]:
        """Return one listing."""
        limits, most = self._limits, self._options.max_answer_bytes
        async with Client(connections=1, max_answer_bytes=most, max_headers=limits.max_headers) as client:
            try:
                self._listing = await self._list(client, client.time() + self._options.timeout_seconds)
            except UnreadableError as error:
                self._listing = keep_targets(self._listing, error.detail)
        return [self._listing]

    async def close(self) -> None:
        """Do nothing: no connection stays open."""

    async def _list(self, client: Client, ends_at: float) -> Listing:
        """Return the listing of complete or partial data; in partial data what lacks stays, marked stale."""
        options, name = self._options, self._listing.name
        answer = await self._server.ask_for_all(client, ends_at)
        with uncollected():
            by_address = self._by_address(answer.samples)
            is_nameless = by_address.pop("", None) is not None
            if len(by_address) > MAX_TARGETS:
                raise UnreadableError("schema", f"more than {MAX_TARGETS:,} targets")
            latest = {address: Latest.of(by_address[address]) for address in sorted(by_address)}
            known, unknown = self._look_up(latest)
        warning = answer.warning
        async for part in self._server.ask_for(client, unknown, ends_at):
            warning = warning or part.warning
            read = {
                address: self._read(address, Latest.of(each))
                for address, each in self._by_address(part.samples).items()
            }
            known |= {address: each for address, each in read.items() if address in latest}
        self._known = {address: known[address] for address in latest if address in known}
        found = {each.target.id: each.target for each in self._known.values()}
        sentences = [warning] if warning else []
        if is_nameless:
            sentences.append(f"some series have no label {options.address_label}; correct address_label")
        if warning:
            lost = (each for each in self._listing.targets if each.id not in found)
            found |= {each.id: replace(each, stale=True) for each in lost}
        if not answer.samples and not sentences and not self._listing.targets:
            sentences.append(f"has no series vllm:cache_config_info{options.selector}; correct selector, or wait")
        return Listing(name, tuple(found.values()), f"{name}: {'; '.join(sentences)}" if sentences else None)

    def _look_up(self, latest: Mapping[str, Latest]) -> tuple[dict[str, Known], list[str]]:
        """Return what is known by address, and the addresses whose series changed: mostly only times did."""
        known: dict[str, Known] = {}
        unknown = []
        for address, now in latest.items():
            before = self._known.get(address)
            if before is not None and before.is_settled and before.latest.is_same(now):
                known[address] = self._renewed(before, now)
            elif self._needs_lines(now):
                unknown.append(address)
            else:
                known[address] = self._make(address, now, b"")
        return known, unknown

    def _needs_lines(self, latest: Latest) -> bool:
        """Return whether the lines are used: those without digests only where no replica is asked directly."""
        direct = self._options.direct
        return latest.is_up and direct != "always" and (direct == "never" or _has_digests(latest))

    def _by_address(self, samples: Iterable[Sample]) -> dict[str, list[Sample]]:
        """Group samples by address; those without are at an empty one."""
        label = self._options.address_label
        found: dict[str, list[Sample]] = defaultdict(list)
        for sample in samples:
            found[sample.labels.get(label, "")].append(sample)
        return found

    def _read(self, address: str, latest: Latest) -> Known:
        """Return what is made of series with all their labels."""
        lines = b"\n".join(sorted({as_line(each) for each in latest.series} - {b""}))
        before = self._known.get(address)
        short: list[Mapping[str, str]] = [
            {name: each[name] for name in self._by if name in each} for each in latest.series
        ]
        now = latest._replace(series=short)
        if before is not None and before.lines == lines and before.latest.is_same(now):
            return self._renewed(before, now)
        return self._make(address, now, lines)

    def _make(self, address: str, latest: Latest, lines: bytes) -> Known:
        options = self._options
        own = [kept_labels(each, self._kept) for each in latest.series]
        # Two jobs may scrape one pod: the first value of a label counts, so that they do not alternate.
        labels = {name: min(texts) for name in self._kept if (texts := [each[name] for each in own if name in each])}
        whole = address if "://" in address else f"{options.scheme}://{address}"
        target = make_target(whole, {**options.labels, **labels}, self._credentials)
        is_settled = not self._needs_lines(latest) or _has_digests(latest)
        return Known(latest, lines, self._of(target, latest, lines), is_settled)

    def _renewed(self, known: Known, latest: Latest) -> Known:
        """Return what is known of the same series with the time of a later scrape."""
        if (latest.at, latest.is_stale) != (known.latest.at, known.latest.is_stale):
            known.target = self._of(known.target, latest, known.lines)
        known.latest = latest
        return known

    def _of(self, target: Target, latest: Latest, lines: bytes) -> Target:
        direct = self._options.direct
        at = datetime.fromtimestamp(latest.at, UTC)
        scraped = None if direct == "always" else Scraped(lines, at, direct == "missing")
        return Target(target.id, target.labels, target.credentials, latest.is_stale, target.failure, scraped)


def _has_digests(latest: Latest) -> bool:
    return any("scheme" in each for each in latest.series)
