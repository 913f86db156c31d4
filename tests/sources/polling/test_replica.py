"""The probes of a visit and the state afterwards, with a real server."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dashboard.config import NO_TRAFFIC, PollOptions, TrafficOptions
from dashboard.fleet import Failure, FailureKind, Reply, Snapshot, Target
from dashboard.sources.polling.poller import Poller
from dashboard.sources.polling.probes import PROBES
from tests.captured import capture
from tests.provider_answers import provider_answer, provider_body
from tests.sources.polling.hostile import (
    CAPTURE,
    DEV_MODE,
    STOCK,
    Exchange,
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
CONFIG = "/inference/v1/config"
FULL_CONFIG = f"{CONFIG}?full=true"
LIGHT = ["/metrics"]
WITH_MODELS = ["/metrics", "/v1/models"]
LORA = b"# HELP vllm:lora_requests_info Running stats on lora requests.\n"
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

    def __init__(self, server: HostileServer, traffic: TrafficOptions = NO_TRAFFIC) -> None:
        self.server = server
        self.now = START
        self.seconds = 0.0
        self.target = server.replica("a", DEV_MODE)
        self.last: Snapshot | None = None
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
            traffic,
        )

    def answer(self, path: str, body: bytes) -> None:
        self.server.routes[f"/a{path}"] = answers(body)

    def answer_as_plugin(self, *names: str) -> None:
        for name in names:
            file = CAPTURE.parent / "gemma3_plugin" / f"plg_{name.replace('-', '_')}.json"
            self.answer(f"{PLUGIN}/{name}", file.read_bytes())

    def answer_with_etag(self, path: str, body: bytes, etag: str = '"one"') -> None:
        async def behave(exchange: Exchange) -> None:
            if exchange.asked.headers.get("if-none-match") == etag:
                await exchange.send(f"HTTP/1.1 304 Not Modified\r\nETag: {etag}\r\n\r\n".encode())
            else:
                await exchange.reply(body, headers=[f"ETag: {etag}"])

        self.server.routes[f"/a{path}"] = behave

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
        self.last = snapshot
        return snapshot, self.server.paths("a")


@pytest.fixture
def clocked(server: HostileServer) -> Clocked:
    return Clocked(server)


def failed_kinds(snapshot: Snapshot) -> dict[str, FailureKind]:
    return {path: result.failure.kind for path, result in snapshot.probes.items() if result.failure}


def reply_of(snapshot: Snapshot, path: str) -> Reply:
    reply = snapshot.probes[path].reply
    assert reply is not None
    return reply


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
    clocked.answer_as_plugin("config", "devices", "kv-cache")
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


class TestAdapters:
    """Only a server with `--enable-lora` can load an adapter without a restart."""

    def test_a_server_with_lora_is_asked_for_its_models_at_every_poll(self, clocked: Clocked) -> None:
        clocked.answer("/metrics", (CAPTURE / "metrics.txt").read_bytes() + LORA)
        clocked.poll()
        models = json.loads((CAPTURE / "models.json").read_bytes())
        models["data"].append({**models["data"][0], "id": "sql", "root": "/sql", "parent": models["data"][0]["id"]})
        clocked.answer("/v1/models", json.dumps(models).encode())
        snapshot, paths = clocked.poll()
        assert paths == WITH_MODELS
        assert reply_of(snapshot, "/v1/models").adapters == {"sql": "/sql"}

    @pytest.mark.parametrize("provider", [[], [CONFIG]])
    def test_models_that_failed_are_asked_for_until_they_answer(self, clocked: Clocked, provider: list[str]) -> None:
        if provider:
            clocked.answer_with_etag(CONFIG, provider_body(capture("llama")))
        clocked.server.routes["/a/v1/models"] = answers(b"", 503)
        clocked.poll()
        assert clocked.poll()[1] == [*provider, *WITH_MODELS]
        clocked.answer("/v1/models", (CAPTURE / "models.json").read_bytes())
        assert clocked.poll()[1] == [*provider, *WITH_MODELS]
        snapshot, paths = clocked.poll()
        assert paths == (provider or LIGHT)
        assert failed_kinds(snapshot) == {}


class TestProvider:
    """A server with our provider: while its ETag is the same, nothing else is asked for."""

    @pytest.fixture
    def provided(self, clocked: Clocked) -> Clocked:
        clocked.answer("/metrics", (CAPTURE / "metrics.txt").read_bytes() + LORA)
        clocked.answer_with_etag(CONFIG, provider_body(capture("llama")))
        clocked.poll()
        return clocked

    def test_an_unchanged_answer_is_the_only_request_of_a_poll(self, provided: Clocked) -> None:
        assert (first := provided.last)
        for _ in range(3):
            snapshot, paths = provided.poll()
            assert paths == [CONFIG]
            assert provided.server.asked[0].headers["connection"] == "close"
            assert failed_kinds(snapshot) == {}
            assert snapshot.probes[FULL_CONFIG].reply is first.probes[FULL_CONFIG].reply
            assert snapshot.probes[FULL_CONFIG].status == 200
            assert snapshot.probes[FULL_CONFIG].observed_at == provided.now
            assert replied(snapshot) == replied(first)

    def test_another_answer_is_read_with_metrics_and_models(self, provided: Clocked) -> None:
        answer = provider_answer(capture("llama"))
        answer["fleet"]["adapters"] = [{"name": "sql", "path": "/sql"}]
        provided.answer_with_etag(CONFIG, json.dumps(answer).encode(), '"two"')
        snapshot, paths = provided.poll()
        assert paths == [CONFIG, *WITH_MODELS]
        assert reply_of(snapshot, FULL_CONFIG).adapters == {"sql": "/sql"}
        assert provided.poll()[1] == [CONFIG]

    def test_a_restart_is_seen_in_the_answer_and_everything_is_asked_for(self, provided: Clocked) -> None:
        answer = provider_answer(capture("llama"))
        answer["fleet"]["started_at"] = "2026-03-02T12:00:00Z"
        provided.answer_with_etag(CONFIG, json.dumps(answer).encode(), '"two"')
        provided.answer("/metrics", restarted((CAPTURE / "metrics.txt").read_bytes() + LORA))
        snapshot, paths = provided.poll()
        assert paths == [CONFIG, *(path for path in ON_STOCK if path != "/v1/config")]
        sent = [each.headers.get("if-none-match") for each in provided.server.asked if CONFIG in each.path]
        assert sent == ['"one"', None], "nothing is kept of another process"
        assert reply_of(snapshot, FULL_CONFIG).started_at == datetime(2026, 3, 2, 12, tzinfo=UTC)
        assert provided.poll()[1] == [CONFIG]

    def test_an_equal_answer_without_etag_proves_nothing(self, provided: Clocked) -> None:
        provided.answer(CONFIG, provider_body(capture("llama")))
        assert provided.poll()[1] == [CONFIG, *WITH_MODELS]
        assert provided.poll()[1] == WITH_MODELS

    def test_a_failure_is_reported_and_metrics_show_whether_the_replica_is_up(self, provided: Clocked) -> None:
        provided.server.routes[f"/a{CONFIG}"] = answers(b"", 503)
        snapshot, paths = provided.poll()
        assert paths == [CONFIG, *WITH_MODELS]
        assert failed_kinds(snapshot) == {FULL_CONFIG: FailureKind.STATUS}
        assert snapshot.probes[FULL_CONFIG].reply is not None
        provided.answer_with_etag(CONFIG, provider_body(capture("llama")))
        snapshot, paths = provided.poll()
        assert (paths, failed_kinds(snapshot)) == ([CONFIG], {})

    def test_a_replica_that_is_gone_is_down(self, provided: Clocked) -> None:
        provided.all_break()
        snapshot, paths = provided.poll()
        assert paths == [CONFIG, *WITH_MODELS]
        assert failed_kinds(snapshot) == dict.fromkeys(replied(snapshot), FailureKind.STATUS)

    @pytest.mark.parametrize("lacking", ["etag", "start time"])
    def test_an_answer_that_proves_nothing_replaces_no_request(self, clocked: Clocked, lacking: str) -> None:
        answer = provider_answer(capture("llama"))
        answer["fleet"]["started_at"] = None
        clocked.answer_with_etag(CONFIG, json.dumps(answer).encode())
        if lacking == "etag":
            clocked.answer(CONFIG, provider_body(capture("llama")))
        clocked.poll()
        assert clocked.poll()[1] == LIGHT

    def test_everything_is_asked_for_again_after_the_interval(self, provided: Clocked) -> None:
        assert len(provided.poll(FULL)[1]) == len(ON_STOCK) - 1


class TestETag:
    def test_an_answer_with_an_etag_is_not_sent_twice(self, clocked: Clocked) -> None:
        clocked.answer_with_etag("/server_info", (CAPTURE / "server_info.json").read_bytes())
        first, _ = clocked.poll()
        second, _ = clocked.poll(FULL)
        asked = [each.headers.get("if-none-match") for each in clocked.server.asked if "server_info" in each.path]
        assert asked == ['"one"']
        before, after = first.probes[SERVER_INFO], second.probes[SERVER_INFO]
        assert before.status == 200
        assert after == replace(before, observed_at=clocked.now, elapsed_seconds=after.elapsed_seconds)

    def test_the_etag_of_a_failed_probe_is_not_sent(self, clocked: Clocked) -> None:
        clocked.answer_with_etag("/server_info", b"<html>")
        for _ in range(2):
            snapshot, _ = clocked.poll(FULL)
            assert failed_kinds(snapshot) == {SERVER_INFO: FailureKind.DECODE}
        assert "if-none-match" not in {name for each in clocked.server.asked for name in each.headers}


class TestRestart:
    def test_another_start_time_clears_the_state(self, clocked: Clocked) -> None:
        clocked.poll()
        clocked.answer("/metrics", restarted((CAPTURE / "metrics.txt").read_bytes()))
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
        for total, asked in ((5.0, ON_STOCK), (9.0, WITH_MODELS), (9.0, WITH_MODELS), (2.0, ON_STOCK)):
            clocked.answer("/metrics", page + b'vllm:prompt_tokens_total{engine="0"} %f\n' % (1e6 * total))
            assert clocked.poll()[1] == asked, total

    def test_without_a_start_time_other_settings_are_a_restart(self, clocked: Clocked) -> None:
        clocked.answer("/metrics", without_start_time(changed_metrics(block_size=16)))
        clocked.poll()
        assert clocked.poll()[1] == WITH_MODELS
        clocked.answer("/metrics", without_start_time(changed_metrics(block_size=64)))
        assert clocked.poll()[1] == ON_STOCK


class TestDown:
    def test_a_replica_that_is_down_keeps_its_replies_with_the_failure(self, clocked: Clocked) -> None:
        first, _ = clocked.poll()
        said_at = clocked.now
        clocked.all_break()
        second, paths = clocked.poll()
        assert paths == WITH_MODELS
        assert replied(second) == replied(first)
        assert failed_kinds(second) == dict.fromkeys(replied(first), FailureKind.STATUS)
        assert {result.observed_at for result in second.probes.values() if result.reply} == {said_at}
        assert second.observed_at == clocked.now

    def test_a_replica_that_was_down_gets_every_probe_again(self, clocked: Clocked) -> None:
        clocked.poll()
        clocked.all_break()
        clocked.poll()
        clocked.server.replica("a", DEV_MODE)
        clocked.drop(*ON_STOCK[4:-1])
        snapshot, paths = clocked.poll()
        assert paths == ON_STOCK
        assert failed_kinds(snapshot) == {}

    def test_an_unreachable_address_gets_one_probe(self, clocked: Clocked) -> None:
        snapshot, _ = clocked.poll(target=Target("http://127.0.0.1:1"))
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
        assert paths == WITH_MODELS
        assert failed_kinds(snapshot) == {"/metrics": FailureKind.STATUS}
        assert snapshot.probes["/metrics"].reply is not None
        assert clocked.poll()[1] == WITH_MODELS


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

    def test_replies_that_need_a_failed_probe_are_kept_with_its_failure(self, clocked: Clocked) -> None:
        clocked.answer_as_plugin("config", "devices")
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


def restarted(page: bytes) -> bytes:
    """Return the page of a process that started later."""
    value = page.split(b"\nprocess_start_time_seconds ")[1].split(b"\n")[0]
    return page.replace(value, b"1795999999.5")


def without_start_time(page: bytes) -> bytes:
    """Return the page of several API processes."""
    return b"\n".join(line for line in page.split(b"\n") if b"process_start_time_seconds" not in line)
