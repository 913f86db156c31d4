"""A saved fleet is read with equal content and findings."""

import json
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.documents.load import read_snapshot
from dashboard.fleet import (
    Baseline,
    Basis,
    Device,
    EngineFingerprint,
    FactName,
    KVCacheGroup,
    Role,
    RouterConfig,
    RouterFact,
    RouterKind,
    Setting,
    Source,
    State,
    Tolerance,
)
from dashboard.fleet.history import Alternation, RecentEvents, Recurrence, SeenRollout, Sighting, Sightings, Symptom
from dashboard.fleet.traffic import Traffic
from dashboard.rules.domain import Expectations, PoolDeclaration, Router, SeedPolicy, Store
from dashboard.rules.findings import Severity, Suppression
from dashboard.rules.policy import Policy, RuleChange
from tests import builders
from tests.captured import AT, INFERENCE_CONFIG, METRICS, Capture, capture, captures, snapshot
from tests.polled_fleets import INTERVAL, build_fleet
from tests.provider_answers import with_provider
from tests.saved_fleets import built_of_captures, saved
from tests.sources.polling.hostile import changed_metrics
from tests.used import traffic, with_traffic

LAST_DAY = date(2026, 11, 20)  # of the simulated fleet's poll
POLICY = Policy(
    pools={"chat-*": PoolDeclaration(router=Router.NONE)},
    rules={"RT-01": RuleChange(severity=Severity.INFO)},
    suppressions=(Suppression("RT-01", "ana", "a test of sizes", LAST_DAY, pool="chat-70b", number=1),),
)


def without_answers(fleet: Fleet) -> list[Any]:
    """Return the replicas without the answers of their probes, which are not saved."""
    return [replace(replica, probes=()) for replica in fleet.replicas]


def restored(fleet: Fleet) -> Fleet:
    """Save a fleet and read it again: everything but the answers of probes is equal."""
    back = read_snapshot(saved(fleet))
    assert without_answers(back) == without_answers(fleet)
    assert (back.documents, back.pools, back.ignored) == (fleet.documents, fleet.pools, fleet.ignored)
    assert (back.name, back.policy, back.inspection) == (fleet.name, fleet.policy, fleet.inspection)
    return back


def under(policy: Policy, raw: bytes, today: date | None = None) -> Fleet:
    """Read a saved fleet and evaluate it again, as `check` does."""
    back = read_snapshot(raw)
    assert back.polled_at is not None
    return inspected(replace(back, policy=policy), back.polled_at, today)


def test_the_simulated_fleet_is_restored_with_the_time_of_its_poll(demo_fleet: Fleet) -> None:
    assert restored(demo_fleet).polled_at == demo_fleet.polled_at


def test_the_traffic_of_engines_is_restored_with_what_was_refused(demo_fleet: Fleet) -> None:
    lies = traffic(None)._replace(refused=("prefix hits rose by more than prefix queries",))
    some = demo_fleet.pools[0].replicas[0]
    known = with_traffic(demo_fleet, {some: lies}, usual=0.6)
    back = restored(known)

    assert back.traffic == known.traffic
    assert saved(back) == saved(known), "equal fleets are equal bytes"


def test_foreign_text_in_what_was_refused_is_cut_to_one_line() -> None:
    fleet = builders.fleet([builders.replica("a")])
    known = replace(fleet, traffic={"http://a:8000": {0: Traffic(60, refused=("\x1b[31m\n" + 999 * "x",))}})
    (sentence,) = read_snapshot(saved(known)).traffic["http://a:8000"][0].refused

    assert (len(sentence), sentence[:7]) == (200, "\ufffd[31m x")


def test_every_field_of_a_replica_is_restored() -> None:
    own = builders.document()
    nested = Setting('{"c":[1,0.5,null,true]}', State.REPORTED, Source.PLUGIN)
    full = builders.replica(
        document=own,
        role=Role.PREFILL,
        started_at=AT - timedelta(days=3, microseconds=1),
        identity={"instance_id": builders.setting("x"), "a.b": nested},
        adapters={"sql": "/mnt/sql", "fr": None},
        engines=(
            builders.engine(None, reason="Not reported.", basis=Basis.UNKNOWN),
            builders.engine(dp_rank=1, fingerprint=EngineFingerprint("c1", "e1")),
            builders.engine(dp_rank=2, fingerprint=EngineFingerprint(reason="It hashes no blocks.")),
        ),
        devices=(Device(1, 0, "H100", 2**36, "9.0", 132, 1, 2),),
        kv_cache_groups=(KVCacheGroup(0, 0, "MambaSpec", 16, 1, 2, 3, 4, 5, 6, 7, "bfloat16", "all", 8, 9),),
        same_process=("http://elsewhere:8000",),
    )
    fleet = builders.fleet([full, builders.down()], [own])

    assert without_answers(read_snapshot(saved(fleet))) == without_answers(fleet)


def test_answers_of_the_provider_and_their_source_are_restored() -> None:
    answers = with_provider(capture("llama_dp2"), fingerprints=("a", "b"))
    fleet = build_fleet("one", [snapshot(answers)], polled_at=AT, interval=INTERVAL)

    back = restored(fleet)

    sources = {each.path: each.reply.source for each in back.replicas[0].probes if each.reply}
    assert sources[INFERENCE_CONFIG] is Source.PROVIDER


def test_a_document_of_another_minor_version_is_read_without_the_keys_that_it_adds() -> None:
    fleet = built_of_captures(capture("llama_dp2"))
    document = json.loads(saved(replace(fleet, policy=WHOLE)))
    later = {**document, "schema_version": "1.7", "added_in_a_later_version": 1}
    for name in ("replicas", "engines", "devices", "kv_cache_groups", "routers"):
        later[name] = [{**row, "added_in_a_later_version": {"a": [1]}} for row in document[name]]
    for nested in ("policy", "recent", "sightings"):
        later[nested] = {**document[nested], "added_in_a_later_version": [1]}

    back = read_snapshot(json.dumps(later).encode())

    assert without_answers(back) == without_answers(fleet)
    assert back.policy == WHOLE


def test_a_policy_finds_the_same_in_a_saved_fleet_as_in_the_poll(demo_fleet: Fleet) -> None:
    assert demo_fleet.polled_at is not None
    expected = inspected(replace(demo_fleet, policy=POLICY), demo_fleet.polled_at)

    back = under(POLICY, saved(demo_fleet))

    assert expected.inspection.suppressed
    assert back.inspection == expected.inspection
    assert back.policy is POLICY


@pytest.mark.no_cover
@pytest.mark.parametrize("captured", captures())
def test_a_real_server_is_restored(captured: Capture) -> None:
    restored(built_of_captures(captured))


@pytest.mark.parametrize("ignore", [(), ("cache_config.*",)])
def test_all_real_servers_together_are_restored_with_their_ignored_paths(ignore: tuple[str, ...]) -> None:
    assert restored(built_of_captures(ignore=ignore)).ignored == ignore


def test_contradictions_and_second_addresses_are_restored() -> None:
    answers = {**capture("llama").answers, METRICS: changed_metrics(block_size=32)}
    twice = [snapshot(answers, target=f"http://10.0.0.{number}:8000") for number in (1, 2)]
    back = restored(build_fleet("odd", twice, polled_at=AT, interval=INTERVAL))

    assert all(replica.contradictions and replica.same_process for replica in back.replicas)


def test_stale_replicas_stay_stale() -> None:
    back = restored(built_of_captures(capture("llama"), polled_at=AT + 10 * INTERVAL))

    assert [replica.fresh for replica in back.replicas] == [False, False]


def test_the_replica_that_gave_the_settings_of_another_is_restored() -> None:
    (first, second) = (snapshot(capture("llama").answers, target=f"http://10.0.0.{number}:8000") for number in (1, 2))
    shared = replace(second, same_digest_as=first.target.id)
    back = restored(build_fleet("shared", [first, shared], polled_at=AT, interval=INTERVAL))

    assert [each.same_digest_as for each in back.replicas] == [None, first.target.id]


def test_suppressions_expire_by_the_date_of_today(demo_fleet: Fleet) -> None:
    raw = saved(demo_fleet)

    last, later = (under(POLICY, raw, LAST_DAY + timedelta(days=days)).inspection for days in (0, 1))

    assert ([each.rule for each in last.suppressed], later.suppressed) == (["RT-01"], ())
    assert any(each.expired for each in later.findings)


def test_a_rollout_is_evaluated_at_the_time_of_the_poll(demo_fleet: Fleet) -> None:
    back = under(demo_fleet.policy, saved(demo_fleet), date(2027, 11, 20))

    assert back.inspection.rollouts == demo_fleet.inspection.rollouts != {}


WHOLE = Policy(
    pools={
        "chat-*": PoolDeclaration(
            Router.KV_EVENTS, Store.LMCACHE, True, Expectations(16, "sha256", SeedPolicy.DEFAULT, "kv@{host}")
        ),
        "*": PoolDeclaration(),
    },
    rules={
        "RT-01": RuleChange(severity=Severity.INFO),
        "CP-01": RuleChange(enabled=False, parameters={"tolerance": 0.2, "least": 3, "strict": True}),
    },
    suppressions=(
        Suppression("RT-01", "ana", "a <b>test</b>", LAST_DAY, "chat", ("chat-1",), {"zone": "b"}, 1),
        Suppression("RT-05", "bo", "later", date(2027, 1, 1)),
    ),
    baselines=(
        Baseline(
            "chat",
            "chat-70b",
            expected={
                "cache_config.block_size": "16",
                "model_config.dtype": '"bfloat16"',
                "a.b": "null",
                "a.c": "[1,2]",
            },
            tolerated={"a.d": Tolerance(("1", '"x"')), "a.e": Tolerance(at_least=0.5, at_most=1.0)},
            ignored=("observability_config.*",),
            comments={"cache_config.block_size": "agreed in May"},
            file="baselines/chat.yaml",
        ),
    ),
    file="fleet.prod.yaml",
)


@pytest.mark.parametrize("policy", [WHOLE, Policy()])
def test_the_policy_is_restored(demo_fleet: Fleet, policy: Policy) -> None:
    assert read_snapshot(saved(replace(demo_fleet, policy=policy))).policy == policy


def test_a_saved_fleet_is_evaluated_with_its_own_policy(demo_fleet: Fleet) -> None:
    assert demo_fleet.polled_at is not None
    own = Policy(rules={"RT-01": RuleChange(enabled=False)})
    fleet = inspected(replace(demo_fleet, policy=own), demo_fleet.polled_at)

    assert restored(fleet).policy == own


def test_what_earlier_polls_and_routers_reported_is_restored() -> None:
    seen = Sighting(AT - INTERVAL, AT, None)
    known: dict[str, Any] = {
        "routers": (
            RouterConfig(
                "epp", RouterKind.LLM_D, ("chat",), (RouterFact(FactName.BLOCK_SIZE, "16", "epp.yaml", AT),), ("Late.",)
            ),
        ),
        "recent": RecentEvents(
            since=AT,
            starts={"http://a:1": (AT,)},
            alternations={"http://a:1": (Alternation("a.b", 3, ("1", '"x"', "null")),)},
            rollouts={"chat": SeenRollout("0.32.0", "0.33.0", AT, AT)},
            recurrences={"f": Recurrence("RT-01", ("chat",), {"http://a:1": (AT, AT + INTERVAL)})},
            symptoms={"traffic.prefix_hit_rate": {"http://a:1": Symptom(0.0, 0.62, 900.0, AT, 1, is_past=True)}},
        ),
        "sightings": Sightings({"f": seen}, {"http://a:1": seen}, {("eu/chat", "d"): seen}, {("chat", "a.b"): seen}),
        "discovery_errors": ("a.json: not JSON.",),
    }
    back = read_snapshot(saved(replace(built_of_captures(capture("llama")), **known)))

    assert {name: getattr(back, name) for name in known} == known
    assert back.routers[0].facts[0].observed_at == AT
