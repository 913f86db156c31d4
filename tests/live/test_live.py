"""The whole program against live vLLM servers of one served name: what differs is shown, capacity is vLLM's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.browser import chromium, tab, visit
from tests.live.dashboard_runs import options, poll
from tests.live.servers import Kind, Server, running
from tests.serving import dashboard_on

pytestmark = pytest.mark.vllm
NAME = ("--served-model-name", "chat")
KEY = "live-test-key"
KINDS = (
    Kind("hybrid", "gemma3", NAME, {"VLLM_SERVER_DEV_MODE": "1"}),
    Kind("two-engines", "llama", (*NAME, "--data-parallel-size", "2", "--prefix-caching-hash-algo", "sha256_cbor")),
    Kind("other-hash", "qwen3", (*NAME, "--prefix-caching-hash-algo", "xxhash", "--api-key", KEY)),
    Kind(
        "two-devices",
        "llama",
        (*NAME, "--tensor-parallel-size", "2"),
        {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_OMP_THREADS_BIND": "0|1"},
    ),
)


@pytest.fixture(scope="module")
def servers(venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with running(KINDS, venv, tmp_path_factory.mktemp("vllm")) as found:
        yield found


@pytest.fixture(scope="module")
def config(servers: list[Server], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return options(servers, tmp_path_factory.mktemp("options"), None, {"other-hash": "LIVE_KEY"})


@pytest.fixture(scope="module")
def fleet(config: Path) -> dict[str, Any]:
    return poll(config, {"LIVE_KEY": KEY})


def test_all_four_are_up_in_one_pool(fleet: dict[str, Any]) -> None:
    assert fleet["coverage"] == {"targets": 4, "up": 4, "partial": 0, "down": 0}
    assert [pool["pool"] for pool in fleet["pools"]] == ["chat"]


def test_the_hash_algorithms_differ(fleet: dict[str, Any]) -> None:
    differences = {each["path"]: each for each in fleet["pools"][0]["differences"]}

    values = differences["cache_config.prefix_caching_hash_algo"]["values"]
    assert {each["value"] for each in values} == {"sha256", "sha256_cbor", "xxhash"}


def test_the_capacity_of_every_engine_is_what_vllm_logged(fleet: dict[str, Any], servers: list[Server]) -> None:
    names = {each["replica"]: each["name"] for each in fleet["replicas"]}
    for server in servers:
        engines = [each for each in fleet["engines"] if names[each["replica"]] == server.kind.name]
        found = [(each["kv_cache_size_tokens"], round(each["max_concurrency"], 2)) for each in engines]
        assert found == server.logged()


def test_no_source_contradicts_another_on_a_live_server(fleet: dict[str, Any]) -> None:
    for replica in fleet["replicas"]:
        assert replica["reason"] is None
        assert [probe["failure"] for probe in replica["probes"] if probe["failure"]] == []


def test_without_the_key_the_guarded_server_is_partial_and_says_what_to_do(
    servers: list[Server], tmp_path: Path
) -> None:
    guarded = next(server for server in servers if server.kind.name == "other-hash")
    (replica,) = poll(options([guarded], tmp_path, None))["replicas"]

    assert replica["state"] == "partial"
    assert replica["reason"]["kind"] == "unauthorized"
    assert replica["pool"] == "chat"


def test_the_pages_show_what_the_servers_say(config: Path) -> None:
    with dashboard_on(config, environment={"LIVE_KEY": KEY}) as url, chromium() as browser, tab(browser) as page:
        assert httpx2.get(f"{url}/api/v1/fleet", trust_env=False).json()["coverage"]["up"] == 4
        visit(page, f"{url}/compare?pool=chat")
        assert page.get_by_text("sha256_cbor").first.is_visible()
        assert page.get_by_text("xxhash").first.is_visible()
        visit(page, f"{url}/capacity")
        assert page.get_by_text("664,444").first.is_visible()
