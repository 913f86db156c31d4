"""A second plugin, for the tests: logs the configuration of an engine and how it hashes a real request.

It runs inside vLLM and shares no code with the provider, so that the two can be compared.
"""

import dataclasses
import json
import os
import sys
from argparse import Namespace
from typing import Any

from fastapi import FastAPI

CORE = "vllm.v1.engine.core"
PATH = "/witness"


def register() -> None:
    """Let each engine log a line for every request: `WITNESS` and JSON (entry point of vllm.general_plugins)."""
    module = sys.modules.get(CORE)
    if module is not None:
        module.EngineCore.preprocess_add_request = _logging(module.EngineCore.preprocess_add_request)


def _logging(original: Any) -> Any:
    def preprocess_add_request(core: Any, request: Any) -> Any:
        found = original(core, request)
        line = json.dumps(_seen(core, found[0]), default=str)
        print(f"WITNESS {line}", file=sys.stderr, flush=True)
        return found

    return preprocess_add_request


def _seen(core: Any, request: Any) -> dict[str, Any]:
    config = core.scheduler.kv_cache_config
    return {
        "rank": core.engine_index,
        "has_provider": hasattr(type(core), "fleet_config"),
        "num_blocks": config.num_blocks,
        "groups": [
            {
                "kind": type(group.kv_cache_spec).__name__,
                "layers": list(group.layer_names),
                **_spec(group.kv_cache_spec),
            }
            for group in config.kv_cache_groups
        ],
        "block_hashes": [block_hash.hex() for block_hash in request.block_hashes],
    }


def _spec(spec: Any) -> dict[str, Any]:
    return {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec)}


class WitnessEndpoint:
    """One route that says that it is there, and in which API server (entry point of vllm.endpoint_plugins)."""

    name = "fleet_witness"
    required_tasks = None

    def attach_router(self, app: FastAPI) -> None:
        """Add the route."""

        @app.get(PATH)
        async def witness() -> dict[str, Any]:
            return {"plugin": self.name, "process": os.getpid()}

    async def init_state(self, _engine_client: Any, _state: Any, _args: Namespace) -> None:
        """Need nothing."""
