"""The probes of a visit and the state afterwards, with a real server."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from dashboard.config import PollOptions
from dashboard.fleet import Failure, FailureKind, Snapshot, Target
from dashboard.sources.polling.poller import Poller
from dashboard.sources.polling.probes import PROBES
from tests.sources.polling.hostile import (
    CAPTURE,
    DEV_MODE,
    STOCK,
    HostileServer,
    answers,
    changed_metrics,
    missing,
)

START = datetime(2026, 3, 2, 11, 42, tzinfo=UTC)
INTERVAL = timedelta(seconds=15)
FULL = timedelta(seconds=300)
PLUGIN = "/plugins/vllm-server-introspection"
SERVER_INFO = "/server_info?config_format=json"
LIGHT = ["/metrics", "/v1/models"]
ON_STOCK = [  # the probes of a stock vLLM at first contact
    "/metrics",
    "/version",
    "/kv_event_sources",
    "/server_info",
    "/inference/v1/config",
    "/v1/config",
    "/v1/server/config",
    "/plugins/llm-d-server-introspection/config",
    "/plugins/vllm-server-introspection/config",
    "/v1/models",
]


class Clocked:
    """A poller with a manual clock, and one replica, `/a`, on its own server."""

    def __init__(self, server: HostileServer) -> None:
        self.server = server
        self.now = START
        self.seconds = 0.0
        self.target = server.replica("a", DEV_MODE)
        self._poller = Poller(
            PollOptions(
                probe_timeout_seconds=20,
                replica_timeout_seconds=60,
                poll_timeout_seconds=60,
                full_poll_interval_seconds=FULL.total_seconds(),
                connections=4,
                max_answer_bytes=2**20,
                max_headers=100,
            ),
            lambda: self.seconds,
        )

    def answer(self, path: str, body: bytes) -> None:
        self.server.routes[f"/a{path}"] = answers(body)

    def drop(self, *paths: str) -> None:
        for path in paths:
            self.server.routes[f"/a{path}"] = missing

    def all_break(self) -> None:
        for probe in PROBES:
            self.server.routes[f"/a{probe.path.partition('?')[0]}"] = answers(b"", 500)

    def poll(self, after: timedelta = INTERVAL, target: Target | None = None) -> tuple[Snapshot, list[str]]:
        """Return the snapshot and the requested paths."""
        self.now += after
        self.seconds += after.total_seconds()
        self.server.asked.clear()
        (snapshot,) = asyncio.run(self._poller.poll([target or self.target], lambda: self.now))
        return snapshot, self.server.paths("a")


@pytest.fixture
def clocked() -> Iterator[Clocked]:
    with HostileServer() as server:
        yield Clocked(server)


def failed_kinds(snapshot: Snapshot) -> dict[str, FailureKind]:
    return {path: result.failure.kind for path, result in snapshot.probes.items() if result.failure}


def replied(snapshot: Snapshot) -> set[str]:
    return {path for path, result in snapshot.probes.items() if result.reply}


def test_first_contact_sends_every_probe_and_a_404_is_no_failure(clocked: Clocked) -> None:
    clocked.drop("/server_info")
    snapshot, paths = clocked.poll()
    assert paths == ON_STOCK
    assert failed_kinds(snapshot) == {}
    assert replied(snapshot) == set(STOCK)
    gone = snapshot.probes["/v1/config"]
    assert (gone.reply, gone.failure, gone.status) == (None, None, 404)


def test_other_paths_of_a_plugin_need_its_configuration(clocked: Clocked) -> None:
    captures = CAPTURE.parent / "gemma3_plugin"
    clocked.answer(f"{PLUGIN}/config", (captures / "plg_config.json").read_bytes())
    clocked.answer(f"{PLUGIN}/devices", (captures / "plg_devices.json").read_bytes())
    clocked.answer(f"{PLUGIN}/kv-cache", (captures / "plg_kv_cache.json").read_bytes())
    snapshot, paths = clocked.poll()
    assert [path for path in paths if path.startswith("/plugins/llm-d")] == [
        "/plugins/llm-d-server-introspection/config"
    ]
    assert {f"{PLUGIN}/config", f"{PLUGIN}/devices", f"{PLUGIN}/kv-cache"} <= replied(snapshot)


def test_the_older_configuration_path_is_a_fallback(clocked: Clocked) -> None:
    clocked.answer("/inference/v1/config", (CAPTURE / "inference_config.json").read_bytes())
    _, paths = clocked.poll()
    assert "/inference/v1/config" in paths
    assert "/v1/config" not in paths


def test_later_polls_send_light_probes_and_keep_other_replies(clocked: Clocked) -> None:
    first, _ = clocked.poll()
    second, paths = clocked.poll()
    assert paths == LIGHT
    assert replied(second) == replied(first)
    assert second.probes[SERVER_INFO] is first.probes[SERVER_INFO]
    assert second.probes["/metrics"].observed_at == clocked.now
    assert second.observed_at == clocked.now


class TestRestart:
    def test_another_start_time_clears_the_state(self, clocked: Clocked) -> None:
        clocked.poll()
        page = (CAPTURE / "metrics.txt").read_bytes()
        value = page.split(b"\nprocess_start_time_seconds ")[1].split(b"\n")[0]
        clocked.answer("/metrics", page.replace(value, b"1795999999.5"))
        clocked.server.routes["/a/server_info"] = answers(b"", 500)
        snapshot, paths = clocked.poll()
        assert paths == ON_STOCK
        assert snapshot.probes[SERVER_INFO].reply is None, "replies of another process are dropped"
        assert clocked.poll()[1] == LIGHT

    def test_a_missing_start_time_is_a_restart(self, clocked: Clocked) -> None:
        clocked.poll()
        clocked.answer("/metrics", without_start_time((CAPTURE / "metrics.txt").read_bytes()))
        assert clocked.poll()[1] == ON_STOCK

    def test_without_a_start_time_lower_counters_are_a_restart(self, clocked: Clocked) -> None:
        page = without_start_time((CAPTURE / "metrics.txt").read_bytes())
        for total, asked in ((5.0, ON_STOCK), (9.0, LIGHT), (9.0, LIGHT), (2.0, ON_STOCK)):
            clocked.answer("/metrics", page + b'vllm:prompt_tokens_total{engine="0"} %f\n' % (1e6 * total))
            assert clocked.poll()[1] == asked, total

    def test_without_a_start_time_other_settings_are_a_restart(self, clocked: Clocked) -> None:
        clocked.answer("/metrics", without_start_time(changed_metrics(block_size=16)))
        clocked.poll()
        assert clocked.poll()[1] == LIGHT
        clocked.answer("/metrics", without_start_time(changed_metrics(block_size=64)))
        assert clocked.poll()[1] == ON_STOCK


class TestDown:
    def test_a_replica_that_is_down_keeps_its_replies_with_the_failure(self, clocked: Clocked) -> None:
        first, _ = clocked.poll()
        said_at = clocked.now
        clocked.all_break()
        second, paths = clocked.poll()
        assert paths == LIGHT
        assert replied(second) == replied(first)
        assert failed_kinds(second) == dict.fromkeys(replied(first), FailureKind.STATUS)
        assert {result.observed_at for result in second.probes.values() if result.reply} == {said_at}
        assert second.observed_at == clocked.now

    def test_a_replica_that_was_down_gets_every_probe_again(self, clocked: Clocked) -> None:
        clocked.poll()
        clocked.all_break()
        clocked.poll()
        clocked.server.replica("a", DEV_MODE)
        clocked.drop("/inference/v1/config", "/v1/config", "/v1/server/config")
        clocked.drop("/plugins/llm-d-server-introspection/config", f"{PLUGIN}/config")
        snapshot, paths = clocked.poll()
        assert paths == ON_STOCK
        assert failed_kinds(snapshot) == {}

    def test_an_unreachable_address_gets_one_probe(self, clocked: Clocked) -> None:
        target = Target("http://127.0.0.1:1")
        snapshot, _ = clocked.poll(target=target)
        assert failed_kinds(snapshot) == {"/metrics": FailureKind.REFUSED}
        assert set(snapshot.probes) == {"/metrics"}

    def test_an_invalid_target_is_not_contacted(self, clocked: Clocked) -> None:
        failure = Failure(FailureKind.TARGET, "'ht!tp' is no address.")
        snapshot, paths = clocked.poll(target=Target(clocked.target.id, failure=failure))
        assert paths == []
        assert clocked.server.connections == 0
        assert {path: result.failure for path, result in snapshot.probes.items()} == {"/metrics": failure}

    def test_a_failure_of_metrics_alone_is_its_own(self, clocked: Clocked) -> None:
        clocked.poll()
        clocked.server.routes["/a/metrics"] = answers(b"", 500)
        snapshot, paths = clocked.poll()
        assert paths == LIGHT
        assert failed_kinds(snapshot) == {"/metrics": FailureKind.STATUS}
        assert snapshot.probes["/metrics"].reply is not None
        assert clocked.poll()[1] == LIGHT


class TestPartlyFailed:
    def test_a_later_failure_keeps_the_reply(self, clocked: Clocked) -> None:
        clocked.poll()
        said_at = clocked.now
        clocked.server.routes["/a/server_info"] = answers(b"<html>", 200)
        snapshot, _ = clocked.poll(FULL)
        result = snapshot.probes[SERVER_INFO]
        assert failed_kinds(snapshot) == {SERVER_INFO: FailureKind.DECODE}
        assert result.reply is not None
        assert (result.observed_at, result.raw) == (said_at, b"<html>")

    def test_a_later_answer_replaces_the_failure(self, clocked: Clocked) -> None:
        body = (CAPTURE / "models.json").read_bytes()
        clocked.poll()
        clocked.server.routes["/a/v1/models"] = answers(b"", 503)
        assert failed_kinds(clocked.poll()[0]) == {"/v1/models": FailureKind.STATUS}
        clocked.answer("/v1/models", body)
        assert failed_kinds(clocked.poll()[0]) == {}

    def test_replies_that_need_a_failed_probe_are_kept_with_its_failure(self, clocked: Clocked) -> None:
        captures = CAPTURE.parent / "gemma3_plugin"
        clocked.answer(f"{PLUGIN}/config", (captures / "plg_config.json").read_bytes())
        clocked.answer(f"{PLUGIN}/devices", (captures / "plg_devices.json").read_bytes())
        clocked.poll()
        clocked.server.routes[f"/a{PLUGIN}/config"] = answers(b"", 503)
        snapshot, paths = clocked.poll(FULL)
        assert f"{PLUGIN}/devices" not in paths
        assert snapshot.probes[f"{PLUGIN}/devices"].reply is not None
        assert failed_kinds(snapshot) == dict.fromkeys((f"{PLUGIN}/config", f"{PLUGIN}/devices"), FailureKind.STATUS)

    def test_a_result_has_status_size_duration_and_redacted_answer(self, clocked: Clocked) -> None:
        clocked.server.routes["/a/version"] = answers(b'{"error": "hf_abcdefghijklmnopqrstuvwxyz0123456789"}', 500)
        snapshot, _ = clocked.poll()
        failed, good = snapshot.probes["/version"], snapshot.probes["/v1/models"]
        assert (failed.status, failed.size_bytes) == (500, 52)
        assert b"error" in failed.raw
        assert b"abcdefghij" not in failed.raw
        assert (good.status, good.size_bytes) == (200, len((CAPTURE / "models.json").read_bytes()))
        assert 0 < good.elapsed_seconds < 20


def without_start_time(page: bytes) -> bytes:
    """Return the page of several API processes."""
    return b"\n".join(line for line in page.split(b"\n") if b"process_start_time_seconds" not in line)
