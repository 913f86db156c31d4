"""The sentences on prefix sharing: a claim, its basis and its cause."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dashboard.analysis.sharing_text import MAX_NAMED, cause_text, sharing_text
from dashboard.compare import sharing_verdict
from dashboard.fleet import State
from dashboard.fleet.pieces import Kind, Style, Text, to_plain
from tests.builders import setting
from tests.compare.sharing_pools import (
    ALGORITHM,
    BLOCK,
    CACHING,
    SILENT,
    Cohort,
    drawn_pools,
    pool_of_cohorts,
    text_of,
    verdict_of,
)

ABSENT = setting(None, State.ABSENT)
DRAWN = 250
XXHASH = {ALGORITHM: "xxhash"}
REVISION, MODEL = "model_config.revision", "model_config.model"


@pytest.mark.parametrize(
    ("cohorts", "text"),
    [
        (
            [({}, ["a"] * 5), (XXHASH, ["b"] * 2), ({"version": "0.31.0"}, ["a"])],
            (
                "B does not share prefixes with A (measured): prefix_caching_hash_algo is xxhash (A: sha256_cbor). "
                "A and C share prefixes (measured), although version differs."
            ),
        ),
        (
            [({}, ["a", "a"]), ({MODEL: "copy"}, ["a"])],
            "All 3 replicas hash alike (measured). Sharing is unknown: model is copy (A: org/llama).",
        ),
        (
            [({}, ["a", "a"]), ({REVISION: ABSENT}, ["a"])],
            "All 3 replicas hash alike (measured). Sharing is unknown: revision not reported.",
        ),
        (
            [({BLOCK: ABSENT}, ["a", "a"])],
            (
                "All 2 replicas hash alike (measured). "
                "Sharing is unknown: the block size of a KV cache group is not reported."
            ),
        ),
        (
            [({}, ["a", "a"]), ({BLOCK: 32}, ["a"])],
            (
                "B does not share prefixes with A (block hashes match): block_size is 32 (A: 16). "
                "All 3 replicas hash alike (measured), although block_size differs."
            ),
        ),
        (
            [({"version": "0.33.0"}, [SILENT, SILENT])],
            (
                "Unknown: settings match, no replica reports block hashes. "
                "Not reported by any replica: hash_lookahead_tokens."
            ),
        ),
    ],
)
def test_each_claim_has_a_basis_and_a_cause(cohorts: Sequence[Cohort], text: str) -> None:
    """The table of verdicts has the other sentences."""
    assert text_of(*cohorts) == text


def test_what_does_not_share_or_may_not_is_before_what_shares() -> None:
    bad = re.compile(r"share no prefixes|not share|shares? prefixes only partly|may hash differently")
    good = re.compile(r"(?<!not) share prefixes(?! only)| hash alike")
    for pool, documents, replicas in drawn_pools(DRAWN):
        text = to_plain(sharing_text(sharing_verdict(pool, replicas, documents), replicas))
        last_bad = max((found.start() for found in bad.finditer(text)), default=-1)
        first_good = good.search(text)

        assert first_good is None or last_bad < first_good.start(), text


def test_unread_replicas_and_ignored_settings_are_named() -> None:
    assert text_of(({CACHING: False}, [SILENT]), unread=2).endswith("2 of 3 replicas do not report block hashes.")
    assert text_of(unread=1) == "Unknown: 1 replica reports no settings."
    assert text_of(({}, ["a"]), ({BLOCK: 32}, ["a"]), ignore=[BLOCK]).endswith(
        "Differs, but ignored by fleet.yaml: block_size."
    )


def test_many_cohorts_and_causes_are_counted() -> None:
    others: Sequence[Cohort] = [({ALGORITHM: f"hash {n}"}, [f"digest {n}"[-1]]) for n in range(MAX_NAMED + 2)]
    mixed: Sequence[Cohort] = [({}, ["a", "a", f"b{number}"]) for number in range(MAX_NAMED + 2)]

    assert "2 more cohorts also differ." in text_of(({}, ["a"] * 4), *others)
    assert "2 more cohorts also hash differently within." in text_of(*mixed)
    assert "A, B, C, D, E and 8 more share prefixes" in text_of(*[({}, ["a"])] * 13, ({}, [SILENT]))


def test_claims_are_strong_values_are_code_and_names_have_targets() -> None:
    pool, documents, replicas = pool_of_cohorts(({}, ["a", "a", "a", "b"]), (XXHASH, ["z"]))
    text = sharing_text(sharing_verdict(pool, replicas, documents), replicas)

    assert _with(text, Kind.COHORT) == {"A", "B"}
    assert _with(text, Kind.REPLICA) == {"r0-3"}
    assert _with(text, Kind.SETTING) == {"prefix_caching_hash_algo"}
    assert {each.text for each in text if each.style is Style.CODE} >= {"xxhash", "sha256_cbor"}
    assert all(each.style is Style.STRONG for each in text if "share" in each.text)


def test_foreign_names_are_cut_and_on_one_line() -> None:
    pool, documents, replicas = pool_of_cohorts(({}, ["a", "a", "b"]))
    (odd,) = (each for each in replicas.values() if each.name == "r0-2")
    hostile = {**replicas, odd.id: replace(odd, name=f"\n\x1b[31m{'z' * 500}")}
    text = to_plain(sharing_text(sharing_verdict(pool, hostile, documents), hostile))

    assert text.isprintable()
    assert len(text) < 200


@pytest.mark.parametrize(
    ("cohorts", "text"),
    [
        ([({}, ["a"]), ({"version": "0.31.0"}, ["a"])], "equal block hashes, although vLLM version differs"),
        ([({}, ["a"]), ({}, ["a", SILENT])], "reported block hashes are equal; not reported by 1 replica"),
        ([({}, ["a", "b"]), ({}, ["a"])], "2 hash variants"),
        ([({}, ["a"]), ({REVISION: ABSENT}, ["a"])], "hash alike, but revision not reported"),
        ([({}, ["a"]), ({MODEL: "copy"}, ["a"])], "hash alike, but model differs"),
        ([({}, ["a"]), ({BLOCK: 32}, ["a"])], "hash alike, but block_size differs"),
        ([({}, [SILENT]), ({MODEL: "a/b"}, [SILENT])], "model differs"),
        ([({}, [SILENT]), ({BLOCK: 32}, [SILENT])], "block_size differs"),
        ([({}, ["a"]), ({}, ["b"])], "hash seeds differ"),
    ],
)
def test_the_cause_of_a_cell_is_one_phrase(cohorts: Sequence[Cohort], text: str) -> None:
    cells = verdict_of(*cohorts).cells

    assert cause_text(next(each for each in cells if each.one != each.other)) == text


def _with(text: Text, kind: Kind) -> set[str]:
    return {each.text for each in text if each.link and each.link.kind is kind}
