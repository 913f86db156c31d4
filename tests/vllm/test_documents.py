"""Where the sources of one replica meet: what is kept, what contradicts, and the name of the document."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet import Setting, Source, State
from dashboard.vllm import canonical
from dashboard.vllm.canonical import setting
from dashboard.vllm.fields import flatten_config, settings_of
from dashboard.vllm.merging import document_id, merge
from tests.captured import (
    INFERENCE_CONFIG,
    METRICS,
    VERSION,
    Capture,
    capture,
    captures,
    has_python_api,
    replies,
)


def said(source: Source, **values: Any) -> dict[str, Setting]:
    """Settings by path, written with __ for a dot."""
    paths = {name.replace("__", "."): value for name, value in values.items()}
    return {path: setting(path, value, source) for path, value in paths.items()}


def kept(*told: dict[str, Setting]) -> dict[str, Setting]:
    return dict(merge(told).document.settings)


@pytest.mark.parametrize("server", captures(has_python_api))
def test_a_clean_server_contradicts_itself_nowhere(server: Capture) -> None:
    told = replies(server.answers)

    merged = merge([reply.settings for reply in told])

    assert merged.contradictions == ()
    assert len(merged.document.settings) > 150
    assert merged.document.version == json.loads(server.answers[VERSION])["version"]


@pytest.mark.parametrize("path", [METRICS, INFERENCE_CONFIG])
def test_a_planted_contradiction_is_kept_and_the_more_trusted_source_wins(path: str) -> None:
    server = capture("llama")
    changed = server.answers[path].replace(b"sha256", b"sha512")

    merged = merge([reply.settings for reply in replies({**server.answers, path: changed})])

    assert len(merged.contradictions) == 1
    found = merged.contradictions[0]
    assert found.path == "cache_config.prefix_caching_hash_algo"
    assert (found.kept.value, found.kept.source) == ('"sha256"', Source.SERVER_INFO)
    assert found.other.value == '"sha512"'
    assert merged.document.settings[found.path] == found.kept


def test_a_null_and_a_value_contradict_each_other() -> None:
    merged = merge([said(Source.SERVER_INFO, a__b=None), said(Source.METRICS, a__b=64)])

    assert [(found.path, found.kept.value, found.other.value) for found in merged.contradictions] == [
        ("a.b", "null", "64")
    ]


def test_what_is_unknown_or_redacted_contradicts_nothing_and_gives_way_to_what_is_known() -> None:
    path = "cache_config__hash_block_size"
    merged = merge(
        [said(Source.SERVER_INFO, **{path: None}, x="[redacted]"), said(Source.METRICS, **{path: 16}, x="y")]
    )

    assert merged.contradictions == ()
    assert merged.document.settings["cache_config.hash_block_size"] == Setting("16", State.REPORTED, Source.METRICS)
    assert merged.document.settings["x"].state is State.REDACTED


def test_a_section_that_is_null_says_it_of_its_leaves() -> None:
    null = said(Source.SERVER_INFO, lora_config=None)

    assert kept(null, said(Source.CONFIG_API, lora_config__max_loras=None)) == kept(null)
    contradiction = merge([null, said(Source.CONFIG_API, lora_config__max_loras=2)]).contradictions[0]
    assert (contradiction.path, contradiction.kept.value) == ("lora_config.max_loras", "null")


def test_a_section_whose_leaves_are_told_is_no_setting_of_its_own() -> None:
    leaves = said(Source.SERVER_INFO, lora_config__max_loras=2)

    merged = merge([leaves, said(Source.PLUGIN, lora_config=None)])

    assert merged.document.settings == leaves
    assert merged.contradictions == ()


def test_a_field_of_the_configuration_api_that_the_version_does_not_have_is_left_out() -> None:
    """Its answers have fields of other versions, and what stands there means nothing."""
    told = said(Source.CONFIG_API, scheduler_config__max_num_partial_prefills=1)
    new, unknown = said(Source.VERSION, version="0.32.0"), said(Source.VERSION, version="99.0.0")

    assert set(kept(told, new)) == {"version"}
    assert len(kept(told, unknown)) == 2
    assert len(kept(told)) == 1
    assert len(kept(said(Source.SERVER_INFO, scheduler_config__max_num_partial_prefills=1), new)) == 2


def test_the_name_of_a_document_is_stable_over_runs_and_machines() -> None:
    """The first 12 hex digits of the SHA-256 of {"a":["1","reported"]}."""
    assert document_id(said(Source.METRICS, a=1)) == "d1d006b482a1"


def test_replicas_that_differ_in_their_identity_only_hold_one_document() -> None:
    """Two launches of the same command."""
    first, second = (
        merge([reply.settings for reply in replies(capture(case).answers)]).document
        for case in ("qwen3_xxhash", "qwen3_xxhash_again")
    )

    assert first.id == second.id
    assert first.settings == second.settings


def test_what_was_merged_once_is_the_same_object_until_a_poll_does_not_use_it() -> None:
    settings = said(Source.METRICS, a=1)
    merged = merge([settings])
    canonical.forget_unused()
    assert merge([settings]) is merged
    canonical.forget_unused()
    canonical.forget_unused()
    assert merge([settings]) is not merged
    assert merge([settings]) == merged


@given(st.permutations(range(6)))
def test_the_order_of_the_replies_never_changes_the_document(order: list[int]) -> None:
    told = [reply.settings for reply in replies(capture("gemma3").answers)]

    first, second = merge(told), merge([told[place] for place in order if place < len(told)])

    assert first.document == second.document
    assert first.contradictions == second.contradictions


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "a.b", "a.b.c", "d", "cache_config.hash_block_size"]),
            st.sampled_from([None, 1, 2, "x"]),
            max_size=4,
        ),
        max_size=4,
    )
)
def test_every_path_that_anybody_told_is_told_or_stands_below_or_above_one_that_is(told: list[dict[str, Any]]) -> None:
    sources = [Source.SERVER_INFO, Source.CONFIG_API, Source.METRICS, Source.MODELS]
    replies_ = [
        {path: setting(path, value, source) for path, value in each.items()}
        for each, source in zip(told, sources, strict=False)
    ]

    settings = merge(replies_).document.settings

    for path in {path for each in replies_ for path in each}:
        assert any(path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.") for other in settings)


@pytest.mark.parametrize(
    ("folder", "root"),
    [
        ("/root/.cache/huggingface/hub/models--org--llama/snapshots/0e9e39f", "org/llama"),
        ("/var/cache/1f2e3d", "s3://bucket/llama"),
    ],
)
def test_an_offline_server_and_one_that_loads_from_a_url_contradict_themselves_nowhere(folder: str, root: str) -> None:
    """vLLM puts its local copy in place of the model; /v1/models tells what was asked for."""
    config = {"model_config": {"model": folder}}
    told, _ = flatten_config(config, {}, Source.SERVER_INFO)
    models = settings_of({}, Source.MODELS, [("model_config.model", root)])[0]

    assert merge([told, models]).contradictions == ()
