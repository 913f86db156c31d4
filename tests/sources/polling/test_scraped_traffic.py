"""The traffic of replicas that Prometheus scrapes: what rose between two scrapes."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from dashboard.config import PollOptions, TrafficOptions
from dashboard.fleet import ScrapedMetrics, Snapshot, Target
from dashboard.fleet.traffic import EngineCounts, Traffic
from dashboard.sources.polling.by_digest import DigestPoller
from dashboard.sources.source import ScrapedCounts
from tests.sources.polling.hostile import CAPTURE, HostileServer, answers

AT = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = PollOptions(probe_timeout_seconds=2)
PAGE = next(line for line in (CAPTURE / "metrics.txt").read_bytes().splitlines() if line.startswith(b"vllm:cache"))
TRAFFIC = Path(__file__).parents[2] / "traffic" / "0.33.0" / "llama"
SCRAPED = Target("http://127.0.0.1:1", scraped=ScrapedMetrics(PAGE, AT, falls_back=False))


def scrape(after: float, queries: float) -> ScrapedCounts:
    counts = EngineCounts(queries=queries, hits=queries / 2, requests=queries / 100)
    return ScrapedCounts(AT.timestamp() + after, {0: counts})


def poll_with(poller: DigestPoller, target: Target, counts: ScrapedCounts | None = None) -> Snapshot:
    found = {target.id: counts} if counts else {}
    return asyncio.run(poller.poll([target], lambda: AT, counts=found))[0]


def test_traffic_is_what_rose_between_two_scrapes_and_counts_once() -> None:
    poller = DigestPoller(LIMITS)
    first, second = scrape(0, 1000), scrape(61, 3000)
    rose = {0: Traffic(61, queries=2000, hits=1000, requests=20)}

    assert poll_with(poller, SCRAPED, first).traffic == {}
    later = poll_with(poller, SCRAPED, second)
    assert (later.traffic, later.counted) == (rose, rose)
    again = poll_with(poller, SCRAPED, second)
    assert (again.traffic, again.counted) == (rose, {}), "the same scrape"
    assert again is poll_with(poller, SCRAPED, second), "the same until another scrape"
    gone = poll_with(poller, SCRAPED)
    assert (gone.traffic, gone.counted) == ({}, {})
    back = poll_with(poller, SCRAPED, scrape(122, 4000))
    assert (back.traffic[0].queries, back.counted[0].queries) == (3000, 1000), "the process counted on"


def test_a_clock_of_prometheus_that_is_set_back_begins_the_window_anew() -> None:
    poller = DigestPoller(LIMITS)
    for each in (scrape(7200, 1000), scrape(7260, 1500), scrape(0, 2000)):
        snapshot = poll_with(poller, SCRAPED, each)
    assert snapshot.traffic == {}
    assert poll_with(poller, SCRAPED, scrape(60, 2600)).traffic[0].queries == 600


def test_a_replica_that_prometheus_cannot_reach_has_no_traffic() -> None:
    poller = DigestPoller(LIMITS)
    down = replace(SCRAPED, scraped=ScrapedMetrics(b"", AT, falls_back=False))
    poll_with(poller, SCRAPED, scrape(0, 1000))
    assert poll_with(poller, SCRAPED, scrape(60, 2000)).traffic
    assert poll_with(poller, down, scrape(120, 3000)).traffic == {}


def test_a_replica_that_every_poll_asks_is_counted_from_its_own_page_alone(server: HostileServer) -> None:
    target = replace(server.replica("a"), scraped=ScrapedMetrics(b"", AT, falls_back=True))
    pages = [(TRAFFIC / f"{each}.txt").read_bytes() for each in ("first", "second")]
    now = 0.0
    poller = DigestPoller(LIMITS, lambda: now, TrafficOptions(interval_seconds=60))
    for now, page, counts in zip((0.0, 60.0), pages, (scrape(0, 1000), scrape(60, 9000)), strict=True):  # noqa: B007
        server.routes["/a/metrics"] = answers(page)
        snapshot = poll_with(poller, target, counts)

    assert (snapshot.traffic[0].seconds, snapshot.traffic[0].requests) == (60, 18)
    assert snapshot.counted == snapshot.traffic
