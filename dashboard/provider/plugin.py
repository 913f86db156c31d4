"""The two entry points by which vLLM loads the provider: one in every process, one in the API server."""

from __future__ import annotations

import multiprocessing
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dashboard.provider.switch import is_named

if TYPE_CHECKING:
    from dashboard.provider.endpoint import ConfigEndpoint

CORE = "vllm.v1.engine.core"
INSPECTION = "vllm.model_executor.models.registry"  # vLLM runs it as a process of its own, to look at a model's class


def register() -> None:
    """Give vLLM's `EngineCore` the method that describes it (entry point of `vllm.general_plugins`).

    vLLM calls it in every process, and without VLLM_PLUGINS also where nobody named the plugin: then it does nothing.
    """
    if not is_named(os.environ):
        return
    from dashboard.provider.gathering import logger  # noqa: PLC0415  nothing is imported where it is not named

    try:
        if (core := _engine_core()) is not None:
            from dashboard.provider.engine import METHOD, describe  # noqa: PLC0415

            setattr(core, METHOD, describe)
    except Exception:  # noqa: BLE001  the server must start all the same
        logger.exception("the engines will not be described")


def endpoint() -> ConfigEndpoint:
    """Return the endpoint plugin (entry point of `vllm.endpoint_plugins`); vLLM asks for it only where it is named."""
    from dashboard.provider.endpoint import ConfigEndpoint  # noqa: PLC0415  in the API server only

    return ConfigEndpoint()


def _engine_core() -> Any:
    """Return the class `EngineCore`, or None in a process that runs no engine.

    The first process imports it: engines that are forked from it load no plugins again. In others it is there if they
    run an engine.
    """
    is_first = multiprocessing.parent_process() is None and not _inspects()
    module = import_module(CORE) if is_first else sys.modules.get(CORE)
    return module.EngineCore if module is not None else None


def _inspects() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(spec, "name", None) == INSPECTION
