"""GET /metrics: lines, labels and engines."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.errors import UnreadableError
from dashboard.fleet import EngineReport, Reply, State
from dashboard.vllm.metrics import (
    MetricsReply,
    can_load_adapters,
    parse_labels,
    parse_metrics,
    read_metrics,
    select_lines,
)
from tests.captured import METRICS, SERVER_INFO, Capture, captures, has_python_api, replies
from tests.strategies import label_names, label_texts, rendered
from vllm_fleet_provider.shared import redaction
from vllm_fleet_provider.shared.digests import SERIES

INFO = b'vllm:cache_config_info{block_size="16",engine="0"} 1.0\n'
START_NAME = b"process_start_time_seconds "
START = b"process_start_time_seconds 1.7700000001e+09\n"
LORA = b"# HELP vllm:lora_requests_info Running stats on lora requests.\n"
OWN = f'{SERIES}{{engine="0",scheme="1"}} 1\n'.encode()
PYTHON = b'python_info{implementation="CPython",version="3.11.7"} 1.0\n'
SLEEP = b'vllm:engine_sleep_state{engine="%d",model_name="m",sleep_state="%s"} %s\n'


def sleeping(rank: int, level: int | None) -> bytes:
    """The series of one engine as vLLM writes them; None is awake."""
    states = {b"awake": level is None, b"weights_offloaded": level == 1, b"discard_all": level == 2}
    return b"".join(SLEEP % (rank, state, b"1.0" if is_on else b"0.0") for state, is_on in states.items())


some_lines = st.sampled_from(
    [
        *(sleeping(0, None), sleeping(0, 1), sleeping(1, 2), sleeping(0, 0).replace(b'"0"', b'"x"')),
        *(
            START,
            INFO,
            LORA,
            OWN,
            PYTHON,
            START.replace(b"1.77", b"now"),
            INFO.replace(b"}", b""),
            INFO.replace(b'"}', b"}"),
        ),
        *(b'vllm:a{model_name="m"} 1\n', b'vllm:cache_config_info{model_name="n",engine="1"} 1\n', b"vllm:b 1\n"),
        *(b"\r\n", b"vllm:cache_config_info{\xff} 1\n", b"x", b"# a\n", b'vllm:c{model_name="\xff"} 1\n'),
    ]
)
pages = st.lists(some_lines, max_size=12).map(lambda lines: b"# HELP\n" + b"".join(lines))


@given(st.dictionaries(label_names, label_texts, max_size=8))
def test_rendered_labels_are_read_back(labels: dict[str, str]) -> None:
    assert parse_labels(rendered(labels)) == labels


@pytest.mark.parametrize("text", ["a=1", 'a="1', 'a="1" b="2"', '"x"="1"', 'a="1",,', "x" * 50, 'ü="1"', ',a="1"'])
def test_labels_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(UnreadableError, match="a label that cannot be read") as caught:
        parse_labels(text)

    assert caught.value.kind == "decode"


def test_labels_are_parsed_in_linear_time() -> None:
    with pytest.raises(UnreadableError, match="after 0 characters"):
        parse_labels("a" * 1_000_000)


@pytest.mark.parametrize("server", captures(has_python_api))
def test_every_captured_page_has_a_start_time_a_model_and_a_series_per_engine(server: Capture) -> None:
    page = parse_metrics(server.answers[METRICS])

    engines = len(server.logged["kv_cache_size_tokens"])
    assert [labels["engine"] for labels in page.cache_config] == [str(rank) for rank in range(engines)]
    assert page.model_name
    one_process = server.case != "llama_dp2"  # with several API processes the page is put together without start times
    assert (page.started_at_seconds is not None) is one_process
    assert (page.counters is None) is one_process
    has_lora = server.case == "llama_lora"
    assert (page.python is not None) is one_process
    assert len(page.lines) == engines + 2 * one_process + has_lora
    assert can_load_adapters("\n".join(page.lines).encode()) is (has_lora or not one_process)


@pytest.mark.parametrize("server", captures())
def test_the_selected_lines_of_a_captured_page_have_its_reply(server: Capture) -> None:
    page = server.answers[METRICS]

    selected = select_lines(page)

    if selected is None:  # no start time: the counters of the whole page are read
        assert parse_metrics(page).started_at_seconds is None
    else:
        assert len(selected) < len(page) / 10
        assert parse_metrics(selected) == parse_metrics(page)


def test_the_selected_lines_do_not_change_with_counters_and_times() -> None:
    page = b"# HELP\n" + START + b'vllm:a{model_name="m"} %d\n' + INFO + b"vllm:x_total %d\n"

    assert select_lines(page % (1, 2)) == select_lines(page % (3, 4)) is not None


@given(pages)
def test_the_selected_lines_of_any_page_have_its_reply_or_its_error(page: bytes) -> None:
    def outcome(body: bytes) -> object:
        try:
            return parse_metrics(body)
        except UnreadableError as error:
            return error.kind, error.detail

    try:
        selected = select_lines(page)
    except UnreadableError:
        assert not isinstance(outcome(page), MetricsReply)
    else:
        assert selected is None or outcome(selected) == outcome(page)


def test_a_page_without_vllm_metrics_is_refused() -> None:
    with pytest.raises(UnreadableError, match="Is this a vLLM server") as caught:
        parse_metrics(b"# HELP go_goroutines\ngo_goroutines 5\n")

    assert caught.value.kind == "schema"


def test_a_page_without_cache_series_has_model_name_and_counters() -> None:
    page = parse_metrics(b'vllm:prompt_tokens_total{model_name="chat"} 5.0\nvllm:x_total 1.5e+1\nvllm:y 3\n')

    assert page.cache_config == ()
    assert page.started_at_seconds is None
    assert page.model_name == "chat"
    assert page.counters == 20


def test_a_model_name_may_contain_quotes_newlines_and_markup() -> None:
    page = parse_metrics(rb'vllm:x{engine="0",model_name="a\"b\\c\n**d**<script>"} 1' + b"\n")

    assert page.model_name == 'a"b\\c\n**d**<script>'


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (PYTHON, "3.11.7"),
        (PYTHON.replace(b"3.11.7", b"3.14.0rc1+"), "3.14.0rc1+"),
        (PYTHON.replace(b"3.11.7", b"<script>"), None),
        (PYTHON.replace(b"version", b"release"), None),
        (b"", None),
    ],
    ids=range(5),
)
def test_the_version_of_python_is_identity(line: bytes, version: str | None) -> None:
    found = page(more=line)

    assert found.settings == {}
    assert {path: json.loads(each.value) for path, each in found.identity.items()} == (
        {"python_version": version} if version else {}
    )


def test_only_used_lines_of_a_large_page_are_kept() -> None:
    noise = b"".join(b'vllm:e2e_bucket{le="%d",model_name="m"} 1.0\n' % number for number in range(20_000))

    page = parse_metrics(noise + INFO + START + noise)

    assert page.lines == (INFO.decode().strip(), START.decode().strip())


@pytest.mark.parametrize("text", [b"NaN", b"-1", b"+Inf", b"1e300", b"soon", b"8589934592", b""])
def test_an_impossible_start_time_is_refused(text: bytes) -> None:
    with pytest.raises(UnreadableError, match="which is no time"):
        parse_metrics(INFO + b"process_start_time_seconds " + text + b"\n")


@pytest.mark.parametrize(
    ("page", "kind", "why"),
    [
        (INFO * 1025, "schema", "more than 1,024 series of vllm:cache_config_info"),
        (b'vllm:cache_config_info{a="' + b"x" * 40_000 + b'"} 1.0\n', "schema", "a line of"),
        ('vllm:cache_config_info{a="ü"} 1.0\n'.encode("latin-1"), "decode", "is not UTF-8"),
    ],
    ids=["engines", "line", "charset"],
)
def test_a_page_beyond_a_limit_or_in_another_charset_is_refused(page: bytes, kind: str, why: str) -> None:
    with pytest.raises(UnreadableError, match=why) as caught:
        parse_metrics(page)

    assert caught.value.kind == kind


def page(*series: dict[str, str], more: bytes = b"") -> Reply:
    lines = [f"vllm:cache_config_info{{{rendered(labels)}}} 1.0\n" for labels in series]
    return read_metrics("".join(lines).encode() + b"vllm:x 1\n" + more)[0]


def value(label: str, text: str) -> tuple[str, State]:
    reply = page({label: text})
    found = {**reply.settings, **reply.identity}[f"cache_config.{label}"]
    return found.value, found.state


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
def test_a_label_has_the_type_of_its_setting(label: str, text: str, expected: str) -> None:
    assert value(label, text) == (expected, State.REPORTED)


def test_none_is_null_or_unknown_where_the_engine_sets_it_later() -> None:
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
def test_an_impossible_label_is_refused(label: str, text: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        page({label: text})

    assert caught.value.kind == "schema"
    assert len(caught.value.detail) < 200


def test_a_label_that_becomes_secret_is_redacted_in_a_page_that_was_read_before() -> None:
    path, labels, before = "cache_config.cache_dtype", {"engine": "0", "cache_dtype": "fp8_acme"}, redaction.in_force()
    assert page(labels).settings[path].value == '"fp8_acme"'

    redaction.also_redact(["cache_dtype"], [])
    try:
        assert page(labels).settings[path].value == f'"{redaction.MARKER}"'
    finally:
        redaction.adopt(before)


def test_unknown_labels_are_listed_and_cut() -> None:
    reply = page({"block_size": "16", "brand_new": "1", "x" * 500: "2"})

    assert reply.not_understood == (
        "label brand_new of vllm:cache_config_info",
        f"label {'x' * 100} of vllm:cache_config_info",
    )
    assert set(reply.settings) == {"cache_config.block_size"}


def test_blocks_are_a_sum_and_tokens_are_the_first_engine_s() -> None:
    labels = {"num_gpu_blocks": "16384", "kv_cache_size_tokens": "1048576", "kv_cache_max_concurrency": "512.0"}

    reply = page({**labels, "engine": "1"}, {**labels, "engine": "0"})

    assert reply.engines == (
        EngineReport(0, None, 1048576, 512.0, blocks_of_all=16384),
        EngineReport(1, blocks_of_all=16384),
    )


@given(st.integers(0, 2**40), st.integers(1, 9))
def test_several_engines_report_their_sum_only(total: int, count: int) -> None:
    reply = page(*({"num_gpu_blocks": str(total), "engine": str(rank)} for rank in range(count)))

    blocks = {(engine.num_gpu_blocks, engine.blocks_of_all) for engine in reply.engines}
    assert blocks == {(total, None) if count == 1 else (None, total)}


@pytest.mark.parametrize("text", ["-1", "one", "1" * 30, "²", ""])
def test_an_engine_label_must_be_a_rank(text: str) -> None:
    with pytest.raises(UnreadableError, match="which is no DP rank"):
        page({"engine": text})


@pytest.mark.parametrize("server", captures(has_python_api))
def test_labels_equal_the_json_of_the_same_server(server: Capture) -> None:
    """Except for values that the engine sets later."""
    metrics, info = (replies(server.answers, [path])[0] for path in (METRICS, SERVER_INFO))
    labels, config = ({**each.settings, **each.identity} for each in (metrics, info))
    both = {path for path in labels if path in config}
    later = {path for path in both if State.UNKNOWN in {labels[path].state, config[path].state}}

    assert metrics.not_understood == ()
    assert len(both) > 15
    assert {path: labels[path].value for path in both - later} == {path: config[path].value for path in both - later}
    assert all(json.loads(labels[path].value) is None or config[path].value == "null" for path in later)


@pytest.mark.parametrize(
    ("levels", "wanted"),
    [((None, None), (None, None)), ((0, None), (0, None)), ((1, 1), (1, 1)), ((None, 2), (None, 2))],
)
def test_an_engine_that_sleeps_has_its_level(levels: tuple[int | None, ...], wanted: tuple[int | None, ...]) -> None:
    """vLLM sets `awake` to 0, and of level 1 and 2 one more state to 1."""
    series = b"".join(INFO.replace(b'"0"', b'"%d"' % rank) for rank in range(len(levels)))
    page = b"# HELP\n" + series + b"".join(sleeping(rank, level) for rank, level in enumerate(levels)) + START
    awake = b"# HELP\n" + series + START

    reply, lines = read_metrics(page)

    assert tuple(each.sleep_level for each in reply.engines) == wanted
    assert (lines == read_metrics(awake)[1]) is (set(levels) == {None})
    assert read_metrics(select_lines(page) or b"")[0] == reply


RAY = b'ReplicaId="a",WorkerId="w",Component="core_worker",Version="2.48.0",'


def of_ray(page: bytes, name: bytes = b"ray_vllm_") -> bytes:
    """A page of Ray's agent: other names, labels of its own, and the start time of the agent."""
    lines = [line.replace(b"{", b"{" + RAY, 1) for line in page.splitlines() if not line.startswith(b"#")]
    return b"".join(line.replace(b"vllm:", name, 1) + b"\n" for line in lines)


@pytest.mark.parametrize("name", [b"ray_vllm_", b"ray_vllm:"])
@pytest.mark.parametrize("server", captures(has_python_api))
def test_a_page_of_ray_has_the_reply_of_vllms_own_page_without_a_start(server: Capture, name: bytes) -> None:
    page = server.answers[METRICS]
    own, _ = read_metrics(page.replace(b"\npython_info", b"\nx"))

    found, _ = read_metrics(of_ray(page, name))

    counters = parse_metrics(page.replace(START_NAME, b"x ")).counters
    assert select_lines(of_ray(page, name)) is None
    assert found == replace(own, started_at=None, counters=counters)


def test_a_page_of_ray_with_several_replicas_is_refused() -> None:
    page = of_ray(INFO) + of_ray(INFO).replace(b'ReplicaId="a"', b'ReplicaId="b"')

    with pytest.raises(UnreadableError, match="has 2 replicas of vLLM") as caught:
        parse_metrics(page)

    assert caught.value.kind == "schema"
