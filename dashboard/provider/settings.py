"""The whole `VllmConfig` by path, and vLLM's own environment variables, without secrets."""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from dashboard.provider.gathering import plain
from dashboard.redaction import redact
from dashboard.schemas.paths import leaves

if TYPE_CHECKING:
    from dashboard.provider.gathering import Gathering

MAX_SETTINGS = 20_000  # vLLM 0.32.0 has some 600
MAX_TEXT = 10_000  # characters of one value; longer ones are cut


def settings_of(vllm_config: Any, gathering: Gathering) -> dict[str, Any]:
    """Return every setting by its path, such as `cache_config.block_size`."""
    told = gathering.take("fleet.settings", lambda: _settings(vllm_config), dict[str, Any])
    return told or {}


def environment_of(gathering: Gathering) -> dict[str, Any]:
    """Return the variables that vLLM knows, as it understands them, but those whose name has KEY in it.

    These are what `vllm_env` of /server_info holds (vllm/entrypoints/serve/dev/server_info/api_router.py).
    """
    told = gathering.take("fleet.environment", _environment, dict[str, Any])
    return told or {}


def _settings(vllm_config: Any) -> dict[str, Any]:
    dumped = TypeAdapter(type(vllm_config)).dump_python(vllm_config, mode="json", fallback=str)
    return _bounded(dict(leaves(redact(dumped))))


def _environment() -> dict[str, Any]:
    envs, normal = import_module("vllm.envs"), import_module("vllm.config.utils").normalize_value
    names = [name for name in dir(envs) if name.startswith("VLLM_") and "KEY" not in name]
    values = {name: normal(value) for name in names if (value := getattr(envs, name, None)) is not None}
    return _bounded(redact(plain(values)))


def _bounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _cut(value) for name, value in list(values.items())[:MAX_SETTINGS]}


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _cut(item) for key, item in value.items()}
    return value
