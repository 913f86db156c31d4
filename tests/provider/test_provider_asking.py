"""Asking the engines: once, in every version's way, and never so that the server stops or waits for long."""

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from dashboard.provider import endpoint
from tests.captured import capture
from tests.provider.conftest import Serve
from tests.provider.engines import EngineClient, EngineProcess, broken, strictly, thing

LLAMA, DP2 = capture("llama"), capture("llama_dp2")
LOGGER = "vllm.plugins.fleet_config"


class OlderClient:
    """Before 0.29: what is public asks the first engine only."""

    def __init__(self, engines: Sequence[EngineProcess]) -> None:
        self.core_engines = engines

    async def _call_utility_async(self, method: str, *, engine: EngineProcess) -> str:
        return engine.call(method)

    async def call_utility_async(self, method: str) -> str:
        """Ask the first engine."""
        return self.core_engines[0].call(method)


class OneEngineClient:
    """A version with one engine behind each client."""

    def __init__(self, engine: EngineProcess) -> None:
        self.engine = engine

    async def call_utility_async(self, method: str) -> str:
        """Ask the engine."""
        return self.engine.call(method)


class Answering:
    """A client whose engines answer with given texts, or fail."""

    def __init__(self, *texts: Any) -> None:
        self.texts, self.core_engines = texts, texts

    async def call_utility_all_async(self, _method: str) -> list[Any]:
        """Answer, or raise."""
        if any(isinstance(text, Exception) for text in self.texts):
            raise RuntimeError("SESAME")
        return list(self.texts)


class NeverAnswering:
    """A client whose engines do not answer until they are let."""

    def __init__(self, engine: EngineProcess) -> None:
        self.engine, self.core_engines, self.may = engine, [engine], asyncio.Event()

    async def call_utility_all_async(self, method: str) -> list[str]:
        """Answer as late as the test wants."""
        await self.may.wait()
        return [self.engine.call(method)]


def with_core(core: Any, config: Any = None) -> Any:
    return thing("AsyncLLM", engine_core=core, vllm_config=config)


def test_many_requests_ask_each_engine_once_and_say_so_once(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    engines = [EngineProcess(DP2, rank) for rank in (0, 1)]
    server = serve(DP2, *engines)
    for query in ["", "?full=true", "?data_parallel_rank=1", "?data_parallel_rank=7", ""] * 5:
        server.get(query)

    assert [engine.asked for engine in engines] == [1, 1]
    assert [record.message.split(" in ")[0] for record in caplog.records if record.name == LOGGER] == [
        "configuration API: 2 engine(s) described"
    ]


def test_a_second_api_server_gets_the_same_text_from_an_engine(serve: Serve) -> None:
    engine = EngineProcess(LLAMA)
    first = serve(LLAMA, engine).told()
    engine.kv_cache_config.num_blocks = 1

    assert serve(LLAMA, engine).told() == first


def test_every_engine_is_asked_on_a_version_where_the_public_call_asks_one(serve: Serve) -> None:
    engines = [EngineProcess(DP2, rank) for rank in (0, 1)]
    told = serve(DP2, client=with_core(OlderClient(engines))).told()

    assert [one["data_parallel_rank"] for one in told["fleet"]["engines"]] == [0, 1]


def test_a_client_of_one_engine_is_asked_by_its_public_call(serve: Serve) -> None:
    told = serve(LLAMA, client=with_core(OneEngineClient(EngineProcess(LLAMA)))).told()

    assert told["kv_cache"]["num_gpu_blocks"] == 8192
    assert told["fleet"]["engines"][0]["fingerprint"]["engine"]


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
def test_where_no_engine_can_be_asked_the_api_servers_configuration_answers(core: Any, serve: Serve) -> None:
    told = serve(LLAMA, client=with_core(core)).told("?full=true")
    engine = told["fleet"]["engines"][0]

    assert {"field": "fleet.engines", "reason": endpoint_reason()} in told["fleet"]["unavailable"]
    assert told["kv_cache"]["num_gpu_blocks"] == engine["num_gpu_blocks"] == 8192
    assert (engine["kv_cache_size_tokens"], engine["max_concurrency"]) == (1_048_576, 512.0)
    assert told["kv_cache"]["groups"] == told["devices"] == []
    assert engine["fingerprint"] == {"canonical": None, "engine": None, "reason": "the engine could not be asked"}
    assert told["fleet"]["prefix_hashing"]["algorithm"] == "sha256"
    assert told["fleet"]["settings"]["cache_config.block_size"] == 128
    assert "SESAME" not in str(told)


def endpoint_reason() -> str:
    return "the engines could not be asked; what stands here is the API server's configuration"


def test_of_several_engines_that_cannot_be_asked_no_sum_is_told_as_one(serve: Serve) -> None:
    told = serve(DP2, client=with_core(None)).told()
    engine = told["fleet"]["engines"][0]

    assert (engine["num_gpu_blocks"], engine["kv_cache_size_tokens"], engine["max_concurrency"]) == (None, None, None)


def test_a_server_without_any_configuration_object_still_answers(serve: Serve) -> None:
    server = serve(LLAMA, client=with_core(None), started=False)
    del server.state.vllm_config
    server.start()
    told = server.told("?full=true")

    assert told["model"]["max_model_len"] is None
    assert told["fleet"]["settings"] in ({}, None)
    assert "model.max_model_len" in [one["field"] for one in told["fleet"]["unavailable"]]


def test_of_two_engines_one_of_which_fails_the_other_is_told(serve: Serve) -> None:
    good = EngineProcess(DP2, 1)
    client = Answering(json.dumps({"unavailable": []}), good.call("fleet_config"))
    told = serve(DP2, client=with_core(client)).told()

    assert [one["data_parallel_rank"] for one in told["fleet"]["engines"]] == [1]
    assert {"field": "fleet.engines", "reason": "describing some engines failed; they are not among these"} in told[
        "fleet"
    ]["unavailable"]


def test_an_engine_that_cannot_be_described_at_all_says_so_and_raises_nothing(
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


def test_an_engine_without_a_configuration_tells_what_its_scheduler_holds() -> None:
    engine = EngineProcess(LLAMA)
    del engine.core.vllm_config
    told = engine.description()

    assert told["engine"]["num_gpu_blocks"] == 8192
    assert told["settings"] == {}
    assert "fleet.settings" in [one["field"] for one in told["unavailable"]]


@pytest.mark.parametrize("rank", [None, "1", -1, True, 1.0, 2**70])
def test_a_rank_that_cannot_be_is_zero_and_named(rank: Any) -> None:
    engine = EngineProcess(LLAMA)
    engine.core.engine_index = engine.config.parallel_config.data_parallel_index = rank
    told = engine.description()

    assert told["engine"]["data_parallel_rank"] == 0
    assert {"field": "fleet.engines.data_parallel_rank", "reason": "this vLLM does not tell it"} in told["unavailable"]


def test_ranks_that_run_as_if_alone_are_told_by_their_index() -> None:
    engine = EngineProcess(LLAMA)
    engine.config.parallel_config.data_parallel_index = 3

    assert engine.description()["engine"]["data_parallel_rank"] == 3


def test_a_server_without_an_engine_says_so(serve: Serve) -> None:
    server = serve(LLAMA, started=False)
    server.start(engine=False)
    found = server.get()

    assert found.status_code == 503
    assert strictly(found.text)["error"]["message"] == (
        "this server has no engine, so there is no configuration to tell"
    )


def test_a_request_before_the_start_is_answered_with_a_sentence(serve: Serve) -> None:
    assert serve(LLAMA, started=False).get().status_code == 503


def test_engines_that_do_not_answer_hold_up_neither_the_start_nor_a_request(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "STARTUP_SECONDS", 0)
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS", 0)
    client = NeverAnswering(EngineProcess(LLAMA))
    server = serve(LLAMA, client=with_core(client))
    early = server.get()
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS", 60)
    client.may.set()
    late = server.get()

    assert (early.status_code, strictly(early.text)["error"]["message"]) == (503, "the engines have not answered yet")
    assert late.status_code == 200
    assert client.engine.asked == 1


def test_the_bounds_of_waiting_are_seconds() -> None:
    assert 0 < endpoint.ANSWER_SECONDS <= endpoint.STARTUP_SECONDS <= 30


def test_a_changed_number_of_engines_is_asked_for_anew(serve: Serve) -> None:
    engines = [EngineProcess(DP2, 0)]
    server = serve(DP2, client=with_core(EngineClient(engines)))
    before = server.get()
    engines.append(EngineProcess(DP2, 1))
    after = server.told()

    assert [one["data_parallel_rank"] for one in after["fleet"]["engines"]] == [0, 1]
    assert server.get().headers["etag"] != before.headers["etag"]
    assert [engine.asked for engine in engines] == [2, 1]


def test_an_answer_that_cannot_be_made_is_logged_once_and_told_as_a_sentence(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    description = json.loads(EngineProcess(LLAMA).call("fleet_config"))
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
    ],
    ids=range(9),
)
def test_workers_that_answer_nonsense_are_no_devices_and_named(workers: Any) -> None:
    engine = EngineProcess(LLAMA)
    engine.core.model_executor.collective_rpc = lambda _: workers
    told = engine.description()

    assert told["engine"]["devices"] == []
    assert [one["field"] for one in told["unavailable"] if one["field"].startswith("devices")]


def test_workers_that_raise_are_no_devices_and_named() -> None:
    engine = EngineProcess(LLAMA)
    broken(engine.core.model_executor, "collective_rpc")
    told = engine.description()

    assert told["engine"]["devices"] == []
    assert {"field": "devices", "reason": "reading it raised RuntimeError"} in told["unavailable"]
