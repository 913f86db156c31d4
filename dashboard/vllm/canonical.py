"""The one spelling of a value (canonical JSON text), and one object for equal settings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from dashboard.errors import UnreadableError
from dashboard.fleet import Setting, Source, State
from dashboard.vllm.redaction import MARKER

T = TypeVar("T")
SHORT = 200  # characters of a path or value that is cached; the captures have at most 93 and 266
# In an object that Python prints as `<function f at 0x7f13>`: the address differs in every process.
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=>)")
REMEMBERED = 16_384  # cached settings of up to 2 KB, 32 MB at worst; a fleet has 600 paths with some values each
LARGEST = 2**64  # no count or size of a server is larger
MOST = 16_384  # results between two polls: three for each of 5,000 replicas; bounds programs that never poll

# Lists whose order means nothing to vLLM (vllm/config only tests whether they contain a name).
SETS = frozenset(
    {
        "model_config.allowed_media_domains",
        "load_config.ignore_patterns",
        "lora_config.target_modules",
        "compilation_config.custom_ops",
        "cache_config.kv_cache_dtype_skip_layers",
        "env.VLLM_DISABLED_KERNELS",
    }
)

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


def is_short(path: str, value: Any) -> bool:
    """Return whether a setting may be cached: replicas must not fill the memory with what they send."""
    if isinstance(value, (list, dict)) or len(path) > SHORT:
        return False
    return not isinstance(value, str) or len(value) <= SHORT


def canonical_text(value: Any) -> str:
    """Return the JSON text of a value: sorted keys, no blanks, 64.0 as 64."""
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def tidy(path: str, value: Any) -> Any:
    """Return the normal form: `torch.bfloat16` is `bfloat16`, sets are sorted, whole floats are integers.

    Memory addresses are removed. Raise UnreadableError for numbers that JSON or int64 cannot hold.
    """
    if isinstance(value, str):
        return ADDRESS.sub(" at 0x...", value.removeprefix("torch."))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnreadableError("schema", f"{path or 'a list or object'} holds a number that is not finite")
        value = int(value) if value.is_integer() else value
    if isinstance(value, int | float) and abs(value) > LARGEST:
        raise UnreadableError("schema", f"{path or 'a list or object'} holds a number beyond 2^64")
    if isinstance(value, list):
        items = [tidy("", item) for item in value]
        return sorted(items, key=canonical_text) if path in SETS else items
    if isinstance(value, dict):
        return {key: tidy("", item) for key, item in value.items()}
    return value


def _setting(path: str, value: Any, source: Source) -> Setting:
    text = canonical_text(tidy(path, value))
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


_recent: list[Recent[Any]] = []


class Recent(Generic[T]):
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
