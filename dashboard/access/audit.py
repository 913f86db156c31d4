"""The audit log: JSON lines on standard error, and a table of the history. Every action of a visitor goes through it.

with audit.performed("delete", visitor, snapshot=key, name=name):
    service.snapshots().delete(key)
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from dashboard import service
from dashboard.access.visitor import UNKNOWN, ForbiddenError, Visitor, missing_role
from dashboard.config.access import AccessOptions, AccessRole
from dashboard.errors import DashboardError, HistoryError
from dashboard.fleet.formatting import iso
from dashboard.logs import write_event
from dashboard.store.audit import AuditEntry

log = logging.getLogger(__name__)

DONE, FAILED, REFUSED = "done", "failed", "refused"  # results
LONGEST_VALUE = 300  # characters of what a visitor typed or sent
PAUSE_SECONDS = 60.0  # between two equal entries of what a program repeats
MOST_REMEMBERED = 1_000  # different ones in that time; a flood of others is not logged
MOST_WAITING = 100  # entries for the database; others are in the log only


def role_of(visitor: Visitor) -> AccessRole | None:
    """Return the role of a visitor by the options in force."""
    options = service.options()
    return visitor.role(options.access if options else AccessOptions())


@contextmanager
def performed(action: str, visitor: Visitor, **details: Any) -> Iterator[dict[str, Any]]:
    """Log an action that the body does; the body may add to `details`, which name the object.

    Raise ForbiddenError before the body where the role of the visitor does not include the action.
    """
    if missing := missing_role(action, role_of(visitor)):
        why = f"Not allowed: {action.replace('_', ' ')}. {missing}"
        noted(action, visitor, REFUSED, why, **details)
        raise ForbiddenError(why)
    try:
        yield details
    except Exception as error:
        reason = str(error) if isinstance(error, DashboardError) else f"internal error {type(error).__name__}"
        _record(_logged(action, visitor, FAILED, reason, details))
        raise
    _record(_logged(action, visitor, DONE, "", details))


def noted(event: str, visitor: Visitor, result: str = DONE, reason: str = "", **details: Any) -> None:
    """Log what programs repeat, such as the use of a token or a refusal: at most once a minute for each visitor.

    It never waits for the database.
    """
    recent = refusals if result == REFUSED else _uses  # a flood of refusals hides no sign-in
    if not recent.is_new((event, visitor.name, visitor.means, visitor.client)):
        return
    entry = _logged(event, visitor, result, reason, details)
    if _waiting.acquire(blocking=False):
        _THREAD.submit(_record_waiting, entry)


class RecentKeys:
    """What was seen in the last minute, bounded. Safe to use from several threads.

    `counts` has the number of all, by the first part of their keys.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._seen: dict[tuple[str, ...], float] = {}  # the oldest first
        self._lock = threading.Lock()

    def is_new(self, key: tuple[str, ...], now: float | None = None) -> bool:
        """Return whether something was not seen for a minute; `now` in seconds. False where too much was seen."""
        now = time.monotonic() if now is None else now
        with self._lock:
            self.counts[key[0]] += 1
            while self._seen and now - next(iter(self._seen.values())) >= PAUSE_SECONDS:
                del self._seen[next(iter(self._seen))]
            if key in self._seen or len(self._seen) >= MOST_REMEMBERED:
                return False
            self._seen[key] = now
            return True


_uses, refusals = RecentKeys(), RecentKeys()
_THREAD = ThreadPoolExecutor(1, "audit")
_waiting = threading.BoundedSemaphore(MOST_WAITING)  # for the thread; where the database is gone each takes seconds


def _logged(action: str, visitor: Visitor, result: str, reason: str, details: Mapping[str, Any]) -> AuditEntry:
    """Write the line of an entry to standard error, and return the entry."""
    role = None if visitor.name == UNKNOWN else role_of(visitor)
    entry = AuditEntry(
        at=service.utc_now(),
        action=action,
        result=result,
        reason=_cut(reason),
        visitor=_cut(visitor.name),
        role=role.word if role else "",
        means=visitor.means,
        client=_cut(visitor.client),
        details={name: _cut(value) for name, value in details.items()},
    )
    who = {name: getattr(entry, name) for name in ("result", "reason", "visitor", "role", "means", "client")}
    line = {"audit": action, "at": iso(entry.at), **who, **entry.details}
    write_event({name: value for name, value in line.items() if value != ""}, action, __name__)
    return entry


def _record_waiting(entry: AuditEntry) -> None:
    try:
        _record(entry)
    finally:
        _waiting.release()


def _cut(value: Any) -> Any:
    return value[:LONGEST_VALUE] if isinstance(value, str) else value


def _record(entry: AuditEntry) -> None:
    """Add an entry to the table, where there is a history. It is in the log in any case."""
    history = service.history()
    if history is None:
        return
    try:
        history.audit.add(entry)
    except HistoryError as error:
        log.warning("an entry of the audit log is not in the history: %s", error)
