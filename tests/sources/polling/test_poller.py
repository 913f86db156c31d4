"""A whole poll against real servers: every bad answer, limits, credentials, neighbours."""

import asyncio
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dashboard.fleet import Credentials, FailureKind, Snapshot, Target
from dashboard.sources.polling.poller import Limits, Poller
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
PATIENT = Limits(
    probe_timeout_seconds=20,
    replica_timeout_seconds=60,
    poll_timeout_seconds=60,
    full_poll_interval_seconds=300,
    connections=50,
    max_answer_bytes=4 * MIB,
    max_headers=100,
)
HASTY = replace(PATIENT, probe_timeout_seconds=0.2)
SLOW = {name for name, (_, kinds) in BAD_ANSWERS.items() if FailureKind.TIMEOUT in kinds}
SWIFT = sorted(set(BAD_ANSWERS) - SLOW)
NEEDED = {  # what a configuration says, for the probes that are asked only after it
    "/v1/server/config": (CAPTURE / "inference_config.json").read_bytes(),
    "/plugins/llm-d-server-introspection/config": (CAPTURE.parent / "gemma3_plugin" / "plg_config.json").read_bytes(),
    "/plugins/vllm-server-introspection/config": (CAPTURE.parent / "gemma3_plugin" / "plg_config.json").read_bytes(),
}


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as running:
        yield running


def poll(targets: Sequence[Target], limits: Limits = PATIENT) -> dict[str, Snapshot]:
    snapshots = asyncio.run(Poller(limits).poll(targets, lambda: NOW))
    return {snapshot.target.id.rpartition("/")[2]: snapshot for snapshot in snapshots}


def is_well(snapshot: Snapshot) -> bool:
    return set(STOCK) <= {path for path, result in snapshot.probes.items() if result.reply} and not any(
        result.failure for result in snapshot.probes.values()
    )


def check_failure(snapshot: Snapshot, path: str, name: str) -> None:
    result = snapshot.probes[path]
    kinds = BAD_ANSWERS[name][1]
    assert result.reply is None, (path, name)
    assert result.failure is not None, (path, name)
    assert result.failure.kind in kinds, (path, name, result.failure)
    assert result.failure.detail, (path, name)
    assert result.failure.detail.isprintable(), (path, name)
    assert len(result.failure.detail) < 400, (path, name)


def test_replicas_that_answer_badly_everywhere_are_marked_and_their_neighbours_unharmed(server: HostileServer) -> None:
    targets = [server.replica("first")]
    targets += [everywhere(server, f"bad{number}", BAD_ANSWERS[name][0]) for number, name in enumerate(SWIFT)]
    targets += [server.replica("last")]
    snapshots = poll(targets)
    assert is_well(snapshots["first"])
    assert is_well(snapshots["last"])
    for number, name in enumerate(SWIFT):
        for path in ("/metrics", "/version", "/v1/models", "/inference/v1/config?full=true"):
            check_failure(snapshots[f"bad{number}"], path, name)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.path)
def test_one_bad_answer_fails_its_probe_and_no_other(server: HostileServer, probe: Probe) -> None:
    path = probe.path.partition("?")[0]
    targets = []
    for number, name in enumerate(SWIFT):
        targets.append(server.replica(f"bad{number}"))
        if probe.needs:
            server.routes[f"/bad{number}{probe.needs}"] = answers(NEEDED[probe.needs])
        server.routes[f"/bad{number}{path}"] = BAD_ANSWERS[name][0]
    # All have one address here, and so one pool of connections: two at a time could hand each other a dead one.
    snapshots = poll(targets, replace(PATIENT, connections=1))
    for number, name in enumerate(SWIFT):
        snapshot = snapshots[f"bad{number}"]
        check_failure(snapshot, probe.path, name)
        others = {at: result.failure for at, result in snapshot.probes.items() if result.failure and at != probe.path}
        assert others == {}, name


@pytest.mark.parametrize("name", sorted(SLOW))
def test_a_replica_that_is_too_slow_is_asked_no_further_and_holds_up_nobody(server: HostileServer, name: str) -> None:
    targets = [everywhere(server, "slow", BAD_ANSWERS[name][0]), server.replica("well")]
    snapshots = poll(targets, HASTY)
    check_failure(snapshots["slow"], "/metrics", name)
    assert server.paths("slow") == ["/metrics"]
    assert is_well(snapshots["well"])


def test_memory_stays_bounded_whatever_is_sent(server: HostileServer) -> None:
    """Three replicas send without end, 100 MB, and 1 GB packed small, to every probe: each may take a few limits."""
    packed = answers(bomb(), headers=("Content-Encoding: gzip",))
    targets = [
        everywhere(server, f"bad{number}", behaviour) for number, behaviour in enumerate((is_endless, is_large, packed))
    ]
    tracemalloc.start()
    try:
        snapshots = poll(targets, replace(PATIENT, max_answer_bytes=MIB))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    failures = [result.failure for snapshot in snapshots.values() for result in snapshot.probes.values()]
    assert {failure.kind for failure in failures if failure} == {FailureKind.TOO_LARGE}
    # The body, its copy as bytes, one unpacked chunk, and what the server holds: it runs in this process.
    assert peak < 3 * 6 * MIB


def test_a_redirect_takes_neither_request_nor_key_to_another_host(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_TEST_KEY", "hush")
    with HostileServer() as other:
        target = everywhere(server, "moved", answers(b"", 302, headers=(f"Location: {other.address}/metrics",)))
        snapshots = poll([replace(target, credentials=Credentials(token_env="FLEET_TEST_KEY"))])
        assert other.connections == 0
    assert {r.failure.kind for r in snapshots["moved"].probes.values() if r.failure} == {FailureKind.STATUS}
    assert all(asked.headers["authorization"] == "Bearer hush" for asked in server.asked)


def test_each_target_gets_its_own_key_and_the_others_none(
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


def test_a_replica_that_wants_a_key_which_is_missing_is_read_as_far_as_it_is_open(server: HostileServer) -> None:
    async def guarded(exchange: Exchange) -> None:
        await exchange.reply(b'{"error":"Unauthorized"}', 401)

    target = server.replica("locked")
    server.routes["/locked/v1/models"] = guarded
    snapshots = poll([replace(target, credentials=Credentials(token_env="FLEET_TEST_NO_SUCH_KEY"))])
    failed = {path: result.failure for path, result in snapshots["locked"].probes.items() if result.failure}
    assert list(failed) == ["/v1/models"]
    assert failed["/v1/models"].kind is FailureKind.UNAUTHORIZED
    assert "the environment variable FLEET_TEST_NO_SUCH_KEY" in failed["/v1/models"].detail
    assert snapshots["locked"].probes["/metrics"].reply is not None


@pytest.mark.parametrize(
    "text",
    ['a"b', "a\nb", "back\\slash", "**bold** [x](http://evil.example)", "<script>alert(1)</script>", "\u202e"],
)
def test_label_values_of_any_shape_are_read_as_text(server: HostileServer, text: str) -> None:
    target = server.replica("odd")
    server.routes["/odd/metrics"] = answers(changed_metrics(prefix_caching_hash_algo=text))
    reply = poll([target])["odd"].probes["/metrics"].reply
    assert reply is not None
    (value,) = [s.value for path, s in reply.settings.items() if path == "cache_config.prefix_caching_hash_algo"]
    assert value.startswith('"')


@pytest.mark.parametrize("size", [0, -1, -(10**9), 10**9, 10**30, "NaN", "1e9", "", "16 "])
def test_sizes_of_any_value_are_read_or_refused_and_the_neighbour_is_unharmed(
    server: HostileServer, size: object
) -> None:
    targets = [server.replica("odd"), server.replica("well")]
    server.routes["/odd/metrics"] = answers(changed_metrics(block_size=size, num_gpu_blocks=size))
    snapshots = poll(targets)
    result = snapshots["odd"].probes["/metrics"]
    assert (result.reply is None) is (result.failure is not None)
    assert result.failure is None or result.failure.kind is FailureKind.SCHEMA
    assert is_well(snapshots["well"])


class TestLimits:
    def test_a_replica_gets_no_more_than_its_time(self, server: HostileServer) -> None:
        target = server.replica("slow")
        for path in ("/version", "/kv_event_sources", "/server_info"):
            server.routes[f"/slow{path}"] = silent
        limits = replace(PATIENT, probe_timeout_seconds=1.0, replica_timeout_seconds=1.9)  # half of it is slack
        snapshot = poll([target], limits)["slow"]
        assert snapshot.probes["/metrics"].reply is not None
        late = snapshot.probes["/v1/models"].failure
        assert late is not None
        assert late.kind is FailureKind.TIMEOUT
        assert late.detail.startswith("There was no time left to ask 127.0.0.1:")
        assert server.paths("slow") == ["/metrics", "/version", "/kv_event_sources"]

    def test_replicas_that_the_poll_does_not_reach_in_time_are_marked_and_not_asked(
        self, server: HostileServer
    ) -> None:
        targets = [everywhere(server, f"slow{number}", silent) for number in range(5)]
        limits = replace(PATIENT, connections=1, poll_timeout_seconds=0.2)
        snapshots = poll(targets, limits)
        kinds = [s.probes["/metrics"].failure.kind for s in snapshots.values() if s.probes["/metrics"].failure]
        assert kinds == [FailureKind.TIMEOUT] * 5
        assert server.connections == 1

    def test_no_more_replicas_are_asked_at_a_time_than_connections_are_allowed(self, server: HostileServer) -> None:
        at_once: list[int] = []
        open_now = 0

        async def counting(exchange: Exchange) -> None:
            nonlocal open_now
            open_now += 1
            at_once.append(open_now)
            await exchange.send(b"HTTP/1.1 500 SettingValue\r\nContent-Length: 0\r\n\r\n")
            open_now -= 1

        targets = [everywhere(server, f"one{number}", counting) for number in range(12)]
        poll(targets, replace(PATIENT, connections=3))
        assert len(at_once) >= 12
        assert max(at_once) <= 3

    def test_a_connection_is_closed_once_its_replica_is_done(self, server: HostileServer) -> None:
        poll([server.replica("one"), server.replica("two")], replace(PATIENT, connections=1))
        assert server.connections == 2
        assert [asked.headers.get("connection") for asked in server.asked if "models" in asked.path] == ["close"] * 2


def test_a_target_that_vanishes_is_forgotten(server: HostileServer) -> None:
    target = server.replica("a")

    async def run() -> int:
        poller = Poller(PATIENT)
        await poller.poll([target], lambda: NOW)
        await poller.poll([], lambda: NOW)
        server.asked.clear()
        await poller.poll([target], lambda: NOW)
        return len(server.paths("a"))

    assert asyncio.run(run()) > 2, "it is a first contact again"
