"""A whole poll against real servers: every bad answer, limits, credentials, neighbours."""

import asyncio
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dashboard.config import PollOptions
from dashboard.fleet import Credentials, FailureKind, Snapshot, Target
from dashboard.sources.polling.poller import Poller
from dashboard.sources.polling.probes import PROBES, Probe
from tests.sources.polling.hostile import (
    BAD_ANSWERS,
    CAPTURE,
    MIB,
    STOCK,
    Exchange,
    HostileServer,
    answers,
    bomb,
    changed_metrics,
    everywhere,
    is_endless,
    is_large,
    silent,
)

NOW = datetime(2026, 3, 2, 11, 42, tzinfo=UTC)
LIMITS = PollOptions(
    probe_timeout_seconds=20,
    replica_timeout_seconds=60,
    poll_timeout_seconds=60,
    full_poll_interval_seconds=300,
    connections=50,
    max_answer_bytes=4 * MIB,
    max_headers=100,
)
SHORT_LIMITS = LIMITS.model_copy(update={"probe_timeout_seconds": 0.2})
SLOW = {name for name, (_, kinds) in BAD_ANSWERS.items() if FailureKind.TIMEOUT in kinds}
FAST = sorted(set(BAD_ANSWERS) - SLOW)
NEEDED = {  # configurations, for probes that are sent only after one
    "/v1/server/config": (CAPTURE / "inference_config.json").read_bytes(),
    "/plugins/llm-d-server-introspection/config": (CAPTURE.parent / "gemma3_plugin" / "plg_config.json").read_bytes(),
    "/plugins/vllm-server-introspection/config": (CAPTURE.parent / "gemma3_plugin" / "plg_config.json").read_bytes(),
}


def poll(targets: Sequence[Target], limits: PollOptions = LIMITS) -> dict[str, Snapshot]:
    snapshots = asyncio.run(Poller(limits).poll(targets, lambda: NOW))
    return {snapshot.target.id.rpartition("/")[2]: snapshot for snapshot in snapshots}


def is_complete(snapshot: Snapshot) -> bool:
    return set(STOCK) <= {path for path, result in snapshot.probes.items() if result.reply} and not any(
        result.failure for result in snapshot.probes.values()
    )


def check_failure(snapshot: Snapshot, path: str, name: str) -> None:
    result = snapshot.probes[path]
    assert result.reply is None, (path, name)
    assert result.failure is not None, (path, name)
    assert result.failure.kind in BAD_ANSWERS[name][1], (path, name, result.failure)
    assert result.failure.detail.isprintable(), (path, name)
    assert 0 < len(result.failure.detail) < 400, (path, name)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.path)
def test_a_bad_answer_fails_its_own_probe_only(server: HostileServer, probe: Probe) -> None:
    path = probe.path.partition("?")[0]
    targets = []
    for number, name in enumerate(FAST):
        targets.append(server.replica(f"bad{number}"))
        if probe.needs:
            server.routes[f"/bad{number}{probe.needs}"] = answers(NEEDED[probe.needs])
        server.routes[f"/bad{number}{path}"] = BAD_ANSWERS[name][0]
    # One address has one pool of connections: two replicas at a time could share a dead one.
    snapshots = poll(targets, LIMITS.model_copy(update={"connections": 1}))
    for number, name in enumerate(FAST):
        snapshot = snapshots[f"bad{number}"]
        check_failure(snapshot, probe.path, name)
        others = {at: result.failure for at, result in snapshot.probes.items() if result.failure and at != probe.path}
        assert others == {}, name


@pytest.mark.parametrize("name", sorted(SLOW))
def test_a_slow_replica_gets_one_probe_and_does_not_delay_others(server: HostileServer, name: str) -> None:
    targets = [everywhere(server, "slow", BAD_ANSWERS[name][0]), server.replica("well")]
    snapshots = poll(targets, SHORT_LIMITS)
    check_failure(snapshots["slow"], "/metrics", name)
    assert server.paths("slow") == ["/metrics"]
    assert is_complete(snapshots["well"])


def test_a_server_that_is_not_vllm_gets_one_probe(server: HostileServer) -> None:
    snapshots = poll([everywhere(server, "other", answers(b"sglang:num_running_reqs 1\n"))], LIMITS)
    failure = snapshots["other"].probes["/metrics"].failure
    assert failure
    assert failure.kind is FailureKind.NOT_VLLM
    assert server.paths("other") == ["/metrics"]


def test_memory_is_limited_for_any_answer(server: HostileServer) -> None:
    """Endless, 100 MB, and 1 GB compressed: each may take a few limits."""
    packed = answers(bomb(), headers=("Content-Encoding: gzip",))
    targets = [
        everywhere(server, f"bad{number}", behaviour) for number, behaviour in enumerate((is_endless, is_large, packed))
    ]
    tracemalloc.start()
    try:
        snapshots = poll(targets, LIMITS.model_copy(update={"max_answer_bytes": MIB}))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    failures = [result.failure for snapshot in snapshots.values() for result in snapshot.probes.values()]
    assert {failure.kind for failure in failures if failure} == {FailureKind.TOO_LARGE}
    # The body, its copy, one unpacked chunk, and the server in this process.
    assert peak < 3 * 6 * MIB


def test_each_target_gets_its_own_key_only(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLEET_TEST_KEY", "from-env")
    (tmp_path / "key").write_text("from-file\n")
    by_env, by_file = Credentials(token_env="FLEET_TEST_KEY"), Credentials(token_file=tmp_path / "key")
    with HostileServer() as other:
        targets = [
            replace(server.replica("env"), credentials=by_env),
            replace(server.replica("file"), credentials=by_file),
            server.replica("none"),
            other.replica("elsewhere"),
        ]
        poll(targets)
        assert {asked.headers.get("authorization") for asked in other.asked} == {None}
    seen = {(asked.path.split("/")[1], asked.headers.get("authorization")) for asked in server.asked}
    assert seen == {("env", "Bearer from-env"), ("file", "Bearer from-file"), ("none", None)}


def test_a_missing_key_fails_the_protected_probe_only(server: HostileServer) -> None:
    target = server.replica("locked")
    server.routes["/locked/v1/models"] = answers(b'{"error":"Unauthorized"}', 401)
    snapshots = poll([replace(target, credentials=Credentials(token_env="FLEET_TEST_NO_SUCH_KEY"))])
    failed = {path: result.failure for path, result in snapshots["locked"].probes.items() if result.failure}
    assert list(failed) == ["/v1/models"]
    assert failed["/v1/models"].kind is FailureKind.UNAUTHORIZED
    assert "the environment variable FLEET_TEST_NO_SUCH_KEY" in failed["/v1/models"].detail
    assert snapshots["locked"].probes["/metrics"].reply is not None


@pytest.mark.parametrize("size", [0, -1, -(10**9), 10**9, 10**30, "NaN", "1e9", "", "16 "])
def test_any_size_is_read_or_refused(server: HostileServer, size: object) -> None:
    targets = [server.replica("odd"), server.replica("well")]
    server.routes["/odd/metrics"] = answers(changed_metrics(block_size=size, num_gpu_blocks=size))
    snapshots = poll(targets)
    result = snapshots["odd"].probes["/metrics"]
    assert (result.reply is None) is (result.failure is not None)
    assert result.failure is None or result.failure.kind is FailureKind.SCHEMA
    assert is_complete(snapshots["well"])


class TestLimits:
    def test_the_time_of_a_replica_is_limited(self, server: HostileServer) -> None:
        target = server.replica("slow")
        for path in ("/version", "/kv_event_sources", "/server_info"):
            server.routes[f"/slow{path}"] = silent
        limits = LIMITS.model_copy(update={"probe_timeout_seconds": 1.0, "replica_timeout_seconds": 1.9})
        snapshot = poll([target], limits)["slow"]
        assert snapshot.probes["/metrics"].reply is not None
        late = snapshot.probes["/v1/models"].failure
        assert late is not None
        assert late.kind is FailureKind.TIMEOUT
        assert late.detail.startswith("There was no time left to ask 127.0.0.1:")
        assert server.paths("slow") == ["/metrics", "/version", "/kv_event_sources"]

    def test_replicas_after_the_end_of_the_poll_are_not_contacted(self, server: HostileServer) -> None:
        targets = [everywhere(server, f"slow{number}", silent) for number in range(5)]
        limits = LIMITS.model_copy(update={"connections": 1, "poll_timeout_seconds": 0.2})
        snapshots = poll(targets, limits)
        kinds = [s.probes["/metrics"].failure.kind for s in snapshots.values() if s.probes["/metrics"].failure]
        assert kinds == [FailureKind.TIMEOUT] * 5
        assert server.connections == 1

    def test_connections_are_limited(self, server: HostileServer) -> None:
        at_once: list[int] = []
        open_now = 0

        async def counting(exchange: Exchange) -> None:
            nonlocal open_now
            open_now += 1
            at_once.append(open_now)
            await exchange.send(b"HTTP/1.1 500 Status\r\nContent-Length: 0\r\n\r\n")
            open_now -= 1

        targets = [everywhere(server, f"one{number}", counting) for number in range(12)]
        poll(targets, LIMITS.model_copy(update={"connections": 3}))
        assert len(at_once) >= 12
        assert max(at_once) <= 3

    def test_a_connection_is_closed_after_its_replica(self, server: HostileServer) -> None:
        poll([server.replica("one"), server.replica("two")], LIMITS.model_copy(update={"connections": 1}))
        assert server.connections == 2
        assert [asked.headers.get("connection") for asked in server.asked if "models" in asked.path] == ["close"] * 2


def test_the_state_of_a_removed_target_is_dropped(server: HostileServer) -> None:
    target = server.replica("a")

    async def run() -> int:
        poller = Poller(LIMITS)
        await poller.poll([target], lambda: NOW)
        await poller.poll([], lambda: NOW)
        server.asked.clear()
        await poller.poll([target], lambda: NOW)
        return len(server.paths("a"))

    assert asyncio.run(run()) > 2, "it is a first contact again"
