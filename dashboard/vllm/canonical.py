"""Settings in their one spelling, and one object for equal settings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from dashboard.errors import UnreadableError
from dashboard.fleet import Setting, Source, State
from vllm_fleet_provider.shared.redaction import MARKER
from vllm_fleet_provider.shared.spelling import canonical_text, tidy

T = TypeVar("T")
SHORT = 200  # characters of a path or value that is cached; the captures have at most 93 and 266
REMEMBERED = 16_384  # cached settings of up to 2 KB, 32 MB at worst; a fleet has 600 paths with some values each
MOST = 16_384  # results between two polls: three for each of 5,000 replicas; bounds programs that never poll

# Null until the engine sets it, in a process that the API server does not see
# (vllm/v1/worker/gpu_worker.py, vllm/v1/attention/backends/utils.py).
FILLED_IN_LATER = frozenset(
    {
        "cache_config.hash_block_size",
        "cache_config.kv_cache_layout",
        "cache_config.cache_hit_alignment_tokens",
        "cache_config.mamba_page_size_padded",
        "cache_config.skip_page_size_padded",
    }
)


def setting(path: str, value: Any, source: Source) -> Setting:
    """Return the setting for a JSON value: its spelling and its state."""
    return _cached(path, value, source) if is_short(path, value) else _setting(path, value, source)


def spelled(path: str, value: Any) -> str:
    """Return the spelling of a JSON value. Raise UnreadableError for a number that no server can mean."""
    try:
        return canonical_text(tidy(path, value))
    except ValueError as error:
        raise UnreadableError("schema", str(error)) from None


def is_short(path: str, value: Any) -> bool:
    """Return whether a setting may be cached: replicas must not fill the memory with what they send."""
    if isinstance(value, (list, dict)) or len(path) > SHORT:
        return False
    return not isinstance(value, str) or len(value) <= SHORT


def _setting(path: str, value: Any, source: Source) -> Setting:
    text = spelled(path, value)
    if text == "null":
        return Setting(text, State.UNKNOWN if path in FILLED_IN_LATER else State.NULL, source)
    return Setting(text, State.REDACTED if MARKER in text else State.REPORTED, source)


# One object for equal settings of many replicas. Typed, because True == 1 and 64.0 == 64.
_cached = lru_cache(maxsize=REMEMBERED, typed=True)(_setting)


class Settings(dict[str, Setting]):
    """Immutable settings by path; a weak reference finds them while a reply uses them."""

    __slots__ = ("__weakref__",)


def shared(settings: Mapping[str, Setting]) -> Mapping[str, Setting]:
    """Return one immutable mapping for equal settings, in the given order."""
    return _shared.setdefault(tuple(settings.items()), Settings(settings))


_shared: WeakValueDictionary[tuple[tuple[str, Setting], ...], Settings] = WeakValueDictionary()


_recent: list[RecentResults[Any]] = []


class RecentResults(Generic[T]):
    """Results by key, kept while every poll uses them. Safe to share between threads."""

    def __init__(self) -> None:
        self._new: dict[Hashable, T] = {}
        self._old: dict[Hashable, T] = {}
        _recent.append(self)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result for this key; call `make` unless it was used since the poll before last."""
        for known in (self._new, self._old):
            if key in known:
                found = self._new[key] = known[key]
                return found
        if len(self._new) >= MOST:
            self.forget_unused()
        made = self._new[key] = make()
        return made

    def forget_unused(self) -> None:
        """Drop the results that were not used since the last call."""
        self._old, self._new = self._new, {}


def forget_unused() -> None:
    """Drop unused results everywhere: called once per poll."""
    for each in _recent:
        each.forget_unused()
