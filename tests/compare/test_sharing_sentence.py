"""Who can share prefixes, in plain sentences: short, and true for what engines told."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dashboard.compare import Part, Share, Verdict, compare_pool, pool_sharing, sharing_sentence
from dashboard.compare.pool import Member
from dashboard.compare.prefix import ALGORITHM_PATH, MAX_NAMED
from dashboard.compare.random_root import SEED_POLICY_PATH
from dashboard.fleet import Fingerprint, Role, State
from dashboard.vllm.lookahead import UPGRADE
from tests.builders import document, hashing, replica, setting
from tests.compare.hashing_pools import BLOCK, NOBODY, VERSION, Cohort, Mark, differs, pair, said, shared, told

OTHER_LAYOUT = " B cannot share KV cache with A: kv_cache_layout differs."
ABSENT = setting(None, State.ABSENT)


def test_who_shares_and_who_does_not_and_why_is_one_measured_statement() -> None:
    """Two versions hash alike; settings and measurement on B settle the same, and it is said once."""
    xxhash = {ALGORITHM_PATH: "xxhash"}

    assert differs(({}, ["a"] * 5), (xxhash, ["b"] * 2), ({VERSION: "0.31.0"}, ["a"])) == (
        "Measured: A and C can share prefixes with each other, although vLLM version differs. "
        "B cannot share prefixes with them: it hashes with xxhash instead of sha256_cbor."
    )


def test_equal_settings_and_other_hashes_come_first() -> None:
    """The reason to measure at all: no setting shows it."""
    assert differs(({}, ["a", "b", "c"])) == (
        "Measured: No replica of A can share prefixes with any other, though their settings agree: "
        "each engine has a root of its own."
    )
    assert differs(({}, ["a"] * 4), ({}, ["x", "y"]), ({BLOCK: 32}, [[Fingerprint("a", "z")]])) == (
        "Measured: No replica of B can share prefixes with any other, though their settings agree: "
        "each engine has a root of its own. "
        "C cannot share prefixes with A: it cuts blocks of 32 tokens instead of 16."
    )


def test_two_ranks_of_one_replica_are_called_engines() -> None:
    assert differs(({}, [["a", "b"]])) == (
        "Measured: No engine of A can share prefixes with any other: each engine has a root of its own."
    )


def test_who_is_alone_is_so_within_the_cohort_where_others_do_not_tell_or_share() -> None:
    """Of those that do not tell nothing is claimed."""
    text = differs(({}, [["a"], ["b"], NOBODY]))
    assert text.startswith("Measured: Within A, no two replicas that tell can share prefixes")
    assert "Within A, no two replicas can share" in differs(({}, ["a", "b", "c"]), ({}, ["a"]))


def test_the_few_that_part_within_a_cohort_are_named() -> None:
    """A name came from an operator: it is a value of its own."""
    sentence = told(({}, ["a", "a", "a", "b"]))

    assert "".join(part.text for part in sentence.parts) == (
        "Measured: Within A, block hashes differ though settings agree: "
        "3 replicas can share prefixes with each other; r0-3 cannot share with them."
    )
    assert Part("r0-3", is_value=True) in sentence.parts
    assert "; r0-3, r0-4 and r0-5 cannot share" in differs(({}, ["a", "a", "a", "b", "c", "c"]))


def test_names_of_strangers_stay_short_and_on_their_line() -> None:
    shared = document()
    named = {"a": "x", "b": "y", "c": f"\n\x1b[31m{'z' * 500}"}
    digests = {"a": "same", "b": "same", "c": "other"}
    replicas = {
        key: replica(name, id=key, document=shared, engines=hashing(digests[key])) for key, name in named.items()
    }
    members = [Member(key, shared.id, fresh=True, identity=0) for key in replicas]
    known = {shared.id: shared}
    pool = compare_pool("chat", Role.BOTH, members, known)
    text = "".join(part.text for part in sharing_sentence(pool, pool_sharing(pool, replicas), known, replicas).parts)

    assert text.isprintable()
    assert len(text) < 200


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (["a"] * 9 + ["b"] * 8, "its 17 replicas hash blocks in 2 ways."),
        ([["a", "b"], ["a", "b"]], "its 2 replicas hash blocks in 2 ways."),
        ([["a", "a", "b"]], "its 1 replica hash blocks in 2 ways."),
        (
            [*[["a"]] * 7, *[["b"]] * 6, NOBODY],
            "its 13 replicas that tell hash blocks in 2 ways. 1 of 14 replicas does not tell block hashes.",
        ),
    ],
)
def test_many_that_part_within_a_cohort_are_counted(held: Sequence[Sequence[Mark]], words: str) -> None:
    assert differs(({}, held)).endswith(f"Within A, block hashes differ though settings agree: {words}")


def test_many_cohorts_that_part_within_themselves_are_counted() -> None:
    mixed: Sequence[Cohort] = [({}, ["a", "a", f"b{number}"]) for number in range(MAX_NAMED + 2)]

    assert "So do those within 2 more cohorts." in differs(*mixed)


def test_a_cohort_that_shares_with_some_of_another_shares_in_part() -> None:
    assert differs(({}, ["a"] * 4), ({}, ["a", "a", "b"])).endswith("B can share prefixes with A only in part.")


def test_whom_others_do_not_share_with_is_named_again_after_another_sentence() -> None:
    text = differs(({}, ["a"] * 5), ({}, ["a"] * 4), ({}, ["a", "a", "b"]), ({}, ["z"]))

    assert text.endswith(
        "C can share prefixes with A and B only in part. "
        "D cannot share prefixes with A and B: it starts its hashes from another root."
    )


def test_a_mixed_cohort_without_a_common_way_is_held_against_the_largest() -> None:
    assert differs(({}, ["a"] * 4), ({}, ["b", "b", "c"])).endswith(
        "B cannot share prefixes with A: it hashes in another way."
    )


@pytest.mark.parametrize(
    ("settings", "mark", "reason"),
    [
        ({}, "b", "it starts its hashes from another root."),
        ({BLOCK: 32}, Fingerprint("a", "b"), "it cuts blocks of 32 tokens instead of 16."),
        ({}, Fingerprint("a", "b"), "it hashes blocks of another length."),
        ({}, Fingerprint(None, "b"), "it hashes in another way."),
        ({VERSION: "0.31.0"}, "b", "it hashes in another way, and it runs vLLM 0.31.0 instead of 0.32.0."),
        (
            {VERSION: "0.31.0", ALGORITHM_PATH: "xxhash"},
            "b",
            "it hashes with xxhash instead of sha256_cbor, and it runs vLLM 0.31.0 instead of 0.32.0.",
        ),
        ({SEED_POLICY_PATH: "environment"}, "b", "it starts its hashes from another root."),
    ],
)
def test_the_reason_is_what_the_digests_leave_open(settings: Mapping[str, Any], mark: Mark, reason: str) -> None:
    assert differs(({}, ["a", "a"]), (settings, [[mark]])) == f"Measured: B cannot share prefixes with A: {reason}"


def test_a_root_that_is_told_is_the_reason_and_the_version_only_stands_beside_it() -> None:
    """A version alone is no measured cause."""
    old = {SEED_POLICY_PATH: "random", VERSION: "0.26.0"}
    seeded = {SEED_POLICY_PATH: "environment"}

    assert differs(({SEED_POLICY_PATH: "default"}, ["a", "a"]), (old, ["b"])) == (
        "Measured: B cannot share prefixes with A: it starts its hashes from a random root instead of the fixed root "
        "of vLLM, and it runs vLLM 0.26.0 instead of 0.32.0."
    )
    assert differs((seeded, ["a", "a"]), (seeded, ["b"])).endswith("it starts its hashes from another root.")
    assert differs((old, ["a", "a"]), (old, ["b"])).endswith("it starts its hashes from a random root.")


def test_of_cohorts_of_which_not_all_tell_only_those_that_tell_are_spoken_of() -> None:
    some: Sequence[Sequence[Mark]] = [["a"], NOBODY, NOBODY]

    verdict, text = said(({}, some), ({VERSION: "0.31.0"}, ["a"] * 2))
    assert verdict is Verdict.UNKNOWN
    assert text == (
        "Measured: Those of A and B that tell can share prefixes with each other, although vLLM version differs. "
        "2 of 5 replicas do not tell block hashes."
    )
    assert differs(({}, some), ({}, ["b", NOBODY])).startswith(
        "Measured: Those of B that tell cannot share prefixes with those of A that tell: "
        "they start their hashes from another root."
    )
    assert " C can share prefixes with those of A and B that tell only in part." in differs(
        ({}, [*some, *some]), ({}, ["a"] * 4), ({}, ["a", "a", "b"])
    )


def test_cohorts_that_part_alike_share_a_clause() -> None:
    text = differs(({}, ["a"] * 4), ({}, ["b"] * 3), ({ALGORITHM_PATH: "xxhash"}, ["x"] * 2), ({}, ["b"]))

    assert text == (
        "Measured: B and D can share prefixes with each other. B, D and C cannot share prefixes with A: "
        "B and D start their hashes from another root; C hashes with xxhash instead of sha256_cbor."
    )
    assert differs(({}, ["a"] * 4), ({}, ["b"] * 3), ({}, ["c"])).endswith(
        "B and C cannot share prefixes with A: they start their hashes from another root."
    )


def test_many_ways_to_part_are_counted() -> None:
    others: Sequence[Cohort] = [({ALGORITHM_PATH: f"hash {n}"}, [f"digest {n}"[-1]]) for n in range(MAX_NAMED + 2)]

    assert differs(({}, ["a"] * 4), *others).endswith("; 2 more part in other ways.")


def test_all_that_share_are_counted_in_one_calm_sentence() -> None:
    """A seed that is the default, or a version that changed nothing, is named and no reason to worry."""
    assert said(({}, ["a"] * 8)) == (Verdict.AGREES, "Measured: All 8 replicas can share prefixes.")
    assert said(({SEED_POLICY_PATH: "default"}, ["a"] * 2), ({SEED_POLICY_PATH: "environment"}, ["a"])) == (
        Verdict.AGREES,
        "Measured: All 3 replicas can share prefixes, although seed_policy differs.",
    )
    assert said(({}, [["a", "a"]])) == (
        Verdict.AGREES,
        "Measured: The 2 engines of the one replica can share prefixes.",
    )


def test_one_engine_has_nothing_to_be_compared_with() -> None:
    assert said(({}, ["a"])) == (Verdict.AGREES, "There is one replica, and nothing to compare it with.")


def test_a_cohort_that_looks_ahead_does_not_share_and_why_is_said() -> None:
    new = {VERSION: "0.33.0", "speculative_config": None}
    ahead = {VERSION: "0.33.0", "hash_lookahead_tokens": 1}

    assert "B cannot share prefixes with A: it has hash_lookahead_tokens 1 instead of 0." in differs(
        (new, ["a", "a"]), (ahead, ["b"])
    )
    sentence = told((new, [NOBODY, NOBODY]), ({**ahead, VERSION: "0.33.1"}, [NOBODY]))
    assert "hash_lookahead_tokens 1 instead of 0" in "".join(part.text for part in sentence.parts)
    assert sentence.is_certain


def test_an_older_provider_is_to_be_upgraded() -> None:
    outdated = ({VERSION: "0.33.0"}, [[Fingerprint(reason=UPGRADE)]] * 2)

    for cohorts in ([outdated], [({VERSION: "0.33.0", "speculative_config": None}, ["a", "a"]), outdated]):
        verdict, text = said(*cohorts)
        assert verdict is Verdict.UNKNOWN
        assert text.endswith("which this provider leaves out (2 replicas).")


@pytest.mark.parametrize(
    ("settings", "share", "why"),
    [
        ({"model_config.model": "org/other"}, Share.NO, " B cannot share KV cache with A: model differs."),
        ({"model_config.revision": "abc"}, Share.NO, " B cannot share KV cache with A: revision differs."),
        ({"cache_config.cache_dtype": "fp8"}, Share.NO, " B cannot share KV cache with A: cache_dtype differs."),
        ({"model_config.dtype": "float16"}, Share.NO, " B cannot share KV cache with A: dtype differs."),
        (
            {"cache_config.kv_cache_layout": "HND"},
            Share.NO,
            OTHER_LAYOUT,
        ),
        ({"model_config.model": "llama"}, Share.UNKNOWN, " Sharing KV cache is unknown: model differs."),
        (
            {"cache_config.kv_cache_layout": ABSENT},
            Share.UNKNOWN,
            " Sharing KV cache is unknown: kv_cache_layout not reported.",
        ),
    ],
)
def test_equal_hashes_are_no_sharing_unless_the_kv_cache_is_known_to_be_the_same(
    settings: dict[str, Any], share: Share, why: str
) -> None:
    cohorts: Sequence[Cohort] = [({}, ["a", "a"]), (settings, ["a"])]
    sentence = told(*cohorts)
    (cell,) = (each for each in shared(*cohorts).cells if each.one != each.other)

    assert "".join(part.text for part in sentence.parts) == f"Measured: All 3 replicas hash alike.{why}"
    assert sentence.share is cell.share is share
    assert cell.reason.startswith("they hash alike, but ")
    assert not cell.is_measured
    assert (sentence.verdict is Verdict.DIFFERS) == (share is Share.NO)
    assert sentence.apart == (("B",) if share is Share.NO else ())


def test_another_model_is_a_reason_without_block_hashes_too() -> None:
    cohorts: Sequence[Cohort] = [({}, [NOBODY] * 2), ({"model_config.model": "org/other"}, [NOBODY])]

    assert told(*cohorts).share is Share.NO
    assert pair(*cohorts) == (Share.NO, "model differs", False)


def test_one_replica_needs_no_layout_to_share_with_itself() -> None:
    settings = {"cache_config.kv_cache_layout": ABSENT}

    assert told((settings, [["a", "a"]])).share is Share.YES
