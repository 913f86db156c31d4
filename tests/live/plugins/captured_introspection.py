"""The public plugin of the capture gemma3_plugin, for the tests: it serves what that one answered, under its paths."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from fastapi import FastAPI

ANSWERS = Path(__file__).parents[2] / "captures" / "0.32.0" / "gemma3_plugin"
BASE = "/plugins/vllm-server-introspection"
FILES = {"config": "plg_config.json", "devices": "plg_devices.json", "kv-cache": "plg_kv_cache.json"}


class CapturedIntrospection:
    """The three routes of the public plugin (entry point of vllm.endpoint_plugins)."""

    name = "captured_introspection"
    required_tasks = None

    def attach_router(self, app: FastAPI) -> None:
        """Add the routes, each with its captured answer."""
        for path, file in FILES.items():
            app.add_api_route(f"{BASE}/{path}", _endpoint(json.loads((ANSWERS / file).read_text())), methods=["GET"])

    async def init_state(self, _engine_client: Any, _state: Any, _args: Namespace) -> None:
        """Need nothing: the real one reads the same numbers here."""


def _endpoint(answer: Any) -> Any:
    async def respond() -> Any:
        return answer

    return respond
