"""Servers with vLLM's paths that are not vLLM."""

import json

import pytest

from dashboard.errors import UnreadableError
from dashboard.fleet import FailureKind, ReplicaState
from dashboard.fleet.replies import Failure, Reply, Source
from dashboard.vllm.reading import read
from dashboard.vllm.replies import BY_METRICS, BY_OWNER
from tests.captured import METRICS, MODELS, VERSION
from tests.vllm.test_replica import metrics, probe, seen

PAGE = b"# HELP %srequests Requests.\n# TYPE %srequests counter\n%srequests 3\n"
NOT_VLLM = Failure(FailureKind.NOT_VLLM, "Not vLLM (SGLang): it is compared with nothing. Remove it from the targets.")


def models(*owners: str | None) -> bytes:
    cards = [{"id": f"m{number}", "owned_by": owner, "max_model_len": 9} for number, owner in enumerate(owners)]
    return json.dumps({"object": "list", "data": cards}).encode()


@pytest.mark.parametrize(("prefix", "name"), BY_METRICS.items())
def test_another_server_is_recognised_by_its_metrics(prefix: bytes, name: str) -> None:
    for page in (PAGE % (prefix, prefix, prefix), b"%sup 1\n" % prefix):
        with pytest.raises(UnreadableError, match=r"^Not vLLM \(.*compared with nothing. Remove it") as caught:
            read(METRICS, page)

        assert caught.value.kind == FailureKind.NOT_VLLM
        assert name in caught.value.detail


@pytest.mark.parametrize("page", [b"up 1\n", b"http_sglang:x 1\n", b'a{b="\\nx sglang:"} 1\n', b"tg_ 1\n"])
def test_of_another_page_nothing_is_claimed(page: bytes) -> None:
    with pytest.raises(UnreadableError) as caught:
        read(METRICS, page)

    assert caught.value.kind == FailureKind.SCHEMA


def test_a_page_of_vllm_may_have_metrics_of_another_server() -> None:
    assert read(METRICS, b"sglang:a 1\nvllm:b 1\nprocess_start_time_seconds 1.7e9\n").reply.started_at


@pytest.mark.parametrize("owner", BY_OWNER)
def test_another_server_is_recognised_by_the_owner_of_all_its_models(owner: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read(MODELS, models(owner, owner))

    assert caught.value.kind == FailureKind.NOT_VLLM
    assert read(MODELS, models(owner, "vllm")).reply.served_model_names == ("m0", "m1")


@pytest.mark.parametrize("owners", [(), (None,), ("vllm",), ("openai",), ("",), ("library", "sglang")])
def test_other_owners_claim_nothing(owners: tuple[str | None, ...]) -> None:
    assert len(read(MODELS, models(*owners)).reply.served_model_names) == len(owners)


def test_another_server_is_down_in_no_pool_and_without_settings() -> None:
    version = probe(VERSION, Reply(Source.VERSION, version="0.5.1"))
    replica = seen(version, probe(MODELS, failure=NOT_VLLM), labels={"pool": "chat"})

    assert (replica.state, replica.failure) == (ReplicaState.DOWN, NOT_VLLM)
    assert (replica.pool, replica.version, replica.document, replica.sources) == (None, None, None, ())


def test_a_server_that_reports_an_engine_of_vllm_is_vllm() -> None:
    replica = seen(probe(METRICS, metrics()), probe(MODELS, failure=NOT_VLLM), labels={"pool": "chat"})

    assert (replica.state, replica.pool) == (ReplicaState.PARTIAL, "chat")
