"""Ask every engine once, and collect the descriptions of engines and API server."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from vllm_fleet_provider.answer import GatheredAnswers
from vllm_fleet_provider.arguments import arguments_of
from vllm_fleet_provider.engine import METHOD, described_alone
from vllm_fleet_provider.front import block_size_of, chat_of, parallelism_of, served_names_of
from vllm_fleet_provider.gathering import MISSING, Gathering, found, logger
from vllm_fleet_provider.shared.inference_config import MAX_ENGINES

if TYPE_CHECKING:
    from collections.abc import Mapping

SOME_FAILED = "describing some engines failed; they are not among these"
NOT_ASKED = "the engines could not be asked; what stands here is the API server's configuration"
ONE_FAILED = "engine {} could not be asked; is the provider enabled in its process, too?"


async def gather(engine_client: Any, state: Any) -> GatheredAnswers:
    """Ask every engine of this API server and read the server's state. Unavailable values are null and listed."""
    began = time.monotonic()
    gathering = Gathering()
    engines = await _engines(engine_client, state, gathering)
    # A chat template and the file of --config are read from disk, which must not block the event loop.
    chat = await asyncio.to_thread(chat_of, state, gathering)
    set_arguments = await asyncio.to_thread(arguments_of, state, gathering)
    logger.info("configuration API: %d engine(s) described in %.2f s", len(engines), time.monotonic() - began)
    return GatheredAnswers(
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
        answers = await _ask(engine_client)
    except Exception:  # noqa: BLE001  an unknown client; the API server's configuration is used
        logger.warning("the engines could not be asked", exc_info=True)
        answers = []
    described = [(rank, _parsed(text)) for rank, text in answers]
    known = [one for _, one in described if one is not None]
    if not known:
        gathering.lack("fleet.engines", NOT_ASKED)
        return [described_alone(_config(engine_client, state))]
    for rank, one in described:
        if one is None and rank is not None:
            gathering.lack("fleet.engines", ONE_FAILED.format(rank))
            known.append(described_alone(_config(engine_client, state), rank))
        elif one is None:
            gathering.lack("fleet.engines", SOME_FAILED)
    return known


def _parsed(text: Any) -> Mapping[str, Any] | None:
    """Return the description of an engine; None for an error, and for anything else."""
    try:
        described = json.loads(text)
    except (TypeError, ValueError):
        return None
    return described if isinstance(described, dict) and "engine" in described else None


async def _ask(engine_client: Any) -> list[tuple[int | None, Any]]:
    """Return the DP rank of each engine of this API server, where it is known, and its description or its error.

    An engine may lack the provider: one on another machine, started with `--headless`. It costs only its own facts, so
    each is asked by itself, which nothing public does (vllm/v1/engine/core_client.py).
    """
    client = engine_client.engine_core
    if hasattr(client, "_call_utility_async"):
        engines = list(client.core_engines)[:MAX_ENGINES]
        calls = [client._call_utility_async(METHOD, engine=engine) for engine in engines]  # noqa: SLF001
        return list(zip(map(_rank, engines), await asyncio.gather(*calls, return_exceptions=True), strict=True))
    if hasattr(client, "call_utility_all_async"):
        return [(None, text) for text in await client.call_utility_all_async(METHOD)]
    return [(None, await client.call_utility_async(METHOD))]


def _rank(engine: Any) -> int | None:
    """Return the DP rank that the identity of an engine is: two bytes, the lower first."""
    return int.from_bytes(engine, "little") if isinstance(engine, bytes) and len(engine) == 2 else None  # noqa: PLR2004


def _config(engine_client: Any, state: Any) -> Any:
    config = found(state, "vllm_config")
    return found(engine_client, "vllm_config") if config is MISSING else config
