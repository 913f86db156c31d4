"""The server of the tools, by the official SDK: over standard input and output, or as a route of the dashboard."""

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Any

import mcp_types as types
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic_core import to_json
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from dashboard import __version__
from dashboard.errors import DashboardError
from dashboard.fleet.formatting import end_cut
from dashboard.mcp import PATH
from dashboard.mcp.catalogue import TOOLS, FleetTool
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
_BY_NAME = {each.name: each for each in TOOLS}
# As for the documents of the API: with more threads each takes turns with the event loop.
_THREADS = ThreadPoolExecutor(2, "mcp")


def build_server(fleets: Fleets) -> Server[Any]:
    """Return a server whose tools read these fleets."""
    listed = types.ListToolsResult(tools=[_described(each) for each in TOOLS])

    async def list_tools(_context: ServerRequestContext[Any], _params: Any) -> types.ListToolsResult:
        return listed

    async def call_tool(
        _context: ServerRequestContext[Any], asked: types.CallToolRequestParams
    ) -> types.CallToolResult:
        loop = asyncio.get_running_loop()
        try:
            result = await loop.run_in_executor(_THREADS, call, fleets, asked.name, asked.arguments or {})
        except DashboardError as error:
            return _failed(end_cut(str(error), LONGEST_MISTAKE))  # of a source it may have foreign text
        except Exception:
            log.exception("the tool %s failed", end_cut(asked.name))
            return _failed(INTERNAL)
        text = types.TextContent(text=to_json(result).decode())
        return types.CallToolResult(content=[text], structured_content=result)

    return Server(
        NAME, version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


def call(fleets: Fleets, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a tool; raise a DashboardError, whose sentence says what to do."""
    tool = _BY_NAME.get(name)
    if tool is None:
        raise ToolError(f"There is no tool {end_cut(name, 80)!r}; there are {', '.join(_BY_NAME)}.")
    mistake = best_match(Draft202012Validator(tool.input_schema).iter_errors(dict(asked)))
    if mistake is not None:
        place = ".".join(map(str, mistake.absolute_path)) or name
        raise ToolError(f"{place}: {end_cut(mistake.message)}.")
    return result_of(tool.run(fleets, asked), asked.get("cursor"))


def _described(tool: FleetTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )


def _failed(sentence: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=sentence)], is_error=True)


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
