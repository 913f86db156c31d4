"""Routing rules: captured servers, evidence, sources and hostile values, which YAML cases cannot express."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.compare.hashes import group_by_hashes, same_hashes
from dashboard.fleet import EngineFingerprint, FactName, RouterConfig, RouterFact, RouterKind, Source
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.domain import Expectations, PoolDeclaration, Router, SeedPolicy
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Confidence, Family, Inspection, OutcomeKind, Severity
from dashboard.rules.policy import Policy
from dashboard.rules.routing.hashes import MAX_GROUPS
from dashboard.rules.subject import FINGERPRINT
from tests import builders, captured
from tests.captured import Capture
from tests.polled_fleets import build_fleet
from tests.provider_answers import with_provider

ROUTING = [each for each in ALL_RULES if each.family is Family.ROUTING]
ALGORITHM = "cache_config.prefix_caching_hash_algo"
BLOCK = "cache_config.block_size"
EVENTS = "kv_events_config.enable_kv_cache_events"
ENDPOINT = "kv_events_config.endpoint"
TOPIC = "kv_events_config.topic"
SEED, POLICY = "env.PYTHONHASHSEED", "seed_policy"
XXHASH, SHA256 = {ALGORITHM: "xxhash", POLICY: "random"}, {ALGORITHM: "sha256", POLICY: "default"}
ENVIRONMENT = {**SHA256, POLICY: "environment"}
HASHING = PoolDeclaration(router=Router.PREFIX_HASH)
EXPECTING = PoolDeclaration(expects=Expectations(16, "sha256_cbor", SeedPolicy.ENVIRONMENT, "kv@{host}:{port}@{model}"))

Hashing = tuple[Mapping[str, Any], Sequence[str]]  # settings of a replica, and the digests of its engines


def pool_of(*entries: Hashing, base: Mapping[str, Any] | None = None) -> Fleet:
    """Return a pool `chat` with a replica per entry."""
    documents = [builders.document({"version": "0.32.0", **(base or {}), **own}, base={}) for own, _ in entries]
    members = []
    for number, (document, (_, digests)) in enumerate(zip(documents, entries, strict=True), 1):
        prints = [EngineFingerprint(each, each) for each in digests]
        engines = tuple(builders.engine(dp_rank=rank, fingerprint=each) for rank, each in enumerate(prints))
        members.append(builders.replica(f"chat-{number}", document=document, engines=engines))
    return builders.fleet(members, documents)


def captured_pool(*answers: Mapping[str, bytes]) -> Fleet:
    """Return a pool `chat` of servers with these answers."""
    snapshots = [
        captured.snapshot(each, target=f"http://10.0.0.{number}:8000", labels={"pool": "chat"})
        for number, each in enumerate(answers, 1)
    ]
    return build_fleet("test", snapshots, polled_at=captured.AT, interval=timedelta(seconds=15))


def providers(case: str, *fingerprints: Sequence[str]) -> Fleet:
    """Return servers like this capture, each with the provider and these hashes, one per DP rank."""
    capture = captured.capture(case)
    return captured_pool(*(with_provider(capture, full=False, fingerprints=each) for each in fingerprints))


def inspected(fleet: Fleet, *ids: str, declared: PoolDeclaration = HASHING) -> Inspection:
    """Inspect a fleet by some rules, or by all routing rules."""
    rules = [BY_ID[each] for each in ids] or ROUTING
    return inspect_fleet(rules, replace(fleet, policy=Policy(pools={"chat": declared})), builders.NOW)


def expected_findings(capture: Capture, number: int) -> list[tuple[str, Confidence]]:
    """Return the findings of a pool of servers like this one behind a prefix-hash router."""
    if number == 1:
        return []
    if capture.case in {"llama_noprefix", "mamba2", "deepseek_mla"}:  # prefix caching is off
        return [("RT-13", Confidence.REPORTED)]
    has_random_seed = capture.version in {"0.12.0", "0.20.2"} or "xxhash" in capture.case
    return [("RT-06", Confidence.ASSUMED)] if has_random_seed else []


@pytest.mark.no_cover
@pytest.mark.parametrize("capture", captured.captures())
@pytest.mark.parametrize("number", [1, 2, 4])
def test_equal_servers_only_differ_in_random_hash_seeds(capture: Capture, number: int) -> None:
    found = inspected(captured_pool(*[capture.answers] * number)).findings

    assert [(each.rule, each.confidence) for each in found] == expected_findings(capture, number)


def test_a_declared_seed_replaces_the_assumption_of_random_seeds() -> None:
    one, again = (captured.capture(case) for case in ("qwen3_xxhash", "qwen3_xxhash_again"))
    fleet = captured_pool(one.answers, again.answers)
    (finding,) = inspected(fleet).findings

    assert one.launch["first_block_hash"] != again.launch["first_block_hash"]
    assert (finding.rule, finding.severity, finding.confidence) == ("RT-06", Severity.WARNING, Confidence.ASSUMED)
    assert 'pools:\n  "chat":\n    expects:\n      seed_policy: environment' in [
        each.text for each in finding.remedy.snippets
    ]
    declared = PoolDeclaration(expects=Expectations(seed_policy=SeedPolicy.ENVIRONMENT))
    assert not inspected(fleet, declared=declared).findings
    assert not inspected(fleet, declared=PoolDeclaration()).findings, "the router is only assumed"


@pytest.mark.parametrize(
    ("case", "fingerprints", "sentence"),
    [
        ("qwen3_xxhash", (["one"], ["other"]), "2 replicas hash the same tokens differently"),
        ("qwen3_xxhash", (["one seed"], ["one seed"]), None),
        ("llama_dp2", (["rank 0", "rank 1"],), "Data-parallel ranks of this replica hash the same tokens differently"),
    ],
)
def test_hashes_of_captured_servers_decide_whether_they_share(
    case: str, fingerprints: tuple[list[str], ...], sentence: str | None
) -> None:
    found = providers(case, *fingerprints).inspection.findings

    assert [(each.rule, each.severity, each.confidence) for each in found] == (
        [("RT-06", Severity.INFO, Confidence.REPORTED)] if sentence else []
    )
    assert all(each.sentence.startswith(sentence or "") for each in found)


def test_the_evidence_is_limited_to_the_first_groups_and_the_sentence_counts_all() -> None:
    fleet = pool_of(*[(XXHASH, [f"{number:04}"]) for number in range(MAX_GROUPS + 30)])
    (finding,) = inspected(fleet, "RT-06").findings

    assert sum(row.path == FINGERPRINT for row in finding.evidence) == MAX_GROUPS
    assert len(finding.replicas) == MAX_GROUPS + 30
    assert finding.sentence.startswith(f"{MAX_GROUPS + 30} replicas hash the same tokens differently")


def test_a_restart_with_other_random_seeds_keeps_the_id_of_the_finding() -> None:
    before, after = (
        inspected(pool_of((XXHASH, [one]), (XXHASH, [other])), "RT-06").findings[0]
        for one, other in (("a1", "b2"), ("c3", "d4"))
    )

    assert before.id == after.id
    assert before.evidence != after.evidence


def test_versions_and_algorithms_are_compared_row_by_row_in_the_evidence() -> None:
    old = {"version": "0.28.0", ALGORITHM: "sha256_cbor"}
    (finding,) = inspected(pool_of(*[({ALGORITHM: "sha256"}, [])] * 2, (old, [])), "RT-06").findings

    assert [(row.path, row.value, row.is_reference) for row in finding.evidence] == [
        ("version", '"0.28.0"', False),
        ("version", '"0.32.0"', True),
        (ALGORITHM, '"sha256_cbor"', False),
        (ALGORITHM, '"sha256"', True),
    ]


def test_another_block_length_alone_is_only_a_finding_of_rt_01() -> None:
    sizes = (16, 16, 16, 32)
    fleet = pool_of(*[({**SHA256, BLOCK: size, "cache_config.hash_block_size": size}, []) for size in sizes])
    prints = (EngineFingerprint("a1", str(size)) for size in sizes)
    members = [
        replace(each, engines=(builders.engine(fingerprint=own),))
        for each, own in zip(fleet.replicas, prints, strict=True)
    ]

    found = inspected(builders.fleet(members, fleet.documents.values())).findings
    assert {each.rule for each in found} == {"RT-01"}


@pytest.mark.parametrize("digest", ["", builders.HOSTILE, "\x00\x1b[31m\u202e", "9" * 5000, "null", '"'])
def test_hostile_digests_raise_no_error_and_are_in_no_sentence(digest: str) -> None:
    fleet = pool_of((XXHASH, [digest, "a1"]), (XXHASH, ["b2"]), ({POLICY: digest, ALGORITHM: "sha256"}, [digest]))
    inspection = inspected(fleet, *BY_ID)
    found = [each for each in inspection.findings if FINGERPRINT in each.paths]

    assert [each.reason for each in inspection.outcomes if each.kind is OutcomeKind.ERROR] == []
    assert found
    assert all(digest not in each.sentence for each in found if len(digest) > 1)


def test_groups_have_equal_digests_and_the_largest_is_first() -> None:
    hashes = {"c": frozenset({"x"}), "a": frozenset({"y"}), "b": frozenset({"x"}), "d": frozenset({"x", "y"})}

    assert [*group_by_hashes(hashes, "abcde").values()] == [("b", "c"), ("d",), ("a",)]
    assert same_hashes(hashes, ["b", "e"]) == {"b", "c"}


def bound(endpoint: str) -> Hashing:
    """Return a replica that reports the endpoint that it bound, in `/kv_event_sources`."""
    return {ENDPOINT: builders.setting(endpoint, source=Source.KV_EVENT_SOURCES)}, ()


@pytest.mark.parametrize(
    ("entries", "number"),
    [
        ([bound("tcp://{host}:{port}") for _ in range(3)], 0),
        ([bound("tcp://*:{port}"), bound("tcp://*:{port}")], 0),
        ([bound("tcp://*:{port}"), bound("tcp://*:{port}"), ({ENDPOINT: "tcp://{host}:5557"}, ())], 1),
    ],
    ids=["ports chosen by the system", "ports of wildcards", "another kind of endpoint"],
)
def test_of_bound_endpoints_only_the_kind_is_compared(entries: list[Hashing], number: int) -> None:
    assert (
        len(inspected(pool_of(*entries, base={EVENTS: True}), "RT-11", declared=PoolDeclaration()).findings) == number
    )


def test_a_routers_port_is_compared_with_configured_endpoints_only() -> None:
    """vLLM adds the DP rank to the port that it binds."""
    fact = RouterFact(FactName.EVENT_PORT, "5557", "http://epp:9090", builders.NOW)
    router = RouterConfig("http://epp:9090", RouterKind.LLM_D, ("chat",), (fact,))
    entries = [bound("tcp://*:5557"), bound("tcp://*:5558"), ({ENDPOINT: "tcp://*:5600"}, ())]
    fleet = replace(pool_of(*entries, base={EVENTS: True}), routers=(router,))

    found = inspected(fleet, "RT-22", declared=PoolDeclaration(router=Router.KV_EVENTS)).findings

    assert [each.replicas for each in found] == [(fleet.replicas[2].id,)]


def test_ports_of_replicas_on_one_host_may_differ() -> None:
    fleet = pool_of(*[({ENDPOINT: "tcp://*:{port}"}, ())] * 2, base={EVENTS: True})
    whole = [{ENDPOINT: builders.setting(f"tcp://*:{port}")} for port in (5557, 5600)]
    own = [replace(each, identity=identity) for each, identity in zip(fleet.replicas, whole, strict=True)]
    here = [replace(each, id=f"http://one:800{number}") for number, each in enumerate(own)]

    (found,) = inspected(builders.fleet(own, fleet.documents.values()), "RT-11", declared=PoolDeclaration()).findings
    assert found.sentence.startswith("kv_events_config.endpoint differs: tcp://*:5557 on 1 and tcp://*:5600 on 1")
    assert not inspected(builders.fleet(here, fleet.documents.values()), "RT-11", declared=PoolDeclaration()).findings


def test_ports_that_were_copied_with_a_digest_are_not_compared() -> None:
    fleet = pool_of(*[({ENDPOINT: "tcp://*:{port}"}, ())] * 2, base={EVENTS: True})
    whole = {ENDPOINT: builders.setting("tcp://*:5557")}
    members = [replace(fleet.replicas[0], identity=whole), replace(fleet.replicas[1], same_digest_as="chat-1")]

    assert not inspected(
        builders.fleet(members, fleet.documents.values()), "RT-11", declared=PoolDeclaration()
    ).findings


def test_a_long_hostile_topic_is_matched_quickly_and_cut() -> None:
    fleet = pool_of(({EVENTS: True, TOPIC: "kv@" + "a:" * 50_000}, ()))
    (finding,) = inspected(fleet, "RT-10", declared=EXPECTING).findings

    assert len(finding.sentence) < 300
