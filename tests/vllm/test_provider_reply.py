"""What our provider's answer says of a server, for every rank, and what is no answer of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.errors import UnreadableError
from dashboard.fleet import Device, EngineReport, Fingerprint, Reply, Source, State
from dashboard.vllm.reading import read
from tests.captured import INFERENCE_CONFIG, capture
from tests.provider_answers import PROVIDER_ONLY, provider_answer
from tests.strategies import json_values

LLAMA = capture("llama")


def told(answer: Any) -> Reply:
    return read(INFERENCE_CONFIG, json.dumps(answer).encode()).reply


def planted(case: str = "llama", *, full: bool = True, **fleet: Any) -> dict[str, Any]:
    """An answer of which some of the extension is replaced; a section in part, an Ellipsis is left out."""
    answer = provider_answer(capture(case), full=full)
    for name, value in fleet.items():
        if value is ...:
            del answer["fleet"][name]
        else:
            in_part = isinstance(value, dict) and name not in {"settings", "environment"}
            answer["fleet"][name] = {**answer["fleet"][name], **value} if in_part else value
    return answer


def values(reply: Reply) -> dict[str, str]:
    return {path: each.value for path, each in reply.settings.items()}


def test_equal_replicas_share_one_settings_mapping_whatever_identifies_them() -> None:
    """Their documents are then merged once for all of them."""
    first, second = provider_answer(LLAMA), provider_answer(LLAMA, fingerprints=("another root",))
    second["fleet"]["settings"]["instance_id"] = "another"
    second["fleet"]["started_at"] = "2026-03-02T09:30:00Z"

    one, two = told(first), told(second)

    assert one.settings is two.settings
    assert one.identity["instance_id"] != two.identity["instance_id"]
    assert told(provider_answer(LLAMA, full=False)).settings is told(provider_answer(LLAMA, full=False)).settings


# What it tells


@pytest.mark.parametrize("full", [True, False], ids=["full", "brief"])
def test_what_no_configuration_holds_is_a_setting_where_it_is_told_and_none_where_it_is_null(*, full: bool) -> None:
    chat = {"template_digest": "ab12", "tool_call_parser": "hermes", "enable_auto_tool_choice": True}

    everything = values(told(planted(full=full, chat=chat, scheduling={"concurrent_batches": 2})))
    nothing = told(
        planted(full=full, chat=..., prefix_hashing={"seed_policy": None}, scheduling={"concurrent_batches": None})
    )

    assert {path: everything[path] for path in PROVIDER_ONLY} == {
        "seed_policy": '"default"',
        "chat_template_digest": '"ab12"',
        "chat_template_content_format": '"auto"',
        "tool_call_parser": '"hermes"',
        "enable_auto_tool_choice": "true",
        "concurrent_batches": "2",
    }
    assert not PROVIDER_ONLY & nothing.settings.keys()


def test_what_the_engine_filled_in_stands_where_the_configuration_has_null_and_nowhere_else() -> None:
    filled = values(told(planted(prefix_hashing={"hash_block_size": 64, "alignment": 256})))
    given_ = planted(prefix_hashing={"hash_block_size": 64, "alignment": 256})
    given_["fleet"]["settings"] |= {"cache_config.hash_block_size": 32}
    del given_["fleet"]["settings"]["cache_config.cache_hit_alignment_tokens"]

    assert filled["cache_config.hash_block_size"] == "64"
    assert filled["cache_config.cache_hit_alignment_tokens"] == "256"
    assert values(told(given_))["cache_config.hash_block_size"] == "32"
    assert "cache_config.cache_hit_alignment_tokens" not in told(given_).settings


def test_a_field_that_could_not_be_had_is_no_setting() -> None:
    """Its null says nothing; the null of a revision that nobody asked for is a value."""
    reason = {"reason": "This version has no such attribute."}
    fields = ["fleet.model.revision", "kv_cache.cache_dtype", "fleet.kv_transfer", "no.such.field", "model.dtype.more"]
    answer = planted(full=False, model={"revision": None}, unavailable=[{"field": field, **reason} for field in fields])

    reply = told(answer)

    assert not {"model_config.revision", "cache_config.cache_dtype", "kv_transfer_config"} & reply.settings.keys()
    assert reply.settings["model_config.code_revision"].state is State.NULL
    assert reply.settings["model_config.dtype"].state is State.REPORTED


# Engines


def test_every_rank_tells_its_own_numbers_devices_and_groups() -> None:
    answer = planted("gemma3")
    (first,) = answer["fleet"]["engines"]
    first["kv_cache_available_bytes"] = 2**31
    second = {**first, "data_parallel_rank": 1, "kv_cache_size_tokens": 664_000, "max_model_len": 1024}
    second["fingerprint"] = {"canonical": "c2", "engine": "e2"}
    answer["fleet"]["engines"] = [first, second]

    reply = told(answer)

    one, two = reply.engines
    assert (one.num_gpu_blocks, one.kv_cache_size_tokens, one.max_model_len) == (32768, 664_444, 2048)
    assert one.max_concurrency == pytest.approx(324.4356, abs=1e-4)
    assert (one.kv_cache_bytes_per_device, one.kv_cache_available_bytes) == (2**30, 2**31)
    assert two == one._replace(
        dp_rank=1, kv_cache_size_tokens=664_000, max_model_len=1024, fingerprint=Fingerprint("c2", "e2")
    )
    assert reply.devices == tuple(
        Device(rank, 0, "cpu", 25276510208, None, 1, tensor_parallel_rank=0, pipeline_parallel_rank=0)
        for rank in (0, 1)
    )
    assert [(group.dp_rank, group.group_id) for group in reply.kv_cache_groups] == [
        (rank, group) for rank in (0, 1) for group in range(6)
    ]


def test_an_engine_without_digests_says_why_and_one_that_says_nothing_has_no_fingerprint() -> None:
    reason = {"canonical": None, "engine": None, "reason": "Prefix caching is off."}
    engines = [
        {"data_parallel_rank": 0, "fingerprint": reason},
        {"data_parallel_rank": 1, "fingerprint": {}},
        {"data_parallel_rank": 2},
    ]

    reply = told(planted(engines=engines))

    assert [engine.fingerprint for engine in reply.engines] == [
        Fingerprint(reason="Prefix caching is off."),
        None,
        None,
    ]


def test_without_engines_the_answer_itself_tells_one_where_there_is_only_one() -> None:
    """Of several engines its blocks may be the sum."""
    alone, several = planted(engines=[], data_parallel_rank=3), planted(engines=[])
    several["parallelism"]["data_parallel_size"] = 2

    assert told(alone).engines == (EngineReport(3, 8192),)
    assert [device.dp_rank for device in told(alone).devices] == [3]
    assert [group.dp_rank for group in told(alone).kv_cache_groups] == [3]
    assert told(several).engines == ()
    assert [device.dp_rank for device in told(several).devices] == [0]


def test_a_kind_of_group_that_is_not_known_is_named_whichever_engine_has_it() -> None:
    group = {"group_id": 0, "spec_type": "RSWASpec", "block_size": 16}

    assert told(planted(engines=[{"data_parallel_rank": 1, "groups": [group]}])).not_understood == (
        "KV cache group kind RSWASpec",
    )


# What nobody can mean


@pytest.mark.parametrize(
    ("fleet", "sentence"),
    [
        ({"engines": [{"data_parallel_rank": 1}] * 2}, "two engines of one server have the same data_parallel_rank"),
        (
            {"engines": [{"data_parallel_rank": 1, "devices": [{"rank": 0, "name": "x"}] * 2}]},
            "two devices of one engine have the same rank",
        ),
        ({"settings": {"a": 1, "a.b": 2}}, "has a value and settings below it"),
        ({"settings": {"." * 90_000: 1}}, "more than 400 characters"),
        ({"settings": {"x" * 401: 1}}, "more than 400 characters"),
        ({"settings": {".".join("a" * 150): json.loads("[" * 190 + "]" * 190)}}, "no configuration"),
        ({"settings": {str(number): 1 for number in range(20_001)}}, "more than the 20,000 settings"),
        ({"settings": {"a": 2**65}}, "beyond 2^64"),
        ({"settings": []}, "valid dictionary"),
    ],
)
def test_hostile_answers_are_no_reply_and_say_why(fleet: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UnreadableError) as refused:
        told(planted(**fleet))

    assert refused.value.kind == "schema"
    assert sentence in refused.value.detail
    assert len(refused.value.detail) <= 400


@given(st.dictionaries(st.text("ab.", max_size=6), json_values, max_size=6))
def test_whatever_stands_in_the_settings_is_read_or_refused_with_a_sentence(settings: dict[str, Any]) -> None:
    try:
        reply = told(planted(settings=settings))
    except UnreadableError as error:
        assert error.detail  # noqa: PT017
    else:
        assert reply.source is Source.PROVIDER


def test_a_secret_in_the_settings_is_replaced_before_anything_is_kept() -> None:
    answer = planted()
    answer["fleet"]["settings"] |= {"model_config.hf_token": "hf-very-secret", "additional_config": {"password": "pw1"}}
    answer["fleet"]["environment"] = {"VLLM_API_KEY": "sk-very-secret"}

    reading = read(INFERENCE_CONFIG, json.dumps(answer).encode())

    shown = str((dict(reading.reply.settings), dict(reading.reply.identity), reading.raw))
    assert not [secret for secret in ("hf-very-secret", "pw1", "sk-very-secret") if secret in shown]
    assert reading.reply.settings["env.VLLM_API_KEY"].state is State.REDACTED


def test_an_answer_without_names_and_version_has_no_such_settings() -> None:
    answer = planted(vllm_version=None)
    answer["model"]["served_model_names"] = None

    for full in (answer, {**answer, "fleet": {**answer["fleet"], "settings": None}}):
        reply = told(full)
        assert not {"version", "served_model_names"} & reply.settings.keys()
        assert (reply.version, reply.served_model_names) == (None, ())
