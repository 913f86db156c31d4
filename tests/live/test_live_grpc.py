"""gRPC of the Rust frontend of a live server, compared with what HTTP and its log report."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dashboard.config import PollOptions
from dashboard.fleet import ReplicaState, Source, Target
from dashboard.sources.polling.poller import Poller
from dashboard.vllm import control
from tests.captured import KV_EVENTS, MODELS, VERSION
from tests.live.servers import Kind, running
from tests.polled_fleets import built
from tests.serving import free_port

pytestmark = [pytest.mark.vllm, pytest.mark.vllm_033]
LIMITS = PollOptions(probe_timeout_seconds=60, replica_timeout_seconds=120, poll_timeout_seconds=120)
RUST = {"VLLM_USE_RUST_FRONTEND": "1"}


def test_grpc_of_a_live_server_agrees_with_http_and_the_log(venv: Path, tmp_path: Path) -> None:
    port = free_port()
    kind = Kind("llama_rust_grpc", "llama_tokenizer", ("--grpc-port", str(port)), RUST)
    with running([kind], venv, tmp_path) as (server,):
        target = Target(server.url, {"grpc_port": str(port)})
        (snapshot,) = asyncio.run(Poller(LIMITS).poll([target], lambda: datetime.now(UTC)))
        ((tokens, _),) = server.logged()

    assert not any(each.failure for each in snapshot.probes.values())
    replies = {path: each.reply for path, each in snapshot.probes.items() if each.reply}
    assert replies.keys() >= {control.SERVER_INFO, control.MODEL_INFO, control.KV_EVENT_SOURCES, VERSION, MODELS}
    mine = {name: each for path in control.PATHS if path in replies for name, each in replies[path].settings.items()}
    for path in (VERSION, MODELS, KV_EVENTS):
        for name, each in replies[path].settings.items():
            assert mine.get(name, each).value == each.value, name
    (replica,) = built(snapshot, polled_at=snapshot.observed_at).replicas
    assert replica.state is ReplicaState.UP
    assert Source.GRPC in replica.sources
    assert replica.contradictions == ()
    assert replica.engines[0].kv_cache_size_tokens == tokens
