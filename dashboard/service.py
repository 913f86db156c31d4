"""The collector: one thread polls, derives the next fleet and swaps it in. Sessions read it by `current()`."""

import asyncio
import ctypes
import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from dashboard.analysis.assembly import FRESH_INTERVALS, Fleet, build_fleet, empty_fleet
from dashboard.analysis.flapping import Watch
from dashboard.config import Options, policy_of
from dashboard.config.reload import OptionsFiles, ReloadStatus
from dashboard.errors import HistoryError, SnapshotError
from dashboard.fleet import LabelConflict, ReceiverStatus, RouterConfig, Snapshot, SourceStatus, has_same_content
from dashboard.fleet.recent import NOTHING_RECENT, Recent
from dashboard.fleet.sightings import Sightings
from dashboard.fleet.times import write_time
from dashboard.garbage import uncollected
from dashboard.rules.findings import first_seen
from dashboard.rules.policy import Policy
from dashboard.sources.discovery import Discovered, Discovery
from dashboard.sources.http.credentials import exposed_keys
from dashboard.sources.polling.by_digest import DigestPoller
from dashboard.sources.routers import RouterReader
from dashboard.store import Snapshots
from dashboard.store.history.clock import JumpGuard
from dashboard.store.history.file_import import FileImport
from dashboard.store.history.past import PastFleets
from dashboard.store.history.status import HistoryStatus
from dashboard.store.opening import configured_snapshots
from dashboard.vllm.redaction import also_redact

if TYPE_CHECKING:  # it imports SQLAlchemy, 0.2 s that few commands need
    from dashboard.notify.notifier import Notifier
    from dashboard.store.history.reader import HistoryReader, Moment
    from dashboard.store.history.recording import Recorder

log = logging.getLogger(__name__)

SWITCH_SECONDS = 0.0005  # measured: a busy collector then delays a page by 0.1 s and not by 2 s
MAX_OPEN = 3  # snapshots in memory, and past times: two of a comparison, and one more
SNAPSHOTS_FOLDER = "snapshots"  # the default of the option
TIDY_POLLS = 20  # between two garbage collections, 5 minutes at 15 s; each takes 0.1 s
INTERVALS_UNTIL_STALE = 2
ARENAS = 2  # of glibc's malloc; eight a core, its own choice, keep what sessions freed (MB: 30 of 400)
M_ARENA_MAX = -8  # mallopt(3)
CHECK_SECONDS = 1.0  # between looks for changed files of options; a file that stays alike for this time is read
READ_ONLY_HISTORY = "read_only is set; name a database in history.url, url_env or url_file to record one"
NOT_RECORDED = "The history is not recorded; set history.enabled, and restart."
STOP_SECONDS = 5.0  # the longest wait for the thread at shutdown


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of polls, for /metrics."""

    polls: int = 0
    failures: int = 0
    seconds_sum: float = 0.0


def utc_now() -> datetime:
    """Return the time of the wall clock."""
    return datetime.now(UTC)


def poll_once(
    options: Options,
    found: Discovered,
    on_done: Callable[[int, int], None] = lambda _done, _total: None,
) -> Fleet:
    """Poll every target once and return the fleet; for the command line.

    `on_done` gets the number of finished and of all replicas.
    """

    async def poll() -> tuple[tuple[Snapshot, ...], tuple[RouterConfig, ...]]:
        reader = RouterReader(options.routers, options.poll)
        return await asyncio.gather(
            DigestPoller(options.poll).poll(found.targets, utc_now, on_done), reader.read(utc_now())
        )

    snapshots, routers = asyncio.run(poll())
    return _derive(options, policy_of(options), snapshots, utc_now(), failures=found.failures, routers=routers)


class Collector:
    """Polls in its own thread and event loop until it is stopped."""

    def __init__(
        self, options: Options, clock: Callable[[], datetime] = utc_now, recorder: "Recorder | None" = None
    ) -> None:
        """Send nothing yet. `clock` gives UTC times; `recorder` records each poll."""
        self.options = options
        self.fleet = empty_fleet(options.name)
        self.findings_since: Mapping[str, datetime] = {}
        self.progress = Progress()
        self.files = OptionsFiles(options, clock)
        also_redact(options.redact.names, options.redact.patterns)
        self.recorder = recorder
        self._clock = clock
        self._policy = policy_of(options)
        self._watch: Watch | None = None  # None: to go on where the last fleet ended
        self.discovery = Discovery(options)
        self.notifier: Notifier | None = None  # until a receiver is configured
        self._tasks: list[asyncio.Task[None]] = []
        self._exposed = ""
        self._poller = DigestPoller(options.poll)
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
            _call_glibc("mallopt", M_ARENA_MAX, ARENAS)
            self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
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
        """Load the files of the options now, and poll; returns at once."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop may have ended by itself
                self._loop.call_soon_threadsafe(self._reload.set)

    def _run(self) -> None:
        asyncio.run(self._poll_until_stopped())

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
            self._show(_numbered(followed, self.fleet), followed.polled_at, followed.sightings)
        return True

    def _show(self, fleet: Fleet, polled_at: datetime, sightings: Sightings) -> None:
        """Show a fleet with its sightings. New ones are a new generation."""
        is_new = fleet.generation == self.fleet.generation and sightings != self.fleet.sightings
        self.fleet = replace(fleet, sightings=sightings, generation=fleet.generation + is_new)
        self.findings_since = first_seen(fleet.inspection, polled_at, self.findings_since, sightings.findings)

    def _shown_status(self) -> HistoryStatus | None:
        """Return what pages show of the history's state."""
        return self.recorder.status._replace(recorded_at=None, failures=0) if self.recorder else None

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
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reload.wait(), min(left, CHECK_SECONDS))
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

    def _use(self, options: Options) -> None:
        """Poll with other options. With other limits or secrets every replica is read anew."""
        before, self.options = self.options, options
        also_redact(options.redact.names, options.redact.patterns)
        self._policy = policy_of(options)
        if self.notifier is not None:
            self.notifier.use(options)
        self.discovery = Discovery(options, self.discovery)
        if (options.poll, options.redact) != (before.poll, before.redact):
            self._poller = DigestPoller(options.poll)
        if (options.routers, options.poll) != (before.routers, before.poll):
            self._routers = RouterReader(options.routers, options.poll)

    def _watching(self) -> Watch:
        """Return what watches the polls of this process, after those of the history or the instance before it."""
        if self._watch is None:
            self._watch = Watch()
            is_first = self.fleet.polled_at is None
            last = self.recorder.last_fleet(self._clock()) if is_first and self.recorder else self.fleet
            if last is not None:
                self._watch.resume(last)
        return self._watch

    async def _refresh(self, began: float) -> None:
        watch = self._watching()
        found = await self.discovery.discover(self._clock())
        snapshots, routers = await asyncio.gather(
            self._poller.poll(found.targets, self._clock), self._routers.read(self._clock())
        )
        polled_at = self._clock()
        fleet = _derive(
            self.options,
            self._policy,
            snapshots,
            polled_at,
            before=self.fleet,
            failures=found.failures,
            routers=routers,
            observe=watch.observe,
        )
        watch.observe_findings(fleet)
        self._show(fleet, polled_at, self._recorded(fleet, polled_at, time.monotonic() - began))
        if (exposed := exposed_keys(found.targets)) != self._exposed and exposed:
            log.warning("%s", exposed)
        self._exposed = exposed
        seconds, progress = time.monotonic() - began, self.progress
        self.progress = replace(progress, polls=progress.polls + 1, seconds_sum=progress.seconds_sum + seconds)
        if progress.polls == 0:
            gc.collect()
            gc.freeze()  # objects of the first poll are never searched for garbage again
        elif progress.polls % TIDY_POLLS == 0:
            gc.collect()
            _give_back()


def _derive(
    options: Options,
    policy: Policy,
    snapshots: Sequence[Snapshot],
    polled_at: datetime,
    before: Fleet | None = None,
    failures: tuple[str, ...] = (),
    routers: tuple[RouterConfig, ...] = (),
    observe: Callable[[Fleet, datetime], Recent] = lambda _fleet, _at: NOTHING_RECENT,
) -> Fleet:
    """Return the fleet of one poll."""
    with uncollected():
        fleet = build_fleet(
            options.name,
            snapshots,
            polled_at=polled_at,
            interval=timedelta(seconds=options.poll.interval_seconds),
            ignore=options.ignore,
            policy=policy,
            before=before,
            routers=routers,
            observe=observe,
        )
    fleet = replace(fleet, discovery_errors=failures)
    exposed = exposed_keys(each.target for each in snapshots)
    if exposed and exposed not in fleet.inspection.notes:
        notes = (*fleet.inspection.notes, exposed)
        fleet = replace(fleet, inspection=replace(fleet.inspection, notes=notes))
    return _numbered(fleet, before) if before else fleet


def _numbered(fleet: Fleet, before: Fleet) -> Fleet:
    """Return a fleet with its generation: it grows when a page changes."""
    if before.polled_at is not None and _shows_the_same(fleet, before):
        return replace(fleet, generation=before.generation, since=before.since)
    return replace(fleet, generation=before.generation + 1)


def _shows_the_same(fleet: Fleet, before: Fleet) -> bool:
    """Return whether no page changes. Findings may change by the clock alone: a suppression expires."""
    names = ("inspection", "discovery_errors", "name", "policy", "ignored", "routers")
    is_same = all(getattr(fleet, name) == getattr(before, name) for name in names)
    return is_same and has_same_content(fleet.replicas, before.replicas)


@dataclass(slots=True)
class _Current:
    """The collector of this process, or a fixed fleet."""

    collector: Collector | None = None
    fleet: Fleet | None = None
    clock: Callable[[], datetime] = utc_now
    snapshots: Snapshots = field(default_factory=lambda: Snapshots(Path(SNAPSHOTS_FOLDER)))
    past: PastFleets | None = None  # None: no history is kept
    file_import: FileImport | None = None


_current = _Current()


def start(options: Options) -> None:
    """Start the collector of this process."""
    stop()
    recorder = None
    if options.has_history:
        from dashboard.store.history.recording import Recorder  # noqa: PLC0415  as above

        recorder = Recorder(options, JumpGuard())
    elif options.history.enabled:
        log.warning("no history is recorded: %s", READ_ONLY_HISTORY)
    _current.collector, _current.clock = Collector(options, recorder=recorder), utc_now
    _current.snapshots = configured_snapshots(options, read_only=options.read_only)
    _current.past = PastFleets(partial(_open_history, options), MAX_OPEN) if options.has_history else None
    try:
        _current.snapshots.tidy()
    except SnapshotError as error:
        log.warning("%s", error)
    _current.collector.start()
    _current.file_import = FileImport(_current.snapshots.import_files)
    _current.file_import.start()


def stop() -> None:
    """Stop the collector of this process, if any; there is no fleet then."""
    for each in (_current.file_import, _current.collector):
        if each is not None:
            each.stop()
    _current.collector = _current.fleet = _current.file_import = _current.past = None


def put(
    fleet: Fleet,
    at: datetime | None = None,
    snapshots: Path | Snapshots | None = None,
    *,
    read_only: bool = False,
    history: "HistoryReader | None" = None,
) -> None:
    """Show this fleet instead of polling; `at` stops the clock, `snapshots` are those of a folder, or others."""
    stop()
    _current.fleet = fleet
    _current.past = PastFleets(lambda: history, MAX_OPEN) if history else None
    if isinstance(snapshots, Snapshots):
        _current.snapshots = snapshots
    else:
        _current.snapshots = Snapshots(snapshots or Path(SNAPSHOTS_FOLDER), read_only=read_only)
    _current.clock = utc_now if at is None else lambda: at


def current() -> Fleet:
    """Return the last complete fleet, an empty one before the first poll."""
    if _current.fleet is not None:
        return _current.fleet
    return _current.collector.fleet if _current.collector else empty_fleet("fleet")


def snapshots() -> Snapshots:
    """Return the frozen snapshots of this process."""
    return _current.snapshots


def frozen(snapshot: str) -> Fleet:
    """Open a frozen snapshot by its id; the last few are cached. Raise SnapshotError where it is unreadable."""
    _current.snapshots.get(snapshot)  # a deleted snapshot stays closed
    return _opened(_current.snapshots, snapshot)


@lru_cache(maxsize=MAX_OPEN)
def _opened(store: Snapshots, snapshot: str) -> Fleet:
    with uncollected():
        fleet = store.fleet(snapshot)
    _give_back()
    return fleet


def _open_history(options: Options) -> "HistoryReader":
    from dashboard.store.history.reader import HistoryReader  # noqa: PLC0415  as above
    from dashboard.store.history.recording import configured_database  # noqa: PLC0415

    return HistoryReader(configured_database(options))


def history() -> "HistoryReader | None":
    """Return the history; None where none is kept, or the options name no database."""
    try:
        return _current.past.reader() if _current.past is not None else None
    except HistoryError:
        return None


def past(time: datetime) -> "Moment":
    """Open the fleet of a past time; the last few are cached. Raise HistoryError where the history has none."""
    if _current.past is None:
        raise HistoryError("This dashboard keeps no history: see history.enabled in fleet.yaml.")
    if time > now():
        raise HistoryError(f"{write_time(time)} is in the future; the newest data is that of the live fleet.")
    return _current.past.at(time)


def _give_back() -> None:
    """Return freed memory to the system. Measured: 60 MB after opening 1,000 replicas."""
    _call_glibc("malloc_trim", 0)


def _call_glibc(name: str, *numbers: int) -> None:
    """Call a function of glibc's malloc; musl has none of them."""
    if sys.platform == "linux":
        function = getattr(ctypes.CDLL(None), name, None)
        if function is not None:
            function(*numbers)


def now() -> datetime:
    """Return the time that ages are relative to."""
    return _current.clock()


def interval_seconds() -> float:
    """Return the time between polls."""
    return _current.collector.options.poll.interval_seconds if _current.collector else 15.0


def age_limit_seconds() -> float:
    """Return the age at which the last complete poll is too old: two intervals and the time limit of one poll."""
    timeout = _current.collector.options.poll.poll_timeout_seconds if _current.collector else 60.0
    return INTERVALS_UNTIL_STALE * interval_seconds() + timeout


def findings_since() -> Mapping[str, datetime]:
    """Return since when each active finding is there, by its fingerprint; empty without a collector."""
    return _current.collector.findings_since if _current.collector else {}


def options() -> Options | None:
    """Return the options in force; None without a collector."""
    return _current.collector.options if _current.collector else None


def reload() -> None:
    """Load the options again, and poll at once."""
    if _current.collector is not None:
        _current.collector.reload()


def reload_status() -> ReloadStatus | None:
    """Return the outcome of the last reload; None without a collector."""
    return _current.collector.files.status if _current.collector else None


def sources() -> tuple[SourceStatus, ...]:
    """Return the status of each source of targets."""
    return _current.collector.discovery.found.sources if _current.collector else ()


def label_conflicts() -> tuple[LabelConflict, ...]:
    """Return the labels on which sources of one target disagree."""
    return _current.collector.discovery.found.conflicts if _current.collector else ()


def discovery_failures() -> tuple[str, ...]:
    """Return a sentence for each unreadable list of targets; those of the instance that polls."""
    if (status := history_status()) is not None and status.follows:
        return current().discovery_errors
    return tuple(each.failure for each in sources() if each.failure)


def history_status() -> HistoryStatus | None:
    """Return the state of the history; None without one."""
    recorder = _current.collector.recorder if _current.collector else None
    return recorder.status if recorder else None


def receivers() -> tuple[ReceiverStatus, ...]:
    """Return the status of each receiver of notifications."""
    notifier = _current.collector.notifier if _current.collector else None
    return notifier.receivers if notifier else ()


def notification_outcomes() -> Mapping[tuple[str, str], int]:
    """Count the notifications that were sent, by kind of receiver and outcome."""
    notifier = _current.collector.notifier if _current.collector else None
    return dict(notifier.outcomes) if notifier else {}  # a copy: another thread counts


def history_problem() -> str | None:
    """Return why the last poll was not recorded in the history; None where it was, and without a history."""
    status = history_status()
    return status.problem if status else None


def progress() -> Progress:
    """Return the progress of polling."""
    return _current.collector.progress if _current.collector else Progress()
