"""Results that are kept from one poll to the next, and forgotten when a poll did not use them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
MOST = 16_384  # between two polls: three for each of 5,000 replicas. It bounds programs that never poll.

_all: list[Recent] = []  # type: ignore[type-arg]


class Recent(Generic[T]):
    """Results by key. Threads may share it."""

    def __init__(self) -> None:
        self._new: dict[Hashable, T] = {}
        self._old: dict[Hashable, T] = {}
        _all.append(self)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returned for this key, as long as somebody asked for it since the poll before last."""
        for known in (self._new, self._old):
            if key in known:
                found = self._new[key] = known[key]
                return found
        if len(self._new) >= MOST:
            self.forget_unused()
        made = self._new[key] = make()
        return made

    def forget_unused(self) -> None:
        """Drop what nobody asked for since the last call."""
        self._old, self._new = self._new, {}


def forget_unused() -> None:
    """Drop, of all results, what nobody asked for since the last call: called once a poll."""
    for each in _all:
        each.forget_unused()
