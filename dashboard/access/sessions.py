"""Sign-in sessions: the cookie has a signed id, everything else is kept by the store."""

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from dashboard import service
from dashboard.access.visitor import Means
from dashboard.config.access import SessionOptions
from dashboard.errors import HistoryError
from dashboard.store.sign_ins import SignIn, SignIns

log = logging.getLogger(__name__)

COOKIE = "fleet_session"
PURPOSE = "session"
ID_BYTES = 32
CACHE_SECONDS = 10.0  # after which another dashboard's change of a sign-in counts
MOST_CACHED = 10_000
TOUCH = timedelta(minutes=1)  # between two writes of the last activity


class SessionStore:
    """Sign-ins, with a cache of those that were read last. All but `find` raise HistoryError without the database."""

    def __init__(
        self, rows: SignIns, options: Callable[[], SessionOptions], clock: Callable[[], datetime] = service.utc_now
    ) -> None:
        """Read nothing yet. `options` returns those in force, `clock` UTC times."""
        self._rows = rows
        self._options = options
        self._clock = clock
        self._cached: OrderedDict[str, tuple[SignIn | None, float]] = OrderedDict()  # and when it was read
        self._lock = threading.Lock()

    def begin(
        self,
        name: str,
        means: Means,
        groups: frozenset[str] = frozenset(),
        *,
        token: str = "",
        sealed: bytes = b"",
        ends_at: datetime | None = None,
    ) -> SignIn:
        """Keep a new sign-in under a new id; `ends_at` limits it further than the options."""
        now = self._clock()
        end = now + timedelta(seconds=self._options().absolute_seconds)
        sign_in = SignIn(
            id=secrets.token_urlsafe(ID_BYTES),
            name=name,
            means=means,
            created_at=now,
            active_at=now,
            ends_at=end if ends_at is None else min(end, ends_at),
            refreshed_at=now,
            groups=groups,
            token=token,
            sealed=sealed,
        )
        self._rows.insert(sign_in)
        self._keep(sign_in.id, sign_in)
        return sign_in

    def find(self, key: str) -> SignIn | None:
        """Return the sign-in of an id, whose visitor is active; None for an unknown, idle or ended one.

        While the database is gone, known ones go on. For an unknown one HistoryError is raised then.
        """
        with self._lock:
            sign_in, read_at = self._cached.get(key, (None, -CACHE_SECONDS))
        if time.monotonic() - read_at >= CACHE_SECONDS:
            try:
                sign_in = self._rows.find(key)
            except HistoryError:
                if sign_in is None:
                    raise
            self._keep(key, sign_in)
        if sign_in is None or not self._is_alive(sign_in):
            return None
        if self._clock() - sign_in.active_at >= TOUCH:
            try:
                return self._change(sign_in, active_at=self._clock())
            except HistoryError as error:
                log.warning("the activity of a session is not recorded: %s", error)
        return sign_in

    def claim(self, sign_in: SignIn, age: timedelta = timedelta()) -> bool:
        """Return whether the groups of a sign-in are to be refreshed here; False where another request does it.

        Until they are, they count as `age` old.
        """
        at = self._clock() - age
        is_ours = self._rows.claim(sign_in.id, sign_in.refreshed_at, at)
        if is_ours:
            self._remember(sign_in, refreshed_at=at)
        return is_ours

    def age(self, sign_in: SignIn) -> timedelta:
        """Return how long ago the groups of a sign-in were read."""
        return self._clock() - sign_in.refreshed_at

    def refresh(self, sign_in: SignIn, groups: frozenset[str], sealed: bytes) -> SignIn:
        """Note the groups that the provider reports now; return the changed sign-in."""
        return self._change(sign_in, groups=groups, sealed=sealed, refreshed_at=self._clock())

    def end(self, key: str) -> None:
        """End a sign-in, for all dashboards that share the database."""
        try:
            self._rows.delete("id", key)
        finally:
            self._keep(key, None)

    def end_all(self, name: str) -> int:
        """End the sign-ins of somebody, for all dashboards that share the database; return how many."""
        ended = self._rows.delete("name", name)
        with self._lock:
            self._cached.clear()
        return ended

    def _change(self, sign_in: SignIn, **changes: object) -> SignIn:
        self._rows.update(sign_in.id, **changes)
        return self._remember(sign_in, **changes)

    def _remember(self, sign_in: SignIn, **changes: object) -> SignIn:
        with self._lock:
            known, read_at = self._cached.get(sign_in.id, (None, 0.0))
            changed = replace(known or sign_in, **changes)  # type: ignore[arg-type]
            if known is not None:  # else it has ended meanwhile
                self._cached[sign_in.id] = changed, read_at
        return changed

    def _is_alive(self, sign_in: SignIn) -> bool:
        now, options = self._clock(), self._options()
        end = min(sign_in.ends_at, sign_in.created_at + timedelta(seconds=options.absolute_seconds))
        return now < end and now - sign_in.active_at < timedelta(seconds=options.idle_seconds)

    def _keep(self, key: str, sign_in: SignIn | None) -> None:
        with self._lock:
            self._cached[key] = sign_in, time.monotonic()
            self._cached.move_to_end(key)
            while len(self._cached) > MOST_CACHED:
                self._cached.popitem(last=False)
