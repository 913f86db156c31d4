"""The two entry points of the provider: one that vLLM loads in every process, one for the API server."""

from __future__ import annotations

import multiprocessing
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vllm_fleet_provider.switch import is_named

if TYPE_CHECKING:
    from vllm_fleet_provider.endpoint import ConfigEndpoint

CORE = "vllm.v1.engine.core"
INSPECTION = "vllm.model_executor.models.registry"  # vLLM inspects a model's class in a process with this main module


def register() -> None:
    """Add the method that describes the engine to vLLM's `EngineCore` (entry point of `vllm.general_plugins`).

    vLLM calls it in every process, also while VLLM_PLUGINS is not set: then it does nothing.
    """
    if not is_named(os.environ):
        return
    from vllm_fleet_provider.gathering import logger  # noqa: PLC0415  nothing is imported unless VLLM_PLUGINS lists it

    try:
        if (core := _engine_core()) is not None:
            from vllm_fleet_provider.engine import METHOD, describe  # noqa: PLC0415

            setattr(core, METHOD, describe)
    except Exception:  # noqa: BLE001  the server must start anyway
        logger.exception("the engines will not be described")


def endpoint() -> ConfigEndpoint:
    """Return the endpoint plugin (entry point of `vllm.endpoint_plugins`, loaded only if VLLM_PLUGINS lists it)."""
    from vllm_fleet_provider.endpoint import ConfigEndpoint  # noqa: PLC0415  in the API server only

    return ConfigEndpoint()


def _engine_core() -> Any:
    """Return the class `EngineCore`, or None in a process without an engine.

    The first process imports it, because engines forked from it do not load plugins again. Other processes have
    imported it if they run an engine.
    """
    is_first = multiprocessing.parent_process() is None and not _inspects()
    module = import_module(CORE) if is_first else sys.modules.get(CORE)
    return module.EngineCore if module is not None else None


def _inspects() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(spec, "name", None) == INSPECTION
