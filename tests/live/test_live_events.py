"""Live servers of one host that publish KV events and need an API key, and one with other blocks and no provider."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.dashboard_runs import check, options, poll, printed
from tests.live.servers import CONFIG, Kind, Server, running
from tests.serving import free_port
from vllm_fleet_provider.shared.digests import SERIES
from vllm_fleet_provider.switch import NAME

pytestmark = [pytest.mark.vllm, pytest.mark.vllm_033]
KEY = "live-test-key"
ENVIRONMENT = {"LIVE_KEY": KEY}
KEYS = {"one": "LIVE_KEY", "another": "LIVE_KEY"}
ENDPOINT = "kv_events_config.endpoint"
LOUD = ("critical", "warning")


def kind(name: str, *more: str, plugins: tuple[str, ...] | None = None) -> Kind:
    events = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://*:{free_port()}"}
    return Kind(
        name, "llama", ("--served-model-name", "chat", "--kv-events-config", json.dumps(events), *more), plugins=plugins
    )


@pytest.fixture(scope="module")
def servers(venv: Path, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    kinds = (
        kind("one", "--api-key", KEY, plugins=(NAME,)),
        kind("another", "--api-key", KEY, plugins=(NAME,)),
        kind("stock", "--block-size", "32"),
    )
    with running(kinds, venv, tmp_path_factory.mktemp("vllm"), (site,)) as found:
        yield {server.kind.name: server for server in found}


@pytest.fixture
def equal(servers: dict[str, Server]) -> list[Server]:
    return [servers["one"], servers["another"]]


def by_name(fleet: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The replicas by name, each with its comparable settings."""
    documents = fleet["documents"]
    return {each["name"]: {**each, "settings": documents[each["document"]]} for each in fleet["replicas"]}


def letters(fleet: dict[str, Any]) -> list[str]:
    """The cohorts of the only pool."""
    (pool,) = fleet["pools"]
    return [each["cohort"] for each in pool["cohorts"]]


def test_equal_servers_with_other_ports_of_one_host_are_one_cohort(equal: list[Server], tmp_path: Path) -> None:
    config = options(equal, tmp_path, "kv-events", KEYS)
    fleet = poll(config, ENVIRONMENT)
    found = check(config, "--fail-on", "warning", environment=ENVIRONMENT)

    assert len({json.dumps(each["identity"][ENDPOINT]) for each in fleet["replicas"]}) == len(equal)
    assert letters(fleet) == ["A"]
    assert fleet["pools"][0]["differences"] == []
    assert [each for each in found.findings if each["severity"] in LOUD] == []
    assert found.code == 0, found.last


def test_behind_a_detected_router_other_blocks_are_a_warning_and_exit_0(
    servers: dict[str, Server], tmp_path: Path
) -> None:
    config = options([*servers.values()], tmp_path, None, KEYS)
    found = check(config, "--fail-on", "critical", environment=ENVIRONMENT)
    finding = found.of("RT-01")

    assert [each["name"] for each in finding["replicas"]] == ["stock"]
    assert (finding["severity"], finding["severity_behind"]["kv-events"]) == ("warning", "critical")
    assert found.code == 0, found.last
    assert "router not declared" in found.last
    table = " ".join(" ".join(printed("check", config, ENVIRONMENT)).split())
    assert "chat: router is kv-events (detected); declare it under pools in fleet.yaml." in table


def test_behind_a_declared_router_other_blocks_are_critical_and_exit_1(
    servers: dict[str, Server], tmp_path: Path
) -> None:
    config = options([*servers.values()], tmp_path, "kv-events", KEYS)
    found = check(config, "--fail-on", "critical", environment=ENVIRONMENT)
    finding = found.of("RT-01")

    assert (finding["severity"], finding["severity_behind"]) == ("critical", {})
    assert found.code == 1
    assert "RT-01 in chat" in found.last


def test_a_locked_server_has_the_settings_of_the_one_with_equal_digests(equal: list[Server], tmp_path: Path) -> None:
    for server in equal:
        assert server.get(CONFIG).status_code == 401
        assert SERIES in server.get("/metrics").text
    config = options(equal, tmp_path, None, {"one": "LIVE_KEY"})
    fleet = poll(config, ENVIRONMENT)
    known = by_name(fleet)
    read, locked = known["one"], known["another"]

    assert (read["state"], locked["state"]) == ("up", "partial")
    assert locked["reason"]["kind"] == "unauthorized"
    assert (read["same_digest_as"], locked["same_digest_as"]) == (None, read["replica"])
    assert locked["settings"] == read["settings"]
    assert letters(fleet) == ["A"]
    assert fleet["pools"][0]["differences"] == []
    assert printed("poll", config, ENVIRONMENT)[-1] == (
        "To answer what is unknown: set a valid API key for another (401)."
    )


def test_without_any_key_nothing_is_copied_and_the_hint_names_the_credentials(
    equal: list[Server], tmp_path: Path
) -> None:
    config = options(equal, tmp_path, None)
    known = by_name(poll(config))

    assert {(each["state"], each["same_digest_as"]) for each in known.values()} == {("partial", None)}
    assert printed("poll", config)[-1] == ("To answer what is unknown: set a valid API key for all 2 replicas (401).")


def test_a_stock_poll_ends_with_the_hint_on_the_provider(servers: dict[str, Server], tmp_path: Path) -> None:
    config = options([servers["stock"]], tmp_path, None)

    assert printed("poll", config)[-1] == "To answer what is unknown: install or load the provider on stock."
