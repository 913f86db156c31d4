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
