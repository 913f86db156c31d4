"""Merging the sources of one replica: documents, reports of engines, contradictions."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet import Contradiction, EngineFingerprint, EngineReport, Setting, Source, State
from dashboard.vllm import canonical
from dashboard.vllm.canonical import setting
from dashboard.vllm.fields import read_config, settings_of
from dashboard.vllm.merging import TOKENS, document_id, merge, merge_engines
from dashboard.vllm.versions import EARLIEST
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
from vllm_fleet_provider.shared.paths import flatten


def reported(source: Source, **values: Any) -> dict[str, Setting]:
    """Return settings by path, `__` for a dot."""
    paths = {name.replace("__", "."): value for name, value in values.items()}
    return {path: setting(path, value, source) for path, value in paths.items()}


def kept(*replies_: dict[str, Setting]) -> dict[str, Setting]:
    return dict(merge(replies_)[0].settings)


@pytest.mark.parametrize("server", captures(has_python_api))
def test_sources_of_a_captured_server_do_not_contradict_each_other(server: Capture) -> None:
    document, contradictions = merge([reply.settings for reply in replies(server.answers)])

    assert contradictions == ()
    assert len(document.settings) > 150
    assert document.version == json.loads(server.answers[VERSION])["version"]


@pytest.mark.parametrize("path", [METRICS, INFERENCE_CONFIG])
def test_a_planted_contradiction_is_kept_and_the_more_trusted_source_wins(path: str) -> None:
    server = capture("llama")
    changed = server.answers[path].replace(b"sha256", b"sha512")

    document, contradictions = merge([reply.settings for reply in replies({**server.answers, path: changed})])

    (found,) = contradictions
    assert found.path == "cache_config.prefix_caching_hash_algo"
    assert (found.kept.value, found.kept.source) == ('"sha256"', Source.SERVER_INFO)
    assert found.other.value == '"sha512"'
    assert document.settings[found.path] == found.kept


def test_unknown_and_redacted_values_contradict_nothing() -> None:
    path = "cache_config__hash_block_size"
    document, contradictions = merge(
        [reported(Source.SERVER_INFO, **{path: None}, x="[redacted]"), reported(Source.METRICS, **{path: 16}, x="y")]
    )

    assert contradictions == ()
    assert document.settings["cache_config.hash_block_size"] == Setting("16", State.REPORTED, Source.METRICS)
    assert document.settings["x"].state is State.REDACTED


@pytest.mark.parametrize(
    ("trusted", "other", "contradicted"),
    [
        ({"a__b": None}, {"a__b": 64}, {"a.b": ("null", "64")}),
        ({"lora_config": None}, {"lora_config__max_loras": 2}, {"lora_config.max_loras": ("null", "2")}),
        ({"lora_config": None}, {"lora_config__max_loras": None}, {}),
        ({"lora_config__max_loras": 2}, {"lora_config": None}, {}),
    ],
)
def test_a_null_contradicts_a_less_trusted_value_at_or_below_its_path(
    trusted: dict[str, Any], other: dict[str, Any], contradicted: dict[str, tuple[str, str]]
) -> None:
    first = reported(Source.SERVER_INFO, **trusted)
    document, contradictions = merge([first, reported(Source.METRICS, **other)])

    assert {each.path: (each.kept.value, each.other.value) for each in contradictions} == contradicted
    assert document.settings == first


def test_fields_of_the_configuration_api_that_a_version_lacks_are_left_out() -> None:
    api = reported(Source.CONFIG_API, scheduler_config__max_num_partial_prefills=1)
    new, unknown = reported(Source.VERSION, version="0.32.0"), reported(Source.VERSION, version="99.0.0")

    assert set(kept(api, new)) == {"version"}
    assert len(kept(api, unknown)) == 2
    assert len(kept(api)) == 1
    assert len(kept(reported(Source.SERVER_INFO, scheduler_config__max_num_partial_prefills=1), new)) == 2


def test_the_id_of_a_document_is_stable() -> None:
    """The first 12 hex digits of the SHA-256 of {"a":["1","reported"]}."""
    assert document_id(reported(Source.METRICS, a=1)) == "d1d006b482a1"


def test_replicas_with_equal_settings_share_a_document() -> None:
    first, second = (
        merge([reply.settings for reply in replies(capture(case).answers)])[0]
        for case in ("qwen3_xxhash", "qwen3_xxhash_again")
    )

    assert first.id == second.id
    assert first.settings == second.settings


def test_a_merged_document_is_cached_until_a_poll_does_not_use_it() -> None:
    settings = reported(Source.METRICS, a=1)
    merged = merge([settings])
    canonical.forget_unused()
    assert merge([settings]) is merged
    canonical.forget_unused()
    canonical.forget_unused()
    assert merge([settings]) is not merged
    assert merge([settings]) == merged


@given(st.permutations(range(6)))
def test_the_order_of_replies_does_not_change_the_document(order: list[int]) -> None:
    answers = [reply.settings for reply in replies(capture("gemma3").answers)]

    first, second = merge(answers), merge([answers[place] for place in order if place < len(answers)])

    assert first == second


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
def test_every_reported_path_is_in_the_document_or_above_or_below_one(documents: list[dict[str, Any]]) -> None:
    sources = [Source.SERVER_INFO, Source.CONFIG_API, Source.METRICS, Source.MODELS]
    replies_ = [
        {path: setting(path, value, source) for path, value in each.items()}
        for each, source in zip(documents, sources, strict=False)
    ]

    settings = merge(replies_)[0].settings

    for path in {path for each in replies_ for path in each}:
        assert any(path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.") for other in settings)


@pytest.mark.parametrize(
    ("folder", "root"),
    [
        ("/root/.cache/huggingface/hub/models--org--llama/snapshots/0e9e39f", "org/llama"),
        ("/var/cache/1f2e3d", "s3://bucket/llama"),
    ],
)
def test_a_local_copy_does_not_contradict_the_requested_model(folder: str, root: str) -> None:
    """vLLM reports its local copy; /v1/models reports the requested name."""
    config = {"model_config": {"model": folder}}
    info, _ = read_config(flatten(config), {}, Source.SERVER_INFO)
    models = settings_of({}, Source.MODELS, [("model_config.model", root)])[0]

    assert merge([info, models])[1] == ()


def merge_reports(
    **by_source: tuple[EngineReport, ...] | EngineReport,
) -> tuple[tuple[EngineReport, ...], tuple[Contradiction, ...]]:
    """Merge the reports of sources in the order of trust."""
    given = [(Source(name), reports) for name, reports in by_source.items()]
    by_trust = sorted(given, key=lambda each: list(Source).index(each[0]))
    return merge_engines(
        tuple((source, (reports,) if isinstance(reports, EngineReport) else reports) for source, reports in by_trust)
    )


PRINT = EngineFingerprint("c", "e")
SUMS = (EngineReport(0, blocks_of_all=5), EngineReport(1, blocks_of_all=5))


@pytest.mark.parametrize(
    ("reports", "engines"),
    [
        ({"server_info": EngineReport(0, 100, 1600), "metrics": EngineReport(0, 99, 1599, 2.5)}, [(0, 100, 1600, 2.5)]),
        ({"server_info": EngineReport(3, 8), "config_api": EngineReport(3, 8)}, [(3, 8)]),
        (
            {
                "provider": (EngineReport(0), EngineReport(1, fingerprint=PRINT)),
                "metrics": (EngineReport(0, 50, 800), EngineReport(1, 50)),
            },
            [(0, 50, 800), EngineReport(1, 50, fingerprint=PRINT)],
        ),
        # Of several engines, another source's blocks may be one engine's or the sum.
        ({"config_api": EngineReport(0, 16384), "metrics": SUMS}, SUMS),
    ],
    ids=["by trust", "rank of the first report", "numbers that the provider lacks", "blocks of several engines"],
)
def test_reports_of_one_rank_are_merged_by_trust(reports: dict[str, Any], engines: Sequence[Any]) -> None:
    expected = [EngineReport(*each) if len(each) < len(EngineReport._fields) else each for each in engines]

    assert list(merge_reports(**reports)[0]) == expected


def test_ranks_and_numbers_of_the_provider_win_over_sums_of_metrics() -> None:
    print_, other = EngineFingerprint("c", "e1"), EngineFingerprint("c", "e2")
    ours = (
        EngineReport(4, 50, 800, 1.5, kv_cache_bytes_per_device=9, fingerprint=print_, max_model_len=512),
        EngineReport(5, 51, 816, 1.6, kv_cache_bytes_per_device=9, fingerprint=other, max_model_len=256),
    )
    summed = (EngineReport(0, None, 800, 1.5, blocks_of_all=21), EngineReport(1, blocks_of_all=21))

    assert merge_reports(provider=ours, metrics=summed) == (ours, ())


def test_metrics_count_the_engines_that_the_provider_did_not_reach() -> None:
    """An answer of a provider that lists one engine, without its numbers, behind an API server of two."""
    summed = (EngineReport(0, None, 800, 1.5, blocks_of_all=100), EngineReport(1, blocks_of_all=100))

    assert merge_reports(provider=EngineReport(0), metrics=summed)[0] == summed
    assert [each.dp_rank for each in merge_reports(provider=EngineReport(7), metrics=summed)[0]] == [7]


@pytest.mark.parametrize("trusted", [Source.PROVIDER, Source.SERVER_INFO, Source.METRICS])
def test_tokens_of_a_plugin_contradict_vllm_s_own(trusted: Source) -> None:
    own = EngineReport(0, 32768, 664_444)

    found = merge_reports(**{str(trusted): own, "plugin": EngineReport(0, 32768, 4_194_304)})

    assert found == (
        (own,),
        (
            Contradiction(
                TOKENS,
                Setting("664444", State.REPORTED, trusted),
                Setting("4194304", State.REPORTED, Source.PLUGIN),
            ),
        ),
    )


@pytest.mark.parametrize(("tokens", "contradicts"), [(800, False), (816, False), (999, True)])
def test_metrics_and_server_info_may_report_any_of_the_provider_s_engines(*, tokens: int, contradicts: bool) -> None:
    """They report the number of the engine that answered first."""
    ours = (EngineReport(0, 50, 800), EngineReport(1, 51, 816))

    _, contradictions = merge_reports(
        provider=ours, server_info=EngineReport(0, None, tokens), metrics=EngineReport(0, 50, tokens)
    )

    assert {(each.kept.value, each.other.value) for each in contradictions} == (
        {("800", "999")} if contradicts else set()
    )


def test_a_product_is_not_compared_where_its_blocks_may_be_a_sum() -> None:
    two = (EngineReport(0, 50, 800), EngineReport(1, 50))

    assert merge_reports(plugin=EngineReport(0, 100, 1600), metrics=two)[1] == ()


@pytest.mark.parametrize(
    ("version", "paths", "wanted"),
    [
        ("0.1.dev5+g3f2a1bc", None, ("0.32.0", Source.KV_EVENT_SOURCES)),
        ("0.1.dev5+g3f2a1bc", (METRICS, VERSION), ("0.31.0", Source.METRICS)),
        ("3f2a1bc", (METRICS, VERSION), ("0.31.0", Source.METRICS)),
        ("0.0.0", (VERSION,), None),
        ("0.33.0", None, None),
    ],
)
def test_a_build_without_a_release_is_bounded_by_what_it_answers(
    version: str, paths: Sequence[str] | None, wanted: tuple[str, Source] | None
) -> None:
    answers = {**capture("llama").answers, VERSION: json.dumps({"version": version}).encode()}
    found = kept(*(dict(reply.settings) for reply in replies(answers, paths)))

    bound = None if wanted is None else setting(EARLIEST, *wanted)
    assert found.get(EARLIEST) == bound


def test_an_old_source_build_shows_nothing_but_its_age() -> None:
    """The labels of vLLM 0.12.0 are those of every version that is known."""
    answers = {**capture("llama", "0.12.0").answers, VERSION: b'{"version": "0.1.dev5"}'}

    assert EARLIEST not in kept(*(dict(reply.settings) for reply in replies(answers, (METRICS, VERSION))))
