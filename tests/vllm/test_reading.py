"""The edge: any body gives a reply or one sentence, both without secrets."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.errors import UnreadableError
from dashboard.fleet import State
from dashboard.fleet.formatting import HIDDEN
from dashboard.sources.polling.probes import PROBES
from dashboard.vllm import control
from dashboard.vllm.reading import EXCERPT_LIMIT, RAW_LIMIT, SENTENCE_LIMIT, Reading, excerpt, read
from dashboard.vllm.replies import READERS
from tests.captured import (
    INFERENCE_CONFIG,
    KV_EVENTS,
    METRICS,
    MODELS,
    PLUGIN,
    SERVER_INFO,
    VERSION,
    Capture,
    capture,
    captures,
    replies,
)
from tests.strategies import json_values, rendered, texts
from vllm_fleet_provider.shared import redaction
from vllm_fleet_provider.shared.redaction import MARKER

PATHS = [probe.path for probe in PROBES]
JSON_PATHS = [path for path in PATHS if path != METRICS]
HF_TOKEN = "hf_" + "a1B2" * 8


def refusal(path: str, body: bytes) -> UnreadableError:
    with pytest.raises(UnreadableError) as caught:
        read(path, body)
    assert caught.value.kind in {"decode", "schema"}
    assert 0 < len(caught.value.detail) <= SENTENCE_LIMIT
    assert not HIDDEN.search(caught.value.detail)
    return caught.value


def read_or_refused(path: str, body: bytes) -> Reading | None:
    """Return the reading of any body, None for one that is refused with a sentence."""
    try:
        return read(path, body)
    except UnreadableError:
        refusal(path, body)
        return None


def test_every_probe_has_a_reader() -> None:
    assert {*(path.partition("?")[0] for path in JSON_PATHS), *control.PATHS} == set(READERS)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "kind", "sentence"),
    [
        (b"", "decode", "answers with nothing"),
        (b" \n\t", "decode", "answers with nothing"),
        (b"<html><body>502</body></html>", "decode", "answers with HTML or XML. Is there a proxy in front of vLLM?"),
        (b'\n<?xml version="1.0"?>', "decode", "answers with HTML or XML"),
    ],
)
def test_nothing_and_html_are_refused_on_every_path(path: str, body: bytes, kind: str, sentence: str) -> None:
    error = refusal(path, body)

    assert error.kind == kind
    assert error.detail.startswith(f"{path} {sentence}")


@pytest.mark.parametrize("path", JSON_PATHS)
@pytest.mark.parametrize(
    ("body", "kind", "sentence"),
    [
        (b'{"model": {"dtype": "bf', "decode", "no complete UTF-8 JSON"),
        (b'{"model": 1} {"model": 2}', "decode", "no complete UTF-8 JSON"),
        ('{"version": "0.32.0"}'.encode("utf-16"), "decode", "no complete UTF-8 JSON"),
        ('{"version": "ü"}'.encode("latin-1"), "decode", "no complete UTF-8 JSON"),
        (b'{"version": "\\ud800"}', "decode", "no complete UTF-8 JSON"),
        (b'{"a": ' * 1_000 + b"1" + b"}" * 1_000, "decode", "nested too deep"),
        (b"[" * 1_000, "decode", "nested too deep"),
        (b'{"a": NaN}', "schema", "NaN or Infinity"),
        (b"[-Infinity]", "schema", "NaN or Infinity"),
        (b'{"detail": "Not Found"}', "schema", "JSON of another shape"),
        (b"[[]]", "schema", "JSON of another shape"),
        (b"null", "schema", "JSON of another shape"),
        (b'"text"', "schema", "JSON of another shape"),
        (b"5", "schema", "JSON of another shape"),
        (b"[]", "schema", "JSON of another shape"),
        (b'{"error": {"message": "no"}}', "schema", "JSON of another shape"),
    ],
    ids=str,
)
def test_another_answer_is_refused_with_its_kind(path: str, body: bytes, kind: str, sentence: str) -> None:
    error = refusal(path, body)

    assert error.kind == kind
    assert error.detail.startswith(path)
    assert sentence in error.detail


def test_the_sentence_has_the_place_of_the_first_error_and_their_number() -> None:
    answer = capture("llama").json(INFERENCE_CONFIG)
    answer["kv_cache"]["num_gpu_blocks"] = "many"
    answer["kv_cache"]["groups"][0]["block_size"] = 0

    detail = refusal(INFERENCE_CONFIG, json.dumps(answer).encode()).detail

    assert "at kv_cache.num_gpu_blocks: Input should be a valid integer" in detail
    assert detail.endswith("(2 mistakes in all)")


@pytest.mark.parametrize("number", ["0", "-16", "1e19", str(2**70), "1e999", '"many"', "16.5", "null", "[]"])
def test_an_impossible_block_size_is_refused(number: str) -> None:
    answer = capture("llama").answers[INFERENCE_CONFIG]
    body = re.sub(rb'"block_size": \d+', b'"block_size": ' + number.encode(), answer)

    assert "kv_cache.groups.0" in refusal(INFERENCE_CONFIG, body).detail


@pytest.mark.parametrize("name", ["num_gpu_blocks", "kv_cache_size_tokens", "kv_cache_max_concurrency"])
@pytest.mark.parametrize("number", ["-1", str(2**63), str(2**70), "1e999"])
def test_an_impossible_capacity_in_server_info_is_refused(name: str, number: str) -> None:
    body = (
        f'{{"vllm_config": {{"cache_config": {{"{name}": {number}}}, "parallel_config": {{"data_parallel_size": 1}}}}}}'
    )

    assert refusal(SERVER_INFO, body.encode()).kind == "schema"


@pytest.mark.parametrize("field", ["rank", "group_id"])
def test_duplicate_ranks_and_group_ids_are_refused(field: str) -> None:
    answer = capture("llama").json(INFERENCE_CONFIG)
    answer["devices"] *= 2 if field == "rank" else 1
    answer["kv_cache"]["groups"] *= 2 if field == "group_id" else 1

    assert f"have the same {field}" in refusal(INFERENCE_CONFIG, json.dumps(answer).encode()).detail


NAME = f"\x00\x1b[31m\u202e{HF_TOKEN} redis://bob:sesame@h " + "x" * 300


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (SERVER_INFO, json.dumps({"vllm_config": {NAME[:390]: [10**30]}})),
        (SERVER_INFO, json.dumps({"vllm_config": {NAME * 9: 1}})),
        (METRICS, f"vllm:x 1\nprocess_start_time_seconds {NAME}\n"),
        (KV_EVENTS, json.dumps({NAME: {}})),
    ],
)
def test_a_sentence_has_no_control_characters_and_secrets(path: str, body: str) -> None:
    detail = refusal(path, body.encode()).detail

    assert "sesame" not in detail
    assert HF_TOKEN not in detail


def plant(value: Any) -> Any:
    """Add a secret by name and by shape to every object and list."""
    if isinstance(value, dict):
        planted = {key: plant(item) for key, item in value.items()}
        return {**planted, "x_api_key": "sesame", "hf_token": "sesame", "S3_KEY": "sesame", "note": "a://b:sesame@c"}
    return [*map(plant, value), {"password": ["sesame"]}] if isinstance(value, list) and value else value


def test_secrets_are_redacted_in_raw_answer_settings_and_identity() -> None:
    info = capture("llama").json(SERVER_INFO)
    body = json.dumps({key: plant(info[key]) for key in ("vllm_config", "vllm_env")}).encode()

    reading = read(SERVER_INFO, body)

    assert body.count(b"sesame") > 100
    assert b"sesame" not in reading.raw
    assert "sesame" not in str(reading.reply)
    assert {**reading.reply.settings, **reading.reply.identity}["model_config.hf_token"].state is State.REDACTED


@pytest.mark.parametrize("path", [VERSION, MODELS, f"{PLUGIN}/config", INFERENCE_CONFIG])
def test_secrets_are_redacted_on_every_endpoint(path: str) -> None:
    answer = (capture("gemma3_plugin") if PLUGIN in path else capture("llama")).json(path)

    reading = read(path, json.dumps({**plant(answer), **answer, "more": plant({})}).encode())

    assert b"sesame" not in reading.raw
    assert MARKER.encode() in reading.raw
    assert "sesame" not in str(reading.reply)


def test_secrets_are_redacted_in_metrics() -> None:
    labels = {"cache_dtype": "a://b:sesame@c", "api_key": "sesame", "engine": "0"}

    reading = read(METRICS, f"vllm:cache_config_info{{{rendered(labels)}}} 1.0\n".encode())

    assert b"sesame" not in reading.raw
    assert "sesame" not in str(reading.reply)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32", "utf-16-be"])
def test_secrets_are_redacted_in_unreadable_answers(encoding: str) -> None:
    body = f'{{"api_key": "sesame", "x": {{"token": "{HF_TOKEN}", "hf_token": "sesame'.encode(encoding)

    kept = excerpt(body)

    assert b"sesame" not in kept
    assert HF_TOKEN.encode() not in kept
    assert MARKER.encode() in kept


@pytest.mark.parametrize("server", captures())
def test_nothing_in_the_captures_is_redacted(server: Capture) -> None:
    for path, body in server.answers.items():
        reading = read(path, body)
        assert MARKER.encode() not in reading.raw
        settings = [*reading.reply.settings.values(), *reading.reply.identity.values()]
        assert not [each for each in settings if each.state is State.REDACTED]


def test_the_kept_part_of_an_answer_is_limited() -> None:
    body = json.dumps({"version": "0.32.0", "more": "x" * 500_000}).encode()

    assert len(read(VERSION, body).raw) == RAW_LIMIT


def test_an_excerpt_is_limited_and_has_no_control_characters() -> None:
    kept = excerpt(b"\x1b[31m\x07\xff<script>" * 100_000)

    assert len(kept) == EXCERPT_LIMIT
    assert not HIDDEN.search(kept.decode(errors="replace"))
    assert excerpt(b"a\tb\nc") == b"a\tb\nc"


@given(st.sampled_from(PATHS), st.binary(max_size=200))
def test_reading_any_bytes_gives_a_reply_or_an_unreadable_error(path: str, body: bytes) -> None:
    read_or_refused(path, body)
    assert len(excerpt(body)) <= EXCERPT_LIMIT


def _mutated(answer: Any, place: int, value: Any) -> Any:
    """Replace the part of a JSON value at one place, counted in depth first."""
    left = [place]

    def walk(part: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            return value
        if isinstance(part, dict):
            return {key: walk(item) for key, item in part.items()}
        return [walk(item) for item in part] if isinstance(part, list) else part

    return walk(answer)


SMALL = {
    path: json.loads(body)
    for path, body in {**capture("gemma3_plugin").answers, **capture("gemma3").answers}.items()
    if path not in {METRICS, SERVER_INFO}
}
SMALL[SERVER_INFO] = {
    "vllm_config": {
        "model_config": {"model": "/m/llama", "dtype": "torch.bfloat16", "max_model_len": 2048},
        "cache_config": {"block_size": 16, "num_gpu_blocks": 8192, "kv_cache_size_tokens": None},
        "parallel_config": {"data_parallel_size": 1, "data_parallel_rank": 0},
        "speculative_config": {"target_model_config": {"a": 1}, "method": "x"},
        "kv_transfer_config": {
            "kv_connector_extra_config": {"host": "h", "tiers": [{"port": 1}]},
            "kv_role": "kv_both",
        },
        "kv_events_config": {"endpoint": "tcp://h:1", "topic": "kv@p@m"},
        "instance_id": "1",
    },
    "vllm_env": {"VLLM_X": "1", "VLLM_PORT": 8000},
}


@given(st.sampled_from(sorted(SMALL)), st.integers(1, 120), json_values)
def test_a_real_answer_with_any_part_replaced_is_read_or_refused(path: str, place: int, value: Any) -> None:
    body = json.dumps(_mutated(SMALL[path], place, value)).encode()
    assert read_or_refused(path, body) == read_or_refused(path, body)


@given(st.sampled_from(sorted(SMALL)), json_values)
def test_reading_any_json_gives_a_reply_or_an_unreadable_error(path: str, value: Any) -> None:
    reading = read_or_refused(path, json.dumps(value).encode())
    assert reading is None or reading.raw


@given(
    st.dictionaries(
        st.sampled_from(["engine", "block_size", "num_gpu_blocks", "cache_dtype", "kv_cache_dtype_skip_layers", "x"]),
        st.one_of(texts, st.integers().map(str), json_values.map(repr)),
    )
)
def test_reading_any_label_text_gives_a_reply_or_an_unreadable_error(labels: dict[str, str]) -> None:
    reading = read_or_refused(METRICS, f"vllm:cache_config_info{{{rendered(labels)}}} 1.0\n".encode())
    assert reading is None or reading.reply.engines


def test_the_same_body_gives_an_equal_reply_and_shares_its_settings() -> None:
    server = capture("llama")

    for path in server.answers:
        first, second = (replies(server.answers, [path])[0] for _ in range(2))
        assert first == second
        assert first.settings is second.settings or not first.settings


def test_the_sent_key_is_redacted_in_any_spelling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_also", redaction._Additions())
    redaction.redact_keys(["our-key-4Zq8"])
    reading = read("/version", rb'{"version": "0.32.0", "note": "our-k\u0065y-4Zq8"}')

    assert b"our-key" not in reading.raw
    assert b"our-key" not in excerpt(rb'{"note": "our-k\u0065y-4Zq8", "x')


def test_the_text_form_of_server_info_is_refused() -> None:
    body = b'{"vllm_config": "model=\'./llama\', dtype=torch.bfloat16", "vllm_env": {}}'

    assert "this version answers with text; only the JSON form is read" in refusal(SERVER_INFO, body).detail
