"""The lines of /metrics that are read: labels with every escape, pages of every size, and nonsense."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.errors import UnreadableError
from dashboard.vllm.metrics import parse_labels, parse_metrics
from tests.captured import METRICS, Capture, captures, has_python_api
from tests.strategies import label_names, label_texts, rendered

INFO = b'vllm:cache_config_info{block_size="16",engine="0"} 1.0\n'
START = b"process_start_time_seconds 1.7700000001e+09\n"


@given(st.dictionaries(label_names, label_texts, max_size=8))
def test_labels_that_were_rendered_are_read_back(labels: dict[str, str]) -> None:
    assert parse_labels(rendered(labels)) == labels


@pytest.mark.parametrize("text", ["a=1", 'a="1', 'a="1" b="2"', '"x"="1"', 'a="1",,', "x" * 50, 'ü="1"', ',a="1"'])
def test_labels_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(UnreadableError, match="a label that cannot be read") as caught:
        parse_labels(text)

    assert caught.value.kind == "decode"


def test_reading_labels_takes_time_in_proportion_to_their_length() -> None:
    """Else this test would not end today: a megabyte of one word has 10^12 pairs of letters."""
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
    assert len(page.lines) == engines + one_process


def test_a_page_without_vllm_metrics_is_no_page_of_vllm() -> None:
    with pytest.raises(UnreadableError, match="Is this a vLLM server") as caught:
        parse_metrics(b"# HELP go_goroutines\ngo_goroutines 5\n")

    assert caught.value.kind == "schema"


def test_a_page_without_the_cache_series_is_read_for_its_name_and_counters() -> None:
    page = parse_metrics(b'vllm:prompt_tokens_total{model_name="chat"} 5.0\nvllm:x_total 1.5e+1\nvllm:y 3\n')

    assert page.cache_config == ()
    assert page.started_at_seconds is None
    assert page.model_name == "chat"
    assert page.counters == 20


def test_a_model_name_may_hold_quotes_newlines_markdown_and_html() -> None:
    page = parse_metrics(rb'vllm:x{engine="0",model_name="a\"b\\c\n**d**<script>"} 1' + b"\n")

    assert page.model_name == 'a"b\\c\n**d**<script>'


def test_twenty_thousand_lines_are_read_and_only_two_are_kept() -> None:
    noise = b"".join(b'vllm:e2e_bucket{le="%d",model_name="m"} 1.0\n' % number for number in range(20_000))

    page = parse_metrics(noise + INFO + START + noise)

    assert page.lines == (INFO.decode().strip(), START.decode().strip())


@pytest.mark.parametrize("text", [b"NaN", b"-1", b"+Inf", b"1e300", b"soon", b"8589934592", b""])
def test_a_start_time_that_is_no_time_is_refused(text: bytes) -> None:
    """Also times after the year 2242: a column of times in nanoseconds ends soon after."""
    with pytest.raises(UnreadableError, match="which is no time"):
        parse_metrics(INFO + b"process_start_time_seconds " + text + b"\n")


def test_more_engines_than_any_server_has_are_refused() -> None:
    with pytest.raises(UnreadableError, match="more than 1,024 series of vllm:cache_config_info"):
        parse_metrics(INFO * 1025)


def test_a_line_longer_than_any_server_writes_is_refused() -> None:
    with pytest.raises(UnreadableError, match="a line of"):
        parse_metrics(b'vllm:cache_config_info{a="' + b"x" * 40_000 + b'"} 1.0\n')


def test_a_line_in_another_charset_is_refused() -> None:
    with pytest.raises(UnreadableError, match="is not UTF-8") as caught:
        parse_metrics('vllm:cache_config_info{a="ü"} 1.0\n'.encode("latin-1"))

    assert caught.value.kind == "decode"
