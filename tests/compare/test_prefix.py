"""The sentence about prefix sharing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from dashboard.compare import PREFIX_PATHS, Member, Part, Verdict, compare_pool, prefix_sentence
from dashboard.compare.prefix import short_name
from dashboard.fleet import Document, Role, State
from tests.compare.pools import compared, document, fleets, pool_of

Fleet = tuple[list[Member], dict[str, Document]]

VERSION, CACHING, HASH, BLOCK, HASH_BLOCK, UNIT = PREFIX_PATHS
ALL: dict[str, Any] = {VERSION: "0.32.0", CACHING: True, HASH: "sha256_cbor", BLOCK: 16, HASH_BLOCK: 16, UNIT: 16}


def said(*holders: tuple[int, dict[str, Any]], **choices: Any) -> tuple[Verdict, str]:
    pool, documents = pool_of(*holders, **choices)
    sentence = prefix_sentence(pool, documents, unsupported=lambda *_: False)
    return sentence.verdict, "".join(part.text for part in sentence.parts)


def test_cohorts_that_part_are_named_with_what_they_do() -> None:
    verdict, text = said((5, ALL), (1, {**ALL, HASH: "xxhash"}), (1, {**ALL, BLOCK: 32}))

    assert verdict is Verdict.DIFFERS
    assert text == (
        "B and C cannot share prefixes with A: "
        "B hashes with xxhash instead of sha256_cbor; C cuts blocks of 32 tokens instead of 16."
    )


def test_values_are_parts_of_their_own() -> None:
    pool, documents = pool_of((2, ALL), (1, {**ALL, HASH: "<b>"}))

    assert prefix_sentence(pool, documents).parts == (
        Part("B cannot share prefixes with A: "),
        Part("it "),
        Part("hashes with "),
        Part("<b>", is_value=True),
        Part(" instead of "),
        Part("sha256_cbor", is_value=True),
        Part("."),
    )


@pytest.mark.parametrize(
    ("path", "value", "phrase"),
    [
        (VERSION, "0.31.0", "B may not share prefixes with A: it runs vLLM 0.31.0 instead of 0.32.0."),
        (CACHING, False, "B cannot share prefixes with A: it has prefix caching off."),
        (CACHING, "yes", "B cannot share prefixes with A: it has enable_prefix_caching yes instead of true."),
        (HASH_BLOCK, 8, "B cannot share prefixes with A: it hashes every 8 tokens instead of 16."),
        (UNIT, 8, "B cannot share prefixes with A: it matches prefixes in units of 8 tokens instead of 16."),
        (UNIT, None, "B cannot share prefixes with A: it has prefix_match_unit null instead of 16."),
    ],
)
def test_every_setting_has_its_words(path: str, value: object, phrase: str) -> None:
    assert said((2, ALL), (1, {**ALL, path: value})) == (Verdict.DIFFERS, phrase)


def test_on_a_tie_nobody_is_blamed() -> None:
    assert said((2, ALL), (2, {**ALL, BLOCK: 32})) == (
        Verdict.DIFFERS,
        "There is no majority: A has block_size 16, B has 32. They cannot share prefixes with each other.",
    )
    assert said((1, ALL), (1, {**ALL, VERSION: "0.31.0"}))[1] == (
        "There is no majority: A has vLLM version 0.32.0, B has 0.31.0. They may not share prefixes with each other."
    )


def test_a_tie_and_an_odd_one_out_are_said_one_after_the_other() -> None:
    assert said((2, ALL), (2, {**ALL, BLOCK: 32}), (1, {**ALL, HASH: "xxhash", BLOCK: State.UNKNOWN}))[1] == (
        "There is no majority: A has block_size 16, B has 32. They cannot share prefixes with each other. "
        "C cannot share prefixes with A: it hashes with xxhash instead of sha256_cbor. Not known for 1 of 5."
    )


def test_a_tie_of_many_values_is_cut() -> None:
    assert said(*((1, {**ALL, BLOCK: size}) for size in range(101, 109)))[1].startswith(
        "There is no majority: A has block_size 101, B has 102, C has 103, D has 104, E has 105, and 3 more values. "
    )


def test_cohorts_that_part_alike_share_a_clause() -> None:
    other = {**ALL, CACHING: False, HASH: "xxhash", BLOCK: 32}

    assert said((5, ALL), (2, {**other, "seed": 1}), (1, {**other, "seed": 2}))[1] == (
        "B and C cannot share prefixes with A: they have prefix caching off, "
        "hash with xxhash instead of sha256_cbor and cut blocks of 32 tokens instead of 16."
    )


def test_another_release_alone_is_said_apart_from_what_is_certain() -> None:
    assert said((5, ALL), (2, {**ALL, VERSION: "0.31.0"}), (1, {**ALL, BLOCK: 32}))[1] == (
        "B may not share prefixes with A: it runs vLLM 0.31.0 instead of 0.32.0. "
        "C cannot share prefixes with A: it cuts blocks of 32 tokens instead of 16."
    )


def test_a_cohort_is_held_against_the_first_that_tells() -> None:
    little = {"seed": 0, VERSION: "0.32.0", BLOCK: State.UNKNOWN}
    verdict, text = said((5, little), (2, {**ALL, "seed": 1}), (1, {**ALL, BLOCK: 8, "seed": 2}))

    assert verdict is Verdict.DIFFERS
    assert text == "C cannot share prefixes with B: it cuts blocks of 8 tokens instead of 16. Not known for 5 of 8."


def test_many_cohorts_are_counted_not_listed() -> None:
    verdict, text = said((20, ALL), *((1, {**ALL, BLOCK: size}) for size in range(101, 109)))

    assert verdict is Verdict.DIFFERS
    assert text.startswith("B, C, D, E, F and 3 more cannot share prefixes with A: B cuts blocks of 101 tokens")
    assert text.endswith("F cuts blocks of 105 tokens instead of 16; 3 more part in other ways.")


def test_agreement_is_of_settings() -> None:
    assert said((8, ALL)) == (
        Verdict.AGREES,
        "No difference in what all 8 replicas tell of prefix sharing.",
    )


def test_cohorts_that_differ_elsewhere_still_agree() -> None:
    assert said((5, {**ALL, "seed": 0}), (3, {**ALL, "seed": 1}))[0] is Verdict.AGREES


def test_what_the_engine_fills_in_later_is_not_spoken_of_and_does_not_spoil_the_verdict() -> None:
    assert said((8, {**ALL, HASH_BLOCK: State.UNKNOWN})) == (
        Verdict.AGREES,
        "No difference in what all 8 replicas tell of prefix sharing.",
    )


def test_what_nobody_tells_is_unknown() -> None:
    verdict, text = said((8, {VERSION: "0.32.0", BLOCK: 16}))

    assert verdict is Verdict.UNKNOWN
    assert text.endswith("No replica tells enable_prefix_caching, prefix_caching_hash_algo and prefix_match_unit.")


def test_replicas_that_tell_less_are_counted() -> None:
    documents = {"a": document("a", ALL), "b": document("b", {VERSION: "0.32.0"})}
    members = [
        *(Member(f"a{number}", "a", fresh=True, identity=0) for number in range(37)),
        *(Member(f"b{number}", "b", fresh=True, identity=0) for number in range(2)),
        Member("never read", None, fresh=False, identity=0),
    ]
    verdict, parts, not_known = prefix_sentence(compare_pool("p", Role.BOTH, members, documents), documents)

    assert verdict is Verdict.UNKNOWN
    assert "".join(part.text for part in parts) == (
        "No difference in what was told of prefix sharing. Not known for 3 of 40."
    )
    assert not_known == 3


def test_a_setting_that_a_version_does_not_have_is_not_missed() -> None:
    older = {path: value for path, value in ALL.items() if path != UNIT}
    pool, documents = pool_of((4, ALL), (4, older))

    assert prefix_sentence(pool, documents, unsupported=lambda *_: True).verdict is Verdict.AGREES
    assert prefix_sentence(pool, documents, unsupported=lambda *_: False).verdict is Verdict.UNKNOWN


def test_one_replica_has_nothing_to_agree_with() -> None:
    assert said((1, ALL)) == (Verdict.UNKNOWN, "There is one replica, and nothing to compare it with.")


def test_a_pool_that_was_never_read_is_unknown() -> None:
    pool = compare_pool("p", Role.BOTH, [Member("x", None, fresh=False, identity=0)], {})
    verdict, parts, _ = prefix_sentence(pool, {})

    assert verdict is Verdict.UNKNOWN
    assert "".join(part.text for part in parts) == (
        "No replica tells what decides prefix sharing. Not known for 1 of 1."
    )


def test_what_is_ignored_is_named() -> None:
    verdict, text = said((5, ALL), (1, {**ALL, BLOCK: 32}), ignore=["*.block_size"])

    assert verdict is Verdict.AGREES
    assert text == (
        "No difference in what all 6 replicas tell of prefix sharing. Ignored, though it differs: block_size."
    )


def test_short_names_leave_out_the_section() -> None:
    assert [short_name(path) for path in (VERSION, BLOCK, "seed")] == ["vLLM version", "block_size", "seed"]


@given(fleets())
def test_it_differs_exactly_when_two_cohorts_tell_other_values(fleet: Fleet) -> None:
    pool, documents = compared(fleet), fleet[1]
    told = {
        path: {json.dumps(setting[:2]) for cohort in pool.cohorts if (setting := cohort.settings.get(path))}
        for path in PREFIX_PATHS
    }
    silent = {json.dumps(["null", state]) for state in (State.UNKNOWN, State.REDACTED)}
    silent_here = {HASH_BLOCK: silent | {json.dumps(["null", State.NULL])}}
    differs = any(len(values - silent_here.get(path, silent)) > 1 for path, values in told.items())

    assert (prefix_sentence(pool, documents).verdict is Verdict.DIFFERS) == differs
