"""The poll: every target, some in parallel, within one time limit; and the state that is kept between polls."""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import itemgetter

from dashboard.config import NO_TRAFFIC, PollOptions, TrafficOptions
from dashboard.fleet import Failure, FailureKind, ProbeResult, Snapshot, Source, Target
from dashboard.fleet.traffic import EngineCounts, ReplicaTraffic
from dashboard.sources.http import credentials, failures, grpc
from dashboard.sources.http.client import Answer, Client
from dashboard.sources.polling.probes import (
    BY_PATH,
    GRPC_PROBES,
    METRICS,
    MODELS,
    PROBES,
    PROVIDER,
    VERSION,
    Probe,
    Reader,
    grpc_port,
)
from dashboard.sources.polling.spread import delays_of, phase_of
from dashboard.vllm.canonical import forget_unused
from dashboard.vllm.metrics import can_load_adapters
from dashboard.vllm.reading import excerpt
from dashboard.vllm.traffic import read_counts
from vllm_fleet_provider.shared.redaction import redact_keys

READERS = 2  # threads; they share one interpreter, and one costly answer leaves one thread to the others
# After one of these on the first probe the others would fail in the same way, only later, or mean nothing.
OUT_OF_REACH = frozenset(
    {
        *(FailureKind.DNS, FailureKind.REFUSED, FailureKind.TLS, FailureKind.TIMEOUT, FailureKind.TARGET),
        FailureKind.NOT_VLLM,
    }
)
# Processor time for the answers of one replica in one poll; the largest captures take 0.01 s together.
READ_SECONDS = 1.0
FULL_SPREAD = 0.5  # of the interval between full polls, by which the second one is earlier
# Bytes of an answer that is read without a thread: 1 ms for hostile JSON, 0.1 ms for a page of lines; of one that is
# known only the digest is made, 0.3 ms.
SMALL = {METRICS.path: 64 * 2**10}
SMALL_JSON, SMALL_KNOWN = 4 * 2**10, 256 * 2**10


@dataclass(frozen=True, slots=True)
class ReplicaCache:
    """The state of a replica between polls: the latest result of each probe, keyed by path.

    A probe that fails keeps its earlier reply, with the `failure`; `observed_at` is then the time of the reply. When
    no probe answers, every earlier reply gets the failure of `/metrics`: a replica is down when no result has a reply
    without a failure. A restart clears the state. `asked_everything_at` (monotonic clock) is None for a full poll next.
    `etags` are those of the answers, by path. `traffic` is that of its engines.
    """

    probes: Mapping[str, ProbeResult] = field(default_factory=dict)
    asked_everything_at: float | None = None
    etags: Mapping[str, str] = field(default_factory=dict)
    traffic: ReplicaTraffic = field(default_factory=ReplicaTraffic)


class Poller:
    """Polls all targets repeatedly. Between polls it keeps each replica's replies, and no connection."""

    def __init__(
        self,
        limits: PollOptions,
        clock: Callable[[], float] = time.monotonic,
        traffic: TrafficOptions = NO_TRAFFIC,
    ) -> None:
        """Poll within `limits`; `connections` is also the number of replicas in parallel. `clock` is monotonic."""
        self._limits = limits
        self._traffic = traffic
        self._counted_at = -math.inf  # when a poll last read the counters of every replica
        self._clock = clock
        self._reader = Reader()
        self._caches: dict[str, ReplicaCache] = {}

    async def poll(
        self,
        targets: Iterable[Target],
        now: Callable[[], datetime],
        on_done: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> tuple[Snapshot, ...]:
        """Return one snapshot per target id, in the order of `targets`; of two targets with one id the first counts.

        First contact sends every probe; later polls only what can have changed, and every probe again after
        `full_poll_interval_seconds`, after a restart, and when the replica did not answer last time. A snapshot has
        the latest result of each probe (see `ReplicaCache`). A replica's errors never raise. `now` gives UTC times;
        `on_done` gets the number of finished and of all replicas.
        """
        unique: dict[str, Target] = {}
        for target in targets:
            unique.setdefault(target.id, target)
        self._caches = {name: self._caches.get(name, ReplicaCache()) for name in unique}
        snapshots = await self._poll_all(list(unique.values()), now, on_done)
        forget_unused()
        self._reader.forget_all_but(result for cache in self._caches.values() for result in cache.probes.values())
        return tuple(snapshots[name] for name in unique)

    async def _poll_all(
        self, targets: list[Target], now: Callable[[], datetime], on_done: Callable[[int, int], None]
    ) -> dict[str, Snapshot]:
        limits = self._limits
        keys = {target.credentials: credentials.find(target.credentials) for target in targets}
        redact_keys(key.token for key in keys.values() if key.token)
        snapshots: dict[str, Snapshot] = {}
        loop = asyncio.get_running_loop()
        began = loop.time()
        is_counting = self._is_counting()
        known = {name for name, each in self._caches.items() if each.probes}
        delays = delays_of([target.id for target in targets], known, limits)
        waiting = iter(sorted(zip(delays, targets, strict=True), key=itemgetter(0)))

        async def work(client: Client, pool: Executor, ends_at: float) -> None:
            for delay, target in waiting:
                if (left := began + delay - loop.time()) > 0:
                    await asyncio.sleep(left)
                visit = Visit(
                    client=client,
                    reader=self._reader,
                    pool=pool,
                    target=target,
                    key=keys[target.credentials],
                    cache=self._caches[target.id],
                    now=now,
                    clock=self._clock,
                    limits=limits,
                    traffic=self._traffic,
                    is_counting=is_counting,
                    ends_at=ends_at,
                )
                self._caches[target.id] = cache = await visit.run()
                is_counted = METRICS.path in cache.probes and _answered(cache.probes[METRICS.path])
                traffic = cache.traffic.traffic if is_counted else {}
                counted = cache.traffic.counted if visit.counts is not None else {}
                snapshots[target.id] = Snapshot(target, now(), cache.probes, traffic=traffic, counted=counted)
                on_done(len(snapshots), len(targets))

        client = Client(
            connections=limits.connections,
            max_answer_bytes=limits.max_answer_bytes,
            max_headers=limits.max_headers,
        )
        with _reading() as pool:
            async with client, asyncio.TaskGroup() as group:
                ends_at = client.time() + limits.poll_timeout_seconds
                for _ in range(min(limits.connections, len(targets))):
                    group.create_task(work(client, pool, ends_at))
        return snapshots

    def _is_counting(self) -> bool:
        """Return whether this poll reads the counters of every replica."""
        now = self._clock()
        if not self._traffic.are_due(now - self._counted_at, self._limits):
            return False
        self._counted_at = now
        return True


@contextmanager
def _reading() -> Iterator[Executor]:
    """Provide the threads that read answers; a busy one ends by itself after the poll."""
    pool = ThreadPoolExecutor(READERS, thread_name_prefix="reading")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True, kw_only=True)
class Visit:
    """One poll of one replica. `ends_at`, the end of the poll, is a time of the client's clock.

    `clock` is monotonic, in seconds; `pool` reads the answers, so that the event loop stays free.
    """

    client: Client
    reader: Reader
    pool: Executor
    target: Target
    key: credentials.ApiKey
    cache: ReplicaCache
    now: Callable[[], datetime]
    clock: Callable[[], float]
    limits: PollOptions
    traffic: TrafficOptions
    is_counting: bool
    ends_at: float
    waited_seconds: float = 0.0  # for the replica
    read_seconds: float = 0.0  # processor time for its answers
    etags: dict[str, str] = field(init=False)
    counts: Mapping[int, EngineCounts] | None = None  # of the page that was read

    def __post_init__(self) -> None:
        self.etags = dict(self.cache.etags)

    @property
    def counts_are_due(self) -> bool:
        """Return whether the page is read for its counters: in turn, or to begin the window."""
        return self.is_counting or (self.traffic.enabled and self.cache.traffic.is_new)

    async def run(self) -> ReplicaCache:
        """Send what is due: one request where its answer proves that nothing changed. Return the new state."""
        cache, fresh = self.cache, dict[str, ProbeResult]()
        asked_at = cache.asked_everything_at
        full = asked_at is None or self.clock() - asked_at >= self.limits.full_poll_interval_seconds
        before = None if full else self._proof()
        if before:
            fresh[PROVIDER.path] = result = await self._ask(PROVIDER, last=not self.counts_are_due)
            is_same = result.reply is before.reply and not result.failure and PROVIDER.path in self.etags
            if is_same and _has_both_replies(cache.probes) and not self.counts_are_due:
                return ReplicaCache({**cache.probes, **fresh}, asked_at, self.etags, cache.traffic)
        alone = not full and not _needs_models(cache.probes)
        fresh[METRICS.path] = metrics = await self._ask(METRICS, last=alone)
        if metrics.failure and metrics.failure.kind in OUT_OF_REACH:
            return _down(fresh, cache, metrics.failure)
        if _restarted(cache.probes.get(METRICS.path), metrics):
            self.cache = cache = ReplicaCache()
            fresh, full = {METRICS.path: metrics}, True
        if self.counts is not None:
            cache.traffic.add(self.clock(), self.counts, self.traffic.window_seconds)
        await self._ask_rest(fresh, full=full)
        if metrics.failure and not any(_answered(result) for result in fresh.values()):
            return _down(fresh, cache, metrics.failure)
        if full:
            earlier = 0.0 if cache.probes else FULL_SPREAD * phase_of(self.target.id)  # not all in one poll again
            asked_at = self.clock() - earlier * self.limits.full_poll_interval_seconds
            kept = {**_not_repeated(fresh, cache), **_with_earlier(fresh, cache)}
            return ReplicaCache(kept, asked_at, self.etags, cache.traffic)
        return ReplicaCache({**cache.probes, **_with_earlier(fresh, cache)}, asked_at, self.etags, cache.traffic)

    async def _ask_rest(self, fresh: dict[str, ProbeResult], *, full: bool) -> None:
        """Add the results of the probes after the first one; of gRPC only in a full poll, where a port is set."""
        for probe in PROBES[1:]:
            is_due = full or (probe is MODELS and _needs_models({**self.cache.probes, **fresh}))
            if is_due and _applies(probe, fresh):
                fresh[probe.path] = await self._ask(probe, last=probe is MODELS)
        if full and (port := grpc_port(self.target, self.limits, fresh[VERSION.path].reply)):
            for probe in GRPC_PROBES:
                if _applies(probe, fresh):
                    fresh[probe.path] = await self._ask(probe, port=port)

    def _proof(self) -> ProbeResult | None:
        """Return the answer of our provider whose ETag proves that nothing changed, where it is asked for again.

        It is not where the counters of the page are read: that shows a restart, and there is no LoRA adapter.
        """
        before = self.cache.probes.get(PROVIDER.path)
        if before is None or not _covers_process(before):
            return None
        if before.failure:
            return before
        is_spared = self.counts_are_due and not _needs_models(self.cache.probes)
        return before if PROVIDER.path in self.cache.etags and not is_spared else None

    async def _ask(self, probe: Probe, *, last: bool = False, port: str | None = None) -> ProbeResult:
        """Send one GET, which `last` makes the last of its connection; with a port one gRPC call."""
        endpoint = failures.Endpoint(self.target.id, probe.path)
        failure = self.target.failure or self._used_up(endpoint)
        if failure:
            return ProbeResult(probe.path, probe.source, self.now(), 0.0, failure=failure)
        earlier = self.cache.probes.get(probe.path)
        etag = self.etags.pop(probe.path, None)
        etag = etag if earlier and _answered(earlier) else None
        began = self.client.time()
        left = self.limits.replica_timeout_seconds - self.waited_seconds
        seconds = min(self.limits.probe_timeout_seconds, left, self.ends_at - began)
        if port is None:
            answer = await self.client.get(self.target, probe.path, seconds, key=self.key, last=last, etag=etag)
        else:
            answer = await grpc.call(self.client, self.target, port, probe.path, seconds, self.key)
        elapsed = self.client.time() - began
        self.waited_seconds += elapsed
        if answer.etag:
            self.etags[probe.path] = answer.etag
        if answer.is_unchanged and earlier:
            return replace(earlier, observed_at=self.now(), elapsed_seconds=elapsed)
        at = self.now()
        if answer.status == failures.NOT_FOUND and not probe.expected:
            return ProbeResult(probe.path, probe.source, at, elapsed, answer.status, len(answer.body))
        small = SMALL_JSON if answer.failure else SMALL.get(probe.path, SMALL_JSON)
        size = len(answer.body)
        if size <= small or (size <= SMALL_KNOWN and self.reader.knows(probe, answer.body)):
            return self._read(probe, answer, at, elapsed)  # a thread costs more than the reading
        return await asyncio.get_running_loop().run_in_executor(self.pool, self._read, probe, answer, at, elapsed)

    def _used_up(self, endpoint: failures.Endpoint) -> Failure | None:
        """Return the limit that this replica or the poll has used up."""
        if self.client.time() >= self.ends_at:
            return failures.poll_over(endpoint)
        if self.waited_seconds >= self.limits.replica_timeout_seconds:
            return failures.no_time(endpoint)
        return failures.too_costly(endpoint, READ_SECONDS) if self.read_seconds > READ_SECONDS else None

    def _read(self, probe: Probe, answer: Answer, at: datetime, elapsed: float) -> ProbeResult:
        began = time.thread_time()
        read = answer.failure or self.reader.read(probe, failures.Endpoint(self.target.id, probe.path), answer.body)
        failure, reply = (read, None) if isinstance(read, Failure) else (None, read.reply)
        if probe is METRICS and failure is None and self.counts_are_due:
            self.counts = read_counts(answer.body)
        raw = excerpt(answer.body) if isinstance(read, Failure) else read.raw
        self.read_seconds += time.thread_time() - began
        size = len(answer.body)
        return ProbeResult(probe.path, probe.source, at, elapsed, answer.status, size, raw, reply, failure)


def _answered(result: ProbeResult) -> bool:
    return result.reply is not None and result.failure is None


def _has_both_replies(probes: Mapping[str, ProbeResult]) -> bool:
    return all(probe.path in probes and _answered(probes[probe.path]) for probe in (METRICS, MODELS))


def _covers_process(result: ProbeResult) -> bool:
    """Return whether an equal answer with an ETag proves that nothing changed.

    Our provider sends one only where its answer has the start time and the LoRA adapters.
    """
    reply = result.reply
    return reply is not None and reply.source is Source.PROVIDER and reply.started_at is not None


def _needs_models(probes: Mapping[str, ProbeResult]) -> bool:
    """Return whether `/v1/models` may have changed without a restart: only LoRA adapters do."""
    return not _has_both_replies(probes) or can_load_adapters(probes[METRICS.path].raw)


def _applies(probe: Probe, fresh: Mapping[str, ProbeResult]) -> bool:
    if probe.needs is not None:
        return _answered(fresh[probe.needs])
    return probe.unless is None or not _answered(fresh[probe.unless])


def _restarted(before: ProbeResult | None, after: ProbeResult) -> bool:
    """Return whether the process was restarted between two replies to `/metrics`.

    Without a start time, lower `_total` counters or other settings prove it: both are constant or rising in a process.
    """
    if before is None or before.reply is None or after.reply is None:
        return False
    old, new = before.reply, after.reply
    if old.started_at is not None or new.started_at is not None:
        return old.started_at != new.started_at
    fell = old.counters is not None and new.counters is not None and new.counters < old.counters
    return fell or old.settings != new.settings


def _with_earlier(fresh: Mapping[str, ProbeResult], cache: ReplicaCache) -> dict[str, ProbeResult]:
    """Return the fresh results; failed ones keep their earlier reply."""
    kept = dict(fresh)
    for path, result in fresh.items():
        earlier = cache.probes.get(path)
        if result.failure and earlier and earlier.reply:
            kept[path] = replace(result, reply=earlier.reply, observed_at=earlier.observed_at)
    return kept


def _not_repeated(fresh: Mapping[str, ProbeResult], cache: ReplicaCache) -> dict[str, ProbeResult]:
    """Return the earlier replies of probes that were not sent because the path that they need failed."""
    needing = {probe.path: probe.needs for probe in BY_PATH.values() if probe.needs in fresh}
    failed = {path: fresh[needed].failure for path, needed in needing.items() if needed}
    return {
        path: replace(result, failure=failed[path])
        for path, result in cache.probes.items()
        if result.reply and failed.get(path)
    }


def _down(fresh: Mapping[str, ProbeResult], cache: ReplicaCache, failure: Failure) -> ReplicaCache:
    """Return the state without any answer: earlier replies, each with the failure. The next poll is a full one.

    The window of the counters stays: a process that was not read for a time counted on.
    """
    earlier = {
        path: replace(result, failure=failure) if result.reply else result for path, result in cache.probes.items()
    }
    return ReplicaCache({**earlier, **_with_earlier(fresh, cache)}, traffic=cache.traffic)
