"""Engines are asked once, by the client of every version, and never stop or delay the server."""

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from tests.captured import capture
from tests.provider.conftest import Serve
from tests.provider.engines import EngineClient, EngineProcess, broken, strictly, thing
from vllm_fleet_provider import endpoint

LLAMA, DP2, MAMBA = capture("llama"), capture("llama_dp2"), capture("mamba2")
LOGGER = "vllm.plugins.fleet_config"
NOT_ASKED = {
    "field": "fleet.engines",
    "reason": "the engines could not be asked; what stands here is the API server's configuration",
}


class OlderClient:
    """The client before 0.29: the public call asks the first engine only."""

    def __init__(self, engines: Sequence[EngineProcess]) -> None:
        self.core_engines = engines

    async def _call_utility_async(self, method: str, *, engine: EngineProcess) -> str:
        return engine.call(method)

    async def call_utility_async(self, method: str) -> str:
        """Ask the first engine."""
        return self.core_engines[0].call(method)


class OneEngineClient:
    """The client of a version with one engine per client."""

    def __init__(self, engine: EngineProcess) -> None:
        self.engine = engine

    async def call_utility_async(self, method: str) -> str:
        """Ask the engine."""
        return self.engine.call(method)


class Answering:
    """A client whose engines answer with given texts, or raise."""

    def __init__(self, *texts: Any) -> None:
        self.texts, self.core_engines = texts, texts

    async def call_utility_all_async(self, _method: str) -> list[Any]:
        """Answer or raise."""
        if any(isinstance(text, Exception) for text in self.texts):
            raise RuntimeError("SESAME")
        return list(self.texts)


class Waiting:
    """A client whose engine answers when `may` is set."""

    def __init__(self, engine: EngineProcess) -> None:
        self.engine, self.core_engines, self.may = engine, [engine], asyncio.Event()

    async def call_utility_all_async(self, method: str) -> list[str]:
        """Answer after `may` is set."""
        await self.may.wait()
        return [self.engine.call(method)]


def with_core(core: Any, config: Any = None) -> Any:
    return thing("AsyncLLM", engine_core=core, vllm_config=config)


def ranks(answer: dict[str, Any]) -> list[int]:
    return [one["data_parallel_rank"] for one in answer["fleet"]["engines"]]


def test_many_requests_ask_each_engine_once_with_one_log_line(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    engines = [EngineProcess(DP2, rank) for rank in (0, 1)]
    server = serve(DP2, *engines)
    for query in ["", "?full=true", "?data_parallel_rank=1", "?data_parallel_rank=7", ""] * 5:
        server.get(query)

    assert [engine.asked for engine in engines] == [1, 1]
    assert [record.message.split(" in ")[0] for record in caplog.records if record.name == LOGGER] == [
        "configuration API: 2 engine(s) described"
    ]


def test_a_second_api_server_gets_the_same_description(serve: Serve) -> None:
    engine = EngineProcess(LLAMA)
    first = serve(LLAMA, engine).json()
    engine.kv_cache_config.num_blocks = 1

    assert serve(LLAMA, engine).json() == first


def test_the_clients_of_older_versions_ask_every_engine(serve: Serve) -> None:
    engines = [EngineProcess(DP2, rank) for rank in (0, 1)]
    one = serve(LLAMA, client=with_core(OneEngineClient(EngineProcess(LLAMA)))).json()

    assert ranks(serve(DP2, client=with_core(OlderClient(engines))).json()) == [0, 1]
    assert one["kv_cache"]["num_gpu_blocks"] == 8192
    assert one["fleet"]["engines"][0]["fingerprint"]["engine"]


@pytest.mark.parametrize(
    "core",
    [
        None,
        object(),
        Answering(RuntimeError()),
        Answering(),
        Answering("{}"),
        Answering("not JSON"),
        Answering("[1"),
        Answering(None),
        Answering("5"),
        Answering('["engine"]'),
    ],
    ids=range(10),
)
def test_if_no_engine_can_be_asked_the_answer_is_the_api_servers_configuration(core: Any, serve: Serve) -> None:
    answer = serve(LLAMA, client=with_core(core)).json("?full=true")
    engine = answer["fleet"]["engines"][0]

    assert NOT_ASKED in answer["fleet"]["unavailable"]
    assert answer["kv_cache"]["num_gpu_blocks"] == engine["num_gpu_blocks"] == 8192
    assert (engine["kv_cache_size_tokens"], engine["max_concurrency"]) == (1_048_576, 512.0)
    assert answer["kv_cache"]["groups"] == answer["devices"] == []
    assert engine["fingerprint"] == {"canonical": None, "engine": None, "reason": "the engine could not be asked"}
    assert answer["fleet"]["prefix_hashing"]["algorithm"] == "sha256"
    assert answer["fleet"]["settings"]["cache_config.block_size"] == 128
    assert "SESAME" not in str(answer)


def test_sums_over_several_engines_are_never_one_engines_values(serve: Serve) -> None:
    engine = serve(DP2, client=with_core(None)).json()["fleet"]["engines"][0]

    assert (engine["num_gpu_blocks"], engine["kv_cache_size_tokens"], engine["max_concurrency"]) == (None, None, None)


def test_a_server_without_any_configuration_object_answers(serve: Serve) -> None:
    server = serve(LLAMA, client=with_core(None), started=False)
    del server.state.vllm_config
    server.start()
    answer = server.json("?full=true")

    assert answer["model"]["max_model_len"] is None
    assert answer["fleet"]["settings"] in ({}, None)
    assert "model.max_model_len" in [one["field"] for one in answer["fleet"]["unavailable"]]


def test_if_one_of_two_engines_fails_the_other_is_described(serve: Serve) -> None:
    client = Answering(json.dumps({"unavailable": []}), EngineProcess(DP2, 1).call("fleet_config"))
    answer = serve(DP2, client=with_core(client)).json()
    reason = "describing some engines failed; they are not among these"

    assert ranks(answer) == [1]
    assert {"field": "fleet.engines", "reason": reason} in answer["fleet"]["unavailable"]


def test_an_engine_without_the_provider_costs_only_its_own_facts(serve: Serve) -> None:
    """`--data-parallel-size 2` with the provider on the head only: the headless process has no such method."""
    answer = serve(DP2, client=with_core(EngineClient([EngineProcess(DP2, 0), None]))).json("?full=true")
    first, second = answer["fleet"]["engines"]

    assert ranks(answer) == [0, 1]
    assert (first["num_gpu_blocks"], first["kv_cache_size_tokens"]) == (8192, 1_048_576)
    assert first["fingerprint"]["engine"]
    assert (second["num_gpu_blocks"], second["kv_cache_size_tokens"], second["groups"]) == (None, None, [])
    assert second["fingerprint"]["reason"] == "the engine could not be asked"
    assert answer["kv_cache"]["num_gpu_blocks"] == 8192
    assert {
        "field": "fleet.engines",
        "reason": "engine 1 could not be asked; is the provider enabled in its process, too?",
    } in answer["fleet"]["unavailable"]


def test_an_engine_of_unknown_rank_that_fails_is_left_out(serve: Serve) -> None:
    class Failing(OlderClient):
        async def _call_utility_async(self, method: str, *, engine: EngineProcess) -> str:
            if engine is self.core_engines[1]:
                raise RuntimeError(method)
            return engine.call(method)

    answer = serve(DP2, client=with_core(Failing([EngineProcess(DP2, rank) for rank in (0, 1)]))).json()

    assert ranks(answer) == [0]
    assert "describing some engines failed" in str(answer["fleet"]["unavailable"])


def test_an_engine_that_cannot_be_described_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine, dumps = EngineProcess(LLAMA), json.dumps

    def failing(value: Any, **options: Any) -> str:
        if "engine" in value:
            raise MemoryError
        return dumps(value, **options)

    monkeypatch.setattr(json, "dumps", failing)

    assert engine.description() == {
        "unavailable": [{"field": "fleet.engines", "reason": "describing this engine failed"}]
    }
    assert [record.message for record in caplog.records] == ["this engine could not be described"]


def test_an_engine_without_a_configuration_reports_its_scheduler() -> None:
    engine = EngineProcess(LLAMA)
    del engine.core.vllm_config
    description = engine.description()

    assert description["engine"]["num_gpu_blocks"] == 8192
    assert description["settings"] == {}
    assert "fleet.settings" in [one["field"] for one in description["unavailable"]]


@pytest.mark.parametrize("rank", [None, "1", -1, True, 1.0, 2**70])
def test_an_invalid_rank_is_0_and_listed_as_unavailable(rank: Any) -> None:
    engine = EngineProcess(LLAMA)
    engine.core.engine_index = engine.config.parallel_config.data_parallel_index = rank
    description = engine.description()

    assert description["engine"]["data_parallel_rank"] == 0
    assert "fleet.engines.data_parallel_rank" in [one["field"] for one in description["unavailable"]]


def test_ranks_that_run_as_single_engines_have_their_index() -> None:
    engine = EngineProcess(LLAMA)
    engine.config.parallel_config.data_parallel_index = 3

    assert engine.description()["engine"]["data_parallel_rank"] == 3


@pytest.mark.parametrize("is_started", [True, False])
def test_without_an_engine_or_before_the_start_the_answer_is_503(is_started: bool, serve: Serve) -> None:  # noqa: FBT001
    server = serve(LLAMA, started=False)
    if is_started:
        server.start(engine=False)
    answer = server.get()

    assert answer.status_code == 503
    assert strictly(answer.text)["error"]["message"].startswith("this server has no engine, so ")


def test_engines_that_do_not_answer_delay_neither_the_start_nor_a_request(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0 < endpoint.ANSWER_SECONDS <= endpoint.STARTUP_SECONDS <= 30
    monkeypatch.setattr(endpoint, "STARTUP_SECONDS", 0)
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS", 0)
    client = Waiting(EngineProcess(LLAMA))
    server = serve(LLAMA, client=with_core(client))
    early = server.get()
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS", 60)
    client.may.set()

    assert (early.status_code, strictly(early.text)["error"]["message"]) == (503, "the engines have not answered yet")
    assert server.get().status_code == 200
    assert client.engine.asked == 1


def test_if_the_number_of_engines_changes_they_are_asked_again(serve: Serve) -> None:
    engines = [EngineProcess(DP2, 0)]
    server = serve(DP2, client=with_core(EngineClient(engines)))
    before = server.get()
    engines.append(EngineProcess(DP2, 1))

    assert ranks(server.json()) == [0, 1]
    assert server.get().headers["etag"] != before.headers["etag"]
    assert [engine.asked for engine in engines] == [2, 1]


def test_an_answer_that_cannot_be_built_is_a_500_and_logged_once(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    description = EngineProcess(LLAMA).description()
    del description["sections"]
    server = serve(LLAMA, client=with_core(Answering(json.dumps(description))))
    found = [server.get() for _ in range(3)]

    assert {one.status_code for one in found} == {500}
    assert strictly(found[0].text)["error"]["message"] == (
        "the configuration could not be put together; the server's log says why"
    )
    assert len([record for record in caplog.records if record.exc_info]) == 1


@pytest.mark.parametrize(
    "workers",
    [
        None,
        "nonsense",
        [None],
        [5],
        {"rank": 0},
        [{}],
        [{"rank": 0, "name": None}],
        [{"rank": -1, "name": "a"}],
        [{"rank": 0, "name": "a", "total_memory_bytes": "many"}],
        RuntimeError(),
    ],
    ids=range(10),
)
def test_workers_with_invalid_answers_are_not_devices_and_listed_as_unavailable(workers: Any) -> None:
    engine = EngineProcess(LLAMA)
    if isinstance(workers, Exception):
        broken(engine.core.model_executor, "collective_rpc")
    else:
        engine.core.model_executor.collective_rpc = lambda _: workers
    description = engine.description()

    assert description["engine"]["devices"] == []
    assert [one["field"] for one in description["unavailable"] if one["field"].startswith("devices")]


@pytest.mark.parametrize(("of_server", "expected"), [(2048, 2048), (None, 128), ("2048", 128)])
def test_the_block_size_is_the_one_that_the_engine_reported_at_its_start(
    of_server: Any, expected: int, serve: Serve
) -> None:
    """An engine resets its own copy to the platform's default, here 128."""
    engine = EngineProcess(MAMBA)
    engine.config.cache_config.block_size = 128
    server = serve(MAMBA, engine, started=False)
    server.config.cache_config.block_size = of_server
    server.start()
    answer = server.json("?full=true")

    assert answer["fleet"]["settings"]["cache_config.block_size"] == expected
    assert [group["block_size"] for group in answer["kv_cache"]["groups"]] == [2048]
