"""Sign-ins of visitors: in the database of the history, which several dashboards may share, or in memory."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from dashboard.config import Options

if TYPE_CHECKING:  # it imports SQLAlchemy, 0.2 s that few commands need
    from dashboard.store.history.sign_ins import DatabaseSignIns

MOST = 10_000  # the least recently active of more are deleted


@dataclass(frozen=True)
class SignIn:
    """Somebody who signed in. `token` is the SHA-256 of the token that it is of; empty for a person.

    `sealed` is what the provider gave, encrypted. `refreshed_at` is when the groups were read.
    """

    id: str
    name: str
    means: str
    created_at: datetime
    active_at: datetime
    ends_at: datetime
    refreshed_at: datetime
    groups: frozenset[str] = frozenset()
    token: str = ""
    sealed: bytes = b""


class MemorySignIns:
    """Sign-ins of this process only, with the methods of DatabaseSignIns."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[str, SignIn] = OrderedDict()  # the most recently active last
        self._lock = threading.Lock()

    def insert(self, sign_in: SignIn) -> None:
        with self._lock:
            for each in [each for each in self._by_id.values() if each.ends_at <= sign_in.created_at]:
                del self._by_id[each.id]
            self._by_id[sign_in.id] = sign_in
            while len(self._by_id) > MOST:
                self._by_id.popitem(last=False)

    def find(self, key: str) -> SignIn | None:
        return self._by_id.get(key)

    def update(self, key: str, **changes: Any) -> None:
        with self._lock:
            if (known := self._by_id.get(key)) is not None:
                self._by_id[key] = replace(known, **changes)
                self._by_id.move_to_end(key)

    def claim(self, key: str, refreshed_at: datetime, now: datetime) -> bool:
        with self._lock:
            known = self._by_id.get(key)
            if known is None or known.refreshed_at != refreshed_at:
                return False
            self._by_id[key] = replace(known, refreshed_at=now)
            return True

    def delete(self, field: str, value: str) -> int:
        with self._lock:
            found = [key for key, each in self._by_id.items() if getattr(each, field) == value]
            for key in found:
                del self._by_id[key]
        return len(found)


SignIns: TypeAlias = Union["MemorySignIns", "DatabaseSignIns"]


def configured_sign_ins(options: Options) -> SignIns:
    """Return where the sign-ins of these options are kept; open nothing."""
    if not options.has_history:
        return MemorySignIns()
    from dashboard.store.history.recording import configured_database  # noqa: PLC0415  as above
    from dashboard.store.history.sign_ins import DatabaseSignIns  # noqa: PLC0415

    return DatabaseSignIns(partial(configured_database, options))
