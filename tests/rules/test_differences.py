"""Settings that differ become drafts: with a majority, with a tie, within a pool and across a pair."""

from typing import Any

import pytest

from dashboard.fleet.pieces import Kind, Style
from dashboard.rules.differences import pair_differences, pool_differences
from tests.rules.case import pair, pool

BLOCKS, SEQS = "cache_config.block_size", "scheduler_config.max_num_seqs"
BOTH = (BLOCKS, SEQS)


def settings(blocks: Any, seqs: Any = 256) -> dict[str, Any]:
    return {"settings": {BLOCKS: blocks, SEQS: seqs}}


def test_replicas_with_the_same_difference_share_a_draft() -> None:
    (draft,) = pool_differences(pool({"replicas": 4, **settings(16)}, {"replicas": 2, **settings(32, 128)}), BOTH)
    targets = [(each.text, each.link.kind, each.link.key) for each in draft.text if each.link]

    assert draft.replicas == ("http://chat-5:8000", "http://chat-6:8000")
    assert draft.sentence == "block_size is 32 and max_num_seqs is 128; 4 of 6 replicas use 16 and 256."
    assert targets == [("block_size", Kind.SETTING, BLOCKS), ("max_num_seqs", Kind.SETTING, SEQS)]
    assert [each.text for each in draft.text if each.style is Style.CODE][-2:] == ["16", "256"]
    assert [(each.path, each.value, each.is_reference) for each in draft.evidence] == [
        (BLOCKS, "32", False),
        (BLOCKS, "16", True),
        (SEQS, "128", False),
        (SEQS, "256", True),
    ]
    assert draft.remedy.sentence == (
        "Set `block_size` and `max_num_seqs` as on the rest of the pool and restart these replicas."
    )
    assert draft.remedy.snippets[0].text == "--block-size 16 --max-num-seqs 256"


def test_a_setting_that_the_majority_does_not_set_is_removed() -> None:
    (draft,) = pool_differences(pool({"replicas": 3, **settings(None)}, settings(32, 128)), BOTH)
    (only,) = pool_differences(pool({"replicas": 3, **settings(None, None)}, settings(32, 128)), BOTH)

    assert draft.sentence == "max_num_seqs is 128; 3 of 4 replicas use 256. block_size is 32; unset on 3 of 4 replicas."
    assert draft.remedy.sentence == (
        "Set `max_num_seqs` as on the rest of the pool, remove `--block-size` and restart these replicas."
    )
    assert [each.text for each in draft.remedy.snippets] == ["--max-num-seqs 256"]
    assert only.remedy.sentence == "Remove `--block-size` and `--max-num-seqs` from these replicas and restart them."


def test_a_tie_offers_every_value_and_counts_those_that_it_does_not_name() -> None:
    (draft,) = pool_differences(pool(settings(16), settings(32)), [BLOCKS])
    (many,) = pool_differences(pool(*(settings(16 * 2**power) for power in range(6))), [BLOCKS])

    assert draft.sentence == "block_size differs: 16 on 1 and 32 on 1 (too few replicas for a majority)."
    assert [each.text for each in draft.remedy.snippets] == ["--block-size 16", "--block-size 32"]
    assert not any(each.is_reference for each in draft.evidence)
    assert "16 on 1, 32 on 1, 64 on 1, 128 on 1 and 2 more values (no majority)" in many.sentence


@pytest.mark.parametrize(
    ("decode", "replicas", "values", "snippets"),
    [
        ([{"replicas": 2, **settings(32)}], ["prefill-1", "prefill-2"], "32", ["--block-size 32"]),
        ([{"replicas": 3, **settings(16)}, settings(32)], ["decode-4"], "16 or 32", ["--block-size 16"]),
        ([settings(None)], ["prefill-1", "prefill-2"], "unset", []),
    ],
)
def test_prefill_is_compared_with_decode_as_the_reference(
    decode: list[dict[str, Any]], replicas: list[str], values: str, snippets: list[str]
) -> None:
    (draft,) = pair_differences(pair([{"replicas": 2, **settings(16)}], decode), BOTH)
    removed = "" if snippets else " (remove `--block-size`)"

    assert draft.replicas == tuple(f"http://chat-{each}:8000" for each in replicas)
    assert draft.sentence == f"block_size is 16 on prefill and {values} on decode."
    assert {(each.holder, each.is_reference) for each in draft.evidence} == {
        ("chat/prefill", False),
        ("chat/decode", True),
    }
    assert [each.text for each in draft.remedy.snippets] == snippets
    assert draft.remedy.sentence == (
        f"Set the same `block_size` in both pools{removed} and restart the changed replicas."
    )


def test_unreported_and_ignored_settings_are_not_compared_across_a_pair() -> None:
    assert not list(pair_differences(pair([settings(16)], [{"settings": {}}]), BOTH))
    assert not list(pair_differences(pair([settings(16)], [settings(32)], ignore=["cache_config.*"]), [BLOCKS]))
