"""The poll: every target, some at a time, within one time limit; and what is remembered until the next poll."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from dashboard.fleet import Snapshot, Target
from dashboard.sources.polling import credentials
from dashboard.sources.polling.client import Client
from dashboard.sources.polling.reader import Reader
from dashboard.sources.polling.replica import Known, Visit
from dashboard.vllm import canonical
from dashboard.vllm.redaction import redact_keys

READERS = 2  # threads; they share one interpreter, and a costly answer still leaves one to the others


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a poll may cost. `connections` is also the number of replicas that are asked at a time."""

    probe_timeout_seconds: float
    replica_timeout_seconds: float
    poll_timeout_seconds: float
    full_poll_interval_seconds: float
    connections: int
    max_answer_bytes: int
    max_headers: int
    max_header_bytes: int = 8190  # of one header; aiohttp's own default


@contextmanager
def _reading() -> Iterator[Executor]:
    """Give the threads that read answers; one that is busy when the poll is given up ends by itself."""
    pool = ThreadPoolExecutor(READERS, thread_name_prefix="reading")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _tell_nobody(_done: int, _total: int) -> None:
    """Stand in for a progress bar."""


class Poller:
    """Asks all targets again and again. Between polls it remembers what each replica said, and no connection."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds that never go back: the time between two polls of everything."""
        self._limits = limits
        self._clock = clock
        self._reader = Reader()
        self._known: dict[str, Known] = {}

    async def poll(
        self,
        targets: Iterable[Target],
        now: Callable[[], datetime],
        on_done: Callable[[int, int], None] = _tell_nobody,
    ) -> tuple[Snapshot, ...]:
        """Return one snapshot per target id, in the order of `targets`; of two targets with one id the first counts.

        First contact asks everything; afterwards `/metrics` and `/v1/models` only, and everything again after
        `full_poll_interval_seconds`, after a restart, and when the replica did not answer last time. A snapshot holds
        the latest result of each probe (see `Known` for those that failed).
        Raises nothing for what a replica does. `now` gives UTC times; `on_done` hears how many of how many are done.
        """
        unique: dict[str, Target] = {}
        for target in targets:
            unique.setdefault(target.id, target)
        self._known = {name: self._known.get(name, Known()) for name in unique}
        asked = list(unique.values())
        snapshots = await self._ask_all(asked, now, on_done)
        canonical.forget_unused()
        self._reader.forget_all_but(result for known in self._known.values() for result in known.probes.values())
        return tuple(snapshots[target.id] for target in asked)

    async def _ask_all(
        self, targets: list[Target], now: Callable[[], datetime], on_done: Callable[[int, int], None]
    ) -> dict[str, Snapshot]:
        limits = self._limits
        keys = {target.credentials: credentials.find(target.credentials) for target in targets}
        redact_keys(key.token for key in keys.values() if key.token)
        waiting = iter(targets)
        snapshots: dict[str, Snapshot] = {}

        async def work(client: Client, pool: Executor, ends_at: float) -> None:
            for target in waiting:
                visit = self._visit(client, pool, target, keys[target.credentials], now, ends_at)
                self._known[target.id] = known = await visit.run()
                snapshots[target.id] = Snapshot(target, now(), known.probes)
                on_done(len(snapshots), len(targets))

        client = Client(
            connections=limits.connections,
            max_answer_bytes=limits.max_answer_bytes,
            max_headers=limits.max_headers,
            max_header_bytes=limits.max_header_bytes,
        )
        with _reading() as pool:
            async with client, asyncio.TaskGroup() as group:
                ends_at = client.time() + limits.poll_timeout_seconds
                for _ in range(min(limits.connections, len(targets))):
                    group.create_task(work(client, pool, ends_at))
        return snapshots

    def _visit(
        self,
        client: Client,
        pool: Executor,
        target: Target,
        key: credentials.Key,
        now: Callable[[], datetime],
        ends_at: float,
    ) -> Visit:
        limits = self._limits
        return Visit(
            client=client,
            reader=self._reader,
            pool=pool,
            target=target,
            key=key,
            known=self._known[target.id],
            now=now,
            clock=self._clock,
            probe_timeout_seconds=limits.probe_timeout_seconds,
            replica_timeout_seconds=limits.replica_timeout_seconds,
            full_poll_interval_seconds=limits.full_poll_interval_seconds,
            ends_at=ends_at,
        )
