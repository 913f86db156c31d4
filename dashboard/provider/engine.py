"""What one engine says of itself, described once inside its own process and sent to the API server as JSON."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from dashboard.provider.devices import devices_of
from dashboard.provider.gathering import Gathering, at, logger
from dashboard.provider.groups import bytes_per_device, groups_of
from dashboard.provider.hashing import configured_hashing, fingerprint_of, hashing_of
from dashboard.provider.sections import sections_of
from dashboard.provider.settings import environment_of, settings_of
from dashboard.provider.wiring import wiring_of
from dashboard.schemas.base import Count, Size

METHOD = "fleet_config"  # the utility method that the general plugin adds to vLLM's EngineCore
_KEPT = "_fleet_config"
NOT_ASKED = "the engine could not be asked"


def describe(core: Any) -> str:
    """Describe an engine core, as JSON: {engine, sections, fleet, settings, environment, unavailable}.

    It is done once and kept on the core; the second API server of an engine gets the same text.
    """
    kept = getattr(core, _KEPT, None)
    if kept is None:
        kept = _described(core)
        setattr(core, _KEPT, kept)
    return str(kept)


def _described(core: Any) -> str:
    try:
        return json.dumps(_description(core), allow_nan=False)
    except Exception:  # noqa: BLE001  the other engines still answer
        logger.exception("this engine could not be described")
        return json.dumps({"unavailable": [{"field": "fleet.engines", "reason": "describing this engine failed"}]})


def described_alone(vllm_config: Any) -> dict[str, Any]:
    """Describe an engine that could not be asked, from the API server's configuration: in the shape of `describe`."""
    gathering = Gathering()
    cache, parallel = "cache_config", "parallel_config"

    def blocks() -> Any:
        # Behind one API server the number is the sum over its engines.
        is_one = at(vllm_config, f"{parallel}.data_parallel_size") == 1
        return at(vllm_config, f"{cache}.num_gpu_blocks") if is_one else None

    engine = {
        "data_parallel_rank": _number(vllm_config, f"{parallel}.data_parallel_rank"),
        "num_gpu_blocks": gathering.take("kv_cache.num_gpu_blocks", blocks, Count | None),
        **dict.fromkeys(("kv_cache_size_tokens", "max_concurrency")),
        "max_model_len": gathering.take(
            "fleet.engines.max_model_len", lambda: at(vllm_config, "model_config.max_model_len"), Size
        ),
        "kv_cache_bytes_per_device": None,
        "groups": [],
        "devices": [],
        "fingerprint": {"canonical": None, "engine": None, "reason": NOT_ASKED},
        "started_at": None,
    }
    hashing = configured_hashing(vllm_config, gathering)
    return _whole(vllm_config, engine, hashing, gathering)


def _description(core: Any) -> dict[str, Any]:
    gathering = Gathering()
    return _whole(core.vllm_config, _engine(core, gathering), hashing_of(core, gathering), gathering)


def _whole(vllm_config: Any, engine: dict[str, Any], hashing: dict[str, Any], gathering: Gathering) -> dict[str, Any]:
    return {
        "engine": engine,
        "sections": sections_of(vllm_config, gathering),
        "fleet": {
            "vllm_version": gathering.take("fleet.vllm_version", lambda: import_module("vllm").__version__, str),
            "prefix_hashing": hashing,
            **wiring_of(vllm_config, gathering),
        },
        "settings": settings_of(vllm_config, gathering),
        "environment": environment_of(gathering),
        "unavailable": gathering.unavailable,
    }


def _engine(core: Any, gathering: Gathering) -> dict[str, Any]:
    def take(field: str, path: str, shape: Any) -> Any:
        return gathering.take(f"fleet.engines.{field}", lambda: at(core, path), shape)

    tokens = take("kv_cache_size_tokens", "vllm_config.cache_config.kv_cache_size_tokens", Count | None)
    concurrency = take("max_concurrency", "vllm_config.cache_config.kv_cache_max_concurrency", float | None)
    if tokens is None:
        tokens, concurrency = _computed(core, gathering)
    return {
        "data_parallel_rank": _rank(core),
        "num_gpu_blocks": take("num_gpu_blocks", "scheduler.kv_cache_config.num_blocks", Count),
        "kv_cache_size_tokens": tokens,
        "max_concurrency": concurrency,
        "max_model_len": take("max_model_len", "vllm_config.model_config.max_model_len", Size),
        "kv_cache_bytes_per_device": gathering.take(
            "fleet.engines.kv_cache_bytes_per_device", lambda: bytes_per_device(core.scheduler.kv_cache_config), Count
        ),
        "groups": groups_of(lambda: core.scheduler.kv_cache_config, gathering),
        "devices": devices_of(core, gathering),
        "fingerprint": fingerprint_of(core, gathering),
        "started_at": gathering.take("fleet.engines.started_at", _started_at, str),
    }


def _computed(core: Any, gathering: Gathering) -> tuple[int | None, float | None]:
    """Compute tokens and concurrency with vLLM's own function, where the version does not keep them.

    Releases before 0.29 log them and forget them (vllm/v1/core/kv_cache_utils.py).
    """

    def concurrency() -> float:
        utils = import_module("vllm.v1.core.kv_cache_utils")
        return float(utils.get_max_concurrency_for_kv_cache_config(core.vllm_config, core.scheduler.kv_cache_config))

    found = gathering.take("fleet.engines.max_concurrency", concurrency, float)
    length = gathering.take("fleet.engines.max_model_len", lambda: core.vllm_config.model_config.max_model_len, Size)
    return (int(found * length), found) if found is not None and length else (None, found)


def _rank(core: Any) -> int:
    """Return the DP rank. Ranks of a model without experts run as if alone; then only the index tells."""
    paths = ("engine_index", "vllm_config.parallel_config.data_parallel_index")
    found = [_number(core, path) for path in paths]
    return max(found)


def _number(core: Any, path: str) -> int:
    try:
        value = at(core, path)
    except Exception:  # noqa: BLE001  another attribute tells it
        return 0
    return value if isinstance(value, int) and value >= 0 else 0


def _started_at() -> str:
    """Return when this process started, from the kernel's books (proc(5), /proc/pid/stat, field 22)."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    seconds = int(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
