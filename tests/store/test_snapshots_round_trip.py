"""A frozen fleet opens unchanged; the same fleet is the same snapshot."""

import gzip
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.rules.findings import Severity, Suppression
from dashboard.rules.policy import Policy, RuleChange
from dashboard.store.packing import content_of
from dashboard.store.snapshots import Snapshots
from tests import builders
from tests.captured import AT, METRICS, capture, captures, has_python_api
from tests.captured import snapshot as captured_snapshot
from tests.polled_fleets import built
from tests.provider_answers import with_provider
from tests.saved_fleets import built_of_captures
from tests.sources.polling.hostile import changed_metrics
from tests.used import traffic, with_traffic

LATER = AT + timedelta(days=40)
POLICY = Policy(
    rules={"RT-01": RuleChange(severity=Severity.INFO)},
    suppressions=(Suppression("KV-01", "ana", "known", date(2026, 12, 1), pool="chat-70b"),),
)


def of_providers() -> Fleet:
    """Return replicas with our provider, with fingerprints of several ranks."""
    known = [each for each in captures(has_python_api) if "dp2" in each.id]
    answers = [with_provider(each.values[0], fingerprints=("a", "b")) for each in known]
    return built(*[captured_snapshot(each, target=f"http://10.0.0.{n}:8000") for n, each in enumerate(answers)])


def opened(store: Snapshots, fleet: Fleet) -> Fleet:
    return store.fleet(store.save(fleet, "a name", LATER).id)


def assert_same(back: Fleet, fleet: Fleet) -> None:
    assert back.inspection == fleet.inspection
    assert back.pools == fleet.pools
    assert back.documents == fleet.documents
    assert back.policy == fleet.policy
    assert back.polled_at == fleet.polled_at
    assert [replace(each, probes=()) for each in back.replicas] == [replace(each, probes=()) for each in fleet.replicas]


def test_the_simulated_fleet_opens_with_its_policy(demo_fleet: Fleet, tmp_path: Path) -> None:
    assert demo_fleet.policy != Policy()
    assert_same(opened(Snapshots(tmp_path), demo_fleet), demo_fleet)


def test_a_snapshot_keeps_the_traffic_of_its_engines(demo_fleet: Fleet, tmp_path: Path) -> None:
    rare = traffic(None, requests=3)._replace(refused=("hits rose by more than queries",))
    used = with_traffic(demo_fleet, {"chat-70b": 0.7, demo_fleet.replicas[0].id: rare})
    back = opened(Snapshots(tmp_path), used)

    assert back.traffic == used.traffic
    for pool in used.pools:
        assert back.traffic_of(pool.replicas) == used.traffic_of(pool.replicas)


def test_a_snapshot_of_a_past_time_keeps_the_rates_of_its_cohorts(demo_fleet: Fleet, tmp_path: Path) -> None:
    chat = next(each for each in demo_fleet.pools if each.name == "chat-70b")
    documents = {demo_fleet.by_id[each].document or "" for each in chat.replicas}
    recorded = {(chat.name, each): traffic(0.7, requests=2.0**52) for each in documents}
    for known in (recorded, {}, None):
        back = opened(Snapshots(tmp_path), replace(demo_fleet, recorded_traffic=known))
        assert back.recorded_traffic == (known or None)


def test_captured_servers_and_provider_answers_open_unchanged(tmp_path: Path) -> None:
    providers = of_providers()

    assert any(engine.fingerprint for each in providers.replicas for engine in each.engines)
    for fleet in (providers, built_of_captures()):
        assert_same(opened(Snapshots(tmp_path), fleet), fleet)


@pytest.mark.long
def test_a_thousand_replicas_take_a_few_megabytes(tmp_path: Path) -> None:
    answers = capture("llama").answers
    fleet = built(
        *[
            captured_snapshot(
                {**answers, METRICS: changed_metrics(num_gpu_blocks=1000 + n % 7)},
                target=f"http://10.0.{n // 250}.{n % 250}:8000",
            )
            for n in range(1000)
        ]
    )
    stored = Snapshots(tmp_path).save(fleet, "large", LATER)

    assert stored.size_bytes < 6_000_000
    assert_same(Snapshots(tmp_path).fleet(stored.id), fleet)


def test_an_opened_fleet_has_its_id_and_a_generation(tmp_path: Path) -> None:
    store = Snapshots(tmp_path)
    first = store.save(built_of_captures(), "a", LATER).id
    second = store.save(builders.fleet([builders.replica()]), "b", LATER).id

    assert store.fleet(first).snapshot == first
    assert store.fleet(first).generation < 0
    assert store.fleet(first).generation != store.fleet(second).generation


def test_the_same_fleet_frozen_twice_is_one_snapshot_with_its_first_name_and_export(tmp_path: Path) -> None:
    store, fleet = Snapshots(tmp_path), built_of_captures()
    first = store.save(fleet, "before the rollout", LATER)
    second = store.save(fleet, "once more", LATER + timedelta(days=1))

    assert second == first
    assert [each.metadata.name for each in store.all()] == ["before the rollout"]
    assert store.export(first.id) == store.export(first.id)
    assert gzip.decompress(store.export(first.id)) == content_of(fleet)
