"""Targets from a real Prometheus server (Debian's package) that scrapes the simulated fleet."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dashboard.config import PollOptions, PrometheusOptions
from dashboard.demo import DemoServer, default_fleet, in_thread, targets
from dashboard.demo.describe import Behaviour
from dashboard.fleet import Credentials, Target
from dashboard.sources.prometheus.answers import read_external_labels
from dashboard.sources.prometheus.server import replicas_query
from dashboard.sources.prometheus.source import Prometheus
from dashboard.sources.source import Listing
from tests.commands import last_line, run
from tests.sources.prometheus_server import prometheus, wait_for_result

SMALLEST = 2**16  # bytes of max_answer_bytes
REPLICAS = [each for each in default_fleet(100) if each.behaviour is Behaviour.NORMAL]
SERIES = "vllm:cache_config_info"


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoServer]:
    with in_thread(REPLICAS) as server:
        yield server


@pytest.fixture(scope="module")
def url(demo: DemoServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tmp_path_factory.mktemp("prometheus"), targets(demo.fleet, demo.port)) as url:
        wait_for_result(url, f"group by (instance) ({SERIES})", lambda found: len(found) == len(REPLICAS))
        yield url


def read(url: str, **options: Any) -> Listing:
    source = Prometheus(PrometheusOptions(url=url, **options), Credentials("REPLICAS"), PollOptions())
    (listing,) = asyncio.run(source.read())
    return listing


def answers(targets: tuple[Target, ...]) -> list[tuple[str, bytes]]:
    """Without the time, because Prometheus may scrape between two reads."""
    return [(each.id, each.scraped.lines) for each in targets if each.scraped]


def size_of_answer(url: str) -> int:
    """Return the bytes that one query for all replicas would take."""
    return len(httpx2.post(f"{url}/api/v1/query", data={"query": replicas_query("{}")}).content)


def test_every_scraped_replica_is_a_target_with_labels_of_prometheus(demo: DemoServer, url: str) -> None:
    listing = read(url, labels={"site": "west", "job": "other"})

    assert (listing.name, listing.failure) == (url, None)
    assert {each.id for each in listing.targets} == {f"http://{each.address}:{demo.port}" for each in REPLICAS}
    first = min(listing.targets, key=lambda each: each.id)
    assert first.labels == {"site": "west", "job": "vllm", "cluster": "c03", "pool": "chat-70b"}
    assert first.credentials == Credentials("REPLICAS")
    assert not any(each.stale for each in listing.targets)


def test_a_selector_chooses_replicas_and_chosen_labels_are_kept(url: str) -> None:
    listing = read(
        url,
        selector='{pool="chat-70b", cluster="", engine=~"[0-9]"}',
        keep_labels=("cache_dtype", "none"),
        scheme="https",
    )

    assert listing.targets
    assert {each.labels["pool"] for each in listing.targets} == {"chat-70b"}
    assert all(each.labels["cache_dtype"] for each in listing.targets)
    assert all(each.id.startswith("https://") for each in listing.targets)


def test_an_answer_beyond_the_limit_is_asked_for_in_parts(url: str) -> None:
    whole, parts = read(url).targets, read(url, max_answer_bytes=SMALLEST).targets

    assert len(answers(whole)) == len(REPLICAS)
    assert size_of_answer(url) > SMALLEST
    assert answers(parts) == answers(whole)


@pytest.mark.parametrize("direct", ["always", "missing", "never"])
def test_a_source_that_read_before_lists_what_a_new_one_does(demo: DemoServer, url: str, direct: str) -> None:
    source = Prometheus(PrometheusOptions(url=url, direct=direct), None, PollOptions())
    asyncio.run(source.read())
    for number, replica in enumerate(REPLICAS[:3]):
        demo.restart(replica.address, ["--block-size", str(64 + 32 * number)])
        pattern = f'{SERIES}{{instance=~"{replica.address}:.*", block_size="{64 + 32 * number}"}}'
        wait_for_result(url, pattern, bool)
    (known,) = asyncio.run(source.read())
    new = read(url, direct=direct)

    assert [(each.id, each.labels) for each in known.targets] == [(each.id, each.labels) for each in new.targets]
    used = [each for each in new.targets if each.scraped and (direct == "never" or b"scheme=" in each.scraped.lines)]
    assert (direct == "always") == (not used)
    lines = dict(answers(known.targets))
    assert [lines[each.id] for each in used if each.scraped] == [each.scraped.lines for each in used if each.scraped]


def test_a_label_without_addresses_is_named(url: str) -> None:
    assert "series have no label pod_ip; correct address_label" in (read(url, address_label="pod_ip").failure or "")


def test_a_selector_without_series_is_named(url: str) -> None:
    failure = read(url, selector='{job="x"}').failure
    assert failure == f'{url}: has no series vllm:cache_config_info{{job="x"}}; correct selector, or wait'


def test_a_query_that_prometheus_refuses_is_a_sentence(url: str) -> None:
    failure = read(url, selector='{job=~"("}').failure or ""
    assert "answered /api/v1/query with status 400: answers with an error: invalid parameter" in failure


def test_a_replica_that_ends_is_still_a_target(tmp_path: Path) -> None:
    replica = REPLICAS[:1]
    with ExitStack() as serving:
        server = serving.enter_context(in_thread(replica))
        with prometheus(tmp_path, targets(replica, server.port)) as url:
            wait_for_result(url, SERIES, bool)
            serving.close()
            wait_for_result(url, SERIES, lambda found: not found)
            listing = read(url)

    assert [each.id for each in listing.targets] == [f"http://{replica[0].address}:{server.port}"]
    assert not listing.targets[0].stale


@pytest.mark.usefixtures("working_folder")
def test_the_command_poll_needs_nothing_but_the_url(url: str) -> None:
    done = run("poll", "--prometheus", url, "--format", "json")

    assert done.exit_code == 0
    assert len(json.loads(done.stdout)["replicas"]) == len(REPLICAS)


@pytest.mark.usefixtures("working_folder")
@pytest.mark.parametrize(
    "command", [("settings", "cache_config.block_size", "--format", "json"), ("baseline", "chat-70b")]
)
def test_commands_about_the_whole_fleet_read_it_from_prometheus(url: str, command: tuple[str, ...]) -> None:
    done = run(*command, "--prometheus", url)

    assert done.exit_code == 0
    assert "block_size" in done.stdout


@pytest.mark.usefixtures("working_folder")
def test_the_command_uses_the_options_of_that_url(url: str) -> None:
    Path("fleet.yaml").write_text(
        f"targets: [a]\nprometheus: [{{url: '{url}/', selector: '{{pool=\"chat-70b\", cluster=\"\"}}'}}]\n"
    )
    done = run("poll", "--prometheus", url, "--format", "json")

    assert {each["pool"] for each in json.loads(done.stdout)["replicas"]} == {"chat-70b"}


def test_the_command_refuses_an_invalid_url_and_addresses_or_a_snapshot_beside_it() -> None:
    assert "--prometheus: 'http://h/…' has a query" in last_line(run("poll", "--prometheus", "http://h/?q"))
    assert "--prometheus cannot be combined with addresses" in last_line(run("poll", "a", "--prometheus", "http://h"))
    done = run("check", "--snapshot", "x", "--prometheus", "http://h")
    assert "--snapshot cannot be combined with --prometheus" in last_line(done)


def test_external_labels_of_the_server_are_labels_of_its_targets(demo: DemoServer, tmp_path: Path) -> None:
    own = [{**each, "labels": {"pool": "chat"}} for each in list(targets(demo.fleet, demo.port))[:2]]
    own[1]["labels"]["cluster"] = "of-series"
    external = {"cluster": "eu", "replica": "prom-0"}
    with prometheus(tmp_path, own, external_labels=external) as url:
        wait_for_result(url, f"group by (instance) ({SERIES})", lambda found: len(found) == len(own))

        assert {each.labels["cluster"] for each in read(url).targets} == {"eu", "of-series"}
        assert {each.labels["cluster"] for each in read(url, labels={"cluster": "a"}).targets} == {"a", "of-series"}
        assert not any("replica" in each.labels for each in read(url).targets)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"{}", b'{"data": {"yaml": 3}}', b'{"data": {"yaml": "global:\\n  external_labels: [a]\\n"}}'],
)
def test_a_server_without_a_readable_configuration_has_no_external_labels(body: bytes) -> None:
    assert read_external_labels(body) == {}
