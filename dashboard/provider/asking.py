"""Ask every engine once, and collect the descriptions of engines and API server."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from dashboard.provider.answer import Gathered
from dashboard.provider.arguments import arguments_of
from dashboard.provider.engine import METHOD, described_alone
from dashboard.provider.front import block_size_of, chat_of, parallelism_of, served_names_of
from dashboard.provider.gathering import MISSING, Gathering, found, logger

if TYPE_CHECKING:
    from collections.abc import Mapping

SOME_FAILED = "describing some engines failed; they are not among these"
NOT_ASKED = "the engines could not be asked; what stands here is the API server's configuration"


async def gather(engine_client: Any, state: Any) -> Gathered:
    """Ask every engine of this API server and read the server's state. Unavailable values are null and listed."""
    began = time.monotonic()
    gathering = Gathering()
    engines = await _engines(engine_client, state, gathering)
    # A chat template and the file of --config are read from disk, which must not block the event loop.
    chat = await asyncio.to_thread(chat_of, state, gathering)
    set_arguments = await asyncio.to_thread(arguments_of, state, gathering)
    logger.info("configuration API: %d engine(s) described in %.2f s", len(engines), time.monotonic() - began)
    return Gathered(
        engines=tuple(sorted(engines, key=lambda one: one["engine"]["data_parallel_rank"])),
        served_model_names=served_names_of(state, gathering),
        parallelism=parallelism_of(_config(engine_client, state), gathering),
        chat=chat,
        unavailable=gathering.unavailable,
        block_size=block_size_of(_config(engine_client, state)),
        set_arguments=set_arguments,
    )


def count_engines(engine_client: Any) -> int | None:
    """Return the number of engines of this API server (elastic expert parallelism changes it). None: unknown."""
    try:
        return len(engine_client.engine_core.core_engines)
    except Exception:  # noqa: BLE001  a version without `core_engines` has a fixed number
        return None


async def _engines(engine_client: Any, state: Any, gathering: Gathering) -> list[Mapping[str, Any]]:
    try:
        described = [json.loads(text) for text in await _ask(engine_client)]
    except Exception:  # noqa: BLE001  an unknown client; the API server's configuration is used
        logger.warning("the engines could not be asked", exc_info=True)
        described = []
    known: list[Mapping[str, Any]] = [one for one in described if isinstance(one, dict) and "engine" in one]
    if len(known) < len(described):
        gathering.lack("fleet.engines", SOME_FAILED)
    if not known:
        gathering.lack("fleet.engines", NOT_ASKED)
        known = [described_alone(_config(engine_client, state))]
    return known


async def _ask(engine_client: Any) -> list[str]:
    """Return the descriptions of all engines of this API server (vllm/v1/engine/core_client.py)."""
    client = engine_client.engine_core
    if hasattr(client, "call_utility_all_async"):
        return list(await client.call_utility_all_async(METHOD))
    if hasattr(client, "_call_utility_async"):  # before 0.32 nothing public asks more than the first
        engines = client.core_engines
        return list(await asyncio.gather(*(client._call_utility_async(METHOD, engine=engine) for engine in engines)))  # noqa: SLF001
    return [await client.call_utility_async(METHOD)]


def _config(engine_client: Any, state: Any) -> Any:
    config = found(state, "vllm_config")
    return found(engine_client, "vllm_config") if config is MISSING else config
