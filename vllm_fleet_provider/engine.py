"""The description of one engine, made once inside its own process and sent to the API server as JSON."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from vllm_fleet_provider.components import components_of
from vllm_fleet_provider.devices import devices_of
from vllm_fleet_provider.gathering import MISSING, Gathering, at, found, logger
from vllm_fleet_provider.groups import bytes_per_device, groups_of
from vllm_fleet_provider.hashing import configured_hashing, fingerprint_of, hashing_of
from vllm_fleet_provider.sections import sections_of
from vllm_fleet_provider.settings import environment_of, settings_of
from vllm_fleet_provider.shared.types import MAX_INTEGER, Count, Size
from vllm_fleet_provider.wiring import wiring_of

METHOD = "fleet_config"  # the utility method that the general plugin adds to vLLM's EngineCore
_KEPT = "_fleet_config"
CACHE = "vllm_config.cache_config"
# Ranks of a model without experts run as single engines; then only the index has the rank.
RANK = ("engine_index", "vllm_config.parallel_config.data_parallel_index")
OF_SERVER = "parallel_config.data_parallel_rank"
NOT_ASKED = "the engine could not be asked"


def describe(core: Any) -> str:
    """Return the description of an engine core as JSON: engine, sections, fleet, settings, environment, unavailable.

    The text is cached on the core, so that every API server of an engine gets the same.
    """
    kept = getattr(core, _KEPT, None)
    if kept is None:
        kept = _described(core)
        setattr(core, _KEPT, kept)
    return str(kept)


def _described(core: Any) -> str:
    try:
        return json.dumps(_description(core), allow_nan=False)
    except Exception:  # noqa: BLE001  the other engines are still described
        logger.exception("this engine could not be described")
        return json.dumps({"unavailable": [{"field": "fleet.engines", "reason": "describing this engine failed"}]})


def described_alone(vllm_config: Any, rank: int | None = None) -> dict[str, Any]:
    """Return the description of an engine that could not be asked, from the API server's configuration.

    `rank` is its DP rank, where there are several engines.
    """
    gathering = Gathering()

    def of_one(field: str, name: str, shape: Any) -> Any:
        # With several engines some of these are sums over the engines, and some are the first engine's.
        is_one = found(vllm_config, "parallel_config.data_parallel_size") == 1
        read = partial(at, vllm_config, f"cache_config.{name}")
        return gathering.take(f"fleet.engines.{field}", read, shape) if is_one else None

    engine = {
        "data_parallel_rank": _rank(vllm_config, (OF_SERVER,), gathering) if rank is None else rank,
        "num_gpu_blocks": of_one("num_gpu_blocks", "num_gpu_blocks", Count | None),
        "kv_cache_size_tokens": of_one("kv_cache_size_tokens", "kv_cache_size_tokens", Count | None),
        "max_concurrency": of_one("max_concurrency", "kv_cache_max_concurrency", float | None),
        "max_model_len": gathering.take(
            "fleet.engines.max_model_len", partial(at, vllm_config, "model_config.max_model_len"), Size
        ),
        "kv_cache_bytes_per_device": None,
        "kv_cache_available_bytes": None,
        "groups": [],
        "devices": [],
        "fingerprint": {"canonical": None, "engine": None, "reason": NOT_ASKED},
        "started_at": None,
    }
    hashing = configured_hashing(vllm_config, gathering)
    return _whole(vllm_config, engine, hashing, gathering)


def _description(core: Any) -> dict[str, Any]:
    gathering = Gathering()
    return _whole(found(core, "vllm_config"), _engine(core, gathering), hashing_of(core, gathering), gathering)


def _whole(vllm_config: Any, engine: dict[str, Any], hashing: dict[str, Any], gathering: Gathering) -> dict[str, Any]:
    return {
        "engine": engine,
        "sections": sections_of(vllm_config, gathering),
        "fleet": {
            "vllm_version": gathering.take("fleet.vllm_version", lambda: import_module("vllm").__version__, str),
            "components": components_of(gathering),
            "prefix_hashing": hashing,
            **wiring_of(vllm_config, gathering),
        },
        "settings": settings_of(vllm_config, gathering),
        "environment": environment_of(gathering),
        "unavailable": gathering.unavailable,
    }


def _engine(core: Any, gathering: Gathering) -> dict[str, Any]:
    def take(field: str, path: str, shape: Any) -> Any:
        return gathering.take(f"fleet.engines.{field}", partial(at, core, path), shape)

    return {
        "data_parallel_rank": _rank(core, RANK, gathering),
        "num_gpu_blocks": take("num_gpu_blocks", "scheduler.kv_cache_config.num_blocks", Count),
        "kv_cache_size_tokens": gathering.take("fleet.engines.kv_cache_size_tokens", partial(_tokens, core), Count),
        "max_concurrency": gathering.take("fleet.engines.max_concurrency", partial(_concurrency, core), float),
        "max_model_len": take("max_model_len", "vllm_config.model_config.max_model_len", Size),
        "kv_cache_bytes_per_device": gathering.take(
            "fleet.engines.kv_cache_bytes_per_device", lambda: bytes_per_device(core.scheduler.kv_cache_config), Count
        ),
        "kv_cache_available_bytes": take("kv_cache_available_bytes", "available_gpu_memory_for_kv_cache", Count),
        "groups": groups_of(lambda: core.scheduler.kv_cache_config, gathering),
        "devices": devices_of(core, gathering),
        "fingerprint": fingerprint_of(core, gathering),
        "started_at": gathering.take("fleet.engines.started_at", _started_at, str),
    }


def _tokens(core: Any) -> Any:
    """Return the tokens of the KV cache, computed if this version only logs them."""
    kept = found(core, f"{CACHE}.kv_cache_size_tokens")
    is_kept = kept is not None and kept is not MISSING
    return kept if is_kept else int(_concurrency(core) * core.vllm_config.model_config.max_model_len)


def _concurrency(core: Any) -> Any:
    """Return how many requests of the full length fit.

    Before 0.29 vLLM only logs it, with vllm/v1/core/kv_cache_utils.py, get_max_concurrency_for_kv_cache_config.
    """
    kept = found(core, f"{CACHE}.kv_cache_max_concurrency")
    if kept is not None and kept is not MISSING:
        return kept
    utils = import_module("vllm.v1.core.kv_cache_utils")
    return utils.get_max_concurrency_for_kv_cache_config(core.vllm_config, core.scheduler.kv_cache_config)


def _rank(value: Any, paths: tuple[str, ...], gathering: Gathering) -> int:
    """Return the DP rank; if it is unknown, 0, and listed as unavailable."""
    ranks = [number for path in paths if _is_rank(number := found(value, path))]
    if not ranks:
        gathering.lack("fleet.engines.data_parallel_rank", "this vLLM does not tell it")
    return max(ranks, default=0)


def _is_rank(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_INTEGER


def _started_at() -> str:
    """Return when this process started (proc(5), /proc/pid/stat, field 22)."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    seconds = int(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
