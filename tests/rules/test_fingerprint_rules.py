"""Rules on what engines computed of their block hashes: what YAML cases cannot show: evidence, ids, foreign digests."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet, build_fleet
from dashboard.fleet import Engine, Fingerprint
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.domain import Declared, Expectations, SeedPolicy
from dashboard.rules.findings import Confidence, OutcomeKind, Severity
from dashboard.rules.routing.hashes import MAX_GROUPS, group_by_hashes, same_hashes
from dashboard.rules.subject import FINGERPRINT
from tests import builders, captured
from tests.provider_answers import with_provider
from tests.rules.routing_pools import ALGORITHM, HASHING, judged

BLOCK = "cache_config.block_size"
POLICY = "seed_policy"
XXHASH = {ALGORITHM: "xxhash", POLICY: "random"}
SHA256 = {ALGORITHM: "sha256", POLICY: "default"}


def engines(*digests: str) -> tuple[Engine, ...]:
    """An engine per digest."""
    return tuple(
        builders.engine(dp_rank=rank, fingerprint=Fingerprint(each, each)) for rank, each in enumerate(digests)
    )


def pool_of(*told: tuple[Mapping[str, Any], Sequence[str]]) -> Fleet:
    """A pool `chat` with a replica per (settings, digests of its engines)."""
    documents = [builders.document(settings, base={"version": "0.32.0"}) for settings, _ in told]
    members = [
        builders.replica(f"chat-{number}", document=document, engines=engines(*digests))
        for number, (document, (_, digests)) in enumerate(zip(documents, told, strict=True), 1)
    ]
    return builders.fleet(members, documents)


def pool_of_providers(case: str, *fingerprints: Sequence[str]) -> Fleet:
    """Servers that answered as this one did, each with the provider and these hashes, one per DP rank."""
    told = captured.capture(case)
    snapshots = [
        captured.snapshot(
            with_provider(told, full=False, fingerprints=each),
            target=f"http://10.0.0.{number}:8000",
            labels={"pool": "chat"},
        )
        for number, each in enumerate(fingerprints, 1)
    ]
    return build_fleet("test", snapshots, polled_at=captured.AT, interval=timedelta(seconds=15))


def test_two_real_servers_with_xxhash_are_reported_and_nothing_else_is_said_of_them() -> None:
    found = pool_of_providers("qwen3_xxhash", ["one"], ["other"]).inspection.findings

    assert [(each.rule, each.severity, each.confidence) for each in found] == [
        ("RT-06", Severity.INFO, Confidence.REPORTED)
    ], "the router is only assumed"


def test_two_real_servers_that_hash_alike_are_fine_whatever_their_algorithm() -> None:
    assert pool_of_providers("qwen3_xxhash", ["one seed"], ["one seed"]).inspection.findings == ()


def test_two_ranks_of_one_real_server_that_hash_differently_are_reported() -> None:
    (finding,) = pool_of_providers("llama_dp2", ["rank 0", "rank 1"]).inspection.findings

    assert (finding.rule, finding.confidence) == ("RT-06", Confidence.REPORTED)
    assert finding.sentence.startswith("Data-parallel ranks of this replica hash the same tokens differently")


def test_the_evidence_names_each_group_and_who_stands_in_it() -> None:
    fleet = pool_of((SHA256, ["a1"]), (SHA256, ["a1"]), (SHA256, ["a1"]), ({**SHA256, POLICY: "environment"}, ["b2"]))

    (finding,) = judged(fleet, "RT-06", chat=HASHING).findings
    rows = [row for row in finding.evidence if row.path == FINGERPRINT]

    assert [(json.loads(row.value), len(row.replicas), row.is_reference) for row in rows] == [
        ("b2", 1, False),
        ("a1", 3, True),
    ]


def test_the_evidence_of_ranks_that_differ_holds_the_digest_of_each() -> None:
    (finding,) = judged(pool_of((XXHASH, ["b2", "a1"])), "RT-06", chat=HASHING).findings

    assert [json.loads(row.value) for row in finding.evidence if row.path == FINGERPRINT] == [["a1", "b2"]]


def test_of_many_groups_the_first_are_shown_and_all_are_counted() -> None:
    fleet = pool_of(*[(XXHASH, [f"{number:04}"]) for number in range(MAX_GROUPS + 30)])

    (finding,) = judged(fleet, "RT-06", chat=HASHING).findings

    assert sum(row.path == FINGERPRINT for row in finding.evidence) == MAX_GROUPS
    assert finding.sentence.startswith(f"{MAX_GROUPS + 30} replicas hash the same tokens differently")
    assert len(finding.replicas) == MAX_GROUPS + 30


def test_a_finding_keeps_its_id_when_replicas_restart_with_other_random_roots() -> None:
    before, after = (
        judged(pool_of((XXHASH, [one]), (XXHASH, [other])), "RT-06", chat=HASHING).findings[0]
        for one, other in (("a1", "b2"), ("c3", "d4"))
    )

    assert before.id == after.id
    assert before.evidence != after.evidence


def test_who_tells_no_fingerprint_is_counted_as_unknown() -> None:
    fleet = pool_of((SHA256, ["a1"]), (SHA256, ["a1"]), (SHA256, []))

    (outcome,) = judged(fleet, "RT-06", chat=HASHING).outcomes

    assert (outcome.kind, outcome.unknown, outcome.total) == (OutcomeKind.PASSED, 1, 3)


def test_only_the_block_length_differs_and_only_the_rule_on_it_speaks() -> None:
    documents = [
        builders.document({**SHA256, BLOCK: size, "cache_config.hash_block_size": size}, base={"version": "0.32.0"})
        for size in (16, 16, 16, 32)
    ]
    members = [
        builders.replica(
            f"chat-{number}",
            document=document,
            engines=(builders.engine(fingerprint=Fingerprint("a1", document.settings[BLOCK].value)),),
        )
        for number, document in enumerate(documents)
    ]

    assert {each.rule for each in judged(builders.fleet(members, documents), chat=HASHING).findings} == {"RT-01"}


@pytest.mark.parametrize("router", [None, "sha256"])
def test_one_replica_with_another_algorithm_is_one_finding_whose_evidence_are_the_fingerprints(
    router: str | None,
) -> None:
    fleet = pool_of((SHA256, ["a1"]), (SHA256, ["a1"]), (SHA256, ["a1"]), (XXHASH, ["b2"]))

    (finding,) = judged(fleet, chat=Declared(expects=Expectations(hash_algorithm=router))).findings

    assert finding.rule == "RT-05"
    assert [(json.loads(row.value), row.is_reference) for row in finding.evidence if row.path == FINGERPRINT] == [
        ("b2", False),
        ("a1", True),
    ]


def test_two_versions_that_hash_alike_are_not_said_to_hash_differently() -> None:
    alike, apart = (
        judged(pool_of(({}, ["a1"]), ({}, ["a1"]), ({"version": "0.31.0"}, [digest])), "ID-08").findings[0]
        for digest in ("a1", "b2")
    )

    assert "answer, hash and cache differently" in apart.why
    assert alike.why.endswith("Their engines computed equal block hashes.")


def test_a_seed_on_some_replicas_may_be_taken_away_where_the_root_is_fixed_without_it() -> None:
    fixed = pool_of((SHA256, ["a1"]), ({**SHA256, POLICY: "environment"}, ["b2"]))
    random = pool_of((XXHASH, ["a1"]), ({**XXHASH, POLICY: "environment"}, ["b2"]))
    unknown = pool_of(({POLICY: "environment"}, ["a1"]), ({POLICY: "environment"}, ["b2"]))

    ways = [judged(fleet, "RT-06", chat=HASHING).findings[0].remedy for fleet in (fixed, random, unknown)]

    assert [[each.text for each in way.snippets] for way in ways] == [
        ["export PYTHONHASHSEED=0", "unset PYTHONHASHSEED"],
        ["export PYTHONHASHSEED=0"],
        ["export PYTHONHASHSEED=0"],
    ]
    assert [way.any_of for way in ways] == [True, False, False]


def test_a_seed_that_the_fleet_file_claims_is_not_offered_against_what_the_engines_computed() -> None:
    """`seed_policy: environment` silences what nobody tells; here the hashes are known to differ."""
    fleet = pool_of(({ALGORITHM: "xxhash"}, ["a1"]), ({ALGORITHM: "xxhash"}, ["b2"]))
    declared = Declared(expects=Expectations(seed_policy=SeedPolicy.ENVIRONMENT))

    found = [*judged(fleet, "RT-06", chat=HASHING).findings, *judged(fleet, "RT-06", chat=declared).findings]

    assert [each.confidence for each in found] == [Confidence.REPORTED] * 2
    assert all("fleet.yaml" not in each.remedy.sentence for each in found)


FOREIGN = ["", builders.HOSTILE, "\x00\x1b[31m\u202e", "9" * 5000, "null", '"']


@pytest.mark.parametrize("digest", FOREIGN)
def test_no_digest_makes_a_rule_raise_or_stands_in_a_sentence(digest: str) -> None:
    fleet = pool_of((XXHASH, [digest, "a1"]), (XXHASH, ["b2"]), ({POLICY: digest, ALGORITHM: "sha256"}, [digest]))
    inspection = judged(fleet, *BY_ID, chat=HASHING)

    assert [each.reason for each in inspection.outcomes if each.kind is OutcomeKind.ERROR] == []
    of_hashes = [each for each in inspection.findings if FINGERPRINT in each.paths]
    assert of_hashes
    assert all(digest not in each.sentence for each in of_hashes if len(digest) > 1)
    assert all(json.loads(row.value) is not None for each in of_hashes for row in each.evidence)


def test_groups_are_the_same_digests_the_largest_first_and_leave_out_who_tells_none() -> None:
    hashes = {"c": frozenset({"x"}), "a": frozenset({"y"}), "b": frozenset({"x"}), "d": frozenset({"x", "y"})}

    assert [group.replicas for group in group_by_hashes(hashes, ["a", "b", "c", "d", "e"])] == [
        ("b", "c"),
        ("d",),
        ("a",),
    ]
    assert same_hashes(hashes, ["b", "e"]) == {"b", "c"}
