"""The poll of replicas that Prometheus scrapes: of those with equal digests only one is asked, if its answer has them.

At each full poll a sample of each group is asked, too. While a replica of a group has digests that its answer does not
have, each of them is asked directly, and none answers for another.

A replica whose configuration endpoint answers 401, and whose /metrics is open, has the settings of one that answered
with equal digests.

Counters of use are those that Prometheus scraped, except of replicas that every poll asks: these have later ones.

What was not read from a replica itself is what its digests cover: settings that are not identity settings, LoRA
adapters, KV cache groups and block hashes. Devices, memory, capacity of the provider and arguments are not reported.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from dashboard.config import NO_TRAFFIC, PollOptions, TrafficOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import (
    EngineReport,
    Failure,
    FailureKind,
    ProbeResult,
    Reply,
    ScrapedMetrics,
    Snapshot,
    Source,
    Target,
)
from dashboard.fleet.traffic import ReplicaTraffic
from dashboard.garbage import uncollected
from dashboard.sources.http.failures import Endpoint
from dashboard.sources.polling.poller import Poller
from dashboard.sources.polling.probes import INFERENCE_CONFIG, METRICS, Reader
from dashboard.sources.source import ScrapedCounts
from dashboard.vllm.metrics import parse_metrics
from vllm_fleet_provider.shared.digests import SCHEME, EngineDigests, differing_digests, has_digests, kept_digests

DigestKey: TypeAlias = tuple[EngineDigests, ...]
SAMPLE = 2  # replicas of one key that are asked at each full poll besides the one that answers for it, in turn
TRIES = 3  # replicas of one key that are asked in one poll, where the first does not answer
NOT_SCRAPED = "Prometheus cannot reach this replica, and it is not asked directly (direct: never)."


class DigestSource(NamedTuple):
    """The replica that answered for its key, and what its digests cover of its answers."""

    id: str
    shared: Reply


class DigestPoller:
    """Polls as `Poller` does, except replicas whose target has what Prometheus scraped."""

    def __init__(
        self,
        limits: PollOptions,
        clock: Callable[[], float] = time.monotonic,
        traffic: TrafficOptions = NO_TRAFFIC,
    ) -> None:
        """Poll within `limits`; `clock` is monotonic, in seconds."""
        self._limits = limits
        self._clock = clock
        self._traffic = traffic
        self._poller = Poller(limits, clock, traffic)
        self._reader = Reader()
        self._sources: dict[DigestKey, DigestSource] = {}  # last time
        # When a sample of a group was asked, and the place in the group where the next one begins.
        self._sampling: dict[DigestKey, tuple[float, int]] = {}
        self._doubted: frozenset[DigestKey] = frozenset()  # of groups with wrong digests
        self._keys: dict[bytes, DigestKey | None] = {}  # by the lines of a replica
        self._read: dict[bytes, ProbeResult] = {}
        self._last: dict[str, Snapshot] = {}
        # Of replicas whose counters Prometheus has: the time of the last scrape, and what was counted.
        self._windows: dict[str, tuple[float, ReplicaTraffic]] = {}
        self._copied: dict[str, DigestSource | None] = {}  # of the last poll: whose answer an unasked replica has

    async def poll(
        self,
        targets: Iterable[Target],
        now: Callable[[], datetime],
        on_done: Callable[[int, int], None] = lambda _done, _total: None,
        scraped_at: Mapping[str, float] = MappingProxyType({}),
        counts: Mapping[str, ScrapedCounts] = MappingProxyType({}),
    ) -> tuple[Snapshot, ...]:
        """Return one snapshot per target id, in the order of `targets` (see `Poller.poll`).

        `scraped_at` is when Prometheus scraped each target last, by its id, in seconds since 1970. `counts` are the
        counters of a scrape; those of a replica that every poll asks are read from its own page.
        """
        unique: dict[str, Target] = {}
        for target in targets:
            unique.setdefault(target.id, target)
        groups, rest = self._by_key(unique.values())
        direct = [each for each in rest if each.scraped is None or each.scraped.falls_back or each.failure]
        trusted = {key: group for key, group in groups.items() if key not in self._doubted}
        direct += [each for key, group in groups.items() if key in self._doubted for each in group]
        samples = [each for key, group in trusted.items() for each in self._sample(key, group)]
        snapshots, sources = await self._poll_with_one_of_each([*direct, *samples], trusted, now, on_done)
        self._doubted = frozenset(key for key, group in groups.items() if _is_doubtful(key, group, snapshots))
        sources = {key: each for key, each in sources.items() if key not in self._doubted}
        unused = {each.id for each in samples} - {each.id for each in sources.values()}
        snapshots = {name: each for name, each in snapshots.items() if name not in unused}
        doubted = [each for key in self._doubted for each in groups[key] if each.id not in snapshots]
        snapshots |= {each.target.id: each for each in await Poller(self._limits).poll(doubted, now)}
        with uncollected():
            locked = {name: key for name, each in snapshots.items() if (key := _locked_key(each))}
            sources |= self._answers_for(set(locked.values()) - sources.keys() - self._doubted, snapshots)
            snapshots |= {
                name: _with_shared(snapshots[name], sources[key]) for name, key in locked.items() if key in sources
            }
            copied: dict[str, DigestSource | None] = {}
            polled = dict(snapshots)
            for source, several in (*((sources.get(key), group) for key, group in groups.items()), (None, rest)):
                for target in several:
                    if target.id not in snapshots and target.scraped:
                        copied[target.id] = source
                        polled[target.id] = self._copy(target, target.scraped, source)
        wanted = {*groups, *locked.values()}
        self._sources = {key: each for key, each in (self._sources | sources).items() if key in wanted}
        self._sampling = {key: each for key, each in self._sampling.items() if key in groups}
        self._read = {each: result for each, result in self._read.items() if each in self._keys}
        polled |= {each.id: self._with_earlier(polled[each.id], scraped_at.get(each.id)) for each in rest}
        self._count(counts, {each.id for each in direct}, polled)
        self._last, self._copied = polled, copied
        return tuple(polled[name] for name in unique)

    async def _poll_with_one_of_each(
        self,
        direct: Sequence[Target],
        groups: Mapping[DigestKey, Sequence[Target]],
        now: Callable[[], datetime],
        on_done: Callable[[int, int], None],
    ) -> tuple[dict[str, Snapshot], dict[DigestKey, DigestSource]]:
        """Poll `direct` and one replica of each group; return their snapshots, and who answered for its group."""
        waiting = {key: self._candidates(key, group) for key, group in groups.items()}
        snapshots: dict[str, Snapshot] = {}
        sources: dict[DigestKey, DigestSource] = {}
        for number in range(TRIES):
            chosen = {key: several[number] for key, several in waiting.items() if number < len(several)}
            asked = [*([] if number else direct), *chosen.values()]
            poller = self._poller if number == 0 else Poller(self._limits)
            polled = await poller.poll(asked, now, on_done) if asked or number == 0 else ()
            found = {each.target.id: each for each in polled}
            snapshots |= found
            for key, one in chosen.items():
                if shared := _shared_part(found[one.id], key):
                    del waiting[key]
                    sources[key] = self._source(key, one.id, shared)
        return snapshots, sources

    def _answers_for(
        self, keys: Collection[DigestKey], snapshots: Mapping[str, Snapshot]
    ) -> dict[DigestKey, DigestSource]:
        """Return for each of these keys a replica of this poll that answered."""
        found: dict[DigestKey, DigestSource] = {}
        for name, snapshot in snapshots.items() if keys else ():
            key = _key_of(snapshot)
            if key is not None and key in keys - found.keys() and (shared := _shared_part(snapshot, key)):
                found[key] = self._source(key, name, shared)
        return found

    def _source(self, key: DigestKey, name: str, shared: Reply) -> DigestSource:
        """Return one object while it is equal: copies and the facts of unchanged replicas are kept by it."""
        before = self._sources.get(key)
        if before is None or before.shared != shared:
            return DigestSource(name, shared)
        return before if before.id == name else before._replace(id=name)

    def _candidates(self, key: DigestKey, group: Sequence[Target]) -> list[Target]:
        """Return the replicas of a group to ask, one after the other: first the one that answered last time."""
        before = self._sources.get(key)
        known = before.id if before else None
        first = [each for each in group if each.id == known]
        return [*first, *(each for each in group[:TRIES] if each.id != known)][:TRIES]

    def _sample(self, key: DigestKey, group: Sequence[Target]) -> list[Target]:
        """Return the replicas of a group whose answers are compared in this poll."""
        (asked, place), now = self._sampling.get(key, (-math.inf, 0)), self._clock()
        if now - asked < self._limits.full_poll_interval_seconds:
            return []
        speaker = self._candidates(key, group)[0]
        others = [each for each in group if each is not speaker]
        start = place % len(others) if others else 0
        self._sampling[key] = (now, start + SAMPLE)
        return [*others[start:], *others[:start]][:SAMPLE]

    def _by_key(self, targets: Iterable[Target]) -> tuple[Mapping[DigestKey, Sequence[Target]], list[Target]]:
        """Group the replicas whose digests are known, and return the rest."""
        rest: list[Target] = []
        by_lines: dict[bytes, list[Target]] = defaultdict(list)
        for target in targets:
            if target.scraped is None or target.failure:
                rest.append(target)
            else:
                by_lines[target.scraped.lines].append(target)
        self._keys = {each: self._keys[each] if each in self._keys else _key(each) for each in by_lines}
        groups: dict[DigestKey, list[Target]] = defaultdict(list)
        for lines, several in by_lines.items():
            key = self._keys[lines]
            (rest if key is None else groups[key]).extend(several)
        return groups, rest

    def _count(self, counts: Mapping[str, ScrapedCounts], asked: Collection[str], polled: dict[str, Snapshot]) -> None:
        """Add the counters of later scrapes to their windows, and give the snapshots what these counted.

        While Prometheus cannot reach a replica its window stays: the process counts on. `asked` have their own.
        """
        before, self._windows = self._windows, {}
        for name, snapshot in polled.items():
            if name in asked:
                continue
            scrape, scraped = counts.get(name), snapshot.target.scraped
            if scrape is None or scraped is None or not scraped.lines:
                self._windows |= {name: before[name]} if name in before else {}
                traffic, counted = ({}, {}) if snapshot.is_scraped else (snapshot.traffic, snapshot.counted)
            else:
                at, window = before.get(name, (0.0, None))
                if window is None or scrape.at < at:  # the clock of Prometheus was set back
                    at, window = 0.0, ReplicaTraffic()
                if scrape.at > at:
                    window.add(scrape.at, scrape.engines, self._traffic.window_seconds)
                self._windows[name] = scrape.at, window
                traffic, counted = window.traffic, window.counted if scrape.at > at else {}
            if (snapshot.traffic, snapshot.counted) != (traffic, counted):
                polled[name] = replace(snapshot, traffic=traffic, counted=counted)

    def _copy(self, target: Target, scraped: ScrapedMetrics, source: DigestSource | None) -> Snapshot:
        """Return a replica that was not asked: what Prometheus has, and what another has in common."""
        before = self._last.get(target.id)
        if before and before.is_scraped and before.target is target and self._copied.get(target.id) is source:
            return before
        other, shared = source or (None, None)
        probes = {METRICS.path: self._metrics(target, scraped)}
        if shared:
            probes[INFERENCE_CONFIG] = ProbeResult(INFERENCE_CONFIG, Source.PROVIDER, scraped.at, 0.0, reply=shared)
        return Snapshot(target, scraped.at, probes, other, is_scraped=True)

    def _with_earlier(self, snapshot: Snapshot, scraped_at: float | None) -> Snapshot:
        """Return a replica that answers nothing with its replies of the last poll, as `Poller` does.

        Those of another pod at the same address do not count.
        """
        target, before = snapshot.target, self._last.get(snapshot.target.id)
        result = snapshot.probes.get(METRICS.path)
        failure = result.failure if result else None
        if before is None or failure is None or any(each.reply for each in snapshot.probes.values()):
            return snapshot
        if before.target.labels != target.labels:
            return snapshot
        at = datetime.fromtimestamp(scraped_at, UTC) if before.is_scraped and scraped_at else None
        earlier = {
            path: replace(each, observed_at=at or each.observed_at, failure=failure)
            for path, each in before.probes.items()
            if each.reply
        }
        probes = {**snapshot.probes, **earlier}
        return replace(snapshot, probes=probes, same_digest_as=before.same_digest_as)

    def _metrics(self, target: Target, scraped: ScrapedMetrics) -> ProbeResult:
        if known := self._read.get(scraped.lines):
            # Not dataclasses.replace, which takes six times as long.
            return ProbeResult(
                known.path, known.source, scraped.at, 0.0, None, known.size_bytes, known.raw, known.reply
            )
        result = ProbeResult(METRICS.path, METRICS.source, scraped.at, 0.0, size_bytes=len(scraped.lines))
        if not scraped.lines:
            return replace(result, failure=Failure(FailureKind.REFUSED, NOT_SCRAPED))
        read = self._reader.read(METRICS, Endpoint(target.id, METRICS.path), scraped.lines)
        if isinstance(read, Failure):
            return replace(result, failure=read)
        result = self._read[scraped.lines] = replace(result, reply=read.reply, raw=read.raw)
        return result


def _key(lines: bytes) -> DigestKey | None:
    """Return the digests in the lines of a replica; None where one is missing or of another scheme."""
    digests = _digests(lines)
    is_known = all(each.scheme == SCHEME and None not in each for each in digests)
    return digests if digests and is_known else None


def _key_of(snapshot: Snapshot) -> DigestKey | None:
    """Return the digests that a polled replica has on /metrics."""
    metrics = snapshot.probes.get(METRICS.path)
    return _key(metrics.raw) if metrics and metrics.reply and not metrics.failure else None


def _locked_key(snapshot: Snapshot) -> DigestKey | None:
    """Return the digests of a replica whose configuration was never read: it needs an API key."""
    result = snapshot.probes.get(INFERENCE_CONFIG)
    if result is None or result.reply or result.failure is None:
        return None
    return _key_of(snapshot) if result.failure.kind is FailureKind.UNAUTHORIZED else None


def _with_shared(snapshot: Snapshot, source: DigestSource) -> Snapshot:
    """Return a locked replica with what its digests cover; it stays partial, with the failure."""
    probes = {**snapshot.probes, INFERENCE_CONFIG: replace(snapshot.probes[INFERENCE_CONFIG], reply=source.shared)}
    return replace(snapshot, probes=probes, same_digest_as=source.id)


def _shared_part(snapshot: Snapshot, key: DigestKey) -> Reply | None:
    """Return what the digests cover of a replica's answers; None without, or if it restarted since the scrape."""
    answered = {each.reply.source: each for each in snapshot.probes.values() if each.reply and not each.failure}
    metrics, full = answered.get(Source.METRICS), answered.get(Source.PROVIDER)
    if metrics is None or full is None or full.reply is None or _digests(metrics.raw) != key:
        return None
    if not has_digests(full.reply.digests, kept_digests(key)):
        return None
    models, reply = answered.get(Source.MODELS), full.reply
    ranks = {each.engine for each in key}
    engines = [EngineReport(each.dp_rank, fingerprint=each.fingerprint) for each in reply.engines]
    return Reply(
        Source.PROVIDER,
        reply.settings,
        version=reply.version,
        served_model_names=reply.served_model_names,
        # Adapters change without a restart: those of this poll.
        adapters=models.reply.adapters if models and models.reply else reply.adapters,
        engines=tuple(each for each in engines if each.dp_rank in ranks),
        kv_cache_groups=tuple(each for each in reply.kv_cache_groups if each.dp_rank in ranks),
        not_understood=reply.not_understood,
    )


def _is_doubtful(key: DigestKey, group: Iterable[Target], snapshots: Mapping[str, Snapshot]) -> bool:
    """Return whether a replica of a group that was asked has digests that its answer does not have."""
    asked = [snapshots[each.id] for each in group if each.id in snapshots]
    shared = [each for each in (_shared_part(one, key) for one in asked) if each]
    return any(map(_is_wrong, asked)) or any(each.settings != shared[0].settings for each in shared)


def _is_wrong(snapshot: Snapshot) -> bool:
    replies = {each.reply.source: each.reply.digests for each in snapshot.probes.values() if each.reply}
    return bool(differing_digests(replies.get(Source.METRICS, {}), replies.get(Source.PROVIDER, {})))


def _digests(lines: bytes) -> DigestKey:
    """Return the digests of each engine, none of a page that cannot be read or reports no cache."""
    try:
        page = parse_metrics(lines)
    except UnreadableError:
        return ()
    return tuple(sorted(page.digests)) if page.cache_config else ()
