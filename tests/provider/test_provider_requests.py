"""What a client may ask for, and what it is told when it asks for something else."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.provider import answer as answers
from dashboard.provider.parameters import WrongParameterError, asked_of
from tests.captured import capture
from tests.provider.conftest import Serve
from tests.provider.engines import ApiServer, EngineProcess, strictly, thing

LLAMA, DP2 = capture("llama"), capture("llama_dp2")
WRONG_RANKS = ["2", "-1", "01x", "", " 1", "1.0", "1e0", "٢", "²", "9" * 11, "9" * 5000, "%00", "<b>EVIL</b>", "null"]


@pytest.fixture
def two(serve: Serve) -> ApiServer:
    """A server of two data-parallel engines, which answered in the wrong order; the second has fewer blocks."""
    first, second = EngineProcess(DP2, 0), EngineProcess(DP2, 1)
    second.kv_cache_config.num_blocks = 77
    return serve(DP2, second, first)


def test_both_paths_give_the_same_answer(serve: Serve) -> None:
    server = serve(LLAMA)

    assert server.get(path="/v1/config").content == server.get(path="/inference/v1/config").content


def test_by_default_the_first_rank_is_answered_for_and_all_are_in_the_extension(two: ApiServer) -> None:
    told = two.told()

    assert told["parallelism"]["data_parallel_rank"] == told["fleet"]["data_parallel_rank"] == 0
    assert told["parallelism"]["data_parallel_size"] == 2
    assert told["kv_cache"]["num_gpu_blocks"] == 8192
    assert [(one["data_parallel_rank"], one["num_gpu_blocks"]) for one in told["fleet"]["engines"]] == [
        (0, 8192),
        (1, 77),
    ]


def test_another_rank_is_answered_for_when_it_is_named(two: ApiServer) -> None:
    told = two.told("?data_parallel_rank=1")

    assert told["parallelism"]["data_parallel_rank"] == told["fleet"]["data_parallel_rank"] == 1
    assert told["kv_cache"]["num_gpu_blocks"] == 77


@pytest.mark.parametrize("rank", WRONG_RANKS, ids=range(len(WRONG_RANKS)))
def test_a_rank_that_is_not_here_is_refused_in_a_sentence_that_does_not_repeat_it(rank: str, two: ApiServer) -> None:
    found = two.get(f"?data_parallel_rank={rank}")

    assert found.status_code == 400
    assert strictly(found.text) == {
        "error": {"message": "data_parallel_rank must be one of this server's ranks: 0, 1", "code": 400}
    }


@pytest.mark.parametrize(
    ("ranks", "named"), [((0,), "0"), ((4, 5), "4, 5"), ((0, 1, 2, 3), "0 to 3"), ((0, 1, 5), "0, 1, 5")]
)
def test_the_ranks_that_are_here_are_named_shortly(ranks: tuple[int, ...], named: str) -> None:
    with pytest.raises(WrongParameterError, match=f": {named}$"):
        asked_of({"data_parallel_rank": "9"}, ranks)


@given(st.dictionaries(st.sampled_from(["data_parallel_rank", "full", "rank"]), st.text(max_size=20)))
def test_whatever_is_asked_gives_a_rank_that_is_here_or_a_sentence_of_ours(parameters: dict[str, str]) -> None:
    try:
        found: object = asked_of(parameters, (3, 4))
    except WrongParameterError as error:
        found = str(error)

    assert found in [
        *((rank, full) for rank in (3, 4) for full in (True, False)),
        "data_parallel_rank must be one of this server's ranks: 3, 4",
        "full must be true or false",
    ]


@pytest.mark.parametrize(
    ("query", "is_full"),
    [
        ("?full=true", True),
        ("?full=TRUE", True),
        ("?full=1", True),
        ("?full=false", False),
        ("?full=0", False),
        ("?full=", False),
        ("?other=1", False),
    ],
)
def test_settings_come_on_request_only(query: str, is_full: bool, serve: Serve) -> None:  # noqa: FBT001
    assert bool(serve(LLAMA).told(query)["fleet"]["settings"]) is is_full


@pytest.mark.parametrize("full", ["yes", "2", "truee", "%F0%9F%90%9B", "<script>"])
def test_nonsense_for_full_is_refused_in_a_sentence_that_does_not_repeat_it(full: str, serve: Serve) -> None:
    found = serve(LLAMA).get(f"?full={full}")

    assert (found.status_code, strictly(found.text)["error"]["message"]) == (400, "full must be true or false")


@pytest.mark.parametrize("header", ["{}", "W/{}", '"other", {}', '"other",W/{} , "more"', "*"])
def test_a_client_that_has_the_answer_is_sent_nothing_again(header: str, serve: Serve) -> None:
    server = serve(LLAMA)
    tag = server.get().headers["etag"]
    found = server.get(if_none_match=header.format(tag))

    assert (found.status_code, found.content) == (304, b"")
    assert found.headers["etag"] == tag


@pytest.mark.parametrize("header", ["", '"other"', "other", '""', "W/"])
def test_a_client_that_has_another_answer_is_sent_this_one(header: str, serve: Serve) -> None:
    assert serve(LLAMA).get(if_none_match=header).status_code == 200


def test_the_tag_is_another_for_another_question(two: ApiServer) -> None:
    queries = ["", "?full=true", "?data_parallel_rank=1", "?data_parallel_rank=1&full=true"]

    assert len({two.get(query).headers["etag"] for query in queries}) == 4
    assert two.get().headers["etag"] == two.get("?data_parallel_rank=0&full=false").headers["etag"]


def test_the_tag_changes_when_adapters_change_and_comes_back_with_them(serve: Serve) -> None:
    server = serve(capture("llama_lora"))
    before = server.get().headers["etag"]
    server.load("sql", "./sql")
    loaded = server.get()
    server.state.openai_serving_models.lora_requests.clear()

    assert strictly(loaded.text)["fleet"]["adapters"] == [{"name": "sql", "path": "./sql"}]
    assert loaded.headers["etag"] != before == server.get().headers["etag"]


def test_however_many_adapters_come_and_go_few_answers_are_kept(serve: Serve) -> None:
    server = serve(capture("llama_lora"))
    for number in range(20):
        server.load(f"adapter {number}", "./sql")

        assert len(server.told()["fleet"]["adapters"]) == number + 1
    assert len(server.plugin._answers) <= 3  # a bound that no answer shows


def test_two_api_servers_of_the_same_engines_give_the_same_tag(serve: Serve) -> None:
    engines = [EngineProcess(DP2, 0, algorithm="xxhash"), EngineProcess(DP2, 1, algorithm="xxhash")]
    one, other = serve(DP2, *engines), serve(DP2, *engines)

    for query in ("", "?full=true", "?data_parallel_rank=1"):
        assert one.get(query).headers["etag"] == other.get(query).headers["etag"]


def test_only_get_is_answered(serve: Serve) -> None:
    paths = serve(LLAMA).app.openapi()["paths"]

    assert {path: list(methods) for path, methods in paths.items()} == {
        "/inference/v1/config": ["get"],
        "/v1/config": ["get"],
    }


def test_an_answer_that_would_be_too_large_comes_without_its_settings_and_says_so(serve: Serve) -> None:
    process = EngineProcess(LLAMA)
    process.config.additional_config = {f"part {number}": "x" * 9_000 for number in range(300)}
    found = serve(LLAMA, process).get("?full=true")
    told = strictly(found.text)["fleet"]

    assert len(found.content) < answers.MAX_BYTES
    assert told["settings"] is None
    assert told["unavailable"][-1] == {
        "field": "fleet.settings",
        "reason": "the answer would have more than 2,097,152 bytes",
    }
    assert told["environment"], "the rest is small enough"


def test_too_many_adapters_are_left_out_and_said(serve: Serve) -> None:
    server = serve(LLAMA)
    for number in range(400):
        server.load(f"adapter {number}", "x" * 9_000)
    told = server.told()["fleet"]

    assert told["adapters"] == []
    assert told["unavailable"][-1]["field"] == "fleet.adapters"


def test_what_is_too_large_even_so_is_a_sentence(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(LLAMA)
    monkeypatch.setattr(answers, "MAX_BYTES", 100)
    found = server.get("?full=true")

    assert found.status_code == 500
    assert strictly(found.text)["error"]["message"].startswith("the configuration could not be put together")


def test_a_long_text_is_cut_and_one_that_utf8_cannot_hold_is_mended(serve: Serve) -> None:
    process = EngineProcess(LLAMA)
    process.config.additional_config = {"long": "é" * 30_000, "odd": ["\udcff"], "wide": 10**30}
    odd = {"object": thing("Odd"), "\ud800": math.inf, "part": 0.5, "set": {2, 1}, "bytes": b"\xff"}
    process.modules["vllm.envs"].VLLM_ODD = odd  # type: ignore[attr-defined]
    server = serve(LLAMA, process)
    server.load("\ud800", "x" * 30_000)
    told = server.told("?full=true")["fleet"]

    assert told["settings"]["additional_config"] == {"long": "é" * 10_000, "odd": ["?"], "wide": hex(10**30)}
    assert [(one["name"], len(one["path"])) for one in told["adapters"]] == [("?", 10_000)]
    assert told["environment"]["VLLM_ODD"] == {
        "object": "Odd()",
        "?": "inf",
        "part": 0.5,
        "set": ["1", "2"],
        "bytes": "b'\\xff'",
    }


def test_more_settings_than_any_vllm_has_are_not_all_told(serve: Serve) -> None:
    process = EngineProcess(LLAMA)
    process.config.quant_config = {f"n{number}": 0 for number in range(30_000)}

    assert len(serve(LLAMA, process).told("?full=true")["fleet"]["settings"]) == 20_000


def test_a_variable_that_cannot_be_read_leaves_the_others_alone(serve: Serve) -> None:
    process = EngineProcess(LLAMA)

    def read(name: str) -> Any:
        raise ValueError(name)

    envs = process.modules["vllm.envs"]
    envs.__dir__ = lambda: [*vars(envs), "VLLM_BAD"]  # type: ignore[method-assign]
    envs.__getattr__ = read  # type: ignore[method-assign]
    told = serve(LLAMA, process).told("?full=true")["fleet"]["environment"]

    assert "VLLM_BAD" not in told
    assert told["VLLM_CPU_KVCACHE_SPACE"] == 1
