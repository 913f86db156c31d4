"""Digests are equal exactly where the settings that the dashboard reads are equal."""

import copy
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dashboard.errors import UnreadableError
from dashboard.fleet import Reply, Setting
from dashboard.vllm import reading
from dashboard.vllm.replies import read_inference_config
from tests.strategies import json_values, texts
from vllm_fleet_provider.shared import identity, paths, spelling
from vllm_fleet_provider.shared.digests import (
    SCHEME,
    EngineDigests,
    differing_digests,
    digest_adapters,
    digest_answer,
    digests_of,
    has_digests,
    kept_digests,
)
from vllm_fleet_provider.shared.inference_config import InferenceConfigReply

ANSWERS = Path(__file__).parents[1] / "answers"
RECORDED = sorted(str(file.relative_to(ANSWERS).with_suffix("")) for file in ANSWERS.glob("*/*.json"))
# What scheme 3 is made of. If one changes, raise SCHEME: digests of two schemes are never compared.
OF_SCHEME_3 = {
    "0.32.0/gemma3": ("e81192ee03484ef6", "bce1de670b03879d"),
    "0.32.0/llama_dp2_xxhash": ("085c13b687dfb70f", "98ef333f8f47c6c3"),
    "0.32.0/llama_tp2": ("2f1aba9eb41e5895", "e69ff825614b6b11"),
    "0.33.0/llama_dp2_xxhash": ("f1a0972c561be70f", "323a920bdfa8359f"),
    "0.33.0/llama_eagle": ("fc6b0b40382a4a8a", "e35ae30271734de8"),
}
LISTS_OF_SCHEME_3 = "13c804cd6b002c7b"


@cache
def text_of(name: str) -> bytes:
    return (ANSWERS / f"{name}.json").read_bytes()


def recorded(name: str) -> dict[str, Any]:
    return dict(json.loads(text_of(name)))


def digests(answer: Mapping[str, Any]) -> EngineDigests:
    found = digest_answer(InferenceConfigReply.model_validate(answer))
    assert found
    return found


def contents(settings: Mapping[str, Setting]) -> dict[str, tuple[str, str]]:
    return {path: (each.value, each.state) for path, each in settings.items()}


def read(answer: Mapping[str, Any]) -> Reply:
    return read_inference_config(answer)


def with_changed(answer: Mapping[str, Any], place: str, path: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(dict(answer))
    changed["fleet"][place][path] = value
    return changed


def listed(content: Any) -> Any:
    """Lists, sets and patterns as JSON."""
    if isinstance(content, dict):
        return {str(key): listed(item) for key, item in content.items()}
    if isinstance(content, frozenset):
        return sorted(content)
    return content.pattern if hasattr(content, "pattern") else content


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_answer_has_the_digests_of_its_scheme(name: str) -> None:
    found = digests(recorded(name))

    assert (SCHEME, found.document, found.kv_layout) == ("3", *OF_SCHEME_3[name])


def test_the_lists_of_the_scheme_are_unchanged() -> None:
    modules = (identity, spelling, paths)
    named = {
        f"{module.__name__.rpartition('.')[2]}.{name}": listed(value)
        for module in modules
        for name, value in sorted(vars(module).items())
        if name.isupper() and name[0] != "_"
    }
    text = json.dumps(named, sort_keys=True)

    assert (SCHEME, hashlib.sha256(text.encode()).hexdigest()[:16]) == ("3", LISTS_OF_SCHEME_3)


@given(
    name=st.sampled_from(RECORDED),
    place=st.sampled_from(["settings", "environment"]),
    value=json_values,
    data=st.data(),
)
def test_a_change_of_one_setting_changes_the_digest_where_it_changes_what_is_compared(
    name: str, place: str, value: Any, data: st.DataObject
) -> None:
    answer = recorded(name)
    path = data.draw(st.sampled_from(sorted(answer["fleet"][place])))
    changed = with_changed(answer, place, path, value)
    try:
        after = read(changed)
    except UnreadableError:
        assume(False)

    is_equal = contents(after.settings) == contents(read(answer).settings)
    assert (digests(changed) == digests(answer)) is is_equal


@pytest.mark.parametrize("name", RECORDED)
def test_no_identity_setting_is_in_the_digest(name: str) -> None:
    """Addresses, ports, ranks, ids, folders, and what an engine measures."""
    answer = changed = recorded(name)
    reply = read(answer)
    alone = reply.identity.keys() - reply.settings.keys()
    for path in alone:
        section, _, field = path.rpartition(".")
        place, key = ("environment", field) if section == "env" else ("settings", path)
        changed = with_changed(changed, place, key, "another")

    assert {"instance_id", "parallel_config.data_parallel_rank", "cache_config.num_gpu_blocks"} <= alone
    assert digests(changed) == digests(answer)


@pytest.mark.parametrize("name", RECORDED)
def test_every_compared_setting_is_in_the_digest(name: str) -> None:
    answer = recorded(name)
    fleet = answer["fleet"]
    known = {path: ("settings", path) for path in fleet["settings"]}
    known |= {f"env.{variable}": ("environment", variable) for variable in fleet["environment"]}
    compared = [known[path] for path in read(answer).settings if path in known]
    documents = [digests(with_changed(answer, place, key, "another")).document for place, key in compared]

    assert len({digests(answer).document, *documents}) == len(documents) + 1


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("prefix_hashing.seed_policy", "environment"),
        ("prefix_hashing.lookahead_tokens", 3),
        ("prefix_hashing.hash_block_size", 8),
        ("chat.template_digest", "0123"),
        ("scheduling.concurrent_batches", 7),
        ("vllm_version", "0.32.1"),
        ("components", {"lmcache": "0.5.6"}),
        ("components", {"lmcache": None}),  # reported as not installed
    ],
)
def test_what_vllms_configuration_lacks_is_in_the_digest(path: str, value: Any) -> None:
    answer = recorded("0.32.0/gemma3")
    changed = copy.deepcopy(answer)
    section: Any = changed
    *above, last = ("fleet." + path).split(".")
    for part in above:
        section = section[part]
    section[last] = value

    assert digests(changed).document != digests(answer).document
    assert digests(changed)._replace(document=None) == digests(answer)._replace(document=None)


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("additional_config", {"hook": "<function f at 0x7f13>"}, {"hook": "<function f at 0x7f14>"}),
        ("compilation_config.custom_ops", ["none", "+rms_norm"], ["+rms_norm", "none"]),
        ("model_config.dtype", "torch.bfloat16", "bfloat16"),
        ("cache_config.kv_offloading_size", 64, 64.0),
        ("model_config.model", "/mnt/a/llama", "/mnt/b/llama"),
        ("kv_events_config.endpoint", "tcp://10.0.0.1:5557", "tcp://10.0.0.2:5557"),
        ("kv_transfer_config.kv_connector_extra_config", {"master_server_addr": "a"}, {"master_server_addr": "b"}),
    ],
)
def test_two_spellings_or_two_addresses_of_one_setting_have_one_digest(path: str, one: Any, other: Any) -> None:
    answer = recorded("0.32.0/gemma3")
    fleet = answer["fleet"]
    del fleet["settings"]["kv_events_config"], fleet["settings"]["kv_transfer_config"]  # null

    assert digests(with_changed(answer, "settings", path, one)) == digests(
        with_changed(answer, "settings", path, other)
    )


def test_equal_groups_of_another_page_size_have_another_layout() -> None:
    answer = recorded("0.32.0/gemma3")
    changed = copy.deepcopy(answer)
    changed["fleet"]["engines"][0]["groups"][0]["page_size_bytes"] *= 2

    assert digests(changed).kv_layout != digests(answer).kv_layout
    assert digests(changed).document == digests(answer).document


@given(st.lists(st.tuples(texts, st.one_of(st.none(), texts)), max_size=5), st.randoms())
def test_the_order_of_adapters_does_not_count(adapters: list[tuple[str, str | None]], random: Any) -> None:
    shuffled = random.sample(adapters, len(adapters))

    assert digest_adapters(shuffled) == digest_adapters(adapters)
    assert digest_adapters([*adapters, ("one more", None)]) != digest_adapters(adapters)


def test_without_settings_groups_or_adapters_their_digests_are_unknown() -> None:
    answer = recorded("0.32.0/gemma3")
    fleet = answer["fleet"]
    fleet["settings"] = None
    fleet["engines"][0]["groups"] = []
    reasons = [{"field": field, "reason": "too large"} for field in ("fleet.adapters", "kv_cache.groups")]

    assert digests({**answer, "fleet": {**fleet, "unavailable": reasons}})[1:] == (
        *(None, fleet["engines"][0]["fingerprint"]["engine"], None, None, SCHEME),
    )
    assert digests(answer).kv_layout  # a model without KV cache
    assert digests({**answer, "fleet": {**fleet, "engines": []}})[1:4] == (None, None, None)


def test_an_answer_of_another_server_has_no_digests() -> None:
    answer = recorded("0.32.0/gemma3")
    del answer["fleet"]

    assert digest_answer(InferenceConfigReply.model_validate(answer)) is None
    assert digests_of(InferenceConfigReply.model_validate(answer)) == {}


@pytest.mark.parametrize("settings", [{"a.b": 1, "a": 2}, {"a": 1e30}, {"a": float("inf")}], ids=range(3))
def test_settings_that_are_no_configuration_have_no_digest(settings: dict[str, Any]) -> None:
    answer = recorded("0.32.0/gemma3")
    answer["fleet"]["settings"] = settings

    with pytest.raises(ValueError, match=r"a has a value and settings below it|a holds a number"):
        digests(answer)


@pytest.mark.parametrize("name", RECORDED)
def test_an_answer_has_the_digests_that_its_server_reports_and_no_others(name: str) -> None:
    answer = InferenceConfigReply.model_validate(recorded(name))
    own = digests_of(answer)
    ranks = [each.data_parallel_rank for each in answer.fleet.engines] if answer.fleet else []
    (rank,) = {each.engine for each in [digests(recorded(name))]}
    reported = kept_digests(digests(recorded(name))._replace(engine=each) for each in ranks)

    assert {each.partition("[")[0].rpartition(".")[2] for each in own} == {"document", "block_hash", "kv_layout"}
    assert len(own) == 3 * len(ranks) - (len(ranks) - 1)
    assert has_digests(own, own)
    assert has_digests(own, kept_digests([digests(recorded(name))]))
    assert not has_digests(own, {})
    assert not has_digests({}, reported)
    for each in own:
        assert differing_digests({**own, each: "0123"}, own) == [each]
        assert not has_digests(own, {**own, each: "0123"})
    assert rank in ranks


def test_digests_of_another_scheme_are_not_compared() -> None:
    found = digests(recorded(RECORDED[0]))
    assert kept_digests([found._replace(scheme="0")]) == {}
    assert kept_digests([found._replace(document=None, block_hash=None)]) == {
        "vllm_fleet_config_info.kv_layout": found.kv_layout
    }


@pytest.mark.parametrize("answer", [b"[]", b'{"fleet": {"engines": 7}}', text_of(RECORDED[0]).replace(b"fleet", b"f")])
def test_an_answer_without_digests_has_none(answer: bytes) -> None:
    try:
        found = reading.read("/inference/v1/config?full=true", answer).reply.digests
    except UnreadableError:
        return
    assert found == {}


def test_an_answer_is_read_with_its_digests_before_it_is_redacted() -> None:
    """The provider digested what it sent, by its own rules of redaction."""
    answer = with_changed(recorded(RECORDED[0]), "settings", "additional_config", {"api_key": "s"})
    read = reading.read("/inference/v1/config?full=true", json.dumps(answer).encode()).reply

    assert read.digests == digests_of(InferenceConfigReply.model_validate(answer))
