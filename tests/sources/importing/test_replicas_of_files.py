"""Answers in files become replicas, by name and by content."""

import json

import pytest

from dashboard.fleet import ReplicaState
from dashboard.rules.findings import Severity
from dashboard.sources.importing import answer_of
from tests.captured import FILES, INFERENCE_CONFIG, METRICS, MODELS, SERVER_INFO, Capture, capture, captures, snapshot
from tests.polled_fleets import INTERVAL, build_fleet
from tests.provider_answers import provider_body
from tests.sources.importing.dropped import AT, LLAMA, drop, fleet_of


@pytest.mark.parametrize("server", captures())
def test_imported_answers_equal_a_poll_of_the_same_server(server: Capture) -> None:
    files = [
        (f"chat-1.{'plugin' + FILES[path][3:] if 'plg' in FILES[path] else FILES[path]}", body)
        for path, body in server.saved.items()
    ]
    polled = build_fleet(
        "brought",
        [snapshot(server.saved, target="file://chat-1", labels={"name": "chat-1"}, observed_at=AT)],
        polled_at=AT,
        interval=INTERVAL,
    )

    fleet = fleet_of(*files)

    assert fleet.documents == polled.documents
    assert fleet.inspection == polled.inspection
    assert fleet.replicas[0].engines == polled.replicas[0].engines
    assert fleet.replicas[0].kv_cache_groups == polled.replicas[0].kv_cache_groups
    assert fleet.replicas[0].state == polled.replicas[0].state


@pytest.mark.parametrize("server", captures())
def test_every_answer_is_recognized_by_its_content(server: Capture) -> None:
    for path, body in server.saved.items():
        if body.strip() == b"{}":
            continue  # not recognizable
        fleet = fleet_of(("one.json", body))
        (probe,) = fleet.replicas[0].probes
        assert probe.path == path


def test_replicas_with_one_file_each_are_compared() -> None:
    other = LLAMA.answers[SERVER_INFO].replace(b'"block_size":16', b'"block_size":32')
    fleet = fleet_of(
        ("chat-1.json", LLAMA.answers[SERVER_INFO]),
        ("chat-2.json", LLAMA.answers[SERVER_INFO]),
        ("chat-3.json", capture("llama_noprefix").answers[SERVER_INFO]),
        ("chat-4.json", other),
    )

    assert [each.name for each in fleet.replicas] == ["chat-1", "chat-2", "chat-3", "chat-4"]
    (pool,) = fleet.pools
    assert len(pool.replicas) == 4
    assert "cache_config.enable_prefix_caching" in {each.path for each in pool.differences}


@pytest.mark.parametrize(
    ("name", "replica", "path"),
    [
        ("chat-1.inference.v1.config.json", "chat-1", INFERENCE_CONFIG),
        ("chat-1.inference_v1_config.json", "chat-1", INFERENCE_CONFIG),
        ("chat-1.v1.models.json", "chat-1", MODELS),
        ("chat-1.v1.config.json", "chat-1", "/v1/config"),
        ("chat-1.config.json", "chat-1", "/v1/config"),
        ("chat-1.server.config.json", "chat-1", "/v1/server/config"),
        ("chat-1.v1.server.kv-cache.json", "chat-1", "/v1/server/kv-cache"),
        ("chat-1.kv-cache.json", "chat-1", "/v1/server/kv-cache"),
        ("chat-1.server-info.json", "chat-1", SERVER_INFO),
        ("chat-1.kv_event_sources.json", "chat-1", "/kv_event_sources"),
        ("chat-1.plugins.vllm-server-introspection.config.json", "chat-1", "/plugins/vllm-server-introspection/config"),
        ("host1.example.com.metrics.txt", "host1.example.com", METRICS),
        ("10.0.0.5.metrics.txt.gz", "10.0.0.5", METRICS),
        ("v1.models.json", "replica", MODELS),
    ],
)
def test_a_file_name_is_replica_and_path_with_dots(name: str, replica: str, path: str) -> None:
    assert answer_of(name, b"") == (replica, path)


def test_every_spelling_of_a_path_belongs_to_the_same_replica() -> None:
    fleet = fleet_of(
        ("chat-1.inference.v1.config.json", provider_body(LLAMA)),
        ("chat-1.server_info.json", LLAMA.answers[SERVER_INFO]),
        ("chat-1.metrics.txt", LLAMA.answers[METRICS]),
        ("chat-1.v1.models.json", LLAMA.answers[MODELS]),
    )

    assert [(each.name, len(each.probes)) for each in fleet.replicas] == [("chat-1", 4)]
    assert not {each.rule for each in fleet.inspection.findings} & {"ID-03", "ID-07"}


def test_a_name_without_path_belongs_to_the_replica_that_it_begins_with() -> None:
    """Without such a replica, the whole name is the replica."""
    fleet = fleet_of(
        ("chat-1.monday.json", LLAMA.answers[SERVER_INFO]),
        ("chat-1.metrics.txt", LLAMA.answers[METRICS]),
        ("chat-10.monday.json", LLAMA.answers[SERVER_INFO]),
        ("10.0.0.5.json", LLAMA.answers[SERVER_INFO]),
    )

    assert {each.name: len(each.probes) for each in fleet.replicas} == {
        "chat-1": 2,
        "chat-10.monday": 1,
        "10.0.0.5": 1,
    }


def test_one_process_under_two_names_is_not_a_shared_address() -> None:
    info = json.loads(LLAMA.answers[SERVER_INFO])
    info["vllm_config"]["kv_events_config"] = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": "tcp://*:5557",
        "topic": "kv@10.20.0.11@./llama",
    }
    one = json.dumps(info).encode()
    info["vllm_config"]["instance_id"] = "another"
    apart = json.dumps(info).encode()

    same = fleet_of(("chat-1.json", one), ("also-chat-1.json", one))
    two = fleet_of(("chat-1.json", one), ("chat-2.json", apart))

    assert "ID-07" in {each.rule for each in same.inspection.findings}
    assert not [each for each in same.inspection.findings if each.severity is Severity.CRITICAL]
    assert "ID-03" in {each.rule for each in two.inspection.findings}, "the topic of two replicas"


def test_an_unreadable_answer_makes_its_replica_partial() -> None:
    (fleet,), refused = drop(
        ("chat-1.server_info.json", LLAMA.answers[SERVER_INFO]), ("chat-1.metrics.txt", b"no metrics")
    )

    (replica,) = fleet.replicas
    assert replica.state == ReplicaState.PARTIAL
    assert replica.failure is not None
    assert "vllm:" in replica.failure.detail
    assert refused[0].name == "chat-1.metrics.txt"


def test_a_duplicate_answer_is_refused_with_the_naming_of_files() -> None:
    (fleet,), refused = drop(("server_info.json", LLAMA.answers[SERVER_INFO]), ("server_info.json", b"{}"))

    assert len(fleet.replicas) == 1
    assert "chat-1.server_info.json" in refused[0].why
