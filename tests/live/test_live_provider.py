"""The provider on a live server of each kind: capacity as vLLM logs it, KV cache groups as the engine holds them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.capacity.formula import Load, concurrency
from dashboard.fleet import KVCacheGroup
from tests.captured import INFERENCE_CONFIG, SERVER_INFO, capture
from tests.live.dashboard_runs import check, options
from tests.live.servers import CONFIG, Kind, Server, running
from vllm_fleet_provider.shared.paths import flatten
from vllm_fleet_provider.shared.redaction import redact
from vllm_fleet_provider.switch import NAME

pytestmark = pytest.mark.vllm
BOTH = (NAME, "fleet_witness")
DEV = {"VLLM_SERVER_DEV_MODE": "1"}
GIB = 1 << 30
SPECULATION = '{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}'
NO_PREFIXES = ("--max-model-len", "1024", "--no-enable-prefix-caching", "--gpu-memory-utilization", "0.8")
# Each kind is named like its capture, and started with the same options; llama4_chunked has no capture.
KINDS = (
    Kind("gemma3", "gemma3", (), DEV, BOTH),
    Kind("gpt_oss", "gpt_oss", (), DEV, BOTH),
    Kind("mamba2", "mamba2", (), DEV, BOTH),
    Kind("deepseek_mla", "deepseek_mla", (), DEV, BOTH),
    Kind("llama4_chunked", "llama4_chunked", (), DEV, BOTH),
    Kind("llama_dp2", "llama", ("--data-parallel-size", "2", "--prefix-caching-hash-algo", "xxhash"), DEV, BOTH),
    Kind("llama_tp2", "llama", ("--tensor-parallel-size", "2"), {**DEV, "VLLM_CPU_OMP_THREADS_BIND": "0|1"}, BOTH),
    Kind("llama_spec", "llama", ("--speculative-config", SPECULATION), DEV, BOTH),
    Kind("llama_noprefix", "llama", NO_PREFIXES, DEV, BOTH),
)
ENGINES = {"llama_dp2": 2}
DEVICES = {"llama_tp2": 2}
# A capture has these otherwise: another machine's memory, an enum by its Python name, what 0.32.0 does not have.
NOT_COMPARED = re.compile(r"devices\[\d\]\.total_memory_bytes|.*\.mamba_type|scheduler\.max_num_partial_prefills")
# The seed's fields where the capture has no answer of the configuration API, as the command says.
AS_COMMANDED: dict[str, dict[str, Any]] = {
    "llama4_chunked": {"model.served_model_names": ["./llama4_chunked"]},
    "llama_dp2": {
        "kv_cache.num_gpu_blocks": 8192,
        "kv_cache.prefix_caching_hash_algo": "xxhash",
        "parallelism.data_parallel_size": 2,
        "parallelism.data_parallel_size_local": 2,
        "parallelism.data_parallel_rank": 0,
        "parallelism.data_parallel_rank_local": 0,
    },
    "llama_spec": {
        "speculative_decoding.enabled": True,
        "speculative_decoding.method": "ngram",
        "speculative_decoding.num_speculative_tokens": 3,
        "speculative_decoding.draft_model": "ngram",  # as vLLM fills it in
    },
    "llama_noprefix": {
        "model.max_model_len": 1024,
        "kv_cache.enable_prefix_caching": False,
        "kv_cache.gpu_memory_utilization": 0.8,
    },
}
# What the engine has otherwise than the API server: it makes up, counts or finds it out itself.
ENGINES_OWN = re.compile(
    r"instance_id|cache_config\.(block_size|kv_cache_layout|num_gpu_blocks)"
    r"|parallel_config\.(data_parallel_rank_local|assigned_physical_gpu_ids|.*port(_list)?|_api_process_(count|rank))"
)
SECTIONS = ("model", "kv_cache", "scheduler", "parallelism", "devices", "speculative_decoding", "lora", "hma")
SAVED = Path(__file__).parents[1] / "provider" / "answers" / "0.32.0" / "gemma3.json"
GROUP_SIZES = re.compile(r"kv cache group sizes \(([\d, ]+)\)")


@pytest.fixture(scope="module", params=KINDS, ids=[kind.name for kind in KINDS])
def server(
    request: pytest.FixtureRequest,
    venv: Path,
    site: Path,
    others: tuple[Path, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """A server that has taken a request on each of its engines."""
    with running([request.param], venv, tmp_path_factory.mktemp("vllm"), (site, *others)) as (found,):
        for rank in range(ENGINES.get(found.kind.name, 1)):
            found.complete(**{"X-data-parallel-rank": str(rank)})
        yield found


@pytest.fixture(scope="module")
def answer(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = server.json(CONFIG)
    return found


@pytest.fixture(scope="module")
def engines(server: Server, answer: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer["fleet"]["engines"]
    assert [engine["data_parallel_rank"] for engine in found] == list(range(ENGINES.get(server.kind.name, 1)))
    return found


def test_tokens_and_concurrency_of_every_engine_are_what_vllm_logged(
    server: Server, engines: list[dict[str, Any]]
) -> None:
    found = [(engine["kv_cache_size_tokens"], round(engine["max_concurrency"], 2)) for engine in engines]

    assert found == server.logged()


def test_tokens_follow_from_the_groups_and_what_else_the_answer_tells(answer: dict[str, Any]) -> None:
    scheduler, fleet = answer["scheduler"], answer["fleet"]
    in_flight = scheduler["max_num_batched_tokens"] * fleet["scheduling"]["concurrent_batches"]
    speculative = answer["speculative_decoding"]["num_speculative_tokens"] or 0
    for engine in fleet["engines"]:
        length = engine["max_model_len"]
        load = Load(length, (in_flight, in_flight), (speculative, speculative))
        requests, missing = concurrency(engine["num_gpu_blocks"], [_group(group) for group in engine["groups"]], load)
        assert missing == ()
        assert int((requests or 0) * length) == engine["kv_cache_size_tokens"]


def test_groups_and_blocks_of_every_engine_are_its_own(server: Server, engines: list[dict[str, Any]]) -> None:
    seen = {each["rank"]: each for each in server.witnessed()}

    assert sorted(seen) == [engine["data_parallel_rank"] for engine in engines]
    for engine in engines:
        own = seen[engine["data_parallel_rank"]]
        assert engine["num_gpu_blocks"] == own["num_blocks"]
        assert len(engine["groups"]) == len(own["groups"])
        for group, held in zip(engine["groups"], own["groups"], strict=True):
            assert (group["spec_type"], group["layer_names"]) == (held["kind"], held["layers"])
            assert not [name for name in group.keys() & held.keys() if _text(group[name]) != _text(held[name])]


def test_the_block_sizes_of_several_groups_are_what_vllm_logged(server: Server, engines: list[dict[str, Any]]) -> None:
    logged = [[int(size) for size in sizes.split(",")] for sizes in GROUP_SIZES.findall(_log(server))]
    sizes_by_engine = [[group["block_size"] for group in engine["groups"]] for engine in engines]

    assert logged == [sizes for sizes in sizes_by_engine if len(sizes) > 1]


def test_the_answer_for_the_first_rank_is_what_stands_in_its_engine(
    answer: dict[str, Any], engines: list[dict[str, Any]]
) -> None:
    assert answer["kv_cache"]["num_gpu_blocks"] == engines[0]["num_gpu_blocks"]
    assert answer["kv_cache"]["groups"] == engines[0]["groups"]
    assert answer["parallelism"]["data_parallel_rank"] == answer["fleet"]["data_parallel_rank"] == 0


def test_every_rank_can_be_asked_for_and_no_other(server: Server, engines: list[dict[str, Any]]) -> None:
    for engine in engines:
        answer = server.json(f"{CONFIG}?data_parallel_rank={engine['data_parallel_rank']}")
        assert answer["parallelism"]["data_parallel_rank"] == engine["data_parallel_rank"]
    assert server.get(f"{CONFIG}?data_parallel_rank={len(engines)}").status_code == 400


def test_each_device_has_its_ranks_and_the_bytes_that_the_operator_gave(
    server: Server, engines: list[dict[str, Any]]
) -> None:
    """VLLM_CPU_KVCACHE_SPACE is 1 GiB for each worker; what is less than a page of all layers stays over."""
    for engine in engines:
        ranks = [(each["tensor_parallel_rank"], each["pipeline_parallel_rank"]) for each in engine["devices"]]
        assert ranks == [(rank, 0) for rank in range(DEVICES.get(server.kind.name, 1))]
        page = max(group["page_size_bytes"] * len(group["layer_names"]) for group in engine["groups"])
        assert GIB - page < engine["kv_cache_bytes_per_device"] <= engine["kv_cache_available_bytes"] == GIB


def test_an_engine_has_a_fingerprint_where_it_hashes_blocks_and_else_a_reason(
    server: Server, engines: list[dict[str, Any]]
) -> None:
    hashes = {each["rank"]: each["block_hashes"] for each in server.witnessed()}
    for engine in engines:
        fingerprint = engine["fingerprint"]
        assert (
            bool(hashes[engine["data_parallel_rank"]]) == bool(fingerprint["engine"]) == bool(fingerprint["canonical"])
        )
        assert bool(fingerprint["reason"]) != bool(fingerprint["engine"])


def test_the_fixed_root_gives_the_fingerprint_that_was_saved_whatever_the_model(
    server: Server, engines: list[dict[str, Any]]
) -> None:
    """It was saved with the answer of gemma3, and the hash of its first block with the capture of it."""
    (saved,) = json.loads(SAVED.read_bytes())["fleet"]["engines"]
    hashes = {each["rank"]: each["block_hashes"][:1] for each in server.witnessed()}
    for engine in engines:
        is_fixed = hashes[engine["data_parallel_rank"]] == [capture("gemma3").launch["first_block_hash"]]
        assert (engine["fingerprint"] == saved["fingerprint"]) is is_fixed


def test_engines_agree_where_they_hash_one_prompt_alike(server: Server, answer: dict[str, Any]) -> None:
    """With xxhash each engine process has a root of its own: two ranks of one replica differ."""
    hashes = {tuple(each["block_hashes"]) for each in server.witnessed()}
    agree = None if hashes == {()} else len(hashes) == 1

    assert answer["fleet"]["prefix_hashing"]["engines_agree"] is agree
    assert (agree is False) == (server.kind.name == "llama_dp2")


def test_the_seed_s_fields_are_those_of_the_capture(server: Server, answer: dict[str, Any]) -> None:
    found = _flat(answer)

    assert {path: found.get(path) for path in _expected(server.kind.name)} == _expected(server.kind.name)


def test_the_settings_are_those_that_server_info_tells(server: Server) -> None:
    settings = flatten(redact(server.json(SERVER_INFO)["vllm_config"]))
    found = server.json(f"{CONFIG}?full=true")["fleet"]["settings"]

    differing = {path for path in settings.keys() | found.keys() if found.get(path, ...) != settings.get(path, ...)}
    assert {path for path in differing if not ENGINES_OWN.fullmatch(path)} == set()


def test_the_dashboard_finds_no_contradiction_between_the_provider_and_server_info(
    server: Server, tmp_path: Path
) -> None:
    checked = check(options([server], tmp_path))

    assert checked.all_of("ID-06") == []


def test_only_what_this_vllm_lacks_is_named_as_unavailable(answer: dict[str, Any]) -> None:
    assert [each["field"] for each in answer["fleet"]["unavailable"]] == ["scheduler.max_num_partial_prefills"]


def test_both_paths_give_one_answer_with_one_tag_and_304_to_who_has_it(server: Server) -> None:
    first, second = server.get(CONFIG), server.get("/v1/config")

    assert first.content == second.content
    assert first.headers["etag"] == second.headers["etag"]
    again = server.get(CONFIG, **{"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_plugin_named_beside_ours_is_served_too(server: Server) -> None:
    assert server.json("/witness")["plugin"] == "fleet_witness"


def test_nothing_failed_in_the_log(server: Server) -> None:
    assert "configuration API: " in _log(server)
    assert "could not be" not in _log(server)
    assert "vllm_fleet_provider/" not in _log(server), "a traceback names the file"


def _expected(case: str) -> dict[str, Any]:
    return AS_COMMANDED[case] if case in AS_COMMANDED else _flat(capture(case).json(INFERENCE_CONFIG))


def _log(server: Server) -> str:
    return server.log.read_text()


def _text(value: Any) -> str:
    """The witness writes torch's dtypes and vLLM's enums as Python does."""
    if isinstance(value, list):
        return str([_text(item) for item in value])
    return str(value).rpartition(".")[2].lower() if isinstance(value, str) else str(value)


def _group(group: dict[str, Any]) -> KVCacheGroup:
    known = {name: group[name] for name in KVCacheGroup._fields if group.get(name) is not None}
    return KVCacheGroup(**{"dp_rank": 0, "layers": len(group["layer_names"]), **known})


def _flat(answer: dict[str, Any]) -> dict[str, Any]:
    """The seed's part by path."""
    values = dict(_paths({name: answer[name] for name in SECTIONS}))
    return {path: value for path, value in values.items() if not NOT_COMPARED.fullmatch(path)}


def _paths(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _paths(item, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, item in enumerate(value):
            yield from _paths(item, f"{path}[{number}]")
    else:
        yield path, value
