"""Discovery: the targets of all sources that fleet.yaml names."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from functools import partial, reduce
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from dashboard.config import NO_TRAFFIC, CredentialsOptions, Options, TrafficOptions
from dashboard.config.address import AllowedTargets
from dashboard.documents.reported import ReportedFleet
from dashboard.fleet import MOST_CONFLICTS, Credentials, LabelConflict, SourceStatus, Target, TargetAccess
from dashboard.sources.dashboards import Dashboard
from dashboard.sources.kubernetes.source import Kubernetes
from dashboard.sources.prometheus.source import Prometheus
from dashboard.sources.source import Listing, ScrapedCounts, TargetSource, keep_targets
from dashboard.sources.target_groups import FileSd, HttpSd

log = logging.getLogger(__name__)

Mention = tuple[Listing, Target]  # what lists a target


class DiscoveryResult(NamedTuple):
    """The targets of all sources, each once, the status of each place that lists targets, and where they disagree.

    `scraped_at` is when Prometheus scraped each target last, by its id, in seconds since 1970. `counts` are the
    counters of that or an earlier scrape, by id. `reported` is what other dashboards report of their replicas.
    """

    targets: tuple[Target, ...]
    sources: tuple[SourceStatus, ...] = ()
    conflicts: tuple[LabelConflict, ...] = ()
    scraped_at: Mapping[str, float] = MappingProxyType({})
    counts: Mapping[str, ScrapedCounts] = MappingProxyType({})
    reported: tuple[ReportedFleet, ...] = ()

    @property
    def has_replicas(self) -> bool:
        return bool(self.targets) or any(each.replicas for each in self.reported)

    @property
    def failures(self) -> tuple[str, ...]:
        """Return a sentence for each place that cannot be read."""
        return tuple(each.failure for each in self.sources if each.failure)


class StaticTargets:
    """The option `targets`."""

    kind = "static"

    def __init__(self, options: Options) -> None:
        credentials = options.credentials
        targets = [
            Target(each.url, each.labels, _credentials(each.credentials, credentials)) for each in options.targets
        ]
        self.name = options.file
        self._listing = Listing(self.name, tuple(targets))

    async def read(self) -> list[Listing]:
        return [self._listing] if self._listing.targets else []


class SourceReads:
    """The reads of one source, one after the other: a slow one goes on while replicas are polled."""

    def __init__(self, source: TargetSource) -> None:
        self.source = source
        self.listings: Sequence[Listing] = ()  # of the last read
        self.was_read = False
        self._succeeded: dict[str, datetime | None] = {}  # by name of the place
        self._task: asyncio.Task[None] | None = None

    def start(self, at: datetime | None) -> asyncio.Task[None]:
        """Return the read that is not done yet, else a new one; `at` is the time (UTC)."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read(at))
        return self._task

    def statuses(self) -> Iterator[SourceStatus]:
        """Yield the status of each place, as the last read found it."""
        for each in self.listings:
            listed = each.reported.replicas if each.reported else each.targets
            ids = tuple(target.id for target in listed)
            yield SourceStatus(each.name, self.source.kind, ids, self._succeeded.get(each.name), each.failure)

    async def close(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self, at: datetime | None) -> None:
        """Read the source. An internal error is a sentence, too: it must not end the poll of all replicas."""
        try:
            self.listings = await self.source.read()
        except Exception as error:
            log.exception("a source of targets was not read")
            last = self.listings or [Listing(self.source.name, ())]
            said = f"internal error {type(error).__name__}"
            self.listings = [each if each.failure else keep_targets(each, said) for each in last]
        self._succeeded = {each.name: self._succeeded.get(each.name) if each.failure else at for each in self.listings}
        self.was_read = True


LISTING = (StaticTargets.kind, FileSd.kind)  # sources that the operator writes


class Discovery:
    """All sources of the options. Labels and credentials of a source that is listed first win."""

    def __init__(self, options: Options, before: "Discovery | None" = None) -> None:
        """Read nothing yet. A source that `before` has with the same options is kept, with what it read."""
        known: dict[str, SourceReads] = before._readings if before else {}  # noqa: SLF001  of this class
        waiting: list[SourceReads] = before._unused if before else []  # noqa: SLF001
        self._readings: dict[str, SourceReads] = {
            key: known.get(key) or SourceReads(make()) for key, make in _sources_of(options)
        }
        self._allowed = tuple(map(AllowedTargets.of, options.targets_allowed))
        self._admitted: dict[int, tuple[Target, Target]] = {}  # by the id() of what a source lists
        self._unused: list[SourceReads] = [*waiting, *(known[key] for key in known if key not in self._readings)]
        self.found: DiscoveryResult = before.found if before else DiscoveryResult(())

    async def discover(self, at: datetime | None = None, wait_seconds: float | None = None) -> DiscoveryResult:
        """Read every source; `at` is the time (UTC).

        A source that was read before is waited for so many seconds at most: its last targets stay until its answer is
        there. Of targets with one id, the first one's labels and credentials win, and one fresh mention makes it fresh.
        """
        while self._unused:
            await self._unused.pop().close()
        waiting: dict[bool, list[asyncio.Task[None]]] = {True: [], False: []}
        for each in self._readings.values():
            waiting[each.was_read].append(each.start(at))
        await asyncio.gather(_wait(waiting[True], wait_seconds), _wait(waiting[False], None))
        self.found = self._merged()
        return self.found

    def _merged(self) -> DiscoveryResult:
        first: dict[str, Mention] = {}
        scraped_at: dict[str, float] = {}
        counts: dict[str, ScrapedCounts] = {}
        repeated: dict[str, list[Mention]] = {}  # all mentions of the targets with several
        admitted, self._admitted = self._admitted, {}
        for kind, listing in ((each.source.kind, one) for each in self._readings.values() for one in each.listings):
            scraped_at |= listing.scraped_at
            counts |= listing.counts
            for listed in listing.targets:
                target = listed if kind in LISTING else self._admit(listed, admitted)
                mention = (listing, target)
                if (earlier := first.setdefault(target.id, mention)) is not mention:
                    repeated.setdefault(target.id, [earlier]).append(mention)
        merged = {name: reduce(_merge, (target for _, target in several)) for name, several in repeated.items()}
        for name, several in repeated.items():
            for listing, target in several:
                if target.scraped is not None and target.scraped is merged[name].scraped:
                    scraped_at[name] = listing.scraped_at[name]
                    counts |= {name: listing.counts[name]} if name in listing.counts else {}
        targets = tuple(merged.get(name, target) for name, (_, target) in first.items())
        conflicts = (each for name in first if name in repeated for each in _conflicts(repeated[name]))
        statuses = tuple(each for reading in self._readings.values() for each in reading.statuses())
        reported = tuple(
            listing.reported for each in self._readings.values() for listing in each.listings if listing.reported
        )
        few = tuple(islice(conflicts, MOST_CONFLICTS))
        return DiscoveryResult(targets, statuses, few, scraped_at, counts, reported)

    def _admit(self, listed: Target, before: Mapping[int, tuple[Target, Target]]) -> Target:
        """Return a target that only a source names, with its access: one object while the source lists one object."""
        known, target = before.get(id(listed), (None, listed))
        if known is not listed:
            is_inside = listed.failure is None and any(each.allows(listed.id) for each in self._allowed)
            is_allowed = is_inside or listed.access is TargetAccess.ALLOWED
            target = replace(listed, access=TargetAccess.ALLOWED if is_allowed else TargetAccess.NAMED)
        self._admitted[id(listed)] = listed, target
        return target

    async def aclose(self) -> None:
        for each in (*self._unused, *self._readings.values()):
            await each.close()


async def _wait(tasks: Sequence[asyncio.Task[None]], seconds: float | None) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)


def discover_once(options: Options, traffic: TrafficOptions = NO_TRAFFIC) -> DiscoveryResult:
    """Return the targets of the options, for one poll. Not from inside an event loop.

    `traffic` says whether Prometheus is asked for counters of use.
    """

    async def discover() -> DiscoveryResult:
        async with aclosing(Discovery(options.model_copy(update={"traffic": traffic}))) as discovery:
            return await discovery.discover()

    return asyncio.run(discover())


def _sources_of(options: Options) -> Iterator[tuple[str, Callable[[], TargetSource]]]:
    """Yield each source by a text that is equal for equal options. The order is that of precedence."""
    common = options.credentials
    yield f"{options.file} {options.targets!r} {common!r}", partial(StaticTargets, options)
    for each in options.file_sd:
        credentials = _credentials(each.credentials, common)
        yield f"{each!r} {credentials!r}", partial(FileSd, each, credentials)
    if options.dns_sd:
        from dashboard.sources.dns_sd import DnsSd  # noqa: PLC0415  dnspython takes a twentieth of a command's start
    for name in options.dns_sd:
        credentials = _credentials(name.credentials, common)
        yield f"{name!r} {credentials!r} {options.poll!r}", partial(DnsSd, name, credentials, options.poll)
    for url in options.http_sd:
        credentials, own = _credentials(url.credentials, common), _credentials(url.authorization, None)
        yield f"{url!r} {credentials!r} {options.poll!r}", partial(HttpSd, url, own, credentials, options.poll)
    for server in options.prometheus:
        credentials = _credentials(server.credentials, common)
        key = f"{server!r} {credentials!r} {options.poll!r} {options.traffic!r}"
        yield key, partial(Prometheus, server, credentials, options.poll, traffic=options.traffic)
    for pods in options.kubernetes:
        credentials = _credentials(pods.credentials, common)
        yield f"{pods!r} {credentials!r} {options.poll!r}", partial(Kubernetes, pods, credentials, options.poll)
    for other in options.dashboards:
        yield f"{other!r} {options.poll!r}", partial(Dashboard, other, options.poll)


def _conflicts(mentions: Sequence[Mention]) -> Iterator[LabelConflict]:
    """Yield the labels of one target on which its sources disagree."""
    first: dict[str, tuple[str, str]] = {}  # label -> value and source
    for listing, target in mentions:
        for label, value in target.labels.items():
            kept, owner = first.setdefault(label, (value, listing.name))
            if kept != value:
                yield LabelConflict(target.id, label, kept, owner, value, listing.name)


def _merge(first: Target, second: Target) -> Target:
    """Return one target of two with the same id. What was scraped is that of a fresh one.

    Credentials for addresses that a source names do not get access through another source.
    """
    trusted, other = (second, first) if second.access > first.access else (first, second)
    may_lend = other.access is trusted.access or other.access is not TargetAccess.NAMED
    scraped = second.scraped if first.scraped and first.stale and not second.stale else None
    return replace(
        first,
        labels={**second.labels, **first.labels},
        credentials=trusted.credentials or (other.credentials if may_lend else None),
        access=trusted.access,
        stale=first.stale and second.stale,
        scraped=scraped or first.scraped,
    )


def _credentials(own: CredentialsOptions | None, common: CredentialsOptions | None) -> Credentials | None:
    """Return a target's own credentials, else the common ones. Never a mixture: a token goes to its own target only."""
    chosen = own or common
    return chosen.places() if chosen else None
