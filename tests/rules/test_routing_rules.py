"""Routing rules: what YAML cases cannot show: foreign types, real answers, where a value was told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dashboard.fleet import build_fleet
from dashboard.models import Source, State
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.domain import Declared, Expectations, Router, SeedPolicy
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Confidence, OutcomeKind, Severity
from dashboard.rules.policy import Policy
from dashboard.rules.routing import ROUTING
from dashboard.rules.routing.roots import RootKind, root_of
from tests import builders, captured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboard.fleet import Fleet
    from dashboard.rules.findings import Finding, Inspection
    from tests.captured import Capture

EVENTS = "kv_events_config.enable_kv_cache_events"
ENDPOINT = "kv_events_config.endpoint"
TOPIC = "kv_events_config.topic"
ALGORITHM = "cache_config.prefix_caching_hash_algo"
SEED = "env.PYTHONHASHSEED"
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


def judged(fleet: Fleet, *ids: str, **pools: Declared) -> Inspection:
    """Judge a fleet by some routing rules, or all."""
    rules = [BY_ID[each] for each in ids] or list(ROUTING)
    return inspect_fleet(rules, fleet.pools, fleet.replicas, fleet.documents, Policy(pools=pools), builders.NOW)


def said(inspection: Inspection) -> list[str]:
    return [f"{each.rule}: {each.sentence}" for each in inspection.findings]


def pool_of(*told: Mapping[str, Any], **more: Any) -> Fleet:
    """Build a pool `chat` with a replica per document."""
    documents = [builders.document(settings, base={"version": "0.32.0"}) for settings in told]
    return builders.fleet(
        [builders.replica(f"chat-{number}", document=each, **more) for number, each in enumerate(documents, 1)],
        documents,
    )


def pool_of_captures(*held: Capture) -> Fleet:
    """Build a pool of servers that answered as these did."""
    snapshots = [
        captured.snapshot(each.answers, target=f"http://10.0.0.{number}:8000", labels={"pool": "chat"})
        for number, each in enumerate(held, 1)
    ]
    return build_fleet("test", snapshots, polled_at=captured.AT, interval=timedelta(seconds=15))


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


def deserved(capture: Capture, number: int) -> list[tuple[str, Confidence]]:
    """Say what a pool of servers like this one deserves, with nothing said in fleet.yaml."""
    if number == 1:
        return []
    if capture.case in {"llama_noprefix", "mamba2", "deepseek_mla"}:  # tell that they cache no prefixes
        return [("RT-13", Confidence.ASSUMED)]
    if capture.version != "0.32.0" or "xxhash" in capture.case:
        return [("RT-06", Confidence.ASSUMED)]
    return []


@pytest.mark.parametrize("capture", captured.captures())
@pytest.mark.parametrize("number", [1, 2, 4])
def test_servers_of_one_command_line_give_no_finding_but_a_random_root(capture: Capture, number: int) -> None:
    found = judged(pool_of_captures(*[capture] * number)).findings

    assert [(each.rule, each.confidence) for each in found] == deserved(capture, number), [
        each.sentence for each in found
    ]


def test_two_servers_that_hash_one_block_differently_have_random_roots() -> None:
    one, again = (captured.capture(case) for case in ("qwen3_xxhash", "qwen3_xxhash_again"))

    (finding,) = judged(pool_of_captures(one, again)).findings

    assert one.launch["first_block_hash"] != again.launch["first_block_hash"]
    assert (finding.rule, finding.severity, finding.confidence) == ("RT-06", Severity.CRITICAL, Confidence.ASSUMED)
    assert 'pools:\n  "chat":\n    expects:\n      seed_policy: environment' in [
        each.text for each in finding.remedy.snippets
    ]


def test_what_the_remedy_of_a_random_root_says_to_write_is_believed() -> None:
    one, again = (captured.capture(case) for case in ("qwen3_xxhash", "qwen3_xxhash_again"))
    expects = Expectations(seed_policy=SeedPolicy.ENVIRONMENT)

    assert said(judged(pool_of_captures(one, again), chat=Declared(expects=expects))) == []


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"version": "0.28.9", ALGORITHM: "sha256"}, RootKind.RANDOM),
        ({"version": "0.29.0", ALGORITHM: "sha256"}, RootKind.FIXED),
        ({"version": "0.29.0", ALGORITHM: "sha256_cbor"}, RootKind.FIXED),
        ({"version": "0.29.0", ALGORITHM: "xxhash"}, RootKind.RANDOM),
        ({"version": "0.12.0"}, RootKind.RANDOM),
        ({"version": "0.12.0", SEED: "0"}, RootKind.SEED),
        ({"version": "nightly", ALGORITHM: "xxhash_cbor"}, RootKind.RANDOM),
        ({"version": "nightly", ALGORITHM: "sha256"}, None),
        ({"version": "0.32.0"}, None),
        ({"version": "0.32.0", ALGORITHM: "builtin"}, None),
    ],
)
def test_the_root_follows_from_seed_version_and_algorithm(settings: dict[str, Any], kind: RootKind | None) -> None:
    root = root_of(builders.document(settings, base={}).settings)

    assert (root.kind if root else None) == kind


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


def test_a_router_that_is_configured_for_an_algorithm_is_the_reason_whatever_else_is_known_of_it() -> None:
    fleet = pool_of(*[{ALGORITHM: "sha256"}] * 3)
    expects = Expectations(hash_algorithm="sha256_cbor")

    whys = {
        router: found.why
        for router in (Router.KV_EVENTS, Router.NONE)
        for found in judged(fleet, "RT-05", chat=Declared(router=router, expects=expects)).findings
    }

    assert whys.keys() == {Router.KV_EVENTS, Router.NONE}
    assert all(why.startswith("The router is configured to compute hashes with sha256_cbor.") for why in whys.values())


def test_an_index_that_follows_events_has_a_reason_of_its_own() -> None:
    fleet = pool_of(*[{ALGORITHM: "sha256"}] * 3, {ALGORITHM: "xxhash"})

    (finding,) = judged(fleet, "RT-05", chat=Declared(router=Router.KV_EVENTS)).findings

    assert finding.why.startswith("An index that makes keys of its own")


@pytest.mark.parametrize("policy", [SeedPolicy.DEFAULT, SeedPolicy.ENVIRONMENT])
def test_a_broken_expectation_of_the_root_is_critical_for_the_reason_that_the_router_is_configured_so(
    policy: SeedPolicy,
) -> None:
    fleet = pool_of(*[{"version": "0.28.0", ALGORITHM: "sha256", SEED: None}] * 2)
    declared = Declared(router=Router.KV_EVENTS, expects=Expectations(seed_policy=policy))

    (finding,) = judged(fleet, "RT-06", chat=declared).findings

    assert finding.severity is Severity.CRITICAL
    assert finding.why.startswith("The router is configured to compute hashes that start from")


def test_a_router_that_hashes_by_itself_needs_no_other_reason_than_the_rules() -> None:
    fleet = pool_of({"version": "0.28.0", ALGORITHM: "sha256"})
    expects = Expectations(seed_policy=SeedPolicy.DEFAULT)

    (finding,) = judged(fleet, "RT-06", chat=Declared(router=Router.PREFIX_HASH, expects=expects)).findings

    assert finding.why.startswith("The router computes hashes from one root")


def test_an_old_version_is_said_to_be_the_difference_of_id_08_and_has_three_ways_out() -> None:
    fleet = pool_of(*[{"version": "0.32.0", ALGORITHM: "sha256"}] * 2, {"version": "0.28.0", ALGORITHM: "sha256"})

    (finding,) = judged(fleet, "RT-06").findings

    assert finding.remedy.any_of
    assert "version difference of ID-08: give these replicas vLLM 0.32.0" in finding.remedy.sentence
    assert "say `seed_policy: environment` under the pool's `expects` in fleet.yaml" in finding.remedy.sentence
    assert [each.text for each in finding.remedy.snippets] == [
        "image: vllm/vllm-openai:v0.32.0",
        "export PYTHONHASHSEED=0",
        'pools:\n  "chat":\n    expects:\n      seed_policy: environment',
    ]


def test_the_evidence_of_a_root_holds_version_against_version_and_algorithm_against_algorithm() -> None:
    fleet = pool_of(*[{"version": "0.32.0", ALGORITHM: "sha256"}] * 2, {"version": "0.28.0", ALGORITHM: "sha256_cbor"})

    (finding,) = judged(fleet, "RT-06").findings

    assert [(row.path, row.value, row.is_reference) for row in finding.evidence] == [
        ("version", '"0.28.0"', False),
        ("version", '"0.32.0"', True),
        (ALGORITHM, '"sha256_cbor"', False),
        (ALGORITHM, '"sha256"', True),
    ]


def test_where_replies_tell_that_no_seed_is_set_nobody_needs_to_say_that_it_is() -> None:
    fleet = pool_of({ALGORITHM: "sha256"}, {"version": "0.28.0", ALGORITHM: "sha256", SEED: None})

    (finding,) = judged(fleet, "RT-06").findings

    assert finding.remedy.any_of
    assert "fleet.yaml" not in finding.remedy.sentence
    assert [each.kind for each in finding.remedy.snippets] == ["yaml", "env"]


@pytest.mark.parametrize(("algorithm", "flags"), [(None, ["--prefix-caching-hash-algo sha256_cbor"]), ("xxhash", [])])
def test_a_pool_of_random_roots_may_change_its_algorithm_unless_the_router_has_the_same(
    algorithm: str | None, flags: list[str]
) -> None:
    fleet = pool_of(*[{ALGORITHM: "xxhash"}] * 3)

    (finding,) = judged(fleet, "RT-06", chat=Declared(expects=Expectations(hash_algorithm=algorithm))).findings

    assert [each.text for each in finding.remedy.snippets if each.kind == "flag"] == flags
    assert "export PYTHONHASHSEED=0" in [each.text for each in finding.remedy.snippets]
    assert finding.remedy.any_of


def test_one_seed_for_old_versions_that_tell_it_is_the_only_way() -> None:
    fleet = pool_of(*[{"version": "0.28.0", SEED: None}] * 2)

    (finding,) = judged(fleet, "RT-06").findings

    assert not finding.remedy.any_of
    assert [each.text for each in finding.remedy.snippets] == ["export PYTHONHASHSEED=0"]


@pytest.mark.parametrize(("says", "algorithm"), [("the same flag ends RT-05.", "sha256"), ("root is fixed. Or", None)])
def test_the_router_s_fixed_root_needs_an_algorithm_that_has_one(says: str, algorithm: str | None) -> None:
    fleet = pool_of({ALGORITHM: "sha256"}, {ALGORITHM: "xxhash"})
    expects = Expectations(seed_policy=SeedPolicy.DEFAULT, hash_algorithm=algorithm)

    (finding,) = judged(fleet, "RT-06", chat=Declared(expects=expects)).findings

    assert says in finding.remedy.sentence
    assert finding.remedy.any_of
    assert [each.kind for each in finding.remedy.snippets] == ["flag", "yaml"]


def test_one_odd_replica_is_restarted_and_the_router_is_not_touched() -> None:
    fleet = pool_of(*[{BLOCK: 16}] * 3, {BLOCK: 32})
    declared = Declared(router=Router.KV_EVENTS, expects=Expectations(block_size=16))

    (finding,) = judged(fleet, "RT-02", chat=declared).findings

    assert finding.remedy.sentence.startswith("Restart these replicas with blocks that cover 16 tokens")
    assert [each.text for each in finding.remedy.snippets] == ["--block-size 16"]
    assert not finding.remedy.any_of
    assert "discards every event" in finding.why


def test_where_most_replicas_are_alike_the_router_may_be_changed_instead() -> None:
    fleet = pool_of({BLOCK: 16}, *[{BLOCK: 32}] * 3)
    declared = Declared(router=Router.KV_EVENTS, expects=Expectations(block_size=16))

    (finding,) = judged(fleet, "RT-02", chat=declared).findings

    assert finding.remedy.sentence.startswith("Set the router's block size to 32, which 3 of 4 replicas have")
    assert finding.remedy.any_of
    assert [each.kind for each in finding.remedy.snippets] == ["yaml", "env", "flag"]


def test_no_block_size_is_offered_to_replicas_of_which_it_alone_does_not_decide() -> None:
    fleet = pool_of({BLOCK: 16, DCP: 2}, {BLOCK: 48})

    found = judged(fleet, "RT-02", chat=Declared(expects=Expectations(block_size=16))).findings

    assert {each.sentence: [snippet.text for snippet in each.remedy.snippets] for each in found} == {
        "A block covers 32 tokens; the router expects 16.": [],
        "A block covers 48 tokens; the router expects 16.": ["--block-size 16"],
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
    assert "`MODEL` stands for a name that the replica serves." in finding.remedy.sentence
    assert "`$POD_IP` and `$PORT` stand for a replica's address" in finding.remedy.sentence


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
