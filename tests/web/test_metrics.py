"""The metrics: counts by pool, severity, state and source, with a bounded number of series."""

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dashboard import service
from dashboard.access import audit
from dashboard.access.visitor import Means, Visitor
from dashboard.analysis.assembly import Fleet
from dashboard.config import Options, load_options
from dashboard.demo import default_fleet, in_thread, targets
from dashboard.fleet import ReplicaState
from dashboard.fleet.history import Rollout, Sighting
from dashboard.fleet.pieces import plain
from dashboard.rules.findings import Finding, FindingLife, FindingLives, Inspection, Remedy, Severity
from dashboard.web.metrics import MAX_COHORTS, MAX_POOLS, NAME_ENDS, NEW_POOLS, OTHER_POOLS, FleetMetrics
from tests.builders import alike, document, replica
from tests.builders import fleet as fleet_of
from tests.docs_pages import docs_page
from tests.frozen import AT
from tests.saved_fleets import built_of_captures
from tests.serving import wait_for
from tests.sources.polling.hostile import HostileServer, answers
from tests.used import PROMPT_TOKENS, WINDOW_SECONDS, traffic, with_traffic

pytestmark = pytest.mark.usefixtures("service_folder")


def finding(*pools: str, severity: Severity = Severity.CRITICAL) -> Finding:
    return Finding(
        (),
        plain("It is 32."),
        (),
        Remedy("Set it to 16."),
        id="1",
        rule="RT-01",
        severity=severity,
        why="It hurts.",
        subject="x",
        pools=pools,
        cohorts=(),
    )


def inspected(fleet: Fleet, **inspection: Any) -> Fleet:
    return replace(fleet, inspection=Inspection(**inspection))


def series(fleet: Fleet, name: str) -> dict[str, float]:
    """The value of every series of one metric, by its labels."""
    service.put(fleet, AT)
    return exported(name)


def exported(name: str) -> dict[str, float]:
    lines = [line for line in FleetMetrics().text().decode().splitlines() if re.match(rf"{name}[{{ ]", line)]
    return {line.rpartition(" ")[0].removeprefix(name): float(line.rpartition(" ")[2]) for line in lines}


def test_metrics_count_replicas_and_pools_and_have_the_age_of_the_data(demo_fleet: Fleet) -> None:
    service.put(demo_fleet, AT + timedelta(seconds=7))
    lines = FleetMetrics().text().decode().splitlines()

    up = sum(replica.state == "up" for replica in demo_fleet.replicas)
    assert f'vllm_fleet_replicas{{state="up"}} {float(up)}' in lines
    assert "vllm_fleet_data_age_seconds 7.0" in lines
    assert "vllm_fleet_data_age_limit_seconds 90.0" in lines
    assert f"vllm_fleet_pools {float(len(demo_fleet.pools))}" in lines
    assert [line for line in lines if line.startswith("# TYPE") and line.split()[2] not in docs_page("http-api")] == []


def test_refusals_are_counted_by_their_action_in_the_audit_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them, though the log has at most one a minute of a client."""
    monkeypatch.setattr(audit, "refusals", audit.RecentKeys())
    for event in ("token", "host", "token"):
        audit.noted(event, Visitor("unknown", Means.NOBODY), audit.REFUSED)
    audit.noted("sign_in", Visitor("ann", Means.OIDC))

    refused = "vllm_fleet_access_refused_total"
    assert exported(refused) == {'{reason="host"}': 1, '{reason="token"}': 2}


def test_findings_are_counted_by_severity_rule_and_each_of_their_pools(demo_fleet: Fleet) -> None:
    found = finding("chat-70b"), finding("chat-70b", "gemma-27b"), finding(), finding("a", severity=Severity.INFO)
    fleet = inspected(demo_fleet, findings=found, suppressed=found[:2])

    assert series(fleet, "vllm_fleet_findings") == {
        '{cluster="",pool="",rule="RT-01",severity="critical"}': 1,
        '{cluster="",pool="chat-70b",rule="RT-01",severity="critical"}': 2,
        '{cluster="",pool="gemma-27b",rule="RT-01",severity="critical"}': 1,
        '{cluster="",pool="other",rule="RT-01",severity="info"}': 1,
    }
    assert series(fleet, "vllm_fleet_findings_suppressed") == {"": 2}


def test_pools_beyond_a_hundred_share_a_series(demo_fleet: Fleet) -> None:
    pools = tuple(replace(demo_fleet.pools[0], name=f"p{number:03}") for number in range(150))
    fleet = replace(demo_fleet, pools=pools)
    counts = series(inspected(fleet, findings=tuple(finding(each.name) for each in pools)), "vllm_fleet_findings")

    assert len(counts) == 101
    assert counts['{cluster="",pool="other",rule="RT-01",severity="critical"}'] == 50
    for name in ("pool_cohorts", "pool_rollout", "oldest_finding_timestamp_seconds"):
        assert len(series(service.current(), f"vllm_fleet_{name}")) == 101


def test_each_cohort_with_enough_traffic_has_its_hit_ratio_and_the_weight_of_it() -> None:
    usual, other, idle = (document({"cache_config.block_size": size}) for size in (16, 32, 64))
    members = [*alike("chat", 3, usual), replica("odd", pool="chat", document=other)]
    known = fleet_of([*members, replica("idle", pool="chat", document=idle)], [usual, other, idle])
    known = with_traffic(known, {"odd": 0.1, "chat": 0.6, "idle": traffic(0.0, requests=3)})

    assert series(known, "vllm_fleet_pool_prefix_hit_ratio") == {
        '{cluster="",cohort="A",pool="chat"}': 0.6,
        '{cluster="",cohort="B",pool="chat"}': 0.1,
    }
    assert series(known, "vllm_fleet_pool_prefix_queried_tokens_per_second") == {
        '{cluster="",cohort="A",pool="chat"}': 3 * PROMPT_TOKENS / WINDOW_SECONDS,
        '{cluster="",cohort="B",pool="chat"}': PROMPT_TOKENS / WINDOW_SECONDS,
    }


def test_small_cohorts_share_a_series_and_so_do_pools_beyond_a_hundred() -> None:
    documents = [document({"cache_config.block_size": 16 + number}) for number in range(MAX_COHORTS + 5)]
    members = [replica(f"r{number:02}", pool="chat", document=each) for number, each in enumerate(documents)]
    known = with_traffic(fleet_of(members, documents), {}, usual=0.6)
    ratios = series(known, "vllm_fleet_pool_prefix_hit_ratio")
    weights = series(known, "vllm_fleet_pool_prefix_queried_tokens_per_second")
    many = tuple(replace(known.pools[0], name=f"p{number:03}") for number in range(150))
    shared = series(inspected(replace(known, pools=many)), "vllm_fleet_pool_prefix_hit_ratio")

    assert len(ratios) == MAX_COHORTS + 1
    assert weights['{cluster="",cohort="other",pool="chat"}'] == 5 * PROMPT_TOKENS / WINDOW_SECONDS
    assert len(shared) == MAX_POOLS * (MAX_COHORTS + 1) + 1
    assert '{cluster="",cohort="other",pool="other"}' in shared


def test_what_a_pool_recomputes_is_an_estimate_of_its_findings_on_prefix_sharing(demo_fleet: Fleet) -> None:
    (found, *_) = (each for each in demo_fleet.inspection.findings if each.rule == "RT-01")
    known = with_traffic(demo_fleet, dict.fromkeys(found.replicas, 0.0), usual=0.6)
    lost = series(known, "vllm_fleet_pool_avoidable_tokens_per_second")
    affected = known.traffic_of(found.replicas)

    assert lost['{cluster="",pool="chat-70b"}'] >= 0.5 * (affected.queries or 0) / WINDOW_SECONDS
    assert series(demo_fleet, "vllm_fleet_pool_avoidable_tokens_per_second") == {}, "without traffic"


def own_names(pools: FleetMetrics, names: list[str], now: datetime) -> list[str]:
    """The names that have series of their own."""
    label = pools.label(names, now)
    return [name for name in names if label(name) == name]


def test_new_names_of_pools_are_limited_each_hour() -> None:
    """A replica that renames its model at each restart made 13,000 series a day."""
    pools = FleetMetrics()
    first = [f"p{number:03}" for number in range(50)]
    assert own_names(pools, first, AT) == first
    renamed = [own_names(pools, [*first, f"r{minute}"], AT + timedelta(minutes=minute))[50:] for minute in range(60)]
    assert renamed == [[f"r{minute}"] for minute in range(NEW_POOLS)] + [[]] * (60 - NEW_POOLS)
    assert pools.label(first, AT)("x") == OTHER_POOLS
    assert own_names(pools, [*first, "late"], AT + NAME_ENDS) == [*first, "late"], "names of an hour ago are over"


def test_a_name_ends_once_no_poll_has_had_it_for_an_hour() -> None:
    pools = FleetMetrics()
    many = [f"p{number:03}" for number in range(MAX_POOLS)]
    assert own_names(pools, many, AT) == many
    soon, later = AT + NAME_ENDS / 2, AT + NAME_ENDS
    assert own_names(pools, ["a", *many[1:]], soon) == many[1:], "p000 keeps its series"
    assert own_names(pools, many, soon) == many
    assert own_names(pools, ["a", *many[1:]], soon + NAME_ENDS) == ["a", *many[1:]]
    assert own_names(pools, ["a", *many[1:]], later + 24 * NAME_ENDS) == ["a", *many[1:]], "without a scrape for a day"


def test_the_name_of_a_pool_cannot_break_the_metrics(demo_fleet: Fleet) -> None:
    name = 'a"} 1\nvllm_fleet_pools 7\n' + "x" * 10_000
    fleet = replace(demo_fleet, pools=(replace(demo_fleet.pools[0], name=name),))
    (labels,) = series(inspected(fleet, findings=(finding(name),)), "vllm_fleet_findings")

    assert len(labels) < 300
    (labels,) = series(replace(fleet, name=name), "vllm_fleet_info")
    assert len(labels) < 300
    assert series(fleet, "vllm_fleet_pools") == {"": 1}


def in_rollout(pool: str) -> dict[str, Rollout]:
    return {pool: Rollout(pool, "0.32.0", "0.33.0", (), 2, AT, AT)}


def test_of_pools_that_share_a_series_the_one_outside_of_a_rollout_is_shown(demo_fleet: Fleet) -> None:
    """A rollout in one of them must not hide that another one has several cohorts."""
    several = max(demo_fleet.pools, key=lambda pool: len(pool.cohorts))
    pools = tuple(replace(several, name=f"p{number:03}") for number in range(102))
    pools = (*pools[:-1], replace(pools[-1], cohorts=several.cohorts[:2]))
    fleet = inspected(replace(demo_fleet, pools=pools), rollouts=in_rollout("p100"))

    assert series(fleet, "vllm_fleet_pool_cohorts")['{cluster="",pool="other"}'] == 2 < len(several.cohorts)
    assert series(fleet, "vllm_fleet_pool_rollout")['{cluster="",pool="other"}'] == 0


def test_replicas_of_all_pools_add_up_and_those_never_read_have_no_pool(demo_fleet: Fleet) -> None:
    one, *others = demo_fleet.replicas
    fleet = replace(demo_fleet, replicas=(replace(one, pool=None, state=ReplicaState.DOWN), *others))
    counts = series(fleet, "vllm_fleet_pool_replicas")

    assert counts['{cluster="",pool="",state="down"}'] == 1
    assert len(counts) == 3 * (len(demo_fleet.pools) + 1)
    assert sum(counts.values()) == len(fleet.replicas)


def test_tokens_of_a_pool_are_those_of_the_capacity_page_with_their_basis() -> None:
    fleet = built_of_captures()

    assert series(fleet, "vllm_fleet_pool_kv_cache_tokens") == {
        f'{{basis="{each.basis}",cluster="",pool="{name}"}}': each.tokens.value
        for name, each in fleet.capacity.items()
        if each.tokens.value
    }
    assert len({each.basis for each in fleet.capacity.values()}) > 1


def test_a_pool_of_a_cluster_has_both_labels(demo_fleet: Fleet) -> None:
    pool = replace(demo_fleet.pools[0], name="east/chat", cluster="east")
    fleet = replace(demo_fleet, pools=(pool, *demo_fleet.pools[1:]))
    fleet = inspected(fleet, findings=(finding("east/chat"), finding("east/chat", demo_fleet.pools[1].name)))

    east = 'cluster="east",pool="east/chat"'
    assert series(fleet, "vllm_fleet_pool_cohorts")[f"{{{east}}}"] == len(pool.cohorts)
    assert series(fleet, "vllm_fleet_findings")[f'{{{east},rule="RT-01",severity="critical"}}'] == 2
    assert series(fleet, "vllm_fleet_oldest_finding_timestamp_seconds")[f'{{{east},severity="critical"}}']


def test_the_collector_keeps_the_lives_of_findings_from_poll_to_poll() -> None:
    times = (AT + timedelta(milliseconds=number) for number in count())
    with in_thread(default_fleet()) as demo:
        listed = [{"url": each["targets"][0], "labels": each["labels"]} for each in targets(demo.fleet, demo.port)]
        options = Options.model_validate({"targets": listed[:12]})
        collector = service.Collector(options, clock=lambda: next(times))
        asyncio.run(collector._refresh(0.0))
        first = collector.fleet.lives.lives
        asyncio.run(collector._refresh(0.0))

    found, lives = collector.fleet.inspection.findings, collector.fleet.lives.lives
    assert {each.fingerprint for each in found} <= lives.keys()
    assert len(first.keys() & lives.keys()) > 3
    assert {key: lives[key].sighting for key in first} == {key: each.sighting for key, each in first.items()}


def test_the_oldest_finding_of_a_pool_and_severity_has_its_time(demo_fleet: Fleet) -> None:
    old, new = found = [replace(finding("chat-70b"), rule=rule) for rule in ("RT-01", "RT-02")]
    service._current.collector = collector = service.Collector(Options())
    collector.fleet = inspected(demo_fleet, findings=found)
    lives = {
        each.fingerprint: FindingLife(each.rule, each.pools, frozenset(), (each,), Sighting(at, at))
        for each, at in ((old, AT), (new, AT + timedelta(minutes=1)))
    }
    collector.fleet = replace(collector.fleet, lives=FindingLives(AT, 1, lives))

    assert exported("vllm_fleet_oldest_finding_timestamp_seconds") == {
        '{cluster="",pool="chat-70b",severity="critical"}': AT.timestamp()
    }


def test_metrics_report_the_last_reload_by_the_names_of_prometheus(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("name: mine\npoll: {interval_seconds: 3600}\n")
    service.start(load_options(file))
    (loaded,) = re.findall(
        r"\nvllm_fleet_config_last_reload_success_timestamp_seconds (\S+)\n", FleetMetrics().text().decode()
    )
    assert (status := service.reload_status()) is not None
    assert datetime.fromtimestamp(float(loaded), UTC) == status.loaded_at
    assert "vllm_fleet_config_last_reload_successful 1.0" in FleetMetrics().text().decode()

    file.write_text("name: [")
    assert (collector := service._current.collector) is not None
    assert not collector.files.reload()
    assert "vllm_fleet_config_last_reload_successful 0.0" in FleetMetrics().text().decode()


def test_metrics_count_the_targets_of_each_source_and_say_when_it_was_read(tmp_path: Path) -> None:
    listed, lost = tmp_path / "listed.json", tmp_path / "lost.json"
    listed.write_text('[{"targets": ["127.0.0.1:1", "127.0.0.1:2"]}]')
    service.start(Options.model_validate({"file_sd": [{"files": [str(listed), str(listed), str(lost)]}]}))
    wait_for(lambda: service.progress().polls >= 1)
    metrics = FleetMetrics().text().decode()

    assert metrics.count(f'vllm_fleet_source_targets{{source="{listed}"}} 2.0') == 1
    assert f'vllm_fleet_source_targets{{source="{lost}"}} 0.0' in metrics
    assert f'vllm_fleet_source_up{{source="{lost}"}} 0.0' in metrics
    assert f'vllm_fleet_source_up{{source="{listed}"}} 1.0' in metrics
    read = re.findall(r'\nvllm_fleet_source_last_success_timestamp_seconds\{source="(.*)"\}', metrics)
    assert read == [str(listed)]


def test_metrics_count_notifications_by_kind_of_receiver_without_their_urls(working_folder: Path) -> None:
    with HostileServer() as receiver:
        receiver.routes["/SESAME7QX"] = answers(b"ok")
        (working_folder / "targets.json").write_text('[{"targets": ["127.0.0.1:1"]}]')
        hook = {"url": f"{receiver.address}/SESAME7QX", "format": "slack", "min_severity": "info"}
        options = {
            "file_sd": [{"files": [str(working_folder / "targets.json")]}],
            "history": {"enabled": True, "url": f"sqlite:///{working_folder / 'h.db'}"},
            "notify": {"webhooks": [hook], "alertmanagers": [{"url": f"{receiver.address}/gone"}]},
        }
        service.start(Options.model_validate(options))
        wait_for(lambda: [each.succeeded_at is not None for each in service.receivers()] == [False, True])
        wait_for(lambda: service.notification_outcomes()["alertmanager", "failed"] >= 1)
        metrics = FleetMetrics().text().decode()
        collector = service._current.collector
        assert collector is not None
        assert collector.notifier is not None
        collector.notifier.polled(collector.fleet, is_collector=False)
        assert "vllm_fleet_notifications_pending{" not in FleetMetrics().text().decode(), "another one notifies"

    assert 'vllm_fleet_notifications_total{outcome="ok",receiver_kind="slack"} 1.0' in metrics
    assert 'vllm_fleet_notifications_total{outcome="ok",receiver_kind="alertmanager"} 0.0' in metrics
    assert re.search(r'notifications_last_success_timestamp_seconds\{receiver_kind="slack"\} 1\.', metrics)
    assert 'vllm_fleet_notifications_pending{receiver_kind="alertmanager"} 0.0' in metrics
    assert "SESAME7QX" not in metrics
