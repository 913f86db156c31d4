"""The one spelling of a value: canonical JSON text."""

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

from dashboard.errors import UnreadableError
from dashboard.fleet import Setting, Source, State
from dashboard.vllm.redaction import MARKER

SHORT = 200  # characters of a path or value that many replicas share; in the captures 93 and 266 are the most
# Of an object that Python writes as `<function f at 0x7f13>`: another address in every process.
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=>)")
REMEMBERED = 16_384  # settings of up to 2 KB, 32 MB at worst; a fleet has 600 paths with some values each
LARGEST = 2**64  # no count or size that a server can mean is larger

# Lists whose order means nothing to vLLM (vllm/config: each is only ever asked whether it contains a name).
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

# Null until the engine has filled it in, in a process that the API server does not see
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
    """Give a JSON value of a path its spelling and its state."""
    return _scalar(path, value, source) if is_short(path, value) else _setting(path, value, source)


def is_short(path: str, value: Any) -> bool:
    """Tell whether a setting may be remembered for others that have the same: what replicas send bounds no memory."""
    if isinstance(value, (list, dict)) or len(path) > SHORT:
        return False
    return not isinstance(value, str) or len(value) <= SHORT


def canonical_text(value: Any) -> str:
    """Write a JSON value in its one spelling: sorted keys, no blanks, 64.0 as 64."""
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def tidy(path: str, value: Any) -> Any:
    """Bring a value into normal form: `torch.bfloat16` is `bfloat16`, sets are sorted, whole floats are integers.

    Memory addresses are left out.
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


def shared(settings: Mapping[str, Setting]) -> Mapping[str, Setting]:
    """Return one immutable mapping for equal settings, in the given order."""
    return _shared.setdefault(tuple(settings.items()), Settings(settings))


class Settings(dict[str, Setting]):
    """Settings by path that nobody changes; weak references find them as long as a reply uses them."""

    __slots__ = ("__weakref__",)


_shared: WeakValueDictionary[tuple[tuple[str, Setting], ...], Settings] = WeakValueDictionary()


def _state(path: str, text: str) -> State:
    if text == "null":
        return State.UNKNOWN if path in FILLED_IN_LATER else State.NULL
    return State.REDACTED if MARKER in text else State.REPORTED


def _setting(path: str, value: Any, source: Source) -> Setting:
    text = canonical_text(tidy(path, value))
    return Setting(text, _state(path, text), source)


# One object for equal settings: a thousand replicas say mostly the same. Typed, for True is 1 and 64.0 is 64.
_scalar = lru_cache(maxsize=REMEMBERED, typed=True)(_setting)
