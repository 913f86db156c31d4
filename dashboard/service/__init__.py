"""The fleet of this process: sessions read it by `current()`, and open snapshots and past times."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.analysis.changes.events import EventPeriod
from dashboard.analysis.plan import planned
from dashboard.config import Options
from dashboard.config.address import page_url
from dashboard.config.load import ReloadStatus
from dashboard.errors import HistoryError
from dashboard.fleet import CLUSTER, LabelConflict, ReceiverStatus, SourceStatus
from dashboard.fleet.replies import CLUSTER_MARK
from dashboard.fleet.times import end_of_second, write_time
from dashboard.garbage import give_back, uncollected
from dashboard.service.collector import Collector, Progress, poll_once, utc_now
from dashboard.store.opening import HistoryStatus, JumpGuard, PastFleets, configured_history, configured_snapshots
from dashboard.views.pages import REPLICA, REPLICA_PAGE

if TYPE_CHECKING:  # it imports SQLAlchemy, 0.2 s that few commands need
    from dashboard.store.history.reader import HistoryReader
    from dashboard.store.snapshots import Snapshots

# What other rooms use of the collector.
__all__ = ["Collector", "Progress", "poll_once", "utc_now"]

log = logging.getLogger(__name__)

MAX_OPEN = 3  # snapshots in memory, and past times: two of a comparison, and one more
INTERVALS_UNTIL_STALE = 2
READ_ONLY_HISTORY = "read_only is set; name a database in history.url, url_env or url_file to record one"


@dataclass(slots=True)
class _ServiceState:
    """The collector of this process, or a fixed fleet."""

    collector: Collector | None = None
    fleet: Fleet | None = None
    clock: Callable[[], datetime] = utc_now
    snapshots: "Snapshots | None" = None
    past: PastFleets | None = None  # None: no history is kept


_current = _ServiceState()
_OPENING = threading.Lock()


def start(options: Options) -> None:
    stop()
    recorder = None
    if options.has_history:
        from dashboard.store.history.recording import Recorder  # noqa: PLC0415  as above

        recorder = Recorder(options, JumpGuard())
    elif options.history.enabled:
        log.warning("no history is recorded: %s", READ_ONLY_HISTORY)
    _current.collector, _current.clock = Collector(options, recorder=recorder), utc_now
    _current.snapshots = configured_snapshots(options, read_only=options.read_only)
    _current.past = PastFleets(partial(configured_history, options), MAX_OPEN) if options.has_history else None
    _current.collector.start()


def stop() -> None:
    """Stop the collector of this process, if any; there is no fleet then."""
    if _current.collector is not None:
        _current.collector.stop()
    _current.collector = _current.fleet = _current.past = None


def put(
    fleet: Fleet,
    at: datetime | None = None,
    snapshots: "Path | Snapshots | None" = None,
    *,
    read_only: bool = False,
    history: "HistoryReader | None" = None,
) -> None:
    """Show this fleet instead of polling; `at` stops the clock, `snapshots` are those of a folder, or others."""
    stop()
    _current.fleet = planned(fleet)
    _current.past = PastFleets(lambda: history, MAX_OPEN) if history else None
    if snapshots is None or isinstance(snapshots, Path):
        folder = {} if snapshots is None else {"data_folder": snapshots}
        snapshots = configured_snapshots(Options(**folder), read_only=read_only)
    _current.snapshots = snapshots
    _current.clock = utc_now if at is None else lambda: at


def current() -> Fleet:
    """Return the last complete fleet, an empty one before the first poll."""
    if _current.fleet is not None:
        return _current.fleet
    return _current.collector.fleet if _current.collector else empty_fleet("fleet")


def snapshots() -> "Snapshots":
    if _current.snapshots is None:
        _current.snapshots = configured_snapshots(Options())
    return _current.snapshots


def open_snapshot(text: str) -> Fleet:
    """Open a snapshot by its id or the first digits, one at a time; the last few are cached.

    Raise SnapshotError for none or several, and for a damaged one.
    """
    store = snapshots()
    key = store.named(text)
    with _OPENING:
        return _opened(store, key)


@lru_cache(maxsize=MAX_OPEN)
def _opened(store: "Snapshots", snapshot: str) -> Fleet:
    with uncollected():
        fleet = store.fleet(snapshot)
    give_back()
    return fleet


def history() -> "HistoryReader | None":
    """Return the history; None where none is kept, or the options name no database."""
    try:
        return _current.past.reader() if _current.past is not None else None
    except HistoryError:
        return None


def past(time: datetime) -> Fleet:
    """Open the fleet of a past time; the last few are cached. Raise HistoryError where the history has none."""
    return _past_fleets(time).at(time, current())


def happened(since: datetime | None, until: datetime) -> EventPeriod:
    """Return what happened between two times; raise HistoryError where the history does not cover them.

    `since` None: in the last 24 hours, or since the first poll.
    """
    reader = _past_fleets(until).reader()
    since = since or reader.day_until(until)
    reader.poll_at(end_of_second(since))
    return EventPeriod(reader.events(since, until), since, until)


def _past_fleets(time: datetime) -> PastFleets:
    if _current.past is None:
        raise HistoryError("This dashboard keeps no history: see history.enabled in fleet.yaml.")
    if time > now():
        raise HistoryError(f"{write_time(time)} is in the future; the newest data is that of the live fleet.")
    return _current.past


def now() -> datetime:
    """Return the time that ages are relative to."""
    return _current.clock()


def interval_seconds() -> float:
    return _current.collector.options.poll.interval_seconds if _current.collector else 15.0


def age_limit_seconds() -> float:
    """Return the age at which the last complete poll is too old: two intervals and the time limit of one poll."""
    timeout = _current.collector.options.poll.poll_timeout_seconds if _current.collector else 60.0
    return INTERVALS_UNTIL_STALE * interval_seconds() + timeout


def options() -> Options | None:
    """Return the options in force; None without a collector."""
    return _current.collector.options if _current.collector else None


def home_of(replica: str, known: Options | None) -> str | None:
    """Return the URL of the page of a replica, by its id, on the dashboard that reports it; None where it is polled.

    All but the id is of the options.
    """
    for each in known.dashboards if known is not None else ():
        own = replica.removeprefix(f"{each.labels[CLUSTER]}{CLUSTER_MARK}")
        if own != replica:
            return f"{page_url(each.url)}/{REPLICA_PAGE}?{urlencode({REPLICA: own})}"
    return None


def reload() -> None:
    """Load the options again, and poll at once; what is accepted by now is shown before. Raise OptionsError."""
    if _current.collector is not None:
        _current.collector.reload()


def reload_status() -> ReloadStatus | None:
    """Return the outcome of the last reload; None without a collector."""
    return _current.collector.files.status if _current.collector else None


def sources() -> tuple[SourceStatus, ...]:
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
    notifier = _current.collector.notifier if _current.collector else None
    return notifier.receivers if notifier else ()


def notification_outcomes() -> Mapping[tuple[str, str], int]:
    """Count the notifications that were sent, by kind of receiver and outcome."""
    notifier = _current.collector.notifier if _current.collector else None
    return dict(notifier.outcomes) if notifier else {}  # a copy: another thread counts


def progress() -> Progress:
    return _current.collector.progress if _current.collector else Progress()
