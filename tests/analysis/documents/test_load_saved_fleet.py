"""A saved fleet comes back as it was, with equal findings."""

import json
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet, build_fleet, inspected
from dashboard.analysis.documents.load import read_snapshot
from dashboard.fleet import Basis, Device, Fingerprint, KVCacheGroup, Role, Setting, Source, State
from dashboard.rules.domain import Declared, Router
from dashboard.rules.findings import Severity, Suppression
from dashboard.rules.policy import Policy, RuleChange
from tests import builders
from tests.captured import AT, INFERENCE_CONFIG, METRICS, Capture, capture, captures, snapshot
from tests.polled_fleets import INTERVAL
from tests.provider_answers import with_provider
from tests.saved_fleets import built_of_captures, saved
from tests.sources.polling.hostile import changed_metrics

LAST_DAY = date(2026, 11, 20)  # of the simulated fleet's poll
POLICY = Policy(
    pools={"chat-*": Declared(router=Router.NONE)},
    rules={"RT-01": RuleChange(severity=Severity.INFO)},
    suppressions=(Suppression("RT-01", "ana", "a test of sizes", LAST_DAY, pool="chat-70b", number=1),),
)


def without_answers(fleet: Fleet) -> list[Any]:
    """The replicas without the answers of their probes, which nobody saves."""
    return [replace(replica, probes=()) for replica in fleet.replicas]


def test_the_whole_fleet_comes_back(demo_fleet: Fleet) -> None:
    back = read_snapshot(saved(demo_fleet))

    assert without_answers(back) == without_answers(demo_fleet)
    assert back.documents == demo_fleet.documents
    assert back.pools == demo_fleet.pools
    assert back.polled_at == demo_fleet.polled_at
    assert back.name == demo_fleet.name


def test_all_that_a_replica_can_hold_comes_back() -> None:
    told = builders.document()
    nested = Setting('{"c":[1,0.5,null,true]}', State.REPORTED, Source.PLUGIN)
    full = builders.replica(
        document=told,
        role=Role.PREFILL,
        started_at=AT - timedelta(days=3, microseconds=1),
        identity={"instance_id": builders.setting("x"), "a.b": nested},
        adapters={"sql": "/mnt/sql", "fr": None},
        engines=(
            builders.engine(None, reason="Nobody tells.", basis=Basis.UNKNOWN),
            builders.engine(dp_rank=1, fingerprint=Fingerprint("c1", "e1")),
            builders.engine(dp_rank=2, fingerprint=Fingerprint(reason="It hashes no blocks.")),
        ),
        devices=(Device(1, 0, "H100", 2**36, "9.0", 132, 1, 2),),
        kv_cache_groups=(KVCacheGroup(0, 0, "MambaSpec", 16, 1, 2, 3, 4, 5, 6, 7, "bfloat16", "all", 8, 9),),
        same_process=("http://elsewhere:8000",),
    )
    fleet = builders.fleet([full, builders.down()], [told])

    back = read_snapshot(saved(fleet))

    assert without_answers(back) == without_answers(fleet)


def test_a_file_that_was_saved_before_there_were_fingerprints_is_read() -> None:
    told = builders.document()
    fleet = builders.fleet([builders.replica(document=told)], [told])
    older = json.loads(saved(fleet))
    for part in older["engines"]:
        del part["fingerprint"]
    for part in older["devices"]:
        for name in ("compute_units", "tensor_parallel_rank", "pipeline_parallel_rank"):
            del part[name]

    back = read_snapshot(json.dumps(older).encode())

    assert without_answers(back) == without_answers(fleet)


def test_what_the_provider_said_comes_back_and_who_said_it() -> None:
    answers = with_provider(capture("llama_dp2"), fingerprints=("a", "b"))
    fleet = build_fleet("one", [snapshot(answers)], polled_at=AT, interval=INTERVAL)

    back = read_snapshot(saved(fleet))

    assert without_answers(back) == without_answers(fleet)
    assert back.inspection == fleet.inspection
    sources = {each.path: each.reply.source for each in back.replicas[0].probes if each.reply}
    assert sources[INFERENCE_CONFIG] is Source.PROVIDER


def test_a_policy_judges_the_saved_fleet_as_it_would_have_judged_the_poll(demo_fleet: Fleet) -> None:
    assert demo_fleet.polled_at is not None
    judged = inspected(replace(demo_fleet, policy=POLICY), demo_fleet.polled_at)

    back = read_snapshot(saved(demo_fleet), POLICY)

    assert judged.inspection.suppressed
    assert back.inspection == judged.inspection
    assert back.policy is POLICY


def test_a_fleet_with_ignored_paths_is_compared_and_judged_without_them() -> None:
    without = built_of_captures(ignore=("cache_config.*",))

    back = read_snapshot(saved(without))

    assert back.ignored == ("cache_config.*",)
    assert (back.pools, back.inspection) == (without.pools, without.inspection)


@pytest.mark.no_cover
@pytest.mark.parametrize("captured", captures())
def test_what_a_real_server_said_comes_back(captured: Capture) -> None:
    fleet = built_of_captures(captured)

    back = read_snapshot(saved(fleet))

    assert without_answers(back) == without_answers(fleet)
    assert (back.pools, back.inspection) == (fleet.pools, fleet.inspection)


def test_all_real_servers_in_one_fleet_are_judged_alike_before_and_after() -> None:
    fleet = built_of_captures()

    assert read_snapshot(saved(fleet)).inspection == fleet.inspection


def test_sources_that_contradict_each_other_and_one_process_behind_two_addresses_come_back() -> None:
    answers = {**capture("llama").answers, METRICS: changed_metrics(block_size=32)}
    twice = [snapshot(answers, target=f"http://10.0.0.{number}:8000") for number in (1, 2)]
    fleet = build_fleet("odd", twice, polled_at=AT, interval=INTERVAL)

    back = read_snapshot(saved(fleet))

    assert all(replica.contradictions and replica.same_process for replica in back.replicas)
    assert without_answers(back) == without_answers(fleet)
    assert back.inspection == fleet.inspection


def test_replicas_that_were_stale_when_the_fleet_was_saved_still_are() -> None:
    later = AT + 10 * INTERVAL
    fleet = built_of_captures(capture("llama"), polled_at=later)

    back = read_snapshot(saved(fleet))

    assert [replica.fresh for replica in back.replicas] == [False, False]
    assert back.inspection == fleet.inspection


def test_a_suppression_expires_on_the_day_on_which_somebody_looks_not_on_that_of_the_poll(demo_fleet: Fleet) -> None:
    raw = saved(demo_fleet)

    on_the_day = read_snapshot(raw, POLICY, LAST_DAY)
    a_day_later = read_snapshot(raw, POLICY, LAST_DAY + timedelta(days=1))

    assert [each.rule for each in on_the_day.inspection.suppressed] == ["RT-01"]
    assert a_day_later.inspection.suppressed == ()
    assert any(each.expired for each in a_day_later.inspection.findings)


def test_a_rollout_that_went_on_when_the_fleet_was_saved_still_does_a_year_later(demo_fleet: Fleet) -> None:
    back = read_snapshot(saved(demo_fleet), today=date(2027, 11, 20))

    assert back.inspection.rollouts
    assert back.inspection.rollouts == demo_fleet.inspection.rollouts
