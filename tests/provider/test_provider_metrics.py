"""`vllm_fleet_config_info` on /metrics of stand-ins of captured servers, and for recorded answers of live servers."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Gauge

from dashboard.vllm.metrics import parse_metrics, read_digests
from tests.captured import Capture, capture, captures, has_python_api
from tests.provider.conftest import Serve
from tests.provider.engines import ApiServer, EngineClient, EngineProcess, broken, thing
from vllm_fleet_provider import endpoint
from vllm_fleet_provider.answer import GatheredAnswers
from vllm_fleet_provider.metrics import ConfigInfo
from vllm_fleet_provider.shared.digests import SCHEME, SERIES, EngineDigests, digest_adapters, digest_answer
from vllm_fleet_provider.shared.inference_config import InferenceConfigReply
from vllm_fleet_provider.shared.redaction import redact

LLAMA, DP2 = capture("llama"), capture("llama_dp2")
IS_NEW = captures(lambda server: server.version in {"0.32.0", "0.33.0"} and has_python_api(server))
RECORDED = sorted((Path(__file__).parent / "answers").glob("*/*.json"))
LOADED = ("a", "/adapters/a"), ("b", "/adapters/b")
FLEET_OF_ALL = {"engines", "chat", "adapters", "set_arguments", "settings", "environment", "unavailable"}


def exported(page: str) -> tuple[EngineDigests, ...]:
    return parse_metrics(b"vllm:x 1\n" + page.encode()).digests


def digests_in(answer: Mapping[str, Any]) -> EngineDigests | None:
    """What the dashboard computes from an answer, which it redacts first."""
    return digest_answer(InferenceConfigReply.model_validate(redact(dict(answer))))


def answered(server: ApiServer, ranks: Sequence[int]) -> tuple[EngineDigests | None, ...]:
    return tuple(digests_in(server.json(f"?full=true&data_parallel_rank={rank}")) for rank in ranks)


@pytest.mark.parametrize("server", IS_NEW)
def test_each_engine_exports_what_the_dashboard_computes_from_its_answer(server: Capture, serve: Serve) -> None:
    number = len(server.logged["kv_cache_size_tokens"])
    api = serve(server, *(EngineProcess(server, rank) for rank in range(number)))
    digests = exported(api.scrape())

    assert [each.engine for each in digests] == list(range(number))
    assert digests == answered(api, range(number))
    assert {bool(each.document and each.kv_layout and each.adapters) for each in digests} == {True}
    assert {each.scheme for each in digests} == {SCHEME}
    assert {bool(each.block_hash) for each in digests} == {api.config.cache_config.enable_prefix_caching}


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_recorded_answer_gives_what_its_provider_exports(file: Path) -> None:
    answer = json.loads(file.read_bytes())
    gathered = described(answer)
    (metric,) = ConfigInfo(lambda: (gathered, answer["fleet"]["adapters"])).collect()

    digests = tuple(read_digests(sample.labels) for sample in metric.samples)
    assert digests[0] == digests_in(answer)
    assert [each.engine for each in digests] == [one["data_parallel_rank"] for one in answer["fleet"]["engines"]]
    assert len({each.document for each in digests}) == 1


def described(answer: Mapping[str, Any]) -> GatheredAnswers:
    """The descriptions of the engines of an answer."""
    fleet = answer["fleet"]
    own = {name: value for name, value in fleet.items() if name not in FLEET_OF_ALL}
    sections = {name: value for name, value in answer.items() if name not in {"fleet", "devices"}}
    return GatheredAnswers(
        engines=tuple(
            {
                "engine": {**engine, "unavailable": []},
                "sections": sections,
                "fleet": own,
                "settings": fleet["settings"],
                "environment": fleet["environment"],
                "unavailable": fleet["unavailable"],
            }
            for engine in fleet["engines"]
        ),
        served_model_names=answer["model"]["served_model_names"],
        parallelism={},
        chat=fleet["chat"],
        set_arguments=fleet.get("set_arguments"),
    )


def test_ranks_of_one_server_have_equal_digests_unless_they_hash_differently(serve: Serve) -> None:
    first, second = (EngineProcess(DP2, rank, algorithm="xxhash") for rank in range(2))
    one, other = exported(serve(DP2, first, second).scrape())

    assert one._replace(engine=1, block_hash=None) == other._replace(block_hash=None)
    assert one.block_hash != other.block_hash


def test_a_loaded_adapter_changes_only_the_digest_of_adapters(serve: Serve) -> None:
    server = serve(LLAMA)
    (before,) = exported(server.scrape())
    for adapter in LOADED:
        server.load(*adapter)
    (after,) = exported(server.scrape())

    assert before.adapters == digest_adapters([])
    assert after == before._replace(adapters=digest_adapters(reversed(LOADED)))
    assert (after,) == answered(server, [0])


def test_a_secret_is_not_in_the_digest(serve: Serve) -> None:
    found = set()
    for secret in ("SESAME", "ALI BABA"):
        engine = EngineProcess(LLAMA)
        engine.config.additional_config = {"api_key": secret, "servers": 2}
        found |= set(exported(serve(LLAMA, engine).scrape()))

    assert len(found) == 1
    assert found.isdisjoint(exported(serve(LLAMA).scrape()))


def test_without_answers_of_the_engines_there_is_no_series(serve: Serve) -> None:
    server = serve(LLAMA, started=False)
    server.start(engine=False)

    assert SERIES not in server.scrape()


def test_engines_that_have_not_answered_yet_have_no_series(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "STARTUP_SECONDS", 0)
    engine, may = EngineProcess(LLAMA), asyncio.Event()

    async def answer(method: str) -> list[str]:
        await may.wait()
        return [engine.call(method)]

    client = thing("AsyncLLM", engine_core=thing("Client", core_engines=[engine], call_utility_all_async=answer))
    server = serve(LLAMA, client=client)
    assert exported(server.scrape()) == ()

    may.set()
    assert server.json()
    assert len(exported(server.scrape())) == 1


def test_an_unknown_part_is_an_empty_label(serve: Serve) -> None:
    engine = EngineProcess(LLAMA)
    broken(engine.kv_cache_config, "kv_cache_groups")
    engine.core.request_block_hasher = None
    server = serve(LLAMA, engine)
    del server.state.openai_serving_models.lora_requests
    (digests,) = exported(server.scrape())

    assert (digests.kv_layout, digests.block_hash, digests.adapters) == (None, None, None)
    assert digests.document
    assert 'block_hash=""' in server.scrape()


def test_a_server_whose_engines_cannot_be_asked_exports_its_own_configuration(serve: Serve) -> None:
    server = serve(LLAMA, client=thing("AsyncLLM", engine_core=None))
    (digests,) = exported(server.scrape())

    assert (digests,) == answered(server, [0])
    assert (digests.kv_layout, digests.block_hash) == (None, None)


def test_an_added_engine_is_asked_and_exported(serve: Serve) -> None:
    engines = [EngineProcess(DP2, 0)]
    client = thing("AsyncLLM", engine_core=EngineClient(engines))
    server = serve(DP2, client=client)
    assert [each.engine for each in exported(server.scrape())] == [0]
    engines.append(EngineProcess(DP2, 1))

    assert exported(server.scrape()) == ()
    assert [engine["data_parallel_rank"] for engine in server.json()["fleet"]["engines"]] == [0, 1]
    assert exported(server.scrape()) == answered(server, [0, 1])
    assert [engine.asked for engine in engines] == [2, 1]


def test_two_engines_that_claim_one_rank_are_not_exported(serve: Serve) -> None:
    assert exported(serve(DP2, EngineProcess(DP2, 0), EngineProcess(DP2, 0)).scrape()) == ()


def test_an_engine_without_a_digest_does_not_hide_others_and_is_logged_once(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = EngineProcess(DP2, 0), EngineProcess(DP2, 1)
    second.config.cache_config.gpu_memory_utilization = 1e30  # beyond what the dashboard reads
    server = serve(DP2, first, second)
    pages = {server.scrape() for _ in range(3)}

    one, other = exported(pages.pop())
    assert not pages
    assert one.document
    assert other == EngineDigests(1, adapters=one.adapters)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "the configuration of engine 1 has no digest"
    ]


def test_an_error_leaves_the_page_as_it_is_and_is_logged_once(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    server = serve(LLAMA)
    server.state.openai_serving_models.lora_requests["a"] = thing("LoRARequest", lora_name="a", lora_path="b")
    server.plugin._state = thing("State", openai_serving_models=5)
    server.plugin._gathering = thing("Task", done=lambda: True)

    assert [server.scrape() for _ in range(3)] == [""] * 3
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [f"{SERIES} could not be computed"]


def test_a_server_whose_metrics_cannot_be_extended_answers_all_the_same(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(LLAMA, started=False)
    server.registry.register(Gauge(SERIES, "of somebody else", registry=None))
    server.start()

    assert server.json()["fleet"]["engines"]
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [f"{SERIES} is not exported"]


def test_each_of_several_api_servers_exports_every_engine_once(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share files with the samples of all processes."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    counting = "from prometheus_client import Counter; Counter('requests', 'of another process').inc()"
    subprocess.run([sys.executable, "-c", counting], check=True)
    engines = [EngineProcess(DP2, rank) for rank in range(2)]
    servers = [serve(DP2, *engines) for _ in range(2)]
    pages = {server.scrape() for server in servers for _ in range(2)}

    (page,) = pages
    assert "requests_total 1.0" in page.splitlines()
    assert exported(page) == answered(servers[0], [0, 1])
