"""What /metrics says in our words: labels get the types of their settings, sums of engines are divided or left."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.errors import UnreadableError
from dashboard.fleet import EngineReport, Reply, State
from dashboard.vllm.metrics import read_metrics
from tests.captured import METRICS, SERVER_INFO, Capture, captures, has_python_api, replies
from tests.strategies import rendered


def page(*series: dict[str, str], more: bytes = b"") -> Reply:
    lines = [f"vllm:cache_config_info{{{rendered(labels)}}} 1.0\n" for labels in series]
    return read_metrics("".join(lines).encode() + b"vllm:x 1\n" + more)[0]


def value(label: str, text: str) -> tuple[str, State]:
    reply = page({label: text})
    told = {**reply.settings, **reply.identity}[f"cache_config.{label}"]
    return told.value, told.state


@pytest.mark.parametrize(
    ("label", "text", "expected"),
    [
        ("enable_prefix_caching", "True", "true"),
        ("enable_prefix_caching", "False", "false"),
        ("block_size", "16", "16"),
        ("gpu_memory_utilization", "0.92", "0.92"),
        ("gpu_memory_utilization", "1.0", "1"),
        ("kv_cache_dtype_skip_layers", "[]", "[]"),
        ("kv_cache_dtype_skip_layers", "['b', 'a']", '["a","b"]'),
        ("cache_dtype", "auto", '"auto"'),
        ("cache_dtype", "True", '"True"'),
        ("prefix_caching_hash_algo", 'a"b\n<script>', '"a\\"b\\n<script>"'),
        ("num_gpu_blocks", "8192", "8192"),
    ],
)
def test_a_label_has_the_type_of_its_setting_not_of_its_looks(label: str, text: str, expected: str) -> None:
    assert value(label, text) == (expected, State.REPORTED)


def test_none_is_null_or_unknown_where_the_engine_fills_it_in() -> None:
    assert value("kv_offloading_size", "None") == ("null", State.NULL)
    assert value("hash_block_size", "None") == ("null", State.UNKNOWN)


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("enable_prefix_caching", "yes"),
        ("block_size", "sixteen"),
        ("block_size", "0"),
        ("block_size", "-16"),
        ("block_size", str(2**70)),
        ("block_size", "9" * 5000),
        ("num_gpu_blocks", "-1"),
        ("kv_cache_size_tokens", "-1"),
        ("kv_cache_max_concurrency", "-0.5"),
        ("gpu_memory_utilization", "nan"),
        ("gpu_memory_utilization", "inf"),
        ("gpu_memory_utilization", "1e400"),
        ("kv_cache_dtype_skip_layers", "[1j]"),
        ("kv_cache_dtype_skip_layers", "['\\ud800']"),
        ("kv_cache_dtype_skip_layers", "[1e999]"),
        ("kv_cache_dtype_skip_layers", "__import__('os')"),
        ("kv_cache_dtype_skip_layers", "[" * 5000),
        ("kv_cache_dtype_skip_layers", "(" * 90 + ")" * 90 + "+" + "1" * 6000),
    ],
)
def test_a_label_that_no_server_can_mean_is_refused(label: str, text: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        page({label: text})

    assert caught.value.kind == "schema"
    assert len(caught.value.detail) < 200


def test_labels_that_are_not_known_are_counted_and_cut() -> None:
    reply = page({"block_size": "16", "brand_new": "1", "x" * 500: "2"})

    assert reply.not_understood == (
        "label brand_new of vllm:cache_config_info",
        f"label {'x' * 100} of vllm:cache_config_info",
    )
    assert set(reply.settings) == {"cache_config.block_size"}


def test_blocks_are_the_sum_of_all_engines_and_tokens_are_the_first_engine_s() -> None:
    labels = {"num_gpu_blocks": "16384", "kv_cache_size_tokens": "1048576", "kv_cache_max_concurrency": "512.0"}

    reply = page({**labels, "engine": "1"}, {**labels, "engine": "0"})

    assert reply.engines == (
        EngineReport(0, None, 1048576, 512.0, blocks_of_all=16384),
        EngineReport(1, blocks_of_all=16384),
    )


@given(st.integers(0, 2**40), st.integers(1, 9))
def test_several_engines_tell_their_sum_and_no_blocks_of_their_own(total: int, count: int) -> None:
    reply = page(*({"num_gpu_blocks": str(total), "engine": str(rank)} for rank in range(count)))

    told = {(engine.num_gpu_blocks, engine.blocks_of_all) for engine in reply.engines}
    assert told == {(total, None) if count == 1 else (None, total)}


@pytest.mark.parametrize("text", ["-1", "one", "1" * 30, "²", ""])
def test_an_engine_that_is_no_rank_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError, match="which is no DP rank"):
        page({"engine": text})


def test_secrets_in_labels_are_redacted_in_settings() -> None:
    reply = page({"cache_dtype": "redis://bob:sesame@h", "kv_offloading_backend": "Bearer sesame12345"})

    assert {told.state for told in reply.settings.values()} == {State.REDACTED}
    assert "sesame" not in str(reply)


@pytest.mark.parametrize("server", captures(has_python_api))
def test_labels_say_the_same_as_the_json_of_the_same_server(server: Capture) -> None:
    """Every cache_config path that both tell has one spelling, what the engine fills in later apart."""
    metrics, info = (replies(server.answers, [path])[0] for path in (METRICS, SERVER_INFO))
    labels, config = ({**each.settings, **each.identity} for each in (metrics, info))
    both = {path for path in labels if path in config}
    later = {path for path in both if State.UNKNOWN in {labels[path].state, config[path].state}}

    assert metrics.not_understood == ()
    assert len(both) > 15
    assert {path: labels[path].value for path in both - later} == {path: config[path].value for path in both - later}
    assert all(json.loads(labels[path].value) is None or config[path].value == "null" for path in later)
