"""What must be equal, and is not, becomes drafts: by value, by majority, by tie; within a pool and across a pair."""

import json
from collections.abc import Mapping
from typing import Any

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.drift import across, drift
from tests.rules.subjects import pair, pool

BLOCKS, SEQS = "cache_config.block_size", "scheduler_config.max_num_seqs"
NOUNS = {BLOCKS: "block size", SEQS: "number of requests at once"}


def settings(blocks: Any, seqs: Any = 256) -> dict[str, Any]:
    return {"settings": {BLOCKS: blocks, SEQS: seqs}}


def test_replicas_that_differ_in_the_same_way_share_a_draft() -> None:
    found = list(drift(pool({"replicas": 4, **settings(16)}, {"replicas": 2, **settings(32, 128)}), NOUNS))

    assert [draft.replicas for draft in found] == [("http://chat-5:8000", "http://chat-6:8000")]
    assert found[0].sentence == (
        "Block size is 32 instead of 16 and number of requests at once is 128 instead of 256, "
        "which 4 of 6 replicas have."
    )
    assert [(each.path, each.value, each.is_reference) for each in found[0].evidence] == [
        (BLOCKS, "32", False),
        (BLOCKS, "16", True),
        (SEQS, "128", False),
        (SEQS, "256", True),
    ]
    assert found[0].remedy.snippets[0].text == "--block-size 16 --max-num-seqs 256"


def test_replicas_that_differ_in_other_ways_have_drafts_of_their_own() -> None:
    found = drift(pool({"replicas": 4, **settings(16)}, settings(32), settings(16, 128)), NOUNS)

    assert [draft.replicas for draft in found] == [("http://chat-5:8000",), ("http://chat-6:8000",)]


def test_a_reference_that_is_not_set_is_left_out_and_not_pasted() -> None:
    found = list(drift(pool({"replicas": 3, **settings(None)}, settings(32)), {BLOCKS: "block size"}))

    assert found[0].sentence == "Block size is 32, which 3 of 4 replicas do not set."
    assert found[0].remedy.sentence == "Remove --block-size from these replicas, and restart them."
    assert not found[0].remedy.snippets


def test_where_some_references_are_not_set_both_are_said() -> None:
    found = list(drift(pool({"replicas": 3, **settings(None)}, settings(32, 128)), NOUNS))

    assert found[0].sentence == (
        "Number of requests at once is 128 instead of 256, which 3 of 4 replicas have; "
        "block size is 32, which 3 of 4 replicas do not set."
    )
    assert found[0].remedy.sentence == (
        "Give these replicas the same number of requests at once as the rest of the pool, "
        "remove --block-size from them, and restart them."
    )
    assert [each.text for each in found[0].remedy.snippets] == ["--max-num-seqs 256"]


def test_several_settings_that_the_rest_does_not_set_are_removed_together() -> None:
    found = list(drift(pool({"replicas": 3, **settings(None, None)}, settings(32, 128)), NOUNS))

    assert found[0].sentence == (
        "Block size is 32 and number of requests at once is 128, which 3 of 4 replicas do not set."
    )
    assert found[0].remedy.sentence == "Remove --block-size and --max-num-seqs from these replicas, and restart them."


def test_a_tie_offers_every_value_and_blames_nobody() -> None:
    found = list(drift(pool(settings(16), settings(32)), {BLOCKS: "block size"}))

    assert found[0].sentence == "Block size differs and too few tell it to call one the majority: 16 on 1 and 32 on 1."
    assert [each.text for each in found[0].remedy.snippets] == ["--block-size 16", "--block-size 32"]
    assert not any(each.is_reference for each in found[0].evidence)


def test_a_tie_of_many_values_names_the_first_and_counts_the_rest() -> None:
    found = list(drift(pool(*(settings(16 * 2**power) for power in range(6))), {BLOCKS: "block size"}))

    assert found[0].sentence.endswith("16 on 1, 32 on 1, 64 on 1, 128 on 1 and 2 more values.")


def test_a_meaning_makes_two_spellings_one() -> None:
    def meaning(told: SettingValue, _settings: Mapping[str, Setting]) -> SettingValue:
        return SettingValue(json.dumps(16), State.REPORTED) if told.state is State.NULL else told

    assert not list(drift(pool({"replicas": 3, **settings(16)}, settings(None)), {BLOCKS: "block size"}, meaning))


def test_prefill_and_decode_are_held_against_each_other() -> None:
    found = list(across(pair([{"replicas": 2, **settings(16)}], [{"replicas": 2, **settings(32)}]), NOUNS))

    assert [draft.sentence for draft in found] == ["Block size is 16 on prefill and 32 on decode."]
    assert found[0].replicas == ("http://chat-prefill-1:8000", "http://chat-prefill-2:8000")
    assert [(each.holder, each.is_reference) for each in found[0].evidence] == [
        ("chat/prefill", False),
        ("chat/decode", True),
    ]
    assert found[0].remedy.snippets[0].text == "--block-size 32"


def test_what_decode_does_not_set_is_removed_where_it_is_set() -> None:
    (draft,) = across(pair([settings(32)], [settings(None)]), {BLOCKS: "block size"})

    assert draft.remedy.sentence == (
        "Give both pools the same block size: remove --block-size where it is set, and restart those that change."
    )


def test_one_decode_replica_that_differs_from_both_sides_is_named_alone() -> None:
    decode = [{"replicas": 3, **settings(16)}, settings(32)]
    found = list(across(pair([settings(16)], decode), {BLOCKS: "block size"}))

    assert found[0].replicas == ("http://chat-decode-4:8000",)


def test_what_one_side_does_not_tell_is_not_held_against_the_other() -> None:
    assert not list(across(pair([settings(16)], [{"settings": {}}]), NOUNS))


def test_an_ignored_path_is_left_out_across_a_pair_too() -> None:
    both = pair([settings(16)], [settings(32)], ignore=["cache_config.*"])

    assert not list(across(both, {BLOCKS: "block size"}))
