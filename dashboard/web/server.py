"""HTTP routes besides the pages: probes (/healthz, /livez, /readyz), /metrics and /api/v1; the start of polling."""

import asyncio
import gzip
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from importlib.util import find_spec
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from dashboard import mcp, service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.events import events_of_cluster
from dashboard.analysis.clusters import clusters_of, only_cluster
from dashboard.config import Options, load_options
from dashboard.documents.changes import events_json
from dashboard.documents.findings import findings_json
from dashboard.documents.fleet import fleet_json
from dashboard.documents.plan import plan_json
from dashboard.errors import HistoryError, OptionsError, SnapshotError
from dashboard.fleet.times import parse_since, parse_time
from dashboard.views import pages
from dashboard.web.limits import LogLimit, raise_descriptor_limit
from dashboard.web.metrics import FleetMetrics

if TYPE_CHECKING:  # the SDK, 0.5 s that few dashboards need
    from dashboard.mcp.server import McpRoute

WRONG_OPTIONS = 2  # exit code
TIDY_SECONDS = 5.0
# Documents are made by few threads: with more, each takes turns with the event loop, and probes wait.
API_THREADS = 2
FAST = 1  # of gzip: a document of 500 replicas takes 20 ms
_PROCESS = token_hex(8)  # generations are counted from its start
_API = ThreadPoolExecutor(API_THREADS, "api")
NO_CLUSTER = "no replica has this label cluster; /api/v1/fleet lists the pools with their clusters"
NO_DATA = "no poll completed yet"
FULL = "full"  # parameter: what `poll --format json --full` writes
SINCE, UNTIL = EVENT_RANGE = ("since", "until")  # parameters: the ends of a range of time
FALSE = "false"
FLAGS = {"true": True, FALSE: False}
Made = TypeVar("Made")


def options_or_exit() -> Options:
    """Return the options; print each mistake in them and end the program with exit code 2."""
    try:
        return load_options()
    except OptionsError as error:
        for mistake in error.mistakes:
            print(mistake, file=sys.stderr)  # noqa: T201  there is no log yet
        raise SystemExit(WRONG_OPTIONS) from None


def tools_or_exit(options: Options) -> "McpRoute | None":
    """Return the route of agents; None where it is off. Without its SDK end the program with exit code 2."""
    if not options.mcp.enabled:
        return None
    if find_spec("mcp") is None:
        print(f"{options.file}: mcp.enabled {mcp.LACKS_SDK}.", file=sys.stderr)  # noqa: T201  as above
        raise SystemExit(WRONG_OPTIONS)
    from dashboard.mcp.server import McpRoute  # noqa: PLC0415  as above
    from dashboard.mcp.tools import Fleets  # noqa: PLC0415  as above

    return McpRoute(Fleets(service.current, service.happened, service.now))


def lifespan(
    options: Options, tidy: Callable[[], None] = lambda: None, tools: "McpRoute | None" = None
) -> Callable[[Any], AbstractAsyncContextManager[dict[str, Any]]]:
    """Return the lifespan of the server: it polls until shutdown, also without a browser, and tidies regularly."""

    @asynccontextmanager
    async def polling(_app: Any) -> AsyncIterator[dict[str, Any]]:
        raise_descriptor_limit()
        limit = LogLimit()
        limit.attach()
        service.start(options)
        # Attached again: some loggers appear with the first page.
        tidying = asyncio.create_task(_tidy_forever(limit.attach, limit.report, tidy))
        try:
            async with tools.running() if tools else nullcontext():
                yield {}
        finally:
            tidying.cancel()
            await asyncio.to_thread(service.stop)
            limit.detach()

    return polling


async def _tidy_forever(*tasks: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(TIDY_SECONDS)
        for tidy in tasks:
            tidy()


def _in_thread(function: Callable[..., Made], *args: Any) -> asyncio.Future[Made]:
    return asyncio.get_running_loop().run_in_executor(_API, function, *args)


async def healthz(_request: Request) -> Response:
    """Answer 200 while the last complete poll is recent, even if every replica is down; else 503."""
    polled_at = service.current().polled_at
    if polled_at is None:
        return _health("starting")
    age = (service.now() - polled_at).total_seconds()
    return _health("ok" if age < service.age_limit_seconds() else "stale")


async def livez(_request: Request) -> Response:
    return _health("ok")


async def readyz(_request: Request) -> Response:
    return _health("ok" if service.current().polled_at is not None else "starting")


def _health(status: str) -> Response:
    """Return the answer of a probe: no detail, because everybody may ask."""
    return JSONResponse({"status": status}, 200 if status == "ok" else 503)


def _metrics() -> Callable[[Request], Awaitable[Response]]:
    """Return a route with the metrics of this program in Prometheus text format."""
    metrics = FleetMetrics()

    async def answer(_request: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return answer


def _document(build: Callable[..., bytes], *choices: str) -> Callable[[Request], Awaitable[Response]]:
    """Return a route with a JSON document of the live fleet, of a snapshot or a past one; `choices` are true or false.

    With `cluster` it is that of one cluster. It answers 503 before the first poll, 400 for a wrong parameter, 404 for a
    snapshot, a poll or a cluster that is not there.
    """

    async def answer(request: Request) -> Response:
        asked = request.query_params
        snapshot, at = asked.get(pages.SNAPSHOT), asked.get(pages.AT)
        wrong = "write each parameter once" if len(asked) < len(asked.multi_items()) else ""
        if snapshot is not None and at is not None:
            wrong = f"parameters {pages.SNAPSHOT} and {pages.AT}: write one of them"
        if wrong:
            return JSONResponse({"detail": wrong}, status_code=400)
        try:
            wanted = {name: FLAGS[asked.get(name, FALSE)] for name in choices}
            time = parse_time(at) if at is not None else None
        except KeyError:
            names = " and ".join(choices)
            return JSONResponse({"detail": f"parameter {names}: write {' or '.join(FLAGS)}"}, status_code=400)
        except ValueError as error:
            return JSONResponse({"detail": f"parameter {pages.AT}: {error}"}, status_code=400)
        try:
            if snapshot is not None:
                fleet = await _in_thread(service.open_snapshot, snapshot)
            else:
                fleet = service.current() if time is None else await _in_thread(service.past, time)
            if (cluster := asked.get(pages.CLUSTER)) and fleet.polled_at is not None:
                fleet = await _in_thread(_of_cluster, fleet, cluster)
        except (HistoryError, SnapshotError) as error:
            return JSONResponse({"detail": str(error)}, status_code=404)
        if fleet.polled_at is None:
            return JSONResponse({"detail": NO_DATA}, status_code=503)
        is_live = snapshot is None and time is None
        return await _sent(request, partial(build, fleet, service.now(), **wanted), _etag(fleet) if is_live else None)

    return answer


def _etag(fleet: Fleet) -> str:
    """Return the ETag of what the live fleet is shown as: the next poll changes it."""
    polled_at = fleet.polled_at.timestamp() if fleet.polled_at else 0.0
    return f'W/"{_PROCESS}-{fleet.generation}-{polled_at:.6f}"'


async def _sent(request: Request, make: Callable[[], bytes], etag: str | None) -> Response:
    """Return a document, packed where the request accepts gzip; 304 for one that it has already."""
    headers = {"Vary": "Accept-Encoding"} | ({"ETag": etag} if etag else {})
    if etag and etag in map(str.strip, request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    body = await _in_thread(make)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        body = await _in_thread(partial(gzip.compress, body, FAST, mtime=0))
    return Response(body, media_type="application/json", headers=headers)


def _of_cluster(fleet: Fleet, cluster: str) -> Fleet:
    if cluster not in clusters_of(fleet):
        raise SnapshotError(NO_CLUSTER)
    return only_cluster(fleet, cluster)


async def events(request: Request) -> Response:
    """Answer what happened `since` a time or within a period, as JSON; `until` another time, else until now.

    Without `since` it is the last 24 hours, or all since the first poll.
    It answers 400 for a wrong parameter, 404 where the history does not cover the range, and without one.
    """
    written = {name: request.query_params.get(name) for name in EVENT_RANGE}
    times = {UNTIL: service.now()}
    for name, text in written.items():
        try:
            times |= {name: parse_since(text, service.now())} if text is not None else {}
        except ValueError as error:
            return JSONResponse({"detail": f"parameter {name}: {error}"}, status_code=400)
    since = times.get(SINCE)
    if since and since > times[UNTIL]:
        return JSONResponse({"detail": f"parameter {UNTIL}: earlier than {SINCE}"}, status_code=400)
    try:
        happened = await _in_thread(service.happened, since, times[UNTIL])
    except HistoryError as error:
        return JSONResponse({"detail": str(error)}, status_code=404)
    if cluster := request.query_params.get(pages.CLUSTER):
        happened = happened._replace(events=events_of_cluster(happened.events, cluster))
    body = await _in_thread(events_json, happened, service.current().name)
    return Response(body, media_type="application/json")


async def not_found(_request: Request) -> Response:
    """Answer 404; Streamlit would answer every unknown path with its page."""
    return PlainTextResponse("not found\n", status_code=404)


async def no_tools(_request: Request) -> Response:
    return PlainTextResponse("Off: set mcp.enabled in fleet.yaml, and restart.\n", status_code=404)


def routes(tools: "McpRoute | None" = None) -> list[Route]:
    return [
        Route("/healthz", healthz),
        Route("/livez", livez),
        Route("/readyz", readyz),
        Route("/metrics", _metrics()),
        Route("/api/v1/fleet", _document(fleet_json, FULL)),
        Route("/api/v1/findings", _document(findings_json)),
        Route("/api/v1/plan", _document(plan_json)),
        Route("/api/v1/events", events),
        Route("/api/{path:path}", not_found),
        tools.route if tools else Route(mcp.PATH, no_tools, methods=["GET", "POST", "DELETE"]),
    ]
