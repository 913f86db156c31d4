"""The one spelling of a value: canonical JSON text."""

import json
import math
import re
from typing import Any

# In an object that Python prints as `<function f at 0x7f13>`: the address differs in every process.
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=>)")
LARGEST = 2**64  # no count or size of a server is larger

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


def canonical_text(value: Any) -> str:
    """Return the JSON text of a value: sorted keys, no blanks, 64.0 as 64."""
    return repr(value) if type(value) is int else _ENCODER.encode(value)  # which takes ten times as long


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def tidy(path: str, value: Any) -> Any:
    """Return the normal form: `torch.bfloat16` is `bfloat16`, sets are sorted, whole floats are integers.

    Memory addresses are removed. Raise ValueError for numbers that JSON or int64 cannot hold.
    """
    if isinstance(value, str):
        return ADDRESS.sub(" at 0x...", value.removeprefix("torch."))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path or 'a list or object'} holds a number that is not finite")
        value = int(value) if value.is_integer() else value
    if isinstance(value, int | float) and abs(value) > LARGEST:
        raise ValueError(f"{path or 'a list or object'} holds a number beyond 2^64")
    if isinstance(value, list):
        items = [tidy("", item) for item in value]
        return sorted(items, key=canonical_text) if path in SETS else items
    if isinstance(value, dict):
        return {key: tidy("", item) for key, item in value.items()}
    return value
