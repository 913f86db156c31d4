"""Rules on block hashes, RT-05 and RT-06: what YAML cases cannot show: remedies, reasons, real answers."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.compare.prefix import SeedKind
from dashboard.rules.domain import Declared, Expectations, Router, SeedPolicy
from dashboard.rules.findings import Confidence, Severity
from dashboard.rules.routing.hash_seed import seed_of
from tests import builders, captured
from tests.captured import Capture
from tests.rules.routing_pools import ALGORITHM, HASHING, SEED, judged, pool_of, pool_of_captures, said


def deserved(capture: Capture, number: int) -> list[tuple[str, Confidence]]:
    """Say what a pool of servers like this one deserves behind a prefix-hash router."""
    if number == 1:
        return []
    if capture.case in {"llama_noprefix", "mamba2", "deepseek_mla"}:  # tell that they cache no prefixes
        return [("RT-13", Confidence.REPORTED)]
    if capture.version in {"0.12.0", "0.20.2"} or "xxhash" in capture.case:
        return [("RT-06", Confidence.ASSUMED)]
    return []


@pytest.mark.no_cover
@pytest.mark.parametrize("capture", captured.captures())
@pytest.mark.parametrize("number", [1, 2, 4])
def test_servers_of_one_command_line_give_no_finding_but_a_random_root(capture: Capture, number: int) -> None:
    found = judged(pool_of_captures(*[capture] * number), chat=HASHING).findings

    assert [(each.rule, each.confidence) for each in found] == deserved(capture, number), [
        each.sentence for each in found
    ]


def test_two_servers_that_hash_one_block_differently_have_random_roots() -> None:
    one, again = (captured.capture(case) for case in ("qwen3_xxhash", "qwen3_xxhash_again"))

    (finding,) = judged(pool_of_captures(one, again), chat=HASHING).findings

    assert one.launch["first_block_hash"] != again.launch["first_block_hash"]
    assert (finding.rule, finding.severity, finding.confidence) == ("RT-06", Severity.WARNING, Confidence.ASSUMED)
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
        ({"version": "0.28.9", ALGORITHM: "sha256"}, SeedKind.RANDOM),
        ({"version": "0.29.0", ALGORITHM: "sha256"}, SeedKind.FIXED),
        ({"version": "0.29.0", ALGORITHM: "sha256_cbor"}, SeedKind.FIXED),
        ({"version": "0.29.0", ALGORITHM: "xxhash"}, SeedKind.RANDOM),
        ({"version": "0.12.0"}, SeedKind.RANDOM),
        ({"version": "0.12.0", SEED: "0"}, SeedKind.SEED),
        ({"version": "nightly", ALGORITHM: "xxhash_cbor"}, SeedKind.RANDOM),
        ({"version": "nightly", ALGORITHM: "sha256"}, None),
        ({"version": "0.32.0"}, None),
        ({"version": "0.32.0", ALGORITHM: "builtin"}, None),
    ],
)
def test_the_root_follows_from_seed_version_and_algorithm(settings: dict[str, Any], kind: SeedKind | None) -> None:
    root = seed_of(builders.document(settings, base={}).settings)

    assert (root.kind if root else None) == kind


def test_a_router_that_is_configured_for_an_algorithm_is_the_reason_whatever_else_is_known_of_it() -> None:
    fleet = pool_of(*[{ALGORITHM: "sha256"}] * 3)
    expects = Expectations(hash_algorithm="sha256_cbor")

    whys = {
        router: found.why
        for router in (Router.KV_EVENTS, Router.NONE)
        for found in judged(fleet, "RT-05", chat=Declared(router=router, expects=expects)).findings
    }

    assert whys.keys() == {Router.KV_EVENTS, Router.NONE}
    assert all(why.startswith("The router computes hashes with sha256_cbor.") for why in whys.values())


def test_an_index_that_follows_events_has_a_reason_of_its_own() -> None:
    fleet = pool_of(*[{ALGORITHM: "sha256"}] * 3, {ALGORITHM: "xxhash"})

    (finding,) = judged(fleet, "RT-05", chat=Declared(router=Router.KV_EVENTS)).findings

    assert finding.why.startswith("An index that computes its own keys")


@pytest.mark.parametrize("policy", [SeedPolicy.DEFAULT, SeedPolicy.ENVIRONMENT])
def test_a_broken_expectation_of_the_root_is_critical_for_the_reason_that_the_router_is_configured_so(
    policy: SeedPolicy,
) -> None:
    fleet = pool_of(*[{"version": "0.28.0", ALGORITHM: "sha256", SEED: None}] * 2)
    declared = Declared(router=Router.KV_EVENTS, expects=Expectations(seed_policy=policy))

    (finding,) = judged(fleet, "RT-06", chat=declared).findings

    assert finding.severity is Severity.CRITICAL
    assert finding.why.startswith("The router computes hashes that start from")


def test_a_router_that_hashes_by_itself_needs_no_other_reason_than_the_rules() -> None:
    fleet = pool_of({"version": "0.28.0", ALGORITHM: "sha256"})
    expects = Expectations(seed_policy=SeedPolicy.DEFAULT)

    (finding,) = judged(fleet, "RT-06", chat=Declared(router=Router.PREFIX_HASH, expects=expects)).findings

    assert finding.why.startswith("The router computes hashes from one seed")


def test_an_old_version_is_said_to_be_the_difference_of_id_08_and_has_three_ways_out() -> None:
    fleet = pool_of(*[{"version": "0.32.0", ALGORITHM: "sha256"}] * 2, {"version": "0.28.0", ALGORITHM: "sha256"})

    (finding,) = judged(fleet, "RT-06", chat=HASHING).findings

    assert finding.remedy.any_of
    assert "Update these replicas to vLLM 0.32.0 like the others (ID-08)." in finding.remedy.sentence
    assert "set `seed_policy: environment` under `expects` of the pool in fleet.yaml" in finding.remedy.sentence
    assert [each.text for each in finding.remedy.snippets] == [
        "image: vllm/vllm-openai:v0.32.0",
        "export PYTHONHASHSEED=0",
        'pools:\n  "chat":\n    expects:\n      seed_policy: environment',
    ]


def test_the_evidence_of_a_root_holds_version_against_version_and_algorithm_against_algorithm() -> None:
    fleet = pool_of(*[{"version": "0.32.0", ALGORITHM: "sha256"}] * 2, {"version": "0.28.0", ALGORITHM: "sha256_cbor"})

    (finding,) = judged(fleet, "RT-06", chat=HASHING).findings

    assert [(row.path, row.value, row.is_reference) for row in finding.evidence] == [
        ("version", '"0.28.0"', False),
        ("version", '"0.32.0"', True),
        (ALGORITHM, '"sha256_cbor"', False),
        (ALGORITHM, '"sha256"', True),
    ]


def test_where_replies_tell_that_no_seed_is_set_nobody_needs_to_say_that_it_is() -> None:
    fleet = pool_of({ALGORITHM: "sha256"}, {"version": "0.28.0", ALGORITHM: "sha256", SEED: None})

    (finding,) = judged(fleet, "RT-06", chat=HASHING).findings

    assert finding.remedy.any_of
    assert "fleet.yaml" not in finding.remedy.sentence
    assert [each.kind for each in finding.remedy.snippets] == ["yaml", "env"]


@pytest.mark.parametrize(("algorithm", "flags"), [(None, ["--prefix-caching-hash-algo sha256_cbor"]), ("xxhash", [])])
def test_a_pool_of_random_roots_may_change_its_algorithm_unless_the_router_has_the_same(
    algorithm: str | None, flags: list[str]
) -> None:
    fleet = pool_of(*[{ALGORITHM: "xxhash"}] * 3)

    (finding,) = judged(fleet, "RT-06", chat=replace(HASHING, expects=Expectations(hash_algorithm=algorithm))).findings

    assert [each.text for each in finding.remedy.snippets if each.kind == "flag"] == flags
    assert "export PYTHONHASHSEED=0" in [each.text for each in finding.remedy.snippets]
    assert finding.remedy.any_of


def test_one_seed_for_old_versions_that_tell_it_is_the_only_way() -> None:
    fleet = pool_of(*[{"version": "0.28.0", SEED: None}] * 2)

    (finding,) = judged(fleet, "RT-06", chat=HASHING).findings

    assert not finding.remedy.any_of
    assert [each.text for each in finding.remedy.snippets] == ["export PYTHONHASHSEED=0"]


@pytest.mark.parametrize(("says", "algorithm"), [("this also fixes RT-05.", "sha256"), ("on these replicas. Or", None)])
def test_the_router_s_fixed_root_needs_an_algorithm_that_has_one(says: str, algorithm: str | None) -> None:
    fleet = pool_of({ALGORITHM: "sha256"}, {ALGORITHM: "xxhash"})
    expects = Expectations(seed_policy=SeedPolicy.DEFAULT, hash_algorithm=algorithm)

    (finding,) = judged(fleet, "RT-06", chat=Declared(expects=expects)).findings

    assert says in finding.remedy.sentence
    assert finding.remedy.any_of
    assert [each.kind for each in finding.remedy.snippets] == ["flag", "yaml"]
