"""The server of the tools, by the official SDK: over standard input and output, or as a route of the dashboard."""

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from dashboard import __version__
from dashboard.config.document import describe_error
from dashboard.errors import DashboardError
from dashboard.fleet.formatting import end_cut
from dashboard.mcp import PATH
from dashboard.mcp.catalogue import TOOLS, arguments_of, result_schema
from dashboard.mcp.results import NOTICE, ToolError, result_of
from dashboard.mcp.tools import Fleets

log = logging.getLogger(__name__)

NAME = "vllm-fleet"
INSTRUCTIONS = f"""\
Read-only comparison of vLLM replicas: which of them differ, what that breaks (prefix cache, KV transfer, capacity), and
what to change. Begin with fleet_status; list_findings and get_finding say what is wrong, fix_plan what to change and
restart. Nothing here changes a replica: a person or another tool applies a fix.
{NOTICE}
A result has at most 20 kB. left_out says what it lacks; pass next_cursor as cursor for the next rows."""
MOST_REQUEST_BYTES = 64 * 2**10
ONLY_POST = "For agents (Model Context Protocol): POST only.\n"
LONGEST_MISTAKE = 1_000  # characters
INTERNAL = "Internal error of the dashboard; its log has the cause."
# As for the documents of the API: with more threads each takes turns with the event loop.
_THREADS = ThreadPoolExecutor(2, "mcp")


def build_server(fleets: Fleets) -> Server[Any]:
    """Return a server whose tools read these fleets."""
    listed = types.ListToolsResult(tools=[described(each) for each in TOOLS])

    async def list_tools(_context: ServerRequestContext[Any], _params: Any) -> types.ListToolsResult:
        return listed

    async def call_tool(
        _context: ServerRequestContext[Any], asked: types.CallToolRequestParams
    ) -> types.CallToolResult:
        loop = asyncio.get_running_loop()
        try:
            result = await loop.run_in_executor(_THREADS, call, fleets, asked.name, asked.arguments or {})
        except DashboardError as error:
            mistake = end_cut(str(error), LONGEST_MISTAKE)  # of a source it may have foreign text
        except Exception:
            log.exception("the tool %s failed", end_cut(asked.name))
            mistake = INTERNAL
        else:
            text = types.TextContent(text=to_json(result).decode())
            return types.CallToolResult(content=[text], structured_content=result)
        return types.CallToolResult(content=[types.TextContent(text=mistake)], is_error=True)

    return Server(
        NAME, version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


def call(fleets: Fleets, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a tool; raise a DashboardError, whose sentence says what to do."""
    if name not in TOOLS:
        raise ToolError(f"There is no tool {end_cut(name, 80)!r}; there are {', '.join(TOOLS)}.")
    model = arguments_of(TOOLS[name])
    try:
        arguments = dict(model.model_validate(asked))
    except ValidationError as error:
        raise ToolError(f"{name}: {end_cut(describe_error(error.errors()[0], model))}.") from None
    cursor = arguments.pop("cursor")
    return result_of(TOOLS[name](fleets, **arguments), cursor)


def described(name: str) -> types.Tool:
    """Return a tool as agents see it."""
    tool = TOOLS[name]
    return types.Tool(
        name=name,
        description=" ".join((tool.__doc__ or "").split()),
        input_schema=arguments_of(tool).model_json_schema(),
        output_schema=result_schema(name),
        annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )


async def serve_stdio(fleets: Fleets) -> None:
    """Serve one client until it closes standard input."""
    server = build_server(fleets)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


class McpRoute:
    """The route /mcp: streamable HTTP, each request by itself. Host, Origin and role are checked before it."""

    def __init__(self, fleets: Fleets) -> None:
        """Serve nothing until `running`."""
        self._manager = StreamableHTTPSessionManager(
            build_server(fleets), json_response=True, stateless=True, max_request_body_size=MOST_REQUEST_BYTES
        )
        self.route = Route(PATH, self)

    def running(self) -> AbstractAsyncContextManager[None]:
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a message. There are no streams or sessions, which other methods are for."""
        if scope["method"] == "POST":
            await self._manager.handle_request(scope, receive, send)
        else:
            await PlainTextResponse(ONLY_POST, 405, {"Allow": "POST"})(scope, receive, send)
