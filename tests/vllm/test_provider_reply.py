"""Our provider's answer: settings, engines, devices and groups of every rank."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.errors import UnreadableError
from dashboard.fleet import Device, EngineFingerprint, EngineReport, Reply, Source, State
from dashboard.vllm.reading import read
from tests.captured import INFERENCE_CONFIG, capture
from tests.provider_answers import PROVIDER_ONLY, provider_answer
from tests.strategies import json_values
from vllm_fleet_provider.shared.digests import digests_of
from vllm_fleet_provider.shared.inference_config import InferenceConfigReply

LLAMA = capture("llama")


def read_answer(answer: Any) -> Reply:
    return read(INFERENCE_CONFIG, json.dumps(answer).encode()).reply


def planted(case: str = "llama", *, full: bool = True, **fleet: Any) -> dict[str, Any]:
    """Return an answer with changes in the extension; an Ellipsis removes a section."""
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


def test_equal_replicas_share_one_settings_mapping() -> None:
    first, second = provider_answer(LLAMA), provider_answer(LLAMA, fingerprints=("another root",))
    second["fleet"]["settings"]["instance_id"] = "another"
    second["fleet"]["started_at"] = "2026-03-02T09:30:00Z"

    one, two = read_answer(first), read_answer(second)

    assert one.settings is two.settings
    assert one.identity["instance_id"] != two.identity["instance_id"]
    assert (
        read_answer(provider_answer(LLAMA, full=False)).settings
        is read_answer(provider_answer(LLAMA, full=False)).settings
    )


@pytest.mark.parametrize("full", [True, False], ids=["full", "brief"])
def test_the_provider_s_own_fields_are_settings_unless_null(*, full: bool) -> None:
    chat = {"template_digest": "ab12", "tool_call_parser": "hermes", "enable_auto_tool_choice": True}

    everything = values(read_answer(planted(full=full, chat=chat, scheduling={"concurrent_batches": 2})))
    nothing = read_answer(
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


@pytest.mark.parametrize("full", [True, False], ids=["full", "brief"])
def test_a_server_without_a_template_or_a_tool_parser_says_so_unless_they_could_not_be_read(*, full: bool) -> None:
    """A server without a parser of tool calls differs from one with hermes."""
    without = {"template_digest": None, "tool_call_parser": None}
    unread = [{"field": f"fleet.chat.{name}", "reason": "reading it raised OSError"} for name in without]
    paths = {"chat_template_digest", "tool_call_parser"}

    known = read_answer(planted(full=full, chat=without)).settings
    unknown = read_answer(planted(full=full, chat=without, unavailable=unread)).settings

    assert {path: known[path].value for path in paths} == dict.fromkeys(paths, "null")
    assert not paths & unknown.keys()


@pytest.mark.parametrize("full", [True, False], ids=["full", "brief"])
def test_versions_of_components_are_settings_and_null_where_not_installed(*, full: bool) -> None:
    """What could not be read, and what a provider before 1.3 does not report, is no setting."""
    reason = {"field": "fleet.components.mooncake", "reason": "reading it raised OSError"}
    answer = planted(full=full, unavailable=[reason])
    older = read_answer(answer)
    answer["fleet"]["components"] = {"lmcache": "0.5.6", "nixl": None, "mooncake": None}

    found = {path: each for path, each in read_answer(answer).settings.items() if path.startswith("components.")}

    assert {path: (each.value, each.state) for path, each in found.items()} == {
        "components.lmcache": ('"0.5.6"', State.REPORTED),
        "components.nixl": ("null", State.NULL),
    }
    assert read_answer(answer).settings.keys() - older.settings.keys() == found.keys()


def test_values_of_the_engine_replace_null_only() -> None:
    filled = values(read_answer(planted(prefix_hashing={"hash_block_size": 64, "alignment": 256})))
    filled_in = planted(prefix_hashing={"hash_block_size": 64, "alignment": 256})
    filled_in["fleet"]["settings"] |= {"cache_config.hash_block_size": 32}
    del filled_in["fleet"]["settings"]["cache_config.cache_hit_alignment_tokens"]

    assert filled["cache_config.hash_block_size"] == "64"
    assert filled["cache_config.cache_hit_alignment_tokens"] == "256"
    assert values(read_answer(filled_in))["cache_config.hash_block_size"] == "32"
    assert "cache_config.cache_hit_alignment_tokens" not in read_answer(filled_in).settings


def test_an_unavailable_field_is_no_setting() -> None:
    """Its null is unknown; the null of another field is a value."""
    reason = {"reason": "This version has no such attribute."}
    fields = ["fleet.model.revision", "kv_cache.cache_dtype", "fleet.kv_transfer", "no.such.field", "model.dtype.more"]
    answer = planted(full=False, model={"revision": None}, unavailable=[{"field": field, **reason} for field in fields])

    reply = read_answer(answer)

    assert not {"model_config.revision", "cache_config.cache_dtype", "kv_transfer_config"} & reply.settings.keys()
    assert reply.settings["model_config.code_revision"].state is State.NULL
    assert reply.settings["model_config.dtype"].state is State.REPORTED


def test_every_rank_has_its_own_numbers_devices_and_groups() -> None:
    answer = planted("gemma3")
    (first,) = answer["fleet"]["engines"]
    first["kv_cache_available_bytes"] = 2**31
    second = {**first, "data_parallel_rank": 1, "kv_cache_size_tokens": 664_000, "max_model_len": 1024}
    second["fingerprint"] = {"canonical": "c2", "engine": "e2"}
    answer["fleet"]["engines"] = [first, second]

    reply = read_answer(answer)

    one, two = reply.engines
    assert (one.num_gpu_blocks, one.kv_cache_size_tokens, one.max_model_len) == (32768, 664_444, 2048)
    assert one.max_concurrency == pytest.approx(324.4356, abs=1e-4)
    assert (one.kv_cache_bytes_per_device, one.kv_cache_available_bytes) == (2**30, 2**31)
    assert two == one._replace(
        dp_rank=1, kv_cache_size_tokens=664_000, max_model_len=1024, fingerprint=EngineFingerprint("c2", "e2")
    )
    assert reply.devices == tuple(
        Device(rank, 0, "cpu", 25276510208, None, 1, tensor_parallel_rank=0, pipeline_parallel_rank=0)
        for rank in (0, 1)
    )
    assert [(group.dp_rank, group.group_id) for group in reply.kv_cache_groups] == [
        (rank, group) for rank in (0, 1) for group in range(6)
    ]


def test_an_engine_without_digests_has_a_reason_or_no_fingerprint() -> None:
    reason = {"canonical": None, "engine": None, "reason": "Prefix caching is off."}
    engines = [
        {"data_parallel_rank": 0, "fingerprint": reason},
        {"data_parallel_rank": 1, "fingerprint": {}},
        {"data_parallel_rank": 2},
    ]

    reply = read_answer(planted(engines=engines))

    assert [engine.fingerprint for engine in reply.engines] == [
        EngineFingerprint(reason="Prefix caching is off."),
        None,
        None,
    ]


def test_without_engines_the_answer_describes_a_single_one() -> None:
    """The blocks of several engines may be a sum."""
    alone, several = planted(engines=[], data_parallel_rank=3), planted(engines=[])
    several["parallelism"]["data_parallel_size"] = 2

    assert read_answer(alone).engines == (EngineReport(3, 8192),)
    assert [device.dp_rank for device in read_answer(alone).devices] == [3]
    assert [group.dp_rank for group in read_answer(alone).kv_cache_groups] == [3]
    assert read_answer(several).engines == ()
    assert [device.dp_rank for device in read_answer(several).devices] == [0]


def test_an_unknown_kind_of_group_is_listed() -> None:
    group = {"group_id": 0, "spec_type": "HiSparseHotSpec", "block_size": 16}

    assert read_answer(planted(engines=[{"data_parallel_rank": 1, "groups": [group]}])).not_understood == (
        "KV cache group kind HiSparseHotSpec",
    )


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
        ({"settings": {str(number): 1 for number in range(20_001)}}, "more than the 20,000 settings"),
        ({"settings": {"a": 2**65}}, "beyond 2^64"),
        ({"settings": []}, "valid dictionary"),
    ],
)
def test_a_hostile_answer_is_refused_with_a_sentence(fleet: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UnreadableError) as refused:
        read_answer(planted(**fleet))

    assert refused.value.kind == "schema"
    assert sentence in refused.value.detail
    assert len(refused.value.detail) <= 400


@given(st.dictionaries(st.text("ab.", max_size=6), json_values, max_size=6))
def test_any_settings_are_read_or_refused_with_a_sentence(settings: dict[str, Any]) -> None:
    try:
        reply = read_answer(planted(settings=settings))
    except UnreadableError as error:
        assert error.detail  # noqa: PT017
    else:
        assert reply.source is Source.PROVIDER


def test_secrets_in_settings_and_environment_are_redacted() -> None:
    answer = planted()
    answer["fleet"]["settings"] |= {"model_config.hf_token": "hf-very-secret", "additional_config": {"password": "pw1"}}
    answer["fleet"]["environment"] = {"VLLM_API_KEY": "sk-very-secret"}

    reading = read(INFERENCE_CONFIG, json.dumps(answer).encode())

    shown = str((dict(reading.reply.settings), dict(reading.reply.identity), reading.raw))
    assert not [secret for secret in ("hf-very-secret", "pw1", "sk-very-secret") if secret in shown]
    assert reading.reply.settings["env.VLLM_API_KEY"].state is State.REDACTED


def test_digests_are_those_of_the_answer_before_redaction() -> None:
    answer = planted()
    answer["fleet"]["settings"] |= {"additional_config": {"password": "pw1"}}
    assert read_answer(answer).digests == digests_of(InferenceConfigReply.model_validate(answer)) != {}

    answer["fleet"]["vllm_version"] = f"https://user:{'p' * 100_000}@host"
    assert read_answer(answer).digests == {}, "it is too long, except redacted"


def test_an_answer_without_names_and_version_has_no_such_settings() -> None:
    answer = planted(vllm_version=None)
    answer["model"]["served_model_names"] = None

    for full in (answer, {**answer, "fleet": {**answer["fleet"], "settings": None}}):
        reply = read_answer(full)
        assert not {"version", "served_model_names"} & reply.settings.keys()
        assert (reply.version, reply.served_model_names) == (None, ())
