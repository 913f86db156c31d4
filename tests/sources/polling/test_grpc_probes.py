"""What a poll asks over gRPC, of which replicas, and what becomes of the answers, with real servers."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from dashboard.capacity.engines import ONLY_SUM
from dashboard.config import PollOptions
from dashboard.fleet import Basis, FailureKind, Replica, ReplicaState, Snapshot, Source, Target
from dashboard.sources.polling.poller import Poller
from dashboard.vllm import control
from tests.captured import FILES, METRICS, MODELS, SERVER_INFO, VERSION, Capture
from tests.polled_fleets import built
from tests.sources.grpc_server import RUST, RUST_DP2, Behaviour, GrpcServer, message, raw_server, recorded, status
from tests.sources.polling.hostile import HostileServer, answers

NOW = datetime(2026, 3, 2, 11, 42, tzinfo=UTC)
LIMITS = PollOptions(probe_timeout_seconds=20, replica_timeout_seconds=60, poll_timeout_seconds=60)
SECRET = "AKIAIOSFODNN7EXAMPLE"  # AWS's example of an access key
LORA_KEY = f"s3://user:{SECRET}@bucket/sql"


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as running:
        yield running


def serve(server: HostileServer, name: str, answered: Capture, **labels: str) -> Target:
    """Serve a capture over HTTP below `/name`; return its target."""
    for path, body in answered.answers.items():
        if path not in control.PATHS and not path.startswith("/inference"):
            server.routes[f"/{name}{path.partition('?')[0]}"] = answers(body)
    return Target(f"{server.address}/{name}", {"name": name, **labels})


def poll(*targets: Target, limits: PollOptions = LIMITS) -> list[Snapshot]:
    return list(asyncio.run(Poller(limits).poll(targets, lambda: NOW)))


def replica(snapshot: Snapshot) -> Replica:
    (found,) = built(snapshot, polled_at=snapshot.observed_at).replicas
    return found


def answered(routes: dict[str, Behaviour], server: HostileServer, of: Capture = RUST) -> Replica:
    with GrpcServer(routes) as asked:
        return replica(poll(serve(server, "a", of, grpc_port=str(asked.port)))[0])


def test_the_rust_frontend_with_a_label_is_up_with_capacity_and_only_four_methods_are_called(
    server: HostileServer,
) -> None:
    with GrpcServer(recorded()) as asked:
        (snapshot,) = poll(serve(server, "a", RUST, grpc_port=str(asked.port)))
    found = replica(snapshot)

    assert asked.paths == list(control.PATHS)
    assert {each.path for each in server.asked if not each.path.startswith("/a/")} == set()
    assert (found.state, found.failure, found.version) == (ReplicaState.UP, None, "0.33.0+cpu")
    assert Source.GRPC in found.sources
    (engine,) = found.engines
    assert (engine.num_gpu_blocks, engine.block_size, engine.basis) == (8_192, 128, Basis.ASSUMED)
    assert engine.kv_cache_size_tokens == RUST.logged["kv_cache_size_tokens"][0]  # a uniform model: the bound is exact
    assert found.identity["instance_id"].value == '"1795827477756027388"'
    assert found.contradictions == ()


def test_of_several_engines_only_the_sum_of_the_blocks_is_reported(server: HostileServer) -> None:
    found = answered(recorded(RUST_DP2), server, RUST_DP2)

    assert found.state is ReplicaState.UP
    assert [each.dp_rank for each in found.engines] == [0, 1]
    assert {(each.num_gpu_blocks, each.basis, each.reason) for each in found.engines} == {
        (None, Basis.UNKNOWN, ONLY_SUM)
    }
    assert found.served_model_names == ("chat", "chat-alias")
    assert dict(found.adapters) == {"sql": "/models/sql"}


def test_names_and_adapters_are_those_of_grpc_where_v1_models_wants_a_key(server: HostileServer) -> None:
    with GrpcServer(recorded(RUST_DP2)) as asked:
        target = serve(server, "a", RUST_DP2, grpc_port=str(asked.port))
        server.routes[f"/a{MODELS}"] = answers(b"{}", 401)
        found = replica(poll(target)[0])

    assert found.state is ReplicaState.PARTIAL
    assert found.served_model_names == ("chat", "chat-alias")
    assert dict(found.adapters) == {"sql": "/models/sql"}


def test_without_a_port_nothing_is_called(server: HostileServer) -> None:
    with GrpcServer(recorded()) as asked:
        (snapshot,) = poll(serve(server, "a", RUST))
        (off,) = poll(
            serve(server, "b", RUST, grpc_port=""), limits=LIMITS.model_copy(update={"grpc_port": asked.port})
        )

    assert asked.asked == []
    assert replica(snapshot).failure is not None
    assert {*snapshot.probes, *off.probes}.isdisjoint(control.PATHS)


def test_the_option_is_for_the_rust_frontend_alone(server: HostileServer) -> None:
    with GrpcServer(recorded()) as asked:
        limits = LIMITS.model_copy(update={"grpc_port": asked.port})
        rust, python = poll(serve(server, "rust", RUST), server.replica("python"), limits=limits)

    assert asked.paths == list(control.PATHS)
    assert replica(rust).state is ReplicaState.UP
    assert not any(each.failure for each in python.probes.values())


def test_a_server_without_lora_is_complete_and_an_older_method_is_just_not_there(server: HostileServer) -> None:
    routes = recorded() | {control.LORAS: status(grpc.StatusCode.FAILED_PRECONDITION)}
    del routes[control.KV_EVENT_SOURCES]
    with GrpcServer(routes) as asked:
        (snapshot,) = poll(serve(server, "a", RUST, grpc_port=str(asked.port)))

    assert replica(snapshot).state is ReplicaState.UP
    for path in (control.LORAS, control.KV_EVENT_SOURCES):
        result = snapshot.probes[path]
        assert (result.status, result.reply, result.failure) == (404, None, None)


def test_after_a_first_failure_no_other_method_is_called_and_the_replica_is_partial(server: HostileServer) -> None:
    with GrpcServer(recorded() | {control.SERVER_INFO: status(grpc.StatusCode.UNAVAILABLE)}) as asked:
        (snapshot,) = poll(serve(server, "a", RUST, grpc_port=str(asked.port)))

    assert asked.paths == [control.SERVER_INFO]
    found = replica(snapshot)
    assert found.state is ReplicaState.PARTIAL
    assert found.failure is not None
    assert found.failure.kind is FailureKind.STATUS
    assert snapshot.probes[METRICS].reply


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>", FailureKind.DECODE),
        (b"\x0a\xff", FailureKind.DECODE),
        (b"\x0a\x02\xff\xfe", FailureKind.DECODE),  # no UTF-8
        (b"", FailureKind.SCHEMA),  # no version
        (b"\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x0a\x01x", FailureKind.SCHEMA),  # 2^64 - 1 blocks
    ],
)
def test_another_message_is_a_failure(server: HostileServer, body: bytes, kind: FailureKind) -> None:
    found = answered(recorded() | {control.SERVER_INFO: message(body)}, server)

    assert found.failure is not None
    assert found.failure.kind is kind
    assert found.failure.detail.isprintable()


def test_many_small_parts_are_not_read(server: HostileServer) -> None:
    found = answered(recorded(RUST_DP2) | {control.LORAS: message(b"\x0a\x00" * 300_000)}, server, RUST_DP2)

    assert found.failure is not None
    assert found.failure.kind is FailureKind.TOO_LARGE
    assert len(found.engines) == 2


def test_secrets_are_replaced_before_anything_is_kept(server: HostileServer) -> None:
    lora = b"\x12\x03sql\x1a" + bytes([len(LORA_KEY)]) + LORA_KEY.encode()
    routes = recorded(RUST_DP2) | {control.LORAS: message(b"\x0a" + bytes([len(lora)]) + lora)}
    with GrpcServer(routes) as asked:
        (snapshot,) = poll(serve(server, "a", RUST_DP2, grpc_port=str(asked.port)))

    result = snapshot.probes[control.LORAS]
    assert result.reply
    assert SECRET not in repr(result)
    assert list(result.reply.adapters) == ["sql"]


def test_a_port_that_hangs_costs_one_probe_and_no_other_replica(server: HostileServer) -> None:
    async def hangs(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    with raw_server(hangs) as port, GrpcServer(recorded()) as asked:
        slow = serve(server, "slow", RUST, grpc_port=str(port))
        well = [serve(server, f"well{number}", RUST, grpc_port=str(asked.port)) for number in range(3)]
        limits = LIMITS.model_copy(update={"probe_timeout_seconds": 0.5})
        first, *others = poll(slow, *well, limits=limits)

    failures = [each.failure for each in first.probes.values() if each.failure]
    assert [each.kind for each in failures] == [FailureKind.TIMEOUT]
    assert first.probes[METRICS].reply
    assert all(replica(each).state is ReplicaState.UP for each in others)


def test_values_that_http_contradicts_are_shown(server: HostileServer) -> None:
    other = RUST.answers[control.SERVER_INFO].replace(b"0.33.0+cpu", b"0.32.0+cpu")
    found = answered(recorded() | {control.SERVER_INFO: message(other)}, server)

    contradictions = {each.path: (each.kept.value, each.other.value) for each in found.contradictions}
    assert contradictions == {"version": ('"0.32.0+cpu"', '"0.33.0+cpu"')}


def test_a_full_poll_calls_again_and_a_failure_keeps_the_earlier_answers(server: HostileServer) -> None:
    seconds = 0.0
    with ExitStack() as stack:
        asked = stack.enter_context(GrpcServer(recorded()))
        target = serve(server, "a", RUST, grpc_port=str(asked.port))
        poller = Poller(LIMITS, lambda: seconds)

        def again() -> Snapshot:
            (found,) = asyncio.run(poller.poll([target], lambda: NOW + timedelta(seconds=seconds)))
            return found

        again()
        seconds = 15.0
        again()
        assert len(asked.asked) == 4
        asked.routes[control.SERVER_INFO] = status(grpc.StatusCode.UNAVAILABLE)
        seconds = 400.0
        kept = again()
    assert len(asked.asked) == 5
    for path in (control.SERVER_INFO, control.MODEL_INFO):
        assert kept.probes[path].reply
        assert kept.probes[path].failure
    assert replica(kept).engines[0].num_gpu_blocks == 8_192


def test_the_captures_have_every_method() -> None:
    assert {path for path in control.PATHS if path in RUST_DP2.answers} == set(control.PATHS)
    assert {SERVER_INFO, VERSION} <= set(RUST.answers) <= set(FILES)
