"""Replicas of a fleet: down, stale, one process behind several addresses, contradictions, engines."""

import json
from datetime import timedelta

import pytest

from dashboard.analysis.assembly import FRESH_INTERVALS
from dashboard.fleet import Basis, ReplicaState, Source
from dashboard.vllm.merging import TOKENS
from tests.captured import AT, SERVER_INFO, Capture, capture, captures, has_python_api, snapshot
from tests.polled_fleets import INTERVAL, REFUSED, at, built, unreachable
from tests.provider_answers import with_provider


def test_a_replica_that_is_down_has_its_reason_and_the_pool_of_its_label() -> None:
    fleet = built(at(1), unreachable(2, pool="./llama"))

    lost = fleet.replicas[1]
    assert (lost.state, lost.failure, lost.pool, lost.document, lost.engines) == (
        ReplicaState.DOWN,
        REFUSED,
        "./llama",
        None,
        (),
    )
    assert not lost.fresh
    assert fleet.pools[0].replicas == ("http://10.0.0.1:8000", "http://10.0.0.2:8000")
    assert fleet.pools[0].fresh == 1


def test_a_replica_is_fresh_if_it_was_read_within_three_intervals() -> None:
    limit = AT - FRESH_INTERVALS * INTERVAL
    fleet = built(at(1, observed_at=limit), at(2, observed_at=limit - timedelta(seconds=1)))

    assert [replica.fresh for replica in fleet.replicas] == [True, False]
    assert fleet.pools[0].fresh == 1


def test_two_addresses_with_one_instance_id_are_one_process() -> None:
    fleet = built(at(1, paths=None), at(2, paths=None), at(3, "qwen3_xxhash", None))

    same = {replica.id: replica.same_process for replica in fleet.replicas}
    assert same == {
        "http://10.0.0.1:8000": ("http://10.0.0.2:8000",),
        "http://10.0.0.2:8000": ("http://10.0.0.1:8000",),
        "http://10.0.0.3:8000": (),
    }


@pytest.mark.parametrize("instance", [None, ""])
def test_without_an_instance_id_addresses_are_separate_processes(instance: str | None) -> None:
    info = capture("llama").json(SERVER_INFO)
    info["vllm_config"]["instance_id"] = instance
    body = json.dumps(info).encode()

    fleet = built(*(snapshot({SERVER_INFO: body}, target=f"http://10.0.0.{number}:8000") for number in (1, 2)))

    assert [replica.same_process for replica in fleet.replicas] == [(), ()]


@pytest.mark.parametrize("server", captures())
def test_a_real_server_is_up_without_contradictions_and_has_the_engines_that_it_logged(server: Capture) -> None:
    (replica,) = built(snapshot(server.answers)).replicas

    contradicted = [each.path for each in replica.contradictions]
    # In one capture the public plugin multiplies blocks of a hybrid model.
    expected = [TOKENS] if server.case == "gemma3_plugin" else []
    assert (replica.state, replica.failure, contradicted) == (ReplicaState.UP, None, expected)
    assert len(replica.engines) == len(server.logged["kv_cache_size_tokens"])
    # Behind the Rust frontend the capture's configuration endpoint is all that reports the engine. gRPC has the sum of
    # the blocks of all engines.
    reported = Basis.REPORTED if has_python_api(server) else Basis.DERIVED
    has_none = server.version in {"0.12.0", "0.20.2"} or server.case == "llama_rust_grpc_dp2"
    assert replica.engines[0].basis is (Basis.UNKNOWN if has_none else reported)
    assert len(replica.probes) == len(server.answers)


def test_tokens_of_the_plugin_are_a_contradiction_and_vllm_s_own_are_the_capacity() -> None:
    (replica,) = built(snapshot(capture("gemma3_plugin").answers)).replicas

    ((path, kept, other),) = replica.contradictions
    assert (path, kept.value, other.value) == (TOKENS, "664444", "4194304")
    assert (kept.source, other.source) == (Source.SERVER_INFO, Source.PLUGIN)
    assert [engine.kv_cache_size_tokens for engine in replica.engines] == [664_444]


def test_replicas_that_differ_in_fingerprints_only_have_their_own() -> None:
    snapshots = [
        snapshot(
            with_provider(capture("llama_dp2"), fingerprints=(f"a{number}", f"b{number}")),
            target=f"http://10.0.0.{number}:8000",
        )
        for number in (1, 2)
    ]

    one, two = built(*snapshots).replicas

    digests = [engine.fingerprint.engine for each in (one, two) for engine in each.engines if engine.fingerprint]
    assert len(set(digests)) == len(digests) == 4
    assert one.document == two.document
    assert [each._replace(fingerprint=None) for each in one.engines] == [
        each._replace(fingerprint=None) for each in two.engines
    ]


def test_ranks_at_their_own_addresses_are_not_added_twice() -> None:
    """The two engines of one API server have 8192 blocks each."""
    fleet = built(at(1, "llama_dp2", None))

    engines = fleet.replicas[0].engines
    assert [(each.num_gpu_blocks, each.naive_tokens) for each in engines] == [(8192, 8192 * 128)] * 2
