"""Routing rules: what YAML cases cannot show: foreign types, real answers, where a value was told."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.fleet import Source, State
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.domain import Declared, Expectations, Router, SeedPolicy
from dashboard.rules.findings import Family, Finding, OutcomeKind
from tests import builders
from tests.rules.routing_pools import ALGORITHM, SEED, judged, pool_of, said

ROUTING = tuple(each for each in ALL_RULES if each.family is Family.ROUTING)

EVENTS = "kv_events_config.enable_kv_cache_events"
ENDPOINT = "kv_events_config.endpoint"
TOPIC = "kv_events_config.topic"
BLOCK = "cache_config.block_size"
DCP = "parallel_config.decode_context_parallel_size"
EXPECTING = Expectations(16, "sha256_cbor", SeedPolicy.ENVIRONMENT, "kv@{host}:{port}@{model}")
FOREIGN = [
    pytest.param(value, id=name)
    for name, value in {
        "text": "16",
        "markup": builders.HOSTILE,
        "control characters": "\x00\x1b[31m\u202e",
        "list": [1, ["2", None]],
        "object": {"a": {"b": []}},
        "huge": 10**400,
        "tiny": 1e-300,
        "negative": -5,
        "boolean": True,
        "null": None,
        "zero": 0,
        "long": "9" * 5000,
    }.items()
]


@pytest.mark.no_cover
@pytest.mark.parametrize("router", Router)
@pytest.mark.parametrize("value", FOREIGN)
def test_no_value_makes_a_rule_raise(value: Any, router: Router) -> None:
    paths = {need for rule in ROUTING for need in rule.needs} | {
        "cache_config.effective_attention_block_size",
        "cache_config.enable_prefix_caching",
        "kv_events_config.publisher",
        "kv_events_config.replay_endpoint",
    }
    odd = dict.fromkeys(paths, value) | {
        "version": value if isinstance(value, str) else "0.32.0"
    }  # checked at the edge
    usual = {EVENTS: True, "cache_config.block_size": 16, ALGORITHM: "sha256", TOPIC: "kv", ENDPOINT: "tcp://*:5557"}
    fleet = pool_of(odd, {**odd, EVENTS: True}, usual, usual, usual)

    outcomes = [
        outcome
        for expects in (EXPECTING, Expectations(), Expectations(seed_policy=SeedPolicy.DEFAULT))
        for outcome in judged(fleet, chat=Declared(router=router, expects=expects)).outcomes
    ]

    assert [each.reason for each in outcomes if each.kind is OutcomeKind.ERROR] == []
    assert len(outcomes) == 3 * len(ROUTING)


def test_a_bound_endpoint_says_nothing_of_what_was_asked_for() -> None:
    """vLLM tells host and port that the system chose for `tcp://*:0`; they differ on every replica."""
    told = [
        {EVENTS: True, ENDPOINT: builders.setting(f"tcp://{{host}}:{port}", source=Source.KV_EVENT_SOURCES)}
        for port in (41234, 38111, 40002)
    ]

    assert said(judged(pool_of(*told), "RT-11")) == []


def test_a_bound_wildcard_is_of_the_kind_that_was_asked_for_but_its_port_is_not() -> None:
    bound = [
        {EVENTS: True, ENDPOINT: builders.setting(f"tcp://*:{port}", source=Source.KV_EVENT_SOURCES)}
        for port in (5557, 5558)
    ]
    asked = {EVENTS: True, ENDPOINT: "tcp://{host}:5557"}

    assert said(judged(pool_of(*bound), "RT-11")) == []
    assert len(judged(pool_of(*bound, asked), "RT-11").findings) == 1


def test_replicas_on_one_host_need_ports_of_their_own() -> None:
    fleet = pool_of({EVENTS: True, ENDPOINT: "tcp://*:5557"}, {EVENTS: True, ENDPOINT: "tcp://*:5600"})
    here = builders.fleet(
        [replace(each, id=f"http://one:800{number}") for number, each in enumerate(fleet.replicas)],
        fleet.documents.values(),
    )

    assert len(judged(fleet, "RT-11").findings) == 1
    assert said(judged(here, "RT-11")) == []


def test_a_topic_of_which_the_address_is_hidden_is_not_held_against_the_router() -> None:
    hidden = {TOPIC: builders.setting("kv", State.REDACTED)}
    fleet = pool_of({EVENTS: True, TOPIC: "kv@{pod}@llama"}, identity=hidden)

    assert said(judged(fleet, "RT-10", chat=Declared(expects=EXPECTING))) == []


def test_a_hostile_model_name_cannot_run_in_the_shell_that_a_topic_is_pasted_into() -> None:
    fleet = pool_of({EVENTS: True, TOPIC: ""}, served_model_names=("$(reboot)",))

    (finding,) = judged(fleet, "RT-10", chat=Declared(expects=EXPECTING)).findings

    assert finding.remedy.snippets[0].text.endswith("@'$(reboot)'")


def test_a_long_hostile_topic_is_matched_in_no_time_to_speak_of() -> None:
    fleet = pool_of({EVENTS: True, TOPIC: "kv@" + "a:" * 50_000})

    (finding,) = judged(fleet, "RT-10", chat=Declared(expects=EXPECTING)).findings

    assert len(finding.sentence) < 300


def test_one_odd_replica_is_restarted_and_the_router_is_not_touched() -> None:
    fleet = pool_of(*[{BLOCK: 16}] * 3, {BLOCK: 32})
    declared = Declared(router=Router.KV_EVENTS, expects=Expectations(block_size=16))

    (finding,) = judged(fleet, "RT-02", chat=declared).findings

    assert finding.remedy.sentence.startswith("Restart these replicas with 16 tokens per block")
    assert [each.text for each in finding.remedy.snippets] == ["--block-size 16"]
    assert not finding.remedy.any_of
    assert "discards every event" in finding.why


def test_where_most_replicas_are_alike_the_router_may_be_changed_instead() -> None:
    fleet = pool_of({BLOCK: 16}, *[{BLOCK: 32}] * 3)
    declared = Declared(router=Router.KV_EVENTS, expects=Expectations(block_size=16))

    (finding,) = judged(fleet, "RT-02", chat=declared).findings

    assert finding.remedy.sentence.startswith(
        "Set the router's block size and `expects.block_size` in fleet.yaml to 32, as on 3 of 4 replicas"
    )
    assert finding.remedy.any_of
    assert [each.kind for each in finding.remedy.snippets] == ["yaml", "env", "flag"]


def test_no_block_size_is_offered_to_replicas_of_which_it_alone_does_not_decide() -> None:
    fleet = pool_of({BLOCK: 16, DCP: 2}, {BLOCK: 48})

    found = judged(fleet, "RT-02", chat=Declared(expects=Expectations(block_size=16))).findings

    assert {each.sentence: [snippet.text for snippet in each.remedy.snippets] for each in found} == {
        "A block has 32 tokens; the router expects 16.": [],
        "A block has 48 tokens; the router expects 16.": ["--block-size 16"],
    }


def test_switching_prefix_caching_on_and_saying_that_no_router_needs_it_are_alternatives() -> None:
    (finding,) = judged(pool_of(*[{"cache_config.enable_prefix_caching": False}] * 3), "RT-13").findings

    assert finding.remedy.any_of
    assert [each.text for each in finding.remedy.snippets] == [
        "--enable-prefix-caching",
        'pools:\n  "chat":\n    router: none',
    ]


def test_what_is_to_be_chosen_is_offered_as_alternatives() -> None:
    topics = pool_of({EVENTS: True, TOPIC: "kv"}, {EVENTS: True, TOPIC: "events"})
    endpoints = pool_of({EVENTS: True, ENDPOINT: "tcp://*:5557"}, {EVENTS: True, ENDPOINT: "tcp://*:5558"})
    units = pool_of({"cache_config.hash_block_size": 16}, {"cache_config.hash_block_size": 32})

    found = [
        judged(fleet, rule).findings[0] for fleet, rule in ((topics, "RT-10"), (endpoints, "RT-11"), (units, "RT-03"))
    ]

    assert [(each.remedy.any_of, len(each.remedy.snippets)) for each in found] == [(True, 2)] * 3


def test_a_topic_for_replicas_that_share_no_model_name_says_what_to_put_there() -> None:
    fleet = pool_of(*[{EVENTS: True, TOPIC: "kv"}] * 2)
    fleet = builders.fleet(
        [replace(each, served_model_names=(f"model-{number}",)) for number, each in enumerate(fleet.replicas)],
        fleet.documents.values(),
    )

    (finding,) = judged(fleet, "RT-10", chat=Declared(expects=EXPECTING)).findings

    assert finding.remedy.snippets[0].text.endswith("@MODEL")
    assert "`MODEL` is a name that the replica serves." in finding.remedy.sentence
    assert "`$POD_IP` and `$PORT` are the replica's address" in finding.remedy.sentence


def test_an_endpoint_of_which_the_host_is_hidden_is_not_offered() -> None:
    hidden = {ENDPOINT: builders.setting("tcp://host:5557", State.REDACTED)}
    fleet = pool_of(*[{EVENTS: True, ENDPOINT: "tcp://{host}:5557"}] * 3, identity=hidden)
    odd = pool_of({EVENTS: True, ENDPOINT: "tcp://*:5557"})
    moved = [replace(each, id="http://chat-9:8000") for each in odd.replicas]
    whole = builders.fleet([*fleet.replicas, *moved], [*fleet.documents.values(), *odd.documents.values()])

    (finding,) = judged(whole, "RT-11").findings

    assert finding.remedy.snippets == ()


def test_capacity_is_not_guessed_where_one_engine_of_a_replica_does_not_tell_its_own() -> None:
    engines = (builders.engine(1_600_000), builders.engine(None, dp_rank=1))
    fleet = pool_of({BLOCK: 16, "cache_config.kv_offloading_size": 184}, engines=engines)

    (finding,) = judged(fleet, "RT-16", chat=Declared(router=Router.APPROXIMATE)).findings

    assert finding.remedy.snippets == ()


def test_the_router_stands_in_the_evidence_as_what_the_replicas_are_held_against() -> None:
    fleet = pool_of({"cache_config.block_size": 64, ALGORITHM: "sha256", SEED: None, EVENTS: True, TOPIC: "kv"})

    found = judged(fleet, "RT-02", "RT-05", "RT-06", "RT-10", chat=Declared(expects=EXPECTING)).findings

    assert {each.rule: _router_side(each) for each in found} == {
        "RT-02": ("cache_config.block_size", "16"),
        "RT-05": (ALGORITHM, '"sha256_cbor"'),
        "RT-06": (SEED, '"environment"'),
        "RT-10": (TOPIC, '"kv@{host}:{port}@{model}"'),
    }


def _router_side(finding: Finding) -> tuple[str, str]:
    (row,) = [each for each in finding.evidence if each.holder == "router"]
    assert row.is_reference
    return row.path, row.value
