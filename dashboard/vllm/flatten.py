"""From the nested VllmConfig to paths: `{"cache_config": {"block_size": 16}}` to `cache_config.block_size`."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import chain
from typing import Any
from weakref import WeakValueDictionary

from pydantic_core import to_json

from dashboard.errors import UnreadableError
from dashboard.fleet import Setting, Source
from dashboard.vllm.canonical import Settings, setting
from dashboard.vllm.identity import is_identity_variable, take_identity
from dashboard.vllm.schemas.paths import MAX_PATH, leaves

MAX_SETTINGS = 20_000  # the largest capture has 1,000
DIGEST_BYTES = 16  # two configurations share a digest by accident, or by intent, in 1 of 2^64 tries


def flatten_config(
    config: dict[str, Any], environment: dict[str, Any], source: Source
) -> tuple[Mapping[str, Setting], Mapping[str, Setting]]:
    """Flatten a redacted `VllmConfig` and its environment into (settings, identity), each path to `Setting`.

    Replicas that say the same share one settings mapping: only the first one is flattened.
    """
    config = {name: dict(value) if isinstance(value, dict) else value for name, value in config.items()}
    _drop_copies(config)
    identity = dict(take_identity(config))
    kept: dict[str, Any] = {}
    for name, value in environment.items():
        if is_identity_variable(name):
            identity[f"env.{name}"] = value
        else:
            kept[name] = value
    key = (blake2b(to_json((config, kept)), digest_size=DIGEST_BYTES).digest(), source)
    settings = _shared.get(key)
    if settings is None:
        settings = _shared[key] = _settings(config, kept, source)
    return settings, _flat(leaves(identity), source)


_shared: WeakValueDictionary[tuple[bytes, Source], Settings] = WeakValueDictionary()


def _settings(config: dict[str, Any], environment: dict[str, Any], source: Source) -> Settings:
    variables = ((f"env.{name}", value) for name, value in environment.items())
    return _flat(chain(leaves(config), variables), source)


def _flat(pairs: Iterable[tuple[str, Any]], source: Source) -> Settings:
    flat = Settings()
    for path, value in pairs:
        if len(path) > MAX_PATH:
            raise UnreadableError("schema", f"a setting's path has more than {MAX_PATH} characters: {path[:40]}")
        flat[path] = setting(path, value, source)
        if len(flat) > MAX_SETTINGS:
            raise UnreadableError("schema", f"there are more than the {MAX_SETTINGS:,} settings that are read")
    return flat


def _drop_copies(config: dict[str, Any]) -> None:
    """Leave out the copies of other sections that vLLM keeps inside `speculative_config`."""
    speculative = config.get("speculative_config")
    if isinstance(speculative, dict):
        for key in [key for key in speculative if key.startswith(("target_", "draft_"))]:
            if isinstance(speculative[key], dict):
                del speculative[key]
