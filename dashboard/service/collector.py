"""The collector: one thread polls, derives the next fleet and swaps it in."""

import asyncio
import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dashboard.analysis.assembly import FRESH_INTERVALS, NO_LIVES, Fleet, assemble, empty_fleet, inspected, read_fleet
from dashboard.analysis.flapping import Watch
from dashboard.analysis.lifecycle import with_lives
from dashboard.analysis.plan import planned
from dashboard.analysis.symptoms import with_symptoms
from dashboard.compare.cohorts import all_letters
from dashboard.config import EVERY_POLL, Options, policy_of
from dashboard.config.load import OptionsFiles
from dashboard.config.rules import load_suppressions
from dashboard.documents.reported import with_first_seen, with_reported
from dashboard.fleet import NO_LETTERS, RouterConfig, Snapshot, SourceStatus, has_same_content
from dashboard.fleet.history import Sightings
from dashboard.garbage import give_back, limit_arenas, uncollected
from dashboard.rules.policy import Policy
from dashboard.sources.discovery import Discovery, DiscoveryResult, discover_once
from dashboard.sources.http.credentials import key_warnings
from dashboard.sources.polling.by_digest import DigestPoller
from dashboard.sources.routers.reader import RouterReader
from dashboard.store.opening import HistoryStatus
from vllm_fleet_provider.shared.redaction import also_redact

if TYPE_CHECKING:  # it imports SQLAlchemy, 0.2 s that few commands need
    from dashboard.notify.notifier import Notifier
    from dashboard.store.history.recording import Recorder

log = logging.getLogger(__name__)

SWITCH_SECONDS = 0.0005  # measured: a busy collector then delays a page by 0.1 s and not by 2 s
TIDY_POLLS = 20  # between two garbage collections, 5 minutes at 15 s; each takes 0.1 s
CHECK_SECONDS = 1.0  # between looks for changed files of options; a file that stays alike for this time is read
NOT_RECORDED = "The history is not recorded; set history.enabled, and restart."
# The longest wait of a poll for sources of targets. A later answer is used by the next poll.
SOURCE_SECONDS = 2.0
STOP_SECONDS = 5.0  # the longest wait for the thread at shutdown


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of polls, for /metrics."""

    polls: int = 0
    failures: int = 0
    seconds_sum: float = 0.0


def utc_now() -> datetime:
    return datetime.now(UTC)


def poll_once(
    options: Options,
    found: DiscoveryResult,
    key_warnings: str = "",
    on_done: Callable[[int, int], None] = lambda _done, _total: None,
    wait: Callable[[], None] | None = None,
) -> Fleet:
    """Poll every target once and return the fleet; for the command line.

    `key_warnings` are about API keys. `on_done` gets the number of finished and of all replicas. With `wait`, which
    returns after some time, targets are listed and polled again then: the fleet has the traffic of that time. `found`
    is of `discover_once` with EVERY_POLL then.
    """
    at_once = options.poll.model_copy(update={"interval_seconds": 1.0})  # else windows differ by the spread of a poll
    poller = DigestPoller(options.poll) if wait is None else DigestPoller(at_once, traffic=EVERY_POLL)

    async def poll() -> tuple[tuple[Snapshot, ...], tuple[RouterConfig, ...]]:
        reader = RouterReader(options.routers, options.poll)
        polling = poller.poll(found.targets, utc_now, on_done, found.scraped_at, found.counts)
        return await asyncio.gather(polling, reader.read(utc_now()))

    if wait is not None:
        asyncio.run(poller.poll(found.targets, utc_now, on_done, found.scraped_at, found.counts))
        wait()
        found = discover_once(options, EVERY_POLL)
    snapshots, routers = asyncio.run(poll())
    polled_at = utc_now()
    with uncollected():
        read = _read(options, policy_of(options), found, snapshots, routers, polled_at)
        fleet = assemble(read if wait is None else with_symptoms(read, polled_at), polled_at)
    return _with_notes(fleet, found, key_warnings)


class Collector:
    """Polls in its own thread and event loop until it is stopped."""

    def __init__(
        self, options: Options, clock: Callable[[], datetime] = utc_now, recorder: "Recorder | None" = None
    ) -> None:
        """Send nothing yet. `clock` gives UTC times; `recorder` records each poll."""
        self.options = options
        self.fleet = empty_fleet(options.name)
        self.progress = Progress()
        self.files = OptionsFiles(options, clock)
        self._prepare(options)
        self.recorder = recorder
        self._clock = clock
        self._policy = policy_of(options)
        self._watch: Watch | None = None  # None: to go on where the last fleet ended, with its lives
        self._lives = NO_LIVES
        self._letters = NO_LETTERS  # of cohorts, also of those that are gone
        self.discovery = Discovery(options)
        self.notifier: Notifier | None = None  # until a receiver is configured
        self._tasks: list[asyncio.Task[None]] = []
        self._key_warnings = ""
        self._poller = DigestPoller(options.poll, traffic=options.traffic)
        self._routers = RouterReader(options.routers, options.poll)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running = threading.Event()
        self._stop = asyncio.Event()
        self._reload = asyncio.Event()

    def start(self) -> None:
        """Begin to poll; a second call does nothing."""
        if self._thread is None:
            sys.setswitchinterval(SWITCH_SECONDS)
            limit_arenas()
            self._thread = threading.Thread(
                target=lambda: asyncio.run(self._poll_until_stopped()), name="collector", daemon=True
            )
            self._thread.start()
            self._running.wait(STOP_SECONDS)  # else a stop that follows at once would find no loop

    def stop(self) -> None:
        """End the thread and abort a poll in flight."""
        if self._thread is None:
            return
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop may have ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(STOP_SECONDS)
        self._thread = None

    def reload(self) -> None:
        """Load the files of the options now, and poll. Returns once the fleet shows what is accepted now.

        Raises OptionsError where the file of accepted findings is wrong. A poll that is being evaluated shows that file
        as it was; the next poll follows at once.
        """
        file, fleet = self.options.suppressions_file, self.fleet
        if file is not None and fleet.polled_at is not None:
            self._policy = policy_of(self.options.with_accepted(load_suppressions(file)))
            found = inspected(replace(fleet, policy=self._policy), fleet.polled_at, before=fleet)
            self.fleet = planned(_numbered(found, fleet))
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop may have ended by itself
                self._loop.call_soon_threadsafe(self._reload.set)

    async def _poll_until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._running.set()
        self._tasks = [asyncio.create_task(self._poll_forever())]
        await self._stop.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.discovery.aclose()
        if self.recorder is not None:
            self.recorder.close()

    async def _poll_forever(self) -> None:
        while True:
            began, before = time.monotonic(), self._shown_status()
            try:
                if not self._follow():
                    await self._refresh(began)
                self._notify()
            except Exception:  # an internal error must not end the polling; /healthz reports it
                log.exception("a poll failed; the last fleet stays")
                self.progress = replace(self.progress, failures=self.progress.failures + 1)
            if self._shown_status() != before:  # pages show it
                self.fleet = replace(self.fleet, generation=self.fleet.generation + 1)
            await self._wait_for_next_poll(began)

    def _follow(self) -> bool:
        """Show the newest poll of the instance that records a shared history; return False where this one polls."""
        if self.recorder is None:
            return False
        did_follow = self.recorder.status.follows
        followed = self.recorder.follow(self.options.name, self._clock())
        if followed is None:
            if did_follow:  # flapping and rollouts go on where the other instance ended
                self._watch = None
            return False
        if followed.polled_at is not None and followed.polled_at != self.fleet.polled_at:
            self._show(planned(_numbered(followed, self.fleet), self.fleet), followed.sightings)
        return True

    def _show(self, fleet: Fleet, sightings: Sightings) -> None:
        """Show a fleet with its sightings. New ones are a new generation."""
        is_new = fleet.generation == self.fleet.generation and sightings != self.fleet.sightings
        self.fleet = replace(fleet, sightings=sightings, generation=fleet.generation + is_new)

    def _shown_status(self) -> HistoryStatus | None:
        """Return what pages show of the history's state."""
        return self.recorder.status._replace(recorded_at=None, failures=0, size_bytes=None) if self.recorder else None

    def _recorded(self, fleet: Fleet, polled_at: datetime, seconds: float) -> Sightings:
        """Record the poll, which took so long, in the history; return its sightings."""
        if self.recorder is None:
            return fleet.sightings
        period = max(self.options.poll.interval_seconds, seconds)
        return self.recorder.record(fleet, polled_at + timedelta(seconds=FRESH_INTERVALS * period))

    def _notify(self) -> None:
        """Tell the notifier of the poll, after it was recorded; start it with the first receiver."""
        if self.notifier is None:
            if not self.options.notify.has_receivers:
                return
            from dashboard.notify.notifier import Notifier  # noqa: PLC0415  as above

            self.notifier = Notifier(self.options, self._clock)
            self._tasks.append(asyncio.create_task(self.notifier.run()))
        status = self.recorder.status if self.recorder else HistoryStatus(NOT_RECORDED)
        self.notifier.polled(self.fleet, is_collector=not (status.follows or status.is_second), problem=status.problem)

    async def _wait_for_next_poll(self, began: float) -> None:
        """Return when the next poll is due: after the interval, or as soon as the options changed."""
        while (left := self.options.poll.interval_seconds - (time.monotonic() - began)) > 0:
            with suppress(TimeoutError):  # asyncio.wait_for can lose a cancellation (python/cpython#86296)
                async with asyncio.timeout(min(left, CHECK_SECONDS)):
                    await self._reload.wait()
            if self._load_changes():
                return

    def _load_changes(self) -> bool:
        """Load changed options; return whether to poll at once. A page shows the outcome, so it is a new generation."""
        is_wanted, before = self._reload.is_set(), self.files.status
        self._reload.clear()
        is_changed = self.files.reload() if is_wanted else self.files.check()
        if is_changed:
            self._use(self.files.options)
        if self.files.status._replace(loaded_at=before.loaded_at) != before:
            self.fleet = replace(self.fleet, generation=self.fleet.generation + 1)
        return is_changed or is_wanted

    def _prepare(self, options: Options) -> None:
        """Redact what the options name, and log which webhooks have no URL."""
        also_redact(options.redact.names, options.redact.patterns)
        for each in options.notify.webhooks:
            if each.problem:
                from dashboard.notify.sending import describe_receiver  # noqa: PLC0415  as above

                log.warning("%s gets no notifications: %s", describe_receiver(each), each.problem)

    def _use(self, options: Options) -> None:
        """Poll with other options. With other limits or secrets every replica is read anew."""
        before, self.options = self.options, options
        self._prepare(options)
        self._policy = policy_of(options)
        if self.notifier is not None:
            self.notifier.use(options)
        self.discovery = Discovery(options, self.discovery)
        if (options.poll, options.traffic, options.redact) != (before.poll, before.traffic, before.redact):
            self._poller = DigestPoller(options.poll, traffic=options.traffic)
        if (options.routers, options.poll) != (before.routers, before.poll):
            self._routers = RouterReader(options.routers, options.poll)

    def _watching(self) -> Watch:
        """Return what watches the polls of this process, after those of the history or the instance before it."""
        if self._watch is None:
            self._watch, self._lives = Watch(), NO_LIVES
            recorded, self._letters = self.recorder.last_poll(self._clock()) if self.recorder else (None, NO_LETTERS)
            last = recorded if self.fleet.polled_at is None else self.fleet
            if last is not None:
                self._watch.resume(last)
                self._lives = last.lives
        return self._watch

    async def _refresh(self, began: float) -> None:
        watch = self._watching()
        before = self.discovery.found.sources
        found = await self.discovery.discover(self._clock(), SOURCE_SECONDS)
        _log_failures(before, found.sources)
        snapshots, routers = await asyncio.gather(
            self._poller.poll(found.targets, self._clock, scraped_at=found.scraped_at, counts=found.counts),
            self._routers.read(self._clock()),
        )
        polled_at = self._clock()
        if (warnings := key_warnings(found.targets)) != self._key_warnings and warnings:
            log.warning("%s", warnings)
        self._key_warnings = warnings
        shown, lives = self.fleet, self._lives
        with uncollected():
            read = _read(self.options, self._policy, found, snapshots, routers, polled_at, shown)
            letters = all_letters(self._letters, shown.letters)
            usual = self.recorder.usual(polled_at) if self.recorder else {}
            read = replace(read, letters=letters, usual=usual)
            read = replace(read, recent=watch.add_poll(read, polled_at, lives))
            fleet = assemble(read, polled_at, before=shown)
        fleet = planned(_numbered(with_lives(_with_notes(fleet, found, warnings), lives), shown), shown)
        self._lives = fleet.lives
        self._letters = letters if self.recorder else NO_LETTERS
        sightings = self._recorded(fleet, polled_at, time.monotonic() - began)
        self._show(fleet, with_first_seen(sightings, found.reported))
        seconds, progress = time.monotonic() - began, self.progress
        self.progress = replace(progress, polls=progress.polls + 1, seconds_sum=progress.seconds_sum + seconds)
        if progress.polls == 0:
            gc.collect()
            gc.freeze()  # objects of the first poll are never searched for garbage again
        elif progress.polls % TIDY_POLLS == 0:
            gc.collect()
            give_back()


def _log_failures(before: Iterable[SourceStatus], after: Iterable[SourceStatus]) -> None:
    """Log the sources of targets that cannot be read since this poll, and those that can be read again."""
    failed = {(each.kind, each.name) for each in before if each.failure}
    for each in after:
        key = each.kind, each.name
        if each.failure and key not in failed:
            log.warning("a source of targets cannot be read: %s", each.failure)
        elif not each.failure and key in failed:
            log.warning("a source of targets can be read again: %s", each.name)


def _read(
    options: Options,
    policy: Policy,
    found: DiscoveryResult,
    snapshots: Sequence[Snapshot],
    routers: tuple[RouterConfig, ...],
    polled_at: datetime,
    before: Fleet | None = None,
) -> Fleet:
    """Return what one poll read, under the options."""
    read = read_fleet(
        options.name,
        snapshots,
        polled_at=polled_at,
        interval=timedelta(seconds=options.poll.interval_seconds),
        scraped_at=found.scraped_at,
        ignore=options.ignore,
        policy=policy,
        before=before,
        routers=routers,
    )
    read = with_reported(read, found.reported)
    window = options.traffic.window_seconds if options.traffic.enabled else 0.0
    return replace(read, discovery_errors=found.failures, traffic_window=window)


def _with_notes(fleet: Fleet, found: DiscoveryResult, warnings: str) -> Fleet:
    """Return a fleet with the notes of its poll; `warnings` are about API keys."""
    if found.failures and not fleet.replicas:  # options that match nothing may match what these sources list
        fleet = replace(fleet, inspection=replace(fleet.inspection, notes=()))
    if warnings and warnings not in fleet.inspection.notes:
        notes = (*fleet.inspection.notes, warnings)
        fleet = replace(fleet, inspection=replace(fleet.inspection, notes=notes))
    return fleet


def _numbered(fleet: Fleet, before: Fleet) -> Fleet:
    """Return a fleet with its generation: it grows when a page changes."""
    if before.polled_at is not None and _shows_the_same(fleet, before):
        return replace(fleet, generation=before.generation, since=before.since)
    return replace(fleet, generation=before.generation + 1)


def _shows_the_same(fleet: Fleet, before: Fleet) -> bool:
    """Return whether no page changes. Findings may change by the clock alone: a suppression expires."""
    of_polls = ("name", "policy", "ignored", "routers", "discovery_errors", "traffic", "recorded_traffic")
    is_same = all(getattr(fleet, name) == getattr(before, name) for name in ("inspection", *of_polls))
    return is_same and has_same_content(fleet.replicas, before.replicas)
