"""All of `VllmConfig` by path, and vLLM's environment variables, without secrets."""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from vllm_fleet_provider.gathering import MISSING, clean, found, plain
from vllm_fleet_provider.shared.paths import flatten
from vllm_fleet_provider.shared.redaction import redact, redact_prose

if TYPE_CHECKING:
    from vllm_fleet_provider.gathering import Gathering

MAX_SETTINGS = 20_000  # vLLM 0.32.0 has some 600
MAX_BITS = 64  # of an integer; longer ones are text, because common JSON readers have 64 bits


def settings_of(vllm_config: Any, gathering: Gathering) -> dict[str, Any]:
    """Return every setting by its path, such as `cache_config.block_size`."""
    return gathering.take("fleet.settings", lambda: _settings(vllm_config), dict[str, Any]) or {}


def environment_of(gathering: Gathering) -> dict[str, Any]:
    """Return the parsed variables that vLLM knows, except names with KEY.

    They are `vllm_env` of /server_info (vllm/entrypoints/serve/dev/server_info/api_router.py).
    """
    return gathering.take("fleet.environment", _environment, dict[str, Any]) or {}


def _settings(vllm_config: Any) -> dict[str, Any]:
    dumped = TypeAdapter(type(vllm_config)).dump_python(vllm_config, mode="json", fallback=_text_of)
    return _bounded(flatten(redact(dumped)))


def _text_of(value: Any) -> str:
    return redact_prose(str(value))  # the text of an object may contain its attributes


def _environment() -> dict[str, Any]:
    envs, normal = import_module("vllm.envs"), import_module("vllm.config.utils").normalize_value
    names = [name for name in dir(envs) if name.startswith("VLLM_") and "KEY" not in name]
    values = {name: value for name in names if (value := found(envs, name)) is not None}
    return _bounded(redact(plain({name: normal(value) for name, value in values.items() if value is not MISSING})))


def _bounded(values: dict[str, Any]) -> dict[str, Any]:
    return {clean(name): _as_json(value) for name, value in list(values.items())[:MAX_SETTINGS]}


def _as_json(value: Any) -> Any:
    """Return a value that JSON can represent."""
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {clean(str(key)): _as_json(item) for key, item in value.items()}
    if value is None or (isinstance(value, int) and value.bit_length() <= MAX_BITS):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return clean(hex(value) if isinstance(value, int) else _text_of(value))
