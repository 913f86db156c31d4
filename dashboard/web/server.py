"""What answers besides the pages: the collector's life, probes (/healthz, /livez, /readyz), /metrics and /api/v1."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.documents.findings import findings_json
from dashboard.analysis.documents.fleet import fleet_json
from dashboard.config import Options, load_options
from dashboard.errors import OptionsError
from dashboard.fleet.formatting import end_cut
from dashboard.rules.findings import OutcomeKind
from dashboard.views import pages
from dashboard.web.connections import limit_log, raise_descriptor_limit

WRONG_OPTIONS = 2  # the exit code of every program for wrong usage
INTERVALS_UNTIL_STALE = 2
TIDY_SECONDS = 5.0
MAX_POOLS = 100  # that have series of their own; pools can be as many as served models
OTHER_POOLS = "other"
NO_POOL = ""  # of replicas that were never read


def options_or_exit() -> Options:
    """Return the options; with a mistake in them, say each in one sentence and end the program with exit code 2."""
    try:
        return load_options()
    except OptionsError as error:
        for mistake in error.mistakes:
            print(mistake, file=sys.stderr)  # noqa: T201  before there is any log
        raise SystemExit(WRONG_OPTIONS) from None


def lifespan(
    options: Options, tidy: Callable[[], None] = lambda: None
) -> Callable[[Any], AbstractAsyncContextManager[dict[str, Any]]]:
    """Return the life of the server: it polls from before the first browser until shutdown, and tidies now and then."""

    @asynccontextmanager
    async def polling(_app: Any) -> AsyncIterator[dict[str, Any]]:
        raise_descriptor_limit()
        limit_log()
        service.start(options)
        tidying = asyncio.create_task(_tidy_forever(tidy))
        try:
            yield {}
        finally:
            tidying.cancel()
            await asyncio.to_thread(service.stop)

    return polling


async def _tidy_forever(tidy: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(TIDY_SECONDS)
        tidy()


async def healthz(_request: Request) -> Response:
    """Answer 200 while the last complete poll is young enough, also when every replica is down; else 503."""
    polled_at = service.current().polled_at
    if polled_at is None:
        return JSONResponse({"status": "starting", "detail": "no poll has ended yet"}, status_code=503)
    age = (service.now() - polled_at).total_seconds()
    limit = INTERVALS_UNTIL_STALE * service.interval_seconds() + service.poll_timeout_seconds()
    fresh = age < limit
    body = {"status": "ok" if fresh else "stale", "age_seconds": round(age, 1), "limit_seconds": limit}
    return JSONResponse(body, status_code=200 if fresh else 503)


async def livez(_request: Request) -> Response:
    """Answer 200: the process serves."""
    return JSONResponse({"status": "ok"})


async def readyz(_request: Request) -> Response:
    """Answer 200 once a poll is complete, however old it is; else 503."""
    is_ready = service.current().polled_at is not None
    return JSONResponse({"status": "ok" if is_ready else "starting"}, status_code=200 if is_ready else 503)


async def metrics(_request: Request) -> Response:
    """Answer with the program's own metrics in Prometheus' text format."""
    return Response(generate_latest(_registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


async def api_fleet(request: Request) -> Response:
    """Answer with the JSON document of the current fleet; 503 before the first poll, 400 for a snapshot."""
    return await _answered(request, fleet_json)


async def api_findings(request: Request) -> Response:
    """Answer with the JSON document of what the rules find; 503 before the first poll, 400 for a snapshot."""
    return await _answered(request, findings_json)


async def _answered(request: Request, document: Callable[[Fleet, datetime], bytes]) -> Response:
    if pages.SNAPSHOT in request.query_params:
        return JSONResponse({"detail": f"no parameter {pages.SNAPSHOT}: this is the live fleet"}, status_code=400)
    fleet = service.current()
    if fleet.polled_at is None:
        return JSONResponse({"detail": "no poll has ended yet"}, status_code=503)
    body = await asyncio.to_thread(document, fleet, service.now())
    return Response(body, media_type="application/json")


async def not_found(_request: Request) -> Response:
    """Answer 404 where Streamlit would answer every unknown path with its page."""
    return PlainTextResponse("not found\n", status_code=404)


def routes() -> list[Route]:
    """Return what is answered beside the pages."""
    return [
        Route("/healthz", healthz),
        Route("/livez", livez),
        Route("/readyz", readyz),
        Route("/metrics", metrics),
        Route("/api/v1/fleet", api_fleet),
        Route("/api/v1/findings", api_findings),
        Route("/api/{path:path}", not_found),
    ]


class _Metrics:
    """Reads the numbers when they are asked for."""

    def collect(self) -> Iterable[Metric]:
        progress, fleet = service.progress(), service.current()
        yield CounterMetricFamily("vllm_fleet_polls", "Polls that ended.", value=progress.polls)
        yield CounterMetricFamily("vllm_fleet_poll_errors", "Polls that broke off.", value=progress.failures)
        yield SummaryMetricFamily(
            "vllm_fleet_poll_duration_seconds",
            "Duration of the polls, from discovery to the finished fleet.",
            count_value=progress.polls,
            sum_value=progress.seconds_sum,
        )
        counts = fleet.coverage
        replicas = GaugeMetricFamily("vllm_fleet_replicas", "Replicas by state.", labels=["state"])
        for state in ("up", "partial", "down"):
            replicas.add_metric([state], getattr(counts, state))
        yield replicas
        errors, stale = len(fleet.discovery_errors), sum(each.target_stale for each in fleet.replicas)
        yield GaugeMetricFamily("vllm_fleet_discovery_errors", "Sources of targets that cannot be read.", value=errors)
        yield GaugeMetricFamily(
            "vllm_fleet_stale_targets", "Targets kept from a source that cannot be read.", value=stale
        )
        yield GaugeMetricFamily("vllm_fleet_pools", "Pools.", value=len(fleet.pools))
        if fleet.polled_at is not None:
            yield from _judgements(fleet)
            age = (service.now() - fleet.polled_at).total_seconds()
            yield GaugeMetricFamily("vllm_fleet_data_age_seconds", "Age of the last complete poll.", value=age)


def _judgements(fleet: Fleet) -> Iterable[Metric]:
    """Count findings and outcomes. A pool's series stay while it does: which pools have some is decided by name."""
    own = {NO_POOL, *(pool.name for pool in fleet.pools[:MAX_POOLS])}
    counts = Counter(
        (str(finding.severity), finding.rule, end_cut(pool) if pool in own else OTHER_POOLS)
        for finding in fleet.inspection.findings
        for pool in finding.pools or (NO_POOL,)
    )
    findings = GaugeMetricFamily("vllm_fleet_findings", "Findings.", labels=["severity", "rule", "pool"])
    for labels, number in sorted(counts.items()):
        findings.add_metric(labels, number)
    yield findings
    suppressed = len(fleet.inspection.suppressed)
    yield GaugeMetricFamily("vllm_fleet_findings_suppressed", "Findings that are suppressed.", value=suppressed)
    kinds = Counter(outcome.kind for outcome in fleet.inspection.outcomes)
    outcomes = GaugeMetricFamily("vllm_fleet_rules", "Outcomes of rules on pools.", labels=["outcome"])
    for kind in OutcomeKind:
        outcomes.add_metric([kind.replace(" ", "_")], kinds[kind])
    yield outcomes


_registry = CollectorRegistry()
_registry.register(_Metrics())
