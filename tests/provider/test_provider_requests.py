"""Requests to the provider: parameters, ETags, and the limits of an answer."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captured import capture
from tests.provider.conftest import Serve
from tests.provider.engines import ApiServer, EngineProcess, strictly, thing
from vllm_fleet_provider import answer as answers
from vllm_fleet_provider.parameters import WrongParameterError, asked_of

LLAMA, DP2 = capture("llama"), capture("llama_dp2")
WRONG_RANKS = ["2", "-1", "01x", "", " 1", "1.0", "1e0", "٢", "²", "9" * 11, "9" * 5000, "%00", "<b>EVIL</b>", "null"]
WRONG_FULL = ["yes", "2", "truee", "%F0%9F%90%9B", "<script>"]
WRONG_RANK = "data_parallel_rank must be one of this server's ranks: 0, 1"


@pytest.fixture
def two(serve: Serve) -> ApiServer:
    """A server of two data-parallel engines that answered in reverse order; the second has fewer blocks."""
    first, second = EngineProcess(DP2, 0), EngineProcess(DP2, 1)
    second.kv_cache_config.num_blocks = 77
    return serve(DP2, second, first)


@pytest.mark.parametrize(
    ("query", "rank", "blocks"), [("", 0, 8192), ("?data_parallel_rank=0", 0, 8192), ("?data_parallel_rank=1", 1, 77)]
)
def test_an_answer_is_for_the_first_rank_unless_another_is_named_and_always_lists_all(
    query: str, rank: int, blocks: int, two: ApiServer
) -> None:
    answer = two.json(query)

    assert answer["parallelism"]["data_parallel_rank"] == answer["fleet"]["data_parallel_rank"] == rank
    assert answer["parallelism"]["data_parallel_size"] == 2
    assert answer["kv_cache"]["num_gpu_blocks"] == blocks
    engines = answer["fleet"]["engines"]
    assert [(one["data_parallel_rank"], one["num_gpu_blocks"]) for one in engines] == [(0, 8192), (1, 77)]


def test_both_paths_have_the_same_answer_and_only_get_is_allowed(serve: Serve) -> None:
    server = serve(LLAMA)
    paths = server.app.openapi()["paths"]

    assert server.get(path="/v1/config").content == server.get(path="/inference/v1/config").content
    assert {path: list(methods) for path, methods in paths.items()} == {
        "/inference/v1/config": ["get"],
        "/v1/config": ["get"],
    }


def test_invalid_parameters_are_refused_with_a_sentence_that_does_not_repeat_them(two: ApiServer) -> None:
    for query, sentence in [
        *((f"?data_parallel_rank={rank}", WRONG_RANK) for rank in WRONG_RANKS),
        *((f"?full={full}", "full must be true or false") for full in WRONG_FULL),
    ]:
        answer = two.get(query)
        assert (answer.status_code, strictly(answer.text)["error"]) == (400, {"message": sentence, "code": 400}), query


@pytest.mark.parametrize(
    ("ranks", "listed"), [((0,), "0"), ((4, 5), "4, 5"), ((0, 1, 2, 3), "0 to 3"), ((0, 1, 5), "0, 1, 5")]
)
def test_a_refusal_lists_the_ranks(ranks: tuple[int, ...], listed: str) -> None:
    with pytest.raises(WrongParameterError, match=f": {listed}$"):
        asked_of({"data_parallel_rank": "9"}, ranks)


@given(st.dictionaries(st.sampled_from(["data_parallel_rank", "full", "rank"]), st.text(max_size=20)))
def test_any_parameters_give_a_known_rank_or_a_fixed_sentence(parameters: dict[str, str]) -> None:
    try:
        found: object = asked_of(parameters, (3, 4))
    except WrongParameterError as error:
        found = str(error)

    assert found in [
        *((rank, full) for rank in (3, 4) for full in (True, False)),
        "data_parallel_rank must be one of this server's ranks: 3, 4",
        "full must be true or false",
    ]


def test_settings_are_in_full_answers_only(serve: Serve) -> None:
    server = serve(LLAMA)
    for full, queries in {
        True: ["?full=true", "?full=TRUE", "?full=1"],
        False: ["", "?full=false", "?full=0", "?full=", "?other=1"],
    }.items():
        for query in queries:
            fleet = server.json(query)["fleet"]
            assert (bool(fleet["settings"]), bool(fleet["environment"])) == (full, full), query


def test_a_client_with_the_same_answer_gets_304(serve: Serve) -> None:
    server = serve(LLAMA)
    tag = server.get().headers["etag"]
    for header in ["{}", "W/{}", '"other", {}', '"other",W/{} , "more"', "*"]:
        found = server.get(if_none_match=header.format(tag))
        assert (found.status_code, found.content, found.headers["etag"]) == (304, b"", tag), header
    for header in ["", '"other"', "other", '""', "W/"]:
        assert server.get(if_none_match=header).status_code == 200, header


def test_each_rank_and_value_of_full_has_its_own_etag(two: ApiServer) -> None:
    queries = ["", "?full=true", "?data_parallel_rank=1", "?data_parallel_rank=1&full=true"]

    assert len({two.get(query).headers["etag"] for query in queries}) == 4
    assert two.get().headers["etag"] == two.get("?data_parallel_rank=0&full=false").headers["etag"]


def test_two_api_servers_of_the_same_engines_have_the_same_etags(serve: Serve) -> None:
    engines = [EngineProcess(DP2, 0, algorithm="xxhash"), EngineProcess(DP2, 1, algorithm="xxhash")]
    one, other = serve(DP2, *engines), serve(DP2, *engines)

    for query in ("", "?full=true", "?data_parallel_rank=1"):
        assert one.get(query).headers["etag"] == other.get(query).headers["etag"]


def test_the_etag_changes_with_the_loaded_adapters_and_few_answers_are_cached(serve: Serve) -> None:
    server = serve(capture("llama_lora"))
    before = server.get().headers["etag"]
    server.load("sql", "./sql")
    loaded = server.get()
    server.state.openai_serving_models.lora_requests.clear()
    assert strictly(loaded.text)["fleet"]["adapters"] == [{"name": "sql", "path": "./sql"}]
    assert loaded.headers["etag"] != before == server.get().headers["etag"]

    for number in range(20):
        server.load(f"adapter {number}", "./sql")
        assert len(server.json()["fleet"]["adapters"]) == number + 1
    assert len(server.plugin._answers) <= 3  # not visible in any answer


def test_there_is_no_etag_while_the_adapters_are_unknown(serve: Serve) -> None:
    server = serve(capture("llama_lora"))
    del server.state.openai_serving_models.lora_requests
    found = server.get(if_none_match="*")
    assert (found.status_code, found.headers.get("etag")) == (200, None)
    assert {"field": "fleet.adapters", "reason": "this vLLM does not have it"} in found.json()["fleet"]["unavailable"]


def many_settings(engine: EngineProcess, _: ApiServer) -> None:
    engine.config.additional_config = {f"part {number}": "x" * 9_000 for number in range(20)}


def many_adapters(_: EngineProcess, server: ApiServer) -> None:
    for number in range(20):
        server.load(f"adapter {number}", "x" * 9_000)


@pytest.mark.parametrize(("grow", "field"), [(many_settings, "settings"), (many_adapters, "adapters")])
def test_a_field_that_makes_the_answer_too_large_is_left_out_and_listed(
    grow: Callable[[EngineProcess, ApiServer], None], field: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MAX_BYTES", 100_000)  # redacting megabytes takes seconds
    engine = EngineProcess(LLAMA)
    server = serve(LLAMA, engine, started=False)
    grow(engine, server)
    server.start()
    found = server.get("?full=true")
    fleet = strictly(found.text)["fleet"]

    assert len(found.content) < answers.MAX_BYTES
    assert not fleet[field]
    reason = "the answer would have more than 2,097,152 bytes"
    assert fleet["unavailable"][-1] == {"field": f"fleet.{field}", "reason": reason}
    assert field == "adapters" or fleet["environment"], "the rest fits"


def test_an_answer_that_is_too_large_without_them_is_an_error(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(LLAMA)
    monkeypatch.setattr(answers, "MAX_BYTES", 100)
    found = server.get("?full=true")

    assert found.status_code == 500
    assert strictly(found.text)["error"]["message"].startswith("the configuration could not be put together")


def test_values_that_json_or_utf8_cannot_represent_are_text_and_long_ones_are_cut(serve: Serve) -> None:
    engine = EngineProcess(LLAMA)
    engine.config.additional_config = {"long": "é" * 30_000, "odd": ["\udcff"], "wide": 10**30}
    odd = {"object": thing("Odd"), "\ud800": math.inf, "part": 0.5, "set": {2, 1}, "bytes": b"\xff"}
    engine.modules["vllm.envs"].VLLM_ODD = odd  # type: ignore[attr-defined]
    server = serve(LLAMA, engine)
    server.load("\ud800", "x" * 30_000)
    fleet = server.json("?full=true")["fleet"]

    assert fleet["settings"]["additional_config"] == {"long": "é" * 10_000, "odd": ["?"], "wide": hex(10**30)}
    assert [(one["name"], len(one["path"])) for one in fleet["adapters"]] == [("?", 10_000)]
    assert fleet["environment"]["VLLM_ODD"] == {
        "object": "Odd()",
        "?": "inf",
        "part": 0.5,
        "set": ["1", "2"],
        "bytes": "b'\\xff'",
    }


def test_the_number_of_settings_is_bounded(serve: Serve) -> None:
    engine = EngineProcess(LLAMA)
    engine.config.quant_config = {f"n{number}": 0 for number in range(30_000)}

    assert len(serve(LLAMA, engine).json("?full=true")["fleet"]["settings"]) == 20_000


def test_a_variable_that_cannot_be_read_is_left_out(serve: Serve) -> None:
    engine = EngineProcess(LLAMA)

    def read(name: str) -> Any:
        raise ValueError(name)

    envs = engine.modules["vllm.envs"]
    envs.__dir__ = lambda: [*vars(envs), "VLLM_BAD"]  # type: ignore[method-assign]
    envs.__getattr__ = read  # type: ignore[method-assign]
    environment = serve(LLAMA, engine).json("?full=true")["fleet"]["environment"]

    assert "VLLM_BAD" not in environment
    assert environment["VLLM_CPU_KVCACHE_SPACE"] == 1
