"""When Prometheus scraped a replica: without a new object for a later scrape, and never an old one as fresh."""

import asyncio
import json
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.config import Options, PollOptions, PrometheusOptions
from dashboard.demo import default_fleet, in_thread, targets
from dashboard.demo.describe import Behaviour, Speaks
from dashboard.documents.fleet import fleet_json
from dashboard.fleet import STALE_SECONDS, ScrapedMetrics, Target
from dashboard.fleet.formatting import iso
from dashboard.sources.discovery import Discovery, DiscoveryResult
from dashboard.sources.polling.by_digest import DigestPoller
from dashboard.sources.prometheus.source import Prometheus
from dashboard.sources.source import Listing
from dashboard.views.replica import replica_report
from dashboard.views.replicas import replica_rows
from dashboard.views.status import status_report
from tests.polled_fleets import build_fleet
from tests.sources.polling.hostile import CAPTURE, Exchange, HostileServer, answers
from tests.sources.prometheus_server import prometheus, wait_for_result

NOW = 1_800_000_000.0  # by the clock of this machine
AT = datetime.fromtimestamp(NOW, UTC)
HOUR = 3600.0
PATH = "/api/v1/query"
PAGE = next(line for line in (CAPTURE / "metrics.txt").read_bytes().splitlines() if line.startswith(b"vllm:cache"))


def series(instance: str, age: float = 0.0, *, clock: float = NOW, **labels: str) -> dict[str, Any]:
    """Return a series that a server whose clock shows `clock` scraped `age` seconds ago."""
    own = {"engine": "0", "block_size": "16", "instance": instance, "job": "vllm", **labels}
    return {"metric": own, "value": [clock, str(clock - age)]}


def digests(of: Mapping[str, Any]) -> dict[str, Any]:
    """Return the series with the digests of the engine that a series is of."""
    labels = {name: text for name, text in of["metric"].items() if name != "block_size"}
    return {**of, "metric": {**labels, "scheme": "2", "document": of["metric"]["block_size"]}}


def success(*result: Any, **more: Any) -> bytes:
    both = [each for own in result for each in (own, digests(own))]
    answer = {"status": "success", "data": {"resultType": "vector", "result": both}, **more}
    return json.dumps(answer, separators=(",", ":")).encode()


def source(url: str, clock: float = NOW, **more: Any) -> Prometheus:
    options = PrometheusOptions(url=url, **{"timeout_seconds": 2, "direct": "never", **more})
    return Prometheus(options, None, PollOptions(), lambda: clock)


def read(found: Prometheus, server: HostileServer, *result: Any, **more: Any) -> tuple[dict[str, Target], Listing]:
    """Return the targets by address and their listing, from a server that knows these series."""

    async def behave(exchange: Exchange) -> None:
        body = success(*result, **more)
        is_short = parse_qs(exchange.asked.body.decode())["query"][0].startswith("max by")
        await exchange.reply(re.sub(rb'"block_size":"\d+",', b"", body) if is_short else body)

    server.routes[PATH] = behave
    (listing,) = asyncio.run(found.read())
    return {each.id.removeprefix("http://"): each for each in listing.targets}, listing


def ages(listing: Listing) -> dict[str, float]:
    return {name.removeprefix("http://"): NOW - at for name, at in listing.scraped_at.items()}


def test_a_later_scrape_makes_no_new_target_and_has_its_time(server: HostileServer) -> None:
    found = source(server.address)
    first, listing = read(found, server, series("a:1", 50), series("b:1", 40))
    assert ages(listing) == {"a:1": 50, "b:1": 40}

    later, listing = read(found, server, series("a:1", 5), series("b:1", 4))
    assert all(later[name] is each for name, each in first.items())
    assert ages(listing) == {"a:1": 5, "b:1": 4}


@pytest.mark.parametrize("skew", [-HOUR, HOUR])
def test_ages_do_not_depend_on_the_clock_of_prometheus(server: HostileServer, skew: float) -> None:
    found = source(server.address)
    for age in (30, 20):
        assert ages(read(found, server, series("a:1", age, clock=NOW + skew))[1]) == {"a:1": age}


def test_a_scrape_in_the_future_is_of_now(server: HostileServer) -> None:
    found = source(server.address)
    for _ in range(2):
        assert ages(read(found, server, series("a:1", -HOUR))[1]) == {"a:1": 0}


def test_a_series_that_is_scraped_no_more_becomes_stale_and_current_again(server: HostileServer) -> None:
    found = source(server.address)
    stale = []
    for age in (60, STALE_SECONDS + 1, STALE_SECONDS + 2, 10):
        targets, listing = read(found, server, series("a:1", age))
        stale.append(targets["a:1"].stale)
        assert ages(listing) == {"a:1": age}

    assert stale == [False, True, True, False]


def test_one_old_series_of_two_is_no_longer_used(server: HostileServer) -> None:
    found = source(server.address)
    both = series("a:1"), series("a:1", engine="1")
    assert read(found, server, *both)[0]["a:1"].scraped != read(found, server, both[0])[0]["a:1"].scraped

    read(found, server, *both)
    ended = read(found, server, both[0], series("a:1", STALE_SECONDS + 1, engine="1"))[0]["a:1"]
    assert ended.scraped
    assert b'engine="1"' not in ended.scraped.lines


def test_an_address_of_another_pod_has_the_lines_and_labels_of_that_pod(server: HostileServer) -> None:
    found = source(server.address)
    old = series("a:1", 1, pod="old")
    read(found, server, old)
    read(found, server, old)
    new = series("a:1", 1, pod="new", block_size="64")
    targets, listing = read(found, server, series("a:1", 20, pod="old"), new)
    target = targets["a:1"]

    assert target.labels["pod"] == "new"
    assert target.scraped
    assert b'block_size="64"' in target.scraped.lines
    assert ages(listing) == {"a:1": 1}


def test_a_server_that_fails_and_partial_data_keep_the_last_times(server: HostileServer) -> None:
    found = source(server.address)
    read(found, server, series("a:1", 10), series("b:1", 20))
    read(found, server, series("a:1", 9), series("b:1", 19))
    partial, listing = read(found, server, series("a:1", 5), warnings=["a store is down"])
    assert ages(listing) == {"a:1": 5, "b:1": 19}
    assert {name: each.stale for name, each in partial.items()} == {"a:1": False, "b:1": True}

    server.routes[PATH] = answers(b"", 503)
    (listing,) = asyncio.run(found.read())
    assert all(each.stale for each in listing.targets)
    assert ages(listing) == {"a:1": 5, "b:1": 19}


def test_what_a_fresh_server_scraped_counts_where_another_one_fails(server: HostileServer) -> None:
    async def discover(discovery: Discovery) -> DiscoveryResult:
        try:
            return await discovery.discover(AT)
        finally:
            await discovery.aclose()

    async def behave(exchange: Exchange) -> None:
        assert parse_qs(exchange.asked.body.decode())
        size, age = ("16", 40) if exchange.asked.path.startswith("/first") else ("64", 80)
        await exchange.reply(success(series("a:1", age, block_size=size)))

    urls = [{"url": f"{server.address}/{name}", "direct": "never"} for name in ("first", "second")]
    discovery = Discovery(Options.model_validate({"prometheus": urls}))
    server.routes[f"/first{PATH}"] = server.routes[f"/second{PATH}"] = behave
    lines = []
    for age in (40, 80):
        found = asyncio.run(discover(discovery))
        (target,) = found.targets
        assert time.time() - found.scraped_at[target.id] == pytest.approx(age, abs=20)
        assert not target.stale
        assert target.scraped
        lines.append(target.scraped.lines)
        server.routes[f"/first{PATH}"] = answers(b"", 503)

    assert [b'block_size="64"' in each for each in lines] == [False, True]


UNASKED = Target("http://127.0.0.1:1", scraped=ScrapedMetrics(PAGE, AT - timedelta(hours=1), falls_back=False))


def scraped_fleet(age: float, poller: DigestPoller, before: Fleet | None = None) -> Fleet:
    """Return the fleet of one replica that is not asked, whose last scrape is `age` seconds ago."""
    times = {UNASKED.id: NOW - age}
    snapshots = asyncio.run(poller.poll([UNASKED], lambda: AT, scraped_at=times))
    return build_fleet("x", snapshots, polled_at=AT, interval=timedelta(seconds=15), scraped_at=times, before=before)


@pytest.mark.parametrize(
    ("age", "is_fresh"), [(0, True), (60, True), (STALE_SECONDS, True), (STALE_SECONDS + 1, False)]
)
def test_a_replica_that_is_not_asked_is_fresh_as_long_as_its_series(age: float, *, is_fresh: bool) -> None:
    (replica,) = scraped_fleet(age, DigestPoller(PollOptions())).replicas
    assert replica.fresh == is_fresh


def test_freshness_changes_without_a_new_scrape() -> None:
    poller, fleet, fresh = DigestPoller(PollOptions()), None, []
    for age in (10, 100, STALE_SECONDS + 1, STALE_SECONDS + 16, 5):
        fleet = scraped_fleet(age, poller, fleet)
        fresh.append(fleet.replicas[0].fresh)

    assert fresh == [True, True, False, False, True]


def test_a_later_scrape_makes_no_new_replica_and_its_time_is_shown() -> None:
    poller = DigestPoller(PollOptions())
    first = scraped_fleet(50, poller)
    later = scraped_fleet(5, poller, first)
    (replica,) = later.replicas
    shown = later.as_read(replica)
    time_of_scrape = AT - timedelta(seconds=5)

    assert replica is first.replicas[0]
    assert later.read_at(replica) == shown.observed_at == time_of_scrape
    assert {each.observed_at for each in shown.probes} == {time_of_scrape}
    assert replace(shown, observed_at=replica.observed_at, probes=replica.probes) == replica
    assert first.read_at(first.replicas[0]) == AT - timedelta(seconds=50), "an earlier fleet keeps its time"
    written = json.loads(fleet_json(later, AT, full=True))["replicas"][0]
    assert {written["observed_at"], *(each["observed_at"] for each in written["probes"])} == {
        time_of_scrape.isoformat().replace("+00:00", "Z")
    }


def test_pages_show_the_time_of_the_last_scrape() -> None:
    poller = DigestPoller(PollOptions())
    fleet = scraped_fleet(5, poller, scraped_fleet(50, poller))
    time_of_scrape = AT - timedelta(seconds=5)
    (section,) = (each for each in replica_report(fleet, UNASKED.id).parts if each.anchor == "numbers")

    assert replica_rows(fleet)["observed_at"].tolist() == [time_of_scrape]
    assert iso(time_of_scrape) in repr(section)
    assert iso(time_of_scrape) in repr(status_report(fleet, options=Options()))


def test_a_real_server_gives_a_later_time_and_the_same_target(tmp_path: Path) -> None:
    replica = next(
        each for each in default_fleet() if each.behaviour is Behaviour.NORMAL and Speaks.PROVIDER in each.speaks
    )
    with in_thread([replica]) as demo, prometheus(tmp_path, targets([replica], demo.port)) as url:
        wait_for_result(url, "vllm_fleet_config_info", bool)
        found = Prometheus(PrometheusOptions(url=url, direct="never"), None, PollOptions())
        before = asyncio.run(found.read())[0]
        wait_for_result(url, f"timestamp(vllm_fleet_config_info) > {time.time()}", bool)
        after = asyncio.run(found.read())[0]

    (first,), (later,) = before.targets, after.targets
    assert later is first
    assert before.scraped_at[first.id] < after.scraped_at[first.id] <= time.time()
