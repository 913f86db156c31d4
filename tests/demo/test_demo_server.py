"""The simulated fleet over real HTTP."""

import http.client
import json
import re
import resource
import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from dashboard.demo import DemoServer, default_fleet, in_thread
from dashboard.demo.describe import Behaviour, Speaks
from tests.demo.conftest import FLEET, NOW

OPEN = ("/metrics", "/version", "/v1/models", "/kv_event_sources", "/health", "/load")
CONFIGURATION = ("/server_info", "/inference/v1/config", "/v1/config")
PLUGIN = tuple(f"{Speaks.PLUGIN}/{name}" for name in ("config", "devices", "kv-cache"))
ALL = (*OPEN, *CONFIGURATION, *PLUGIN, "/docs")
CONFIGURATION_API = frozenset({Speaks.INFERENCE_CONFIG, Speaks.PROVIDER})


def _get(
    server: DemoServer, address: str, path: str, headers: Mapping[str, str] | None = None
) -> tuple[int, http.client.HTTPMessage, bytes]:
    with closing(http.client.HTTPConnection(address, server.port, timeout=5)) as connection:
        connection.request("GET", path, headers=dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.headers, response.read()


def _json(server: DemoServer, address: str, path: str) -> Any:
    return json.loads(_get(server, address, path)[2])


def _metric(server: DemoServer, address: str, name: str) -> float:
    page = _get(server, address, "/metrics")[2].decode()
    found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
    assert found
    return float(found[1])


@pytest.mark.parametrize(
    ("name", "endpoints"),
    [
        ("qwen3-8b-01", {"/server_info"}),
        ("gemma-27b-01", {"/inference/v1/config"}),
        ("gemma-27b-06", {"/v1/config"}),
        ("qwen3-8b-04", set(PLUGIN)),
        ("chat-70b-01", {"/inference/v1/config", "/v1/config"}),
        ("chat-70b-11", set(CONFIGURATION)),
    ],
)
def test_a_replica_answers_the_endpoints_of_its_description(served: DemoServer, name: str, endpoints: set[str]) -> None:
    address = FLEET[name].address
    assert {path for path in ALL if _get(served, address, path)[0] == 200} == {*OPEN, *endpoints}


def test_an_unknown_path_has_vllms_404_and_a_down_replica_refuses_connections(served: DemoServer) -> None:
    status, _, body = _get(served, "127.1.0.1", "/nowhere")
    assert (status, body) == (404, b'{"detail":"Not Found"}')
    with pytest.raises(ConnectionRefusedError):
        _get(served, FLEET["gemma-27b-08"].address, "/metrics")


def test_the_slow_replica_sends_its_head_at_once_and_its_body_slowly(served: DemoServer) -> None:
    address = FLEET["chat-70b-17"].address
    with closing(http.client.HTTPConnection(address, served.port, timeout=0.2)) as connection:
        connection.request("GET", "/version")
        response = connection.getresponse()
        assert response.status == 200
        assert response.read(1) == b"{"
        with pytest.raises(TimeoutError):
            response.read(1)


def test_derived_and_reported_capacity_agree(served: DemoServer) -> None:
    """The formula over the groups of one endpoint gives the tokens that another endpoint reports."""
    for replica in served.fleet:
        has_groups = replica.configuration.ranks_per_server == 1 and replica.speaks & CONFIGURATION_API
        if replica.behaviour is not Behaviour.NORMAL or not has_groups:
            continue
        answer = _json(served, replica.address, "/inference/v1/config")
        length, batch = answer["model"]["max_model_len"], 2 * answer["scheduler"]["max_num_batched_tokens"]
        request = 0
        for group in answer["kv_cache"]["groups"]:
            window = group["sliding_window"]
            tokens = min(window - 1 + batch, length) if window else length
            request += -(-tokens // group["block_size"]) + bool(window)
        page = _get(served, replica.address, "/metrics")[2].decode()
        labels = dict(re.findall(r'(\w+)="([^"]*)"', page[page.index("\nvllm:cache_config_info{") :]))
        blocks = answer["kv_cache"]["num_gpu_blocks"]
        assert int(labels["num_gpu_blocks"]) == blocks
        assert int(labels["kv_cache_size_tokens"]) == blocks * length // request


def test_the_same_seed_and_clock_give_the_same_bytes() -> None:
    fleet = [replica for replica in default_fleet() if replica.behaviour is Behaviour.NORMAL]
    with in_thread(fleet, clock=lambda: NOW) as one, in_thread(fleet, clock=lambda: NOW) as two:
        for replica in fleet:
            for path in ALL:
                assert _get(one, replica.address, path)[2] == _get(two, replica.address, path)[2]


def test_a_restart_changes_block_size_identity_start_and_counters() -> None:
    one, two = default_fleet(2)
    with in_thread([replace(one, speaks=one.speaks | {Speaks.SERVER_INFO}), two], clock=lambda: NOW) as server:
        before = _json(server, "127.1.0.1", "/server_info")["vllm_config"]
        other = _get(server, "127.1.0.2", "/metrics")
        server.restart("127.1.0.1", ["--block-size", "32"])
        after = _json(server, "127.1.0.1", "/server_info")["vllm_config"]
        assert (before["cache_config"]["block_size"], after["cache_config"]["block_size"]) == (16, 32)
        assert after["cache_config"]["user_specified_block_size"] is True
        assert after["instance_id"] != before["instance_id"]
        assert after["cache_config"]["num_gpu_blocks"] == before["cache_config"]["num_gpu_blocks"] // 2
        assert _metric(server, "127.1.0.1", "process_start_time_seconds") == NOW
        assert _metric(server, "127.1.0.1", "vllm:prompt_tokens_total") == 0
        assert _get(server, "127.1.0.2", "/metrics")[2] == other[2]


def test_a_connection_answers_pipelined_requests(served: DemoServer) -> None:
    with socket.create_connection(("127.1.0.1", served.port), timeout=5) as connection:
        connection.sendall(b"GET /version HTTP/1.1\r\n\r\n" * 2 + b"GET /load HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert answer.count(b'{"version":"0.32.0"}') == 2


def _is_dropped(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("head", [b"nonsense\r\n\r\n", b"GET /" + b"x" * 70_000], ids=["no request", "too long"])
def test_an_invalid_request_closes_the_connection(served: DemoServer, head: bytes) -> None:
    with socket.create_connection(("127.1.0.1", served.port), timeout=5) as connection:
        connection.sendall(head)
        assert _is_dropped(connection)


def test_a_stopped_fleet_drops_connections_and_refuses_new_ones() -> None:
    with in_thread(default_fleet(1)) as server:
        connection = socket.create_connection(("127.1.0.1", server.port), timeout=5)
        connection.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
    with closing(connection):
        assert _is_dropped(connection)
    with pytest.raises(ConnectionRefusedError):
        _get(server, "127.1.0.1", "/health")


def test_a_thousand_replicas_answer_on_one_port_under_a_low_limit_of_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        with in_thread(default_fleet(1000)) as server:
            for replica in server.fleet:
                if replica.behaviour is Behaviour.NORMAL:
                    assert _get(server, replica.address, "/version")[0] == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
