"""One visit to one replica: which probes are asked this time, and what is known of it afterwards."""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import datetime

from dashboard.fleet import Failure, FailureKind, ProbeResult, Target
from dashboard.sources.polling import failures
from dashboard.sources.polling.client import Answer, Client
from dashboard.sources.polling.credentials import Key
from dashboard.sources.polling.probes import METRICS, PROBES, Probe
from dashboard.sources.polling.reader import Reader
from dashboard.vllm.reading import excerpt

# After one of these on the first probe the others would fail in the same way, only later.
OUT_OF_REACH = frozenset(
    {FailureKind.DNS, FailureKind.REFUSED, FailureKind.TLS, FailureKind.TIMEOUT, FailureKind.TARGET}
)
# Processor time for the answers of one replica in one poll; the largest captures take 0.01 s together.
READ_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered of a replica between polls: the latest result of each probe, keyed by path.

    A probe that fails keeps the reply that it gave before: `failure` and `reply` then stand side by side, and
    `observed_at` is the time of the reply. When no probe answers, every earlier reply stands beside the failure of
    `/metrics`; so a replica is down when no result has a reply without a failure. Nothing is kept over a restart.
    `asked_everything_at`, of a clock that never goes back, is None when everything is to be asked next time.
    """

    probes: Mapping[str, ProbeResult] = field(default_factory=dict)
    asked_everything_at: float | None = None


@dataclass(slots=True, kw_only=True)
class Visit:
    """Asks one replica. `ends_at`, when the poll is over, is a time of the client's clock: no probe runs longer.

    `clock` gives seconds that never go back; `pool` is where answers are read, so that the event loop stays free.
    """

    client: Client
    reader: Reader
    pool: Executor
    target: Target
    key: Key
    known: Known
    now: Callable[[], datetime]
    clock: Callable[[], float]
    probe_timeout_seconds: float
    replica_timeout_seconds: float
    full_poll_interval_seconds: float
    ends_at: float
    waited_seconds: float = 0.0  # for the replica
    read_seconds: float = 0.0  # of processor time, for its answers

    async def run(self) -> Known:
        """Ask `/metrics`, then what else is due; return what is known now."""
        metrics = await self._ask(METRICS)
        fresh = {METRICS.path: metrics}
        if metrics.failure and metrics.failure.kind in OUT_OF_REACH:
            return _down(fresh, self.known, metrics.failure)
        known = Known() if _restarted(self.known.probes.get(METRICS.path), metrics) else self.known
        asked_at = known.asked_everything_at
        full = asked_at is None or self.clock() - asked_at >= self.full_poll_interval_seconds
        for probe in PROBES[1:]:
            if (full or probe.light) and _applies(probe, fresh):
                fresh[probe.path] = await self._ask(probe)
        if metrics.failure and not any(_answered(result) for result in fresh.values()):
            return _down(fresh, known, metrics.failure)
        if full:
            return Known({**_out_of_sight(fresh, known), **_with_earlier(fresh, known)}, self.clock())
        return Known({**known.probes, **_with_earlier(fresh, known)}, asked_at)

    async def _ask(self, probe: Probe) -> ProbeResult:
        failure = self.target.failure or self._used_up(failures.Asked(self.target.id, probe.path))
        if failure:
            return ProbeResult(probe.path, probe.source, self.now(), 0.0, failure=failure)
        began = self.client.time()
        seconds = min(
            self.probe_timeout_seconds, self.replica_timeout_seconds - self.waited_seconds, self.ends_at - began
        )
        answer = await self.client.get(self.target, probe.path, seconds, key=self.key, last=probe is PROBES[-1])
        elapsed = self.client.time() - began
        self.waited_seconds += elapsed
        result = ProbeResult(
            probe.path, probe.source, self.now(), elapsed, status=answer.status, size_bytes=len(answer.body)
        )
        if answer.status == failures.NOT_FOUND and not probe.expected:
            return result
        return await asyncio.get_running_loop().run_in_executor(self.pool, self._judged, probe, answer, result)

    def _used_up(self, asked: failures.Asked) -> Failure | None:
        """Return which of its budgets this replica, or the poll, has used up."""
        if self.client.time() >= self.ends_at:
            return failures.poll_over(asked)
        if self.waited_seconds >= self.replica_timeout_seconds:
            return failures.no_time(asked)
        return failures.too_costly(asked, READ_SECONDS) if self.read_seconds > READ_SECONDS else None

    def _judged(self, probe: Probe, answer: Answer, result: ProbeResult) -> ProbeResult:
        """Put into `result` what the answer says, or why it says nothing."""
        began = time.thread_time()
        read = answer.failure or self.reader.read(probe, failures.Asked(self.target.id, probe.path), answer.body)
        if isinstance(read, Failure):
            result = replace(result, failure=read, raw=excerpt(answer.body))
        else:
            result = replace(result, reply=read.reply, raw=read.raw)
        self.read_seconds += time.thread_time() - began
        return result


def _answered(result: ProbeResult) -> bool:
    return result.reply is not None and result.failure is None


def _applies(probe: Probe, fresh: Mapping[str, ProbeResult]) -> bool:
    if probe.needs is not None:
        return _answered(fresh[probe.needs])
    return probe.unless is None or not _answered(fresh[probe.unless])


def _restarted(before: ProbeResult | None, after: ProbeResult) -> bool:
    """Return whether another process answers than before, as far as both replies to `/metrics` tell.

    Without a start time, a sum of `_total` counters that falls or other settings tell it: neither can happen to a
    process while it runs.
    """
    if before is None or before.reply is None or after.reply is None:
        return False
    old, new = before.reply, after.reply
    if old.started_at is not None or new.started_at is not None:
        return old.started_at != new.started_at
    fell = old.counters is not None and new.counters is not None and new.counters < old.counters
    return fell or old.settings != new.settings


def _with_earlier(fresh: Mapping[str, ProbeResult], known: Known) -> dict[str, ProbeResult]:
    """Return the fresh results; those that failed take along the reply that they gave before."""
    kept = dict(fresh)
    for path, result in fresh.items():
        earlier = known.probes.get(path)
        if result.failure and earlier and earlier.reply:
            kept[path] = replace(result, reply=earlier.reply, observed_at=earlier.observed_at)
    return kept


def _out_of_sight(fresh: Mapping[str, ProbeResult], known: Known) -> dict[str, ProbeResult]:
    """Return the earlier replies that could not be asked for again because what they need failed."""
    failed = {probe.path: fresh[probe.needs].failure for probe in PROBES if probe.needs}
    return {
        path: replace(result, failure=failed[path])
        for path, result in known.probes.items()
        if result.reply and failed.get(path)
    }


def _down(fresh: Mapping[str, ProbeResult], known: Known, failure: Failure) -> Known:
    """Return what is known when nobody answers: earlier replies, each beside the failure. Next time, ask everything."""
    earlier = {
        path: replace(result, failure=failure) if result.reply else result for path, result in known.probes.items()
    }
    return Known({**earlier, **_with_earlier(fresh, known)})
