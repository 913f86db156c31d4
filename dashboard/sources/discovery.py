"""Discovery: the targets of all sources that fleet.yaml names."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from functools import partial, reduce
from itertools import islice
from typing import NamedTuple

from dashboard.config import CredentialsOptions, Options
from dashboard.config.address import replica_id
from dashboard.fleet import MOST_CONFLICTS, Credentials, LabelConflict, SourceStatus, Target
from dashboard.sources.dns_sd import DnsSd
from dashboard.sources.file_sd import FileSd
from dashboard.sources.http_sd import HttpSd
from dashboard.sources.kubernetes import Kubernetes
from dashboard.sources.prometheus import Prometheus
from dashboard.sources.source import Listing, Source

__all__ = ["Discovered", "Discovery", "discover_once", "replica_id"]


Mention = tuple[str, Target]  # the name of the source, and what it lists


class Discovered(NamedTuple):
    """The targets of all sources, each once, the status of each place that lists targets, and where they disagree."""

    targets: tuple[Target, ...]
    sources: tuple[SourceStatus, ...] = ()
    conflicts: tuple[LabelConflict, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """Return a sentence for each place that cannot be read."""
        return tuple(each.failure for each in self.sources if each.failure)


class Static:
    """The option `targets`."""

    kind = "static"

    def __init__(self, options: Options) -> None:
        """List the addresses of the options file."""
        credentials = options.credentials
        targets = [
            Target(each.url, each.labels, _credentials(each.credentials, credentials)) for each in options.targets
        ]
        self._listing = Listing(options.file, tuple(targets))

    async def read(self) -> list[Listing]:
        """Return one listing."""
        return [self._listing] if self._listing.targets else []

    async def close(self) -> None:
        """Do nothing."""


class Discovery:
    """All sources of the options. Labels and credentials of a source that is listed first win."""

    def __init__(self, options: Options, before: "Discovery | None" = None) -> None:
        """Read nothing yet. A source that `before` has with the same options is kept, with what it read."""
        known: dict[str, Source] = before._sources if before else {}  # noqa: SLF001  of this class
        waiting: list[Source] = before._unused if before else []  # noqa: SLF001
        self._sources: dict[str, Source] = {key: known.get(key) or make() for key, make in _sources_of(options)}
        self._unused: list[Source] = [*waiting, *(known[key] for key in known if key not in self._sources)]
        self.found: Discovered = before.found if before else Discovered(())

    async def discover(self, at: datetime | None = None) -> Discovered:
        """Read every source; `at` is the time (UTC).

        Of targets with one id, the first one's labels and credentials win, and one fresh mention makes it fresh.
        """
        while self._unused:
            await self._unused.pop().close()
        succeeded = {(each.kind, each.name): each.succeeded_at for each in self.found.sources}
        sources = list(self._sources.values())
        read = await asyncio.gather(*(each.read() for each in sources))
        listings = [(source.kind, each) for source, found in zip(sources, read, strict=True) for each in found]
        first: dict[str, Mention] = {}
        repeated: dict[str, list[Mention]] = {}  # all mentions of the targets with several
        statuses = []
        for kind, listing in listings:
            last = succeeded.get((kind, listing.name)) if listing.failure else at
            ids = tuple(each.id for each in listing.targets)
            statuses.append(SourceStatus(listing.name, kind, ids, last, listing.failure))
            for target in listing.targets:
                mention = (listing.name, target)
                if (earlier := first.setdefault(target.id, mention)) is not mention:
                    repeated.setdefault(target.id, [earlier]).append(mention)
        merged = {name: reduce(_merge, (target for _, target in several)) for name, several in repeated.items()}
        targets = tuple(merged.get(name, target) for name, (_, target) in first.items())
        conflicts = (each for name in first if name in repeated for each in _conflicts(repeated[name]))
        self.found = Discovered(targets, tuple(statuses), tuple(islice(conflicts, MOST_CONFLICTS)))
        return self.found

    async def aclose(self) -> None:
        """Close every source."""
        for source in (*self._unused, *self._sources.values()):
            await source.close()


def discover_once(options: Options) -> Discovered:
    """Return the targets of the options, for one poll. Not from inside an event loop."""

    async def discover() -> Discovered:
        async with aclosing(Discovery(options)) as discovery:
            return await discovery.discover()

    return asyncio.run(discover())


def _sources_of(options: Options) -> Iterator[tuple[str, Callable[[], Source]]]:
    """Yield each source by a text that is equal for equal options. The order is that of precedence."""
    common = options.credentials
    yield f"{options.file} {options.targets!r} {common!r}", partial(Static, options)
    for each in options.file_sd:
        credentials = _credentials(each.credentials, common)
        yield f"{each!r} {credentials!r}", partial(FileSd, each, credentials)
    for name in options.dns_sd:
        credentials = _credentials(name.credentials, common)
        yield f"{name!r} {credentials!r} {options.poll!r}", partial(DnsSd, name, credentials, options.poll)
    for url in options.http_sd:
        credentials, own = _credentials(url.credentials, common), _credentials(url.authorization, None)
        yield f"{url!r} {credentials!r} {options.poll!r}", partial(HttpSd, url, own, credentials, options.poll)
    for server in options.prometheus:
        credentials = _credentials(server.credentials, common)
        yield f"{server!r} {credentials!r} {options.poll!r}", partial(Prometheus, server, credentials, options.poll)
    for pods in options.kubernetes:
        credentials = _credentials(pods.credentials, common)
        yield f"{pods!r} {credentials!r} {options.poll!r}", partial(Kubernetes, pods, credentials, options.poll)


def _conflicts(mentions: Sequence[Mention]) -> Iterator[LabelConflict]:
    """Yield the labels of one target on which its sources disagree."""
    first: dict[str, tuple[str, str]] = {}  # label -> value and source
    for source, target in mentions:
        for label, value in target.labels.items():
            kept, owner = first.setdefault(label, (value, source))
            if kept != value:
                yield LabelConflict(target.id, label, kept, owner, value, source)


def _merge(first: Target, second: Target) -> Target:
    """Return one target of two with the same id. What was scraped is that of a fresh one."""
    scraped = second.scraped if first.scraped and first.stale and not second.stale else None
    return replace(
        first,
        labels={**second.labels, **first.labels},
        credentials=first.credentials or second.credentials,
        stale=first.stale and second.stale,
        scraped=scraped or first.scraped,
    )


def _credentials(own: CredentialsOptions | None, common: CredentialsOptions | None) -> Credentials | None:
    """Return a target's own credentials, else the common ones. Never a mixture: a token goes to its own target only."""
    chosen = own or common
    return chosen.places() if chosen else None
