"""What is said of prefix sharing where not all engines tell: derived from settings, doubted, or not known."""

from collections.abc import Sequence

from dashboard.compare import Share, Verdict
from dashboard.compare.prefix import ALGORITHM_PATH, CACHING_PATH
from dashboard.compare.random_root import SEED_POLICY_PATH
from tests.compare.hashing_pools import BLOCK, NOBODY, OFF, VERSION, Cohort, differs, said, told

XXHASH = {ALGORITHM_PATH: "xxhash"}
DOUBT = (
    "ach engine process makes up its root with xxhash unless PYTHONHASHSEED is set, which no replica tells: "
    "probably they cannot share prefixes."
)

UNMEASURED = (
    "No difference in what all 2 replicas tell of prefix sharing. "
    "Sharing is unknown: no replica reports its block hashes."
)


def test_settings_that_agree_do_not_reassure_where_roots_are_random_unless_a_seed_is_set() -> None:
    sentence = told((XXHASH, [NOBODY] * 2))

    assert said((XXHASH, [NOBODY] * 2)) == (Verdict.UNKNOWN, f"Settings agree, but e{DOUBT}")
    assert (sentence.is_doubted, sentence.not_known, sentence.is_certain) == (True, 2, False)
    assert said((XXHASH, [NOBODY] * 2), unread=1) == (
        Verdict.UNKNOWN,
        f"No difference in what was told of prefix sharing. Not known for 1 of 3. E{DOUBT}",
    )
    old = {VERSION: "0.28.1"}
    assert "makes up its root before vLLM 0.29 unless" in said((old, [NOBODY] * 2))[1]
    assert said((XXHASH, [NOBODY]))[1] == "There is one replica, and nothing to compare it with."


def test_who_of_several_cohorts_probably_has_random_roots_is_named() -> None:
    assert differs(({}, [NOBODY] * 3), (XXHASH, [NOBODY] * 2)).endswith(
        "it hashes with xxhash instead of sha256_cbor. Each engine process of B makes up its root with xxhash unless "
        "PYTHONHASHSEED is set, which no replica tells: probably they cannot share prefixes."
    )
    assert "probably" not in differs(({}, [NOBODY] * 3), (XXHASH, [NOBODY]))
    assert said((XXHASH, ["a", "a", NOBODY]))[0] is Verdict.UNKNOWN
    assert "is set, which not all tell: probably" in said((XXHASH, ["a", "a", NOBODY]))[1]


def test_roots_that_settings_say_are_random_are_a_difference_though_settings_agree() -> None:
    random = {**XXHASH, SEED_POLICY_PATH: "random"}
    sentence = told((random, [NOBODY] * 2))

    assert "".join(part.text for part in sentence.parts) == (
        "Derived from settings: No replica of A can share prefixes with any other: each engine has a root of its own."
    )
    assert (sentence.verdict, sentence.is_certain, sentence.split) == (Verdict.DIFFERS, True, ("A",))
    assert differs((random, [NOBODY] * 2), ({BLOCK: 32}, [NOBODY])).endswith("each engine has a root of its own.")


def test_where_nobody_tells_it_is_derived_from_settings() -> None:
    assert differs(({}, [NOBODY] * 2), ({BLOCK: 32}, [NOBODY])) == (
        "Derived from settings: B cannot share prefixes with A: it cuts blocks of 32 tokens instead of 16."
    )
    assert said(({}, [NOBODY] * 2)) == (
        Verdict.UNKNOWN,
        UNMEASURED,
    )


def test_a_version_alone_is_no_certain_break_unless_it_was_measured() -> None:
    cohorts: Sequence[Cohort] = [({}, [NOBODY] * 2), ({VERSION: "0.31.0"}, [NOBODY])]

    assert not told(*cohorts).is_certain
    assert told(({}, ["a"] * 2), ({VERSION: "0.31.0"}, ["b"])).is_certain


def test_what_some_tell_is_measured_and_the_rest_derived() -> None:
    sentence = told(({}, [["a"], ["a"], NOBODY]), ({ALGORITHM_PATH: "xxhash"}, [NOBODY]), unread=1)

    assert "".join(part.text for part in sentence.parts) == (
        "Measured: Those of A that tell can share prefixes with each other. "
        "Derived from settings: B cannot share prefixes with A: it hashes with xxhash instead of sha256_cbor. "
        "3 of 5 replicas do not tell block hashes."
    )
    assert (sentence.apart, sentence.base, sentence.is_certain, sentence.not_known) == (("B",), "A", True, 3)


def test_a_version_that_is_only_told_leaves_it_open() -> None:
    sentence = told(({}, ["a"] * 3), ({VERSION: "0.31.0"}, [NOBODY]))

    assert (sentence.verdict, sentence.is_certain) == (Verdict.DIFFERS, False)
    assert "B may not share prefixes with A" in "".join(part.text for part in sentence.parts)


def test_measured_cohorts_are_not_judged_by_settings_again() -> None:
    """Two versions hash alike; a third cohort that tells nothing agrees in what decides."""
    verdict, text = said(({}, ["a"] * 3), ({VERSION: "0.31.0"}, ["a"] * 2), ({}, [NOBODY]))

    assert "Measured: A and B can share prefixes with each other, although vLLM version differs." in text
    assert text.endswith(" 1 of 6 replicas does not tell block hashes.")
    assert verdict is Verdict.UNKNOWN


def test_one_silent_replica_and_one_silent_engine_leave_the_same_open() -> None:
    assert said(({}, ["a", "a", NOBODY]))[0] is Verdict.UNKNOWN
    assert said(({}, ["a", ["a", None]]))[0] is Verdict.UNKNOWN
    assert said(({}, ["a", "a"]), unread=1)[0] is Verdict.UNKNOWN
    assert said(({}, [["a"], ["a"], NOBODY]), ({VERSION: "0.31.0"}, ["a"]))[0] is Verdict.UNKNOWN


def test_a_pool_that_hashes_no_blocks_shares_nothing_and_nobody_differs() -> None:
    off = {CACHING_PATH: False}

    assert told((off, [[OFF], [OFF]])).share is Share.NO
    assert said((off, [[OFF], [OFF]])) == (
        Verdict.OFF,
        "Prefix caching is off on 2 replicas, so no prefixes are shared.",
    )
    assert said((off, [NOBODY]), unread=1) == (
        Verdict.OFF,
        "Prefix caching is off on 1 replica, so no prefixes are shared. 1 of 2 replicas does not tell block hashes.",
    )


def test_engines_that_hash_blocks_are_believed_whatever_the_switch_says() -> None:
    """A KV connector makes an engine hash blocks without prefix caching."""
    assert said(({CACHING_PATH: False}, ["a", "a"])) == (
        Verdict.AGREES,
        "Measured: All 2 replicas can share prefixes.",
    )


def test_who_hashes_no_blocks_is_held_against_those_that_do() -> None:
    off = {CACHING_PATH: False}

    assert differs(({}, ["a"] * 3), (off, [[OFF]])) == (
        "Measured: The replicas of A can share prefixes with each other. "
        "Derived from settings: B has prefix caching off and shares no prefixes."
    )
    assert differs(({}, ["a", "b", "c"]), (off, [[OFF], [OFF]])).endswith(
        "root of its own. Derived from settings: B has prefix caching off and shares no prefixes."
    )
    assert differs(({}, [["a"], NOBODY]), (off, [[OFF]]), (off, [[OFF]])).startswith(
        "Derived from settings: B and C have prefix caching off and share no prefixes."
    )
    assert not told(({}, ["a"]), (off, [[OFF]])).is_measured


def test_a_pool_that_was_never_read_is_unknown() -> None:
    assert said(unread=1) == (
        Verdict.UNKNOWN,
        "No replica tells what decides prefix sharing. Not known for 1 of 1.",
    )
