"""What is known of a replica from one snapshot: its state, name, pool and role, and its merged engines."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet import (
    Device,
    EngineReport,
    Failure,
    FailureKind,
    KVCacheGroup,
    ProbeResult,
    ReplicaState,
    Reply,
    Role,
    Setting,
    Snapshot,
    Source,
    Target,
)
from dashboard.sources.polling.probes import BY_PATH
from dashboard.vllm.canonical import setting
from dashboard.vllm.facts import NO_CACHE, RUST_FRONTEND, Facts, facts_of
from tests.captured import AT, INFERENCE_CONFIG, METRICS, MODELS, PLUGIN, SERVER_INFO, VERSION, capture, snapshot

REFUSED = Failure(FailureKind.REFUSED, "Nothing listens there.")
KEY = Failure(FailureKind.UNAUTHORIZED, "It wants a key.")
BROKEN = Failure(FailureKind.SCHEMA, "It says nonsense.")


def probe(path: str, reply: Reply | None = None, failure: Failure | None = None, at: datetime = AT) -> ProbeResult:
    return ProbeResult(path, BY_PATH[path].source, at, 0.01, 200, reply=reply, failure=failure)


def seen(*probes: ProbeResult, labels: Mapping[str, str] | None = None, target: str = "http://10.0.0.1:8000") -> Facts:
    return facts_of(Snapshot(Target(target, labels or {}), AT, {each.path: each for each in probes}))


def metrics(*engines: EngineReport, **more: Any) -> Reply:
    return Reply(Source.METRICS, engines=engines or (EngineReport(0, 8),), **more)


def settings(source: Source, **values: Any) -> dict[str, Setting]:
    return {
        path: setting(path, value, source)
        for path, value in ((name.replace("__", "."), each) for name, each in values.items())
    }


# State


def test_a_stock_server_that_answers_metrics_version_and_models_is_up() -> None:
    facts = facts_of(snapshot(capture("llama").answers, [METRICS, VERSION, MODELS]))

    assert (facts.state, facts.failure) == (ReplicaState.UP, None)


def test_a_probe_that_failed_otherwise_makes_it_partial_with_the_reason() -> None:
    facts = seen(probe(METRICS, metrics()), probe(MODELS, failure=KEY))

    assert (facts.state, facts.failure) == (ReplicaState.PARTIAL, KEY)


@pytest.mark.parametrize("path", [VERSION, MODELS, f"{PLUGIN}/config"])
def test_without_any_cache_configuration_it_is_partial(path: str) -> None:
    """A plugin's blocks do not tell the cache configuration."""
    facts = seen(probe(path, Reply(BY_PATH[path].source, engines=(EngineReport(0, 5),))))

    assert (facts.state, facts.failure) == (ReplicaState.PARTIAL, NO_CACHE)


RUST = capture("llama_rust", "0.33.0").answers


@pytest.mark.parametrize("paths", [(METRICS, VERSION, MODELS), (METRICS, VERSION, MODELS, SERVER_INFO), (VERSION,)])
def test_a_replica_behind_the_rust_frontend_is_partial_and_the_reason_says_what_to_do(paths: tuple[str, ...]) -> None:
    facts = facts_of(snapshot(RUST, paths))

    assert (facts.state, facts.failure) == (ReplicaState.PARTIAL, RUST_FRONTEND)
    assert "Start the Python API server" in RUST_FRONTEND.detail
    assert facts.version == "0.33.0+cpu"


def test_the_rust_frontend_is_no_fault_where_another_source_reports_the_engine() -> None:
    assert facts_of(snapshot(RUST)).state is ReplicaState.UP


def test_metrics_without_the_cache_series_is_partial_unless_another_source_tells_it() -> None:
    empty = probe(METRICS, Reply(Source.METRICS))

    assert seen(empty).failure == NO_CACHE
    assert (
        seen(empty, probe(INFERENCE_CONFIG, Reply(Source.CONFIG_API, engines=(EngineReport(0, 5),)))).state
        is ReplicaState.UP
    )


def test_no_usable_reply_is_down_and_the_reason_is_what_became_of_metrics() -> None:
    facts = seen(probe(VERSION, failure=KEY), probe(METRICS, failure=REFUSED))

    assert (facts.state, facts.failure) == (ReplicaState.DOWN, REFUSED)
    assert (facts.document, facts.observed_at, facts.pool, facts.engines) == (None, None, None, ())


def test_earlier_replies_beside_failures_keep_what_is_known_of_a_replica_that_is_down() -> None:
    earlier = AT - timedelta(minutes=9)
    reply = metrics(served_model_names=("chat",), settings=settings(Source.METRICS, cache_config__block_size=16))

    facts = seen(probe(METRICS, reply, REFUSED, at=earlier), probe(SERVER_INFO))

    assert (facts.state, facts.failure) == (ReplicaState.DOWN, REFUSED)
    assert (facts.pool, facts.observed_at) == ("chat", earlier)
    assert facts.document is not None
    assert facts.sources == (Source.METRICS,)


# Name, pool, role


@pytest.mark.parametrize(
    ("labels", "kv_role", "pool", "role"),
    [
        ({}, None, "chat", Role.BOTH),
        ({}, "kv_both", "chat", Role.BOTH),
        ({}, "kv_producer", "chat/prefill", Role.PREFILL),
        ({}, "kv_consumer", "chat/decode", Role.DECODE),
        ({}, 5, "chat", Role.BOTH),
        ({"role": "Prefill"}, "kv_consumer", "chat/prefill", Role.PREFILL),
        ({"role": "both"}, "kv_consumer", "chat", Role.BOTH),
        ({"role": "leader"}, "kv_consumer", "chat/decode", Role.DECODE),
        ({"pool": "mine"}, "kv_consumer", "mine", Role.DECODE),
        ({"pool": "mine", "role": "decode"}, None, "mine", Role.DECODE),
    ],
)
def test_labels_decide_pool_and_role_before_what_the_replica_says(
    labels: dict[str, str], kv_role: Any, pool: str, role: Role
) -> None:
    reply = metrics(
        served_model_names=("chat", "alias"), settings=settings(Source.METRICS, kv_transfer_config__kv_role=kv_role)
    )

    facts = seen(probe(METRICS, reply), labels=labels)

    assert (facts.pool, facts.role) == (pool, role)


# What replies say together


def test_metrics_tell_the_start_at_every_poll_and_the_provider_where_they_have_none() -> None:
    """Several API processes behind one address have a start each: /metrics then tells none."""
    early, late = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
    provider = probe(INFERENCE_CONFIG, Reply(Source.PROVIDER, started_at=early))

    assert seen(probe(METRICS, metrics(started_at=late)), provider).started_at == late
    assert seen(probe(METRICS, metrics()), provider).started_at == early
    assert seen(probe(METRICS, metrics())).started_at is None


def test_models_tell_the_adapters_at_every_poll_and_the_provider_where_they_cannot_be_read() -> None:
    provider = probe(INFERENCE_CONFIG, Reply(Source.PROVIDER, adapters={"sql": None, "old": None}))
    unloaded = probe(MODELS, Reply(Source.MODELS, adapters={"sql": "/mnt/sql"}))

    assert seen(provider, unloaded).adapters == {"sql": "/mnt/sql"}
    assert seen(provider, probe(MODELS, Reply(Source.MODELS))).adapters == {}
    assert seen(provider, probe(MODELS, failure=KEY)).adapters == {"sql": None, "old": None}
    assert seen(probe(METRICS, metrics())).adapters == {}


def test_whoever_answers_on_a_path_decides_its_trust() -> None:
    """Our provider and the configuration endpoints of others share the path: only ours stands above /server_info."""
    info = probe(SERVER_INFO, Reply(Source.SERVER_INFO, settings=settings(Source.SERVER_INFO, a=1)))
    ours, others = (
        seen(info, probe(INFERENCE_CONFIG, Reply(source, settings=settings(source, a=2))))
        for source in (Source.PROVIDER, Source.CONFIG_API)
    )

    assert (ours.sources[0], others.sources[0]) == (Source.PROVIDER, Source.SERVER_INFO)
    assert [(each.kept.value, each.other.value) for each in ours.contradictions] == [("2", "1")]
    assert [(each.kept.value, each.other.value) for each in others.contradictions] == [("1", "2")]


def test_devices_and_groups_of_all_ranks_stay_where_the_provider_puts_them() -> None:
    group = KVCacheGroup(0, 0, "FullAttentionSpec", 16, 4096, 2)
    provider = Reply(
        Source.PROVIDER,
        engines=(EngineReport(2, 8), EngineReport(3, 8)),
        devices=(Device(2, 0, "x"), Device(3, 0, "x")),
        kv_cache_groups=(group._replace(dp_rank=2), group._replace(dp_rank=3)),
    )

    facts = seen(probe(METRICS, metrics(EngineReport(0, 8))), probe(INFERENCE_CONFIG, provider))

    assert [engine.dp_rank for engine in facts.engines] == [2, 3]
    assert facts.devices == provider.devices
    assert facts.kv_cache_groups == provider.kv_cache_groups


def test_a_source_that_knows_one_engine_means_the_first_whatever_rank_it_names() -> None:
    """With external load balancing the API server's engine is rank 5, where another source says 0."""
    group = KVCacheGroup(0, 0, "FullAttentionSpec", 16, 4096, 2)
    api = Reply(
        Source.CONFIG_API, engines=(EngineReport(0, 8),), devices=(Device(0, 0, "H100"),), kv_cache_groups=(group,)
    )

    facts = seen(probe(METRICS, metrics(EngineReport(5, 8, 128))), probe(INFERENCE_CONFIG, api))

    assert facts.engines == (EngineReport(5, 8, 128),)
    assert facts.devices == (Device(5, 0, "H100"),)
    assert facts.kv_cache_groups == (group._replace(dp_rank=5),)


def test_devices_without_any_engine_keep_their_rank() -> None:
    facts = seen(probe(f"{PLUGIN}/devices", Reply(Source.PLUGIN, devices=(Device(2, 0, "x"),))))

    assert facts.devices == (Device(2, 0, "x"),)


@given(st.randoms(use_true_random=False), st.sampled_from(["gemma3", "gemma3_plugin", "llama_dp2"]))
def test_the_order_in_which_probes_were_asked_changes_nothing(random: Any, case: str) -> None:
    whole = snapshot(capture(case).answers)
    whole = replace(
        whole,
        probes={
            **whole.probes,
            MODELS: replace(whole.probes[MODELS], failure=KEY),
            VERSION: replace(whole.probes[VERSION], failure=BROKEN),
        },
    )
    paths = list(whole.probes)
    random.shuffle(paths)

    shuffled = replace(whole, probes={path: whole.probes[path] for path in paths})

    assert facts_of(shuffled) == facts_of(whole)
