"""Targets from a URL: asked again when it is due, kept as stale on failure. A real server on loopback."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from dashboard.config import HttpSdOptions, Options, PollOptions
from dashboard.fleet import Credentials
from dashboard.sources.discovery import discover_once
from dashboard.sources.source import Listing
from dashboard.sources.target_groups import HttpSd
from tests.sources.polling.hostile import BAD_ANSWERS, JSON, HostileServer, answers, silent

LIMITS = PollOptions(probe_timeout_seconds=1)
GROUPS = json.dumps([{"targets": ["a:1", "b"], "labels": {"pool": "chat", "__meta_zone": "1"}}]).encode()


def source(server: HostileServer, clock: Callable[[], float] = lambda: 0.0, **more: Any) -> HttpSd:
    options = HttpSdOptions(url=f"{server.address}/targets", **more)
    own = options.authorization
    return HttpSd(options, Credentials(own.token_env) if own else None, Credentials("REPLICAS"), LIMITS, clock)


def read(found: HttpSd) -> Listing:
    (listing,) = asyncio.run(found.read())
    return listing


def test_groups_are_targets_with_the_labels_of_both_and_the_credentials_of_replicas(server: HostileServer) -> None:
    server.routes["/targets"] = answers(GROUPS, headers=JSON)
    listing = read(source(server, labels={"site": "south", "pool": "other"}))

    assert listing.name == f"{server.address}/targets"
    assert listing.failure is None
    assert [each.id for each in listing.targets] == ["http://a:1", "http://b:80"]
    assert [each.labels for each in listing.targets] == [{"site": "south", "pool": "chat"}] * 2
    assert listing.targets[0].credentials == Credentials("REPLICAS")


def test_the_url_is_asked_again_after_its_interval_and_gets_its_own_token(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INVENTORY", "s3cret")
    server.routes["/targets"] = answers(GROUPS, headers=JSON)
    server.asked.clear()
    now = 0.0
    found = source(server, lambda: now, authorization={"token_env": "INVENTORY"}, refresh_seconds=60)
    for seconds in (0.0, 59.0, 60.0):
        now = seconds
        read(found)

    assert len(server.asked) == 2
    assert {each.headers["authorization"] for each in server.asked} == {"Bearer s3cret"}
    assert {each.headers["x-prometheus-refresh-interval-seconds"] for each in server.asked} == {"60"}


@pytest.mark.parametrize("name", [each for each in BAD_ANSWERS if each != "another shape"])
def test_a_bad_answer_keeps_the_targets_as_stale(server: HostileServer, name: str) -> None:
    server.routes["/targets"] = answers(GROUPS, headers=JSON)
    now = 0.0
    found = source(server, lambda: now)
    fresh = read(found)
    server.routes["/targets"] = BAD_ANSWERS[name][0]
    now = 100.0
    stale = read(found)

    assert [each.id for each in stale.targets] == [each.id for each in fresh.targets]
    assert all(each.stale for each in stale.targets)
    assert stale.failure is not None
    assert stale.failure.startswith(f"{server.address}/targets: ")
    assert stale.failure.endswith("; keeping its last targets (2), marked stale")
    assert "vLLM" not in stale.failure


def test_another_shape_is_named(server: HostileServer) -> None:
    server.routes["/targets"] = answers(b'[{"targets": "a"}]', headers=JSON)

    assert "group 1 is not a mapping with a list of targets" in (read(source(server)).failure or "")


@pytest.mark.parametrize(
    "header", ["application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"', "application/json"]
)
def test_the_content_types_that_prometheus_accepts_are_read(server: HostileServer, header: str) -> None:
    server.routes["/targets"] = answers(GROUPS, headers=(f"Content-Type: {header}",))

    assert read(source(server)).failure is None


@pytest.mark.parametrize(
    ("headers", "sent"),
    [
        ((), "no Content-Type"),
        (("Content-Type: text/plain; charset=utf-8",), "Content-Type text/plain; charset=utf-8"),
        (("Content-Type: application/json; charset=latin-1",), "Content-Type application/json; charset=latin-1"),
        ((f"Content-Type: {'x' * 5000}",), f"Content-Type {'x' * 119}…"),
    ],
    ids=range(4),
)
def test_another_content_type_is_refused_as_prometheus_does(
    server: HostileServer, headers: tuple[str, ...], sent: str
) -> None:
    server.routes["/targets"] = answers(GROUPS, headers=JSON)
    now = 0.0
    found = source(server, lambda: now)
    read(found)
    server.routes["/targets"] = answers(GROUPS, headers=headers)
    now = 100.0
    listing = read(found)

    where = server.address.removeprefix("http://")
    assert listing.failure == (
        f"{server.address}/targets: {where} answered /targets with {sent}; serve application/json, as Prometheus "
        "requires; keeping its last targets (2), marked stale"
    )
    assert [each.stale for each in listing.targets] == [True, True]


def test_a_url_that_is_slow_or_wants_a_key_or_is_not_there_is_one_sentence(server: HostileServer) -> None:
    server.routes["/targets"] = silent
    assert "timed out after 1 s on /targets" in (read(source(server)).failure or "")
    server.routes["/targets"] = answers(b"", 401)
    failure = read(source(server)).failure or ""
    assert "wants an API key for /targets and none is given; set authorization of this http_sd entry" in failure
    del server.routes["/targets"]
    assert (read(source(server)).failure or "").endswith("has no /targets (status 404)")


def test_the_query_of_a_url_is_sent_and_never_shown(server: HostileServer) -> None:
    server.routes["/targets"] = answers(b"", 500)
    server.asked.clear()
    options = Options.model_validate({"http_sd": [{"url": f"{server.address}/targets?token=hunter2"}]})
    found = discover_once(options)

    assert server.asked[0].path == "/targets?token=hunter2"
    assert "hunter2" not in repr(found)
    assert found.sources[0].name == f"{server.address}/targets"


def test_without_a_path_the_root_is_asked(server: HostileServer) -> None:
    server.routes["/"] = answers(b'[{"targets": ["a"]}]', headers=JSON)
    found = discover_once(Options(http_sd=(HttpSdOptions(url=server.address),)))

    assert [each.id for each in found.targets] == ["http://a:80"]
