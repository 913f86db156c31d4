"""A replica of a snapshot: state, name, pool, role, and merged engines; and one that is taken over."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis.reuse import renewed, shared_engines
from dashboard.fleet import (
    Device,
    EngineReport,
    Failure,
    FailureKind,
    KVCacheGroup,
    ProbeResult,
    Replica,
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
from dashboard.vllm.replica import NO_CACHE, RUST_FRONTEND, read_document, read_replica
from tests.captured import AT, INFERENCE_CONFIG, METRICS, MODELS, PLUGIN, SERVER_INFO, VERSION, capture, snapshot
from vllm_fleet_provider.shared.digests import DIGESTS

REFUSED = Failure(FailureKind.REFUSED, "refused")
KEY = Failure(FailureKind.UNAUTHORIZED, "no key")
BROKEN = Failure(FailureKind.SCHEMA, "another shape")


def probe(path: str, reply: Reply | None = None, failure: Failure | None = None, at: datetime = AT) -> ProbeResult:
    return ProbeResult(path, BY_PATH[path].source, at, 0.01, 200, reply=reply, failure=failure)


def replica_of(seen: Snapshot, since: datetime = AT, scraped_at: float | None = None) -> Replica:
    return read_replica(seen, since, shared_engines, scraped_at)


def seen(*probes: ProbeResult, labels: Mapping[str, str] | None = None) -> Replica:
    return replica_of(Snapshot(Target("http://10.0.0.1:8000", labels or {}), AT, {each.path: each for each in probes}))


def metrics(*engines: EngineReport, **more: Any) -> Reply:
    return Reply(Source.METRICS, engines=engines or (EngineReport(0, 8),), **more)


def settings(source: Source, **values: Any) -> dict[str, Setting]:
    return {
        path: setting(path, value, source)
        for path, value in ((name.replace("__", "."), each) for name, each in values.items())
    }


ENGINE = (EngineReport(0, 5),)
EMPTY = probe(METRICS, Reply(Source.METRICS))


@pytest.mark.parametrize(
    ("probes", "state", "failure"),
    [
        (snapshot(capture("llama").answers, [METRICS, VERSION, MODELS]).probes.values(), ReplicaState.UP, None),
        ([EMPTY, probe(INFERENCE_CONFIG, Reply(Source.CONFIG_API, engines=ENGINE))], ReplicaState.UP, None),
        ([probe(METRICS, metrics()), probe(MODELS, failure=KEY)], ReplicaState.PARTIAL, KEY),
        ([EMPTY], ReplicaState.PARTIAL, NO_CACHE),
        ([probe(VERSION, Reply(Source.VERSION, engines=ENGINE))], ReplicaState.PARTIAL, NO_CACHE),
        ([probe(MODELS, Reply(Source.MODELS, engines=ENGINE))], ReplicaState.PARTIAL, NO_CACHE),
        # Blocks of a plugin are not the cache configuration.
        ([probe(f"{PLUGIN}/config", Reply(Source.PLUGIN, engines=ENGINE))], ReplicaState.PARTIAL, NO_CACHE),
    ],
)
def test_a_replica_without_failure_and_with_its_cache_configuration_is_up(
    probes: Iterable[ProbeResult], state: ReplicaState, failure: Failure | None
) -> None:
    found = seen(*probes)

    assert (found.state, found.failure) == (state, failure)


RUST = capture("llama_rust", "0.33.0").answers


@pytest.mark.parametrize("paths", [(METRICS, VERSION, MODELS), (METRICS, VERSION, MODELS, SERVER_INFO), (VERSION,)])
def test_the_rust_frontend_is_partial_with_the_next_step(paths: tuple[str, ...]) -> None:
    found = replica_of(snapshot(RUST, paths))

    assert (found.state, found.failure) == (ReplicaState.PARTIAL, RUST_FRONTEND)
    assert "start the Python API server" in RUST_FRONTEND.detail
    assert "--grpc-port" in RUST_FRONTEND.detail
    assert found.version == "0.33.0+cpu"


def test_the_rust_frontend_is_up_where_another_source_reports_the_engine() -> None:
    assert replica_of(snapshot(RUST)).state is ReplicaState.UP


def test_no_reply_is_down_with_the_failure_of_metrics() -> None:
    found = seen(probe(VERSION, failure=KEY), probe(METRICS, failure=REFUSED))

    assert (found.state, found.failure) == (ReplicaState.DOWN, REFUSED)
    assert (found.document, found.observed_at, found.pool, found.fresh) == (None, None, None, False)


def test_a_replica_that_is_down_keeps_its_earlier_replies() -> None:
    earlier = AT - timedelta(minutes=9)
    reply = metrics(served_model_names=("chat",), settings=settings(Source.METRICS, cache_config__block_size=16))

    found = seen(probe(METRICS, reply, REFUSED, at=earlier), probe(SERVER_INFO))

    assert (found.state, found.failure) == (ReplicaState.DOWN, REFUSED)
    assert (found.pool, found.observed_at) == ("chat", earlier)
    assert found.document is not None
    assert found.sources == (Source.METRICS,)


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
        ({"pool": "mine", "cluster": "east"}, None, "east/mine", Role.BOTH),
        ({"cluster": "east"}, "kv_consumer", "east/chat/decode", Role.DECODE),
        ({"cluster": ""}, None, "chat", Role.BOTH),
    ],
)
def test_labels_win_over_reported_pool_and_role(labels: dict[str, str], kv_role: Any, pool: str, role: Role) -> None:
    reply = metrics(
        served_model_names=("chat", "alias"), settings=settings(Source.METRICS, kv_transfer_config__kv_role=kv_role)
    )

    found = seen(probe(METRICS, reply), labels=labels)

    assert (found.pool, found.role) == (pool, role)


@pytest.mark.parametrize(
    ("path", "value", "role"),
    [
        ("ec_transfer_config.ec_role", "ec_producer", Role.ENCODER),
        ("ec_transfer_config.ec_role", "ec_both", Role.PREFILL),
        ("model_config.multimodal_config.mm_encoder_only", True, Role.ENCODER),
        ("model_config.multimodal_config.mm_encoder_only", False, Role.PREFILL),
    ],
)
def test_an_instance_that_only_encodes_has_a_role_of_its_own(path: str, value: Any, role: Role) -> None:
    known = settings(Source.SERVER_INFO, **{path: value, "kv_transfer_config.kv_role": "kv_producer"})
    reply = metrics(served_model_names=("chat",), settings=known)

    found = seen(probe(METRICS, reply))

    assert (found.role, found.pool) == (role, f"chat/{role}")
    assert seen(probe(METRICS, reply), labels={"role": "both"}).role is Role.BOTH


def test_the_start_time_is_that_of_metrics_else_of_the_provider() -> None:
    """With several API processes /metrics has no start time."""
    early, late = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
    provider = probe(INFERENCE_CONFIG, Reply(Source.PROVIDER, started_at=early))

    assert seen(probe(METRICS, metrics(started_at=late)), provider).started_at == late
    assert seen(probe(METRICS, metrics()), provider).started_at == early
    assert seen(probe(METRICS, metrics())).started_at is None


def test_adapters_are_those_of_models_else_of_the_provider() -> None:
    provider = probe(INFERENCE_CONFIG, Reply(Source.PROVIDER, adapters={"sql": None, "old": None}))
    unloaded = probe(MODELS, Reply(Source.MODELS, adapters={"sql": "/mnt/sql"}))

    assert seen(provider, unloaded).adapters == {"sql": "/mnt/sql"}
    assert seen(provider, probe(MODELS, Reply(Source.MODELS))).adapters == {}
    assert seen(provider, probe(MODELS, failure=KEY)).adapters == {"sql": None, "old": None}
    assert seen(probe(METRICS, metrics())).adapters == {}


def test_the_answer_on_a_path_decides_its_trust() -> None:
    """Only our provider is trusted above /server_info; other servers share its path."""
    info = probe(SERVER_INFO, Reply(Source.SERVER_INFO, settings=settings(Source.SERVER_INFO, a=1)))
    ours, others = (
        seen(info, probe(INFERENCE_CONFIG, Reply(source, settings=settings(source, a=2))))
        for source in (Source.PROVIDER, Source.CONFIG_API)
    )

    assert (ours.sources[0], others.sources[0]) == (Source.PROVIDER, Source.SERVER_INFO)
    assert [(each.kept.value, each.other.value) for each in ours.contradictions] == [("2", "1")]
    assert [(each.kept.value, each.other.value) for each in others.contradictions] == [("1", "2")]


def test_devices_and_groups_keep_the_ranks_of_the_provider() -> None:
    group = KVCacheGroup(0, 0, "FullAttentionSpec", 16, 4096, 2)
    provider = Reply(
        Source.PROVIDER,
        engines=(EngineReport(2, 8), EngineReport(3, 8)),
        devices=(Device(2, 0, "x"), Device(3, 0, "x")),
        kv_cache_groups=(group._replace(dp_rank=2), group._replace(dp_rank=3)),
    )

    found = seen(probe(METRICS, metrics(EngineReport(0, 8))), probe(INFERENCE_CONFIG, provider))

    assert [engine.dp_rank for engine in found.engines] == [2, 3]
    assert found.devices == provider.devices
    assert found.kv_cache_groups == provider.kv_cache_groups


@pytest.mark.parametrize(
    ("engines", "rank"),
    [
        # With external load balancing the API server's engine is rank 5, where another source says 0.
        ((EngineReport(5, 8, 128),), 5),
        ((), 0),
    ],
)
def test_devices_and_groups_of_another_source_have_the_rank_of_a_single_engine(
    engines: tuple[EngineReport, ...], rank: int
) -> None:
    group = KVCacheGroup(0, 0, "FullAttentionSpec", 16, 4096, 2)
    api = Reply(Source.PLUGIN, devices=(Device(0, 0, "H100"),), kv_cache_groups=(group,))

    found = seen(probe(METRICS, Reply(Source.METRICS, engines=engines)), probe(f"{PLUGIN}/devices", api))

    assert [each.dp_rank for each in found.engines] == [each.dp_rank for each in engines]
    assert found.devices == (Device(rank, 0, "H100"),)
    assert found.kv_cache_groups == (group._replace(dp_rank=rank),)


@given(st.randoms(use_true_random=False), st.sampled_from(["gemma3", "gemma3_plugin", "llama_dp2"]))
def test_the_order_of_probes_does_not_change_the_replica(random: Any, case: str) -> None:
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

    assert replace(replica_of(shuffled), probes=()) == replace(replica_of(whole), probes=())
    assert read_document(shuffled) == read_document(whole)


@pytest.mark.parametrize(
    ("probes", "is_renewed"),
    [
        ([probe(METRICS, metrics(), at=AT + timedelta(minutes=1)), probe(SERVER_INFO)], True),
        ([probe(METRICS, metrics(), at=AT + timedelta(minutes=1))], False),
        ([probe(METRICS, metrics(EngineReport(0, 9))), probe(SERVER_INFO)], False),
        ([probe(METRICS, metrics(), REFUSED), probe(SERVER_INFO)], False),
    ],
    ids=["another time", "an answer less", "another answer", "a failure"],
)
def test_a_replica_is_renewed_only_where_nothing_but_times_differs(probes: list[ProbeResult], is_renewed: bool) -> None:  # noqa: FBT001
    before = seen(probe(METRICS, metrics()), probe(SERVER_INFO))
    later = Snapshot(Target(before.id), AT, {each.path: each for each in probes})

    assert renewed(before, later, AT, None) == (replica_of(later) if is_renewed else None)


@pytest.mark.parametrize(
    "changed", [{"labels": {"zone": "b"}}, {"stale": True}], ids=["another label", "a source that fails"]
)
def test_a_replica_with_another_target_is_not_renewed(changed: Mapping[str, Any]) -> None:
    probes = {METRICS: probe(METRICS, metrics())}
    before = seen(*probes.values(), labels={"zone": "a"})

    later = Snapshot(replace(Target(before.id, {"zone": "a"}), **changed), AT, probes)
    assert renewed(before, later, AT, None) is None


def test_a_scraped_replica_is_as_fresh_as_its_last_scrape_although_its_lines_are_older() -> None:
    minute, at = timedelta(minutes=1), AT.timestamp()
    whole = Snapshot(Target("http://10.0.0.1:8000"), AT, {METRICS: probe(METRICS, metrics())}, is_scraped=True)
    before = replica_of(whole, AT - minute, at)
    assert (before.fresh, before.observed_at) == (True, AT)
    assert not replica_of(whole, AT + minute, at).fresh

    later = (AT + 2 * minute).timestamp()
    assert renewed(before, whole, AT + minute, later) is before
    late = renewed(before, whole, AT + 3 * minute, later)
    assert late is not None
    assert (late.fresh, late.observed_at) == (False, AT + 2 * minute)


def test_a_scraped_replica_without_an_answer_was_never_read() -> None:
    unread = Snapshot(Target("http://10.0.0.1:8000"), AT, {METRICS: probe(METRICS)}, is_scraped=True)
    found = replica_of(unread, AT - timedelta(minutes=1), AT.timestamp())
    assert (found.fresh, found.observed_at) == (False, None)


def test_a_digest_that_the_answer_does_not_have_is_a_contradiction_and_the_answer_is_kept() -> None:
    name = f"{DIGESTS}document"
    own = Reply(Source.PROVIDER, engines=(EngineReport(0, 8),), digests={name: "a1"})

    (found,) = seen(probe(METRICS, metrics(digests={name: "b2"})), probe(INFERENCE_CONFIG, own)).contradictions

    assert (found.path, found.kept.value, found.kept.source) == (name, '"a1"', Source.PROVIDER)
    assert (found.other.value, found.other.source) == ('"b2"', Source.METRICS)
    assert seen(probe(METRICS, metrics(digests={name: "a1"})), probe(INFERENCE_CONFIG, own)).contradictions == ()
