"""The endpoint plugin: GET /inference/v1/config and /v1/config, both behind vLLM's API key."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from vllm_fleet_provider.answer import GatheredAnswers, TaggedBody, answer
from vllm_fleet_provider.asking import count_engines, gather
from vllm_fleet_provider.front import adapters_of
from vllm_fleet_provider.gathering import logger
from vllm_fleet_provider.metrics import ConfigInfo, expose
from vllm_fleet_provider.parameters import WrongParameterError, asked_of
from vllm_fleet_provider.switch import NAME

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from fastapi import FastAPI

PATHS = ("/inference/v1/config", "/v1/config")
STARTUP_SECONDS = 10  # wait of the server's start; idle engines answer within one second
ANSWER_SECONDS = 5  # wait of a request for engines that have not answered yet
NO_ENGINE = "this server has no engine, so there is no configuration to tell"
NOT_YET = "the engines have not answered yet"
FAILED = "the configuration could not be put together; the server's log says why"


class ConfigEndpoint:
    """Implements vLLM's `EndpointPlugin` (vllm/plugins/endpoint_plugins/interface.py)."""

    name = NAME
    required_tasks = None

    def __init__(self) -> None:
        self._client: Any = None
        self._state: Any = None
        self._gathering: asyncio.Task[GatheredAnswers] | None = None
        self._loop: asyncio.AbstractEventLoop
        self._engines: int | None = None
        self._answers: dict[tuple[int, bool, str], TaggedBody] = {}
        self._has_failed = False

    def attach_router(self, app: FastAPI) -> None:
        """Add the two routes."""
        for path in PATHS:
            app.add_api_route(path, self.respond, methods=["GET"], response_model=None, tags=["configuration"])

    async def init_state(self, engine_client: Any, state: Any, _args: Namespace) -> None:
        """Ask the engines before the server is ready: they are idle, and no request waits for them."""
        self._client, self._state = engine_client, state
        if engine_client is not None:
            await asyncio.wait({self._ask()}, timeout=STARTUP_SECONDS)
            self._loop = asyncio.get_running_loop()
            expose(ConfigInfo(self._read))

    async def respond(self, request: Request) -> Response:
        """Answer one GET. No part of the request reaches an engine."""
        try:
            return await self._respond(request)
        except WrongParameterError as error:
            return _error(400, str(error))
        except Exception:  # noqa: BLE001  logged once, never raised into vLLM
            if not self._has_failed:
                logger.exception("GET %s failed", request.url.path)
            self._has_failed = True
            return _error(500, FAILED)

    async def _respond(self, request: Request) -> Response:
        if self._gathering is None:
            return _error(503, NO_ENGINE)
        task = self._gathering if self._engines == count_engines(self._client) else self._ask()
        await asyncio.wait({task}, timeout=ANSWER_SECONDS)  # a timeout does not cancel the task
        if not task.done():
            return _error(503, NOT_YET)
        gathered = task.result()
        rank, full = asked_of(request.query_params, gathered.ranks)
        found = self._answer(gathered, rank, full=full)
        headers = {"Cache-Control": "no-cache"}
        if found.etag is None:
            return Response(found.body, media_type="application/json", headers=headers)
        headers["ETag"] = found.etag
        if _matches(",".join(request.headers.getlist("if-none-match")), found.etag):
            return Response(status_code=304, headers=headers)
        return Response(found.body, media_type="application/json", headers=headers)

    def _ask(self) -> asyncio.Task[GatheredAnswers]:
        """Ask all current engines again. Errors are raised by the task's result."""
        self._engines = count_engines(self._client)
        self._answers.clear()
        self._gathering = asyncio.create_task(gather(self._client, self._state))
        return self._gathering

    def _read(self) -> tuple[GatheredAnswers | None, Sequence[Mapping[str, Any]] | None]:
        """Return what the current engines answered, or None, and the adapters; /metrics calls it in any thread."""
        task = self._gathering
        if self._engines != count_engines(self._client):
            self._loop.call_soon_threadsafe(self._ask)
        elif task is not None and task.done():
            return task.result(), adapters_of(self._state)
        return None, None

    def _answer(self, gathered: GatheredAnswers, rank: int, *, full: bool) -> TaggedBody:
        adapters = adapters_of(self._state)
        key = (rank, full, repr(adapters))
        if key not in self._answers:
            if len(self._answers) > len(gathered.ranks) * 2:  # adapters were loaded and unloaded
                self._answers.clear()
            self._answers[key] = answer(gathered, adapters, rank, full=full)
        return self._answers[key]


def _matches(header: str, etag: str) -> bool:
    """Return whether the client already has this answer (RFC 9110, section 13.1.2: weak comparison)."""
    return any(tag.strip().removeprefix("W/") in {etag, "*"} for tag in header.split(","))


def _error(status: int, sentence: str) -> Response:
    return JSONResponse({"error": {"message": sentence, "code": status}}, status_code=status)
