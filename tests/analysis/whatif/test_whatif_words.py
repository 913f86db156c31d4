"""A what-if in sentences: exact, and the same on the page and in exports."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif import Capacity, Paste, RankChange, Verdicts, WhatIf, converge
from dashboard.analysis.whatif.words import (
    after_words,
    before_words,
    capacity_words,
    cautions,
    change_words,
    group_words,
    later_notes,
    limits,
    paste_notes,
    pasted,
    span_words,
    summary,
    target_words,
    total_words,
)
from dashboard.fleet import Baseline, Basis, Tolerance
from dashboard.rules.findings import Severity
from tests.builders import HASHING, alike, document, down, engine, fleet, replica

RANK = RankChange("http://chat-9:8000", 0, 700, Basis.REPORTED, 1_100, Basis.ASSUMED, 3, 1_000, 1_200)
UNKNOWN = RankChange("http://chat-9:8000", 0, 700, Basis.ASSUMED, None, Basis.UNKNOWN)


def names(fleet: Fleet) -> dict[str, str]:
    """Return the names of replicas by their ids."""
    return {each.id: each.name for each in fleet.replicas}


def test_one_sentence_says_it_all(demo_fleet: Fleet) -> None:
    """Restarts, findings, capacity."""
    assert summary(converge(demo_fleet, "chat-70b", "A")) == (
        "2 of 17 replicas would restart; 14 of 17 have the settings of cohort A now; 2 critical findings, 3 warnings "
        "and 2 for information would go, none would come; KV cache +21.6 k to +22.2 k tokens, going by engines that "
        "are set up so."
    )
    assert summary(converge(demo_fleet, "chat-70b", "C")).startswith(
        "15 of 17 replicas would restart; 1 of 17 has the settings of cohort C now; "
    )
    assert "; 1 critical finding and 1 warning would reach more replicas; " in summary(
        converge(demo_fleet, "chat-70b", "B")
    )
    assert "; 1 is known only after the restart; " in summary(converge(demo_fleet, "gemma-27b", "A"))


def test_nothing_to_do_is_said_too() -> None:
    """With how many replicas that holds for: one that was never read is not one of them."""
    told = document()
    before = fleet([*alike("chat", 3, told), down("chat-9")], [told])

    assert summary(converge(before, "chat", "A")) == (
        "No replica would restart: none of 3 replicas that were read tells anything else than cohort A."
    )


def test_changes_without_any_finding_say_so() -> None:
    """And that nothing comes is not left out."""
    told = document({"model_config.a_new": 1}), document({"model_config.a_new": 2})
    before = fleet([*alike("chat", 3, told[0]), replica("chat-9", document=told[1])], told)

    assert summary(converge(before, "chat", "A")) == (
        "1 of 4 replicas would restart; 3 of 4 have the settings of cohort A now; no finding would go, none would "
        "come; KV cache stays as it is."
    )
    agreed = Baseline("agreed", "chat", {"model_config.a_new": "1"})
    assert summary(converge(before, "chat", agreed)).startswith("1 of 4 replicas would restart; no finding would go")


def test_several_findings_that_nobody_can_judge_are_counted() -> None:
    """Known only after the restart."""
    told = document(), document({"cache_config.block_size": 32})
    before = fleet([*alike("chat", 3, told[0]), replica("chat-9", document=told[1])], told)
    what = converge(before, "chat", "A")
    both = what.verdicts.gone * 2

    assert "2 are known only after the restart" in summary(replace(what, verdicts=Verdicts(open=both)))
    assert "1 warning would go, none" in summary(what)


@pytest.mark.parametrize(
    ("capacity", "words"),
    [
        (Capacity(), "KV cache stays as it is"),
        (Capacity((UNKNOWN,)), "what 1 DP rank would hold is not known"),
        (
            Capacity((RANK, UNKNOWN), least=300, most=500),
            "KV cache +300 to +500 tokens, going by engines that are set up so, that of 1 DP rank not known",
        ),
    ],
)
def test_capacity_is_a_range_or_unknown(capacity: Capacity, words: str) -> None:
    """Never one number that nobody knows."""
    assert capacity_words(capacity) == words


def test_numbers_of_a_rank_say_their_sign_and_range() -> None:
    """A range is told from its least to its most; one number where they are the same."""
    assert (before_words(RANK), after_words(RANK), change_words(RANK)) == ("700", "1,000 to 1,200", "+300 to +500")
    one = RANK._replace(least=600, most=600)
    assert (after_words(one), change_words(one)) == ("600", "−100")
    assert (before_words(UNKNOWN), after_words(UNKNOWN), change_words(UNKNOWN)) == ("≤ 700", "not known", "not known")
    assert change_words(RANK._replace(before=None)) == "not known"
    assert span_words(0, 0) == "±0"
    assert span_words(-2_000_000, 21_600, is_short=True) == "−2.0 M to +21.6 k"


def test_sums_say_what_is_not_in_them() -> None:
    """A sum of what is known is not the sum."""
    ranged = total_words(Capacity((RANK,), 2, 9_000, 9_400))
    assert ranged.startswith("The pool holds 9,000 tokens now, and would hold about 9,400 tokens. 2 other DP ranks")
    assert total_words(Capacity((UNKNOWN,), 1, 700, 0, 0, 1, is_bound=True, is_bound_after=True)) == (
        "The pool holds ≤ 700 tokens now, and would hold ≤ 0 tokens and what 1 DP rank would add that nobody knows. "
        "1 other DP rank would hold what it holds now."
    )
    assert total_words(Capacity((RANK,), 0, 700, 1_100)).endswith("1,100 tokens.")


def one_group(odd: dict[str, Any], usual: dict[str, Any] | None = None) -> WhatIf:
    """Return a what-if with one group of one replica."""
    told = document(usual), document(odd)
    members = [*alike("chat", 3, told[0], engines=(engine(9),)), replica("chat-9", document=told[1])]
    return converge(fleet(members, told), "chat", "A")


def test_a_group_names_first_what_is_set() -> None:
    """What follows by itself is counted."""
    (group,) = one_group(
        {
            "cache_config.block_size": 32,
            "cache_config.hash_block_size": 32,
            "env.VLLM_X": "a",
            "model_config.max_logprobs": None,
        },
        {"env.VLLM_X": "b"},
    ).groups

    assert group_words(group) == (
        "1 replica: block_size 32 → 16, VLLM_X a → b, max_logprobs not set → 20 and 1 more setting"
    )
    assert group_words(one_group({"cache_config.block_size": 32}).groups[0]) == "1 replica: block_size 32 → 16"


def test_what_is_pasted_is_labelled(demo_fleet: Fleet) -> None:
    """Flags, flags to take away, variables, image, chart: what there is of it."""
    first, _ = converge(demo_fleet, "chat-70b", "A").groups

    assert [each.label for each in pasted(first.paste)] == [
        "Flags",
        "Flags to take away",
        "Environment variables",
        "Helm values, for the vLLM production-stack chart",
    ]


def test_a_flag_stands_on_one_line_with_its_value() -> None:
    """A shell reads the lines as one command; what is taken away is a list."""
    told = Paste(flags=("--block-size 16", "--served-model-name 'a b'"), removed=("--one", "--two"))

    flags, removed = pasted(told)

    assert flags.text == "--block-size 16 \\\n--served-model-name 'a b'"
    assert removed.text == "--one\n--two"


def test_what_cannot_simply_be_pasted_is_said() -> None:
    """An image comes first, derived settings need no flag, parts are set by hand."""
    by_hand = {"kv_events_config.endpoint": "tcp://{host}:5557"}
    (group,) = one_group({"kv_events_config.endpoint": "tcp://{host}:5558"}, by_hand).groups
    assert paste_notes(group) == (
        "Set by hand: kv_events_config.endpoint. The value shown leaves out what is each replica's own.",
        "Nothing here can be pasted.",
    )
    (image,) = one_group({"version": "0.31.0", "model_config.max_logprobs": 5}).groups
    assert paste_notes(image) == (
        "Change the image first, restart, and look again: what else differs may be the default of a version.",
    )
    (unknown,) = one_group({"version": "0.31.0", "model_config.max_logprobs": 5}, {"version": "main"}).groups
    assert paste_notes(unknown)[1:] == ("Nothing here can be pasted.",)
    (derived,) = one_group(
        {"scheduler_config.max_num_batched_tokens": 2048, "compilation_config.compile_ranges_endpoints": [2048]},
        {"compilation_config.compile_ranges_endpoints": [8192]},
    ).groups
    (note,) = paste_notes(derived)
    assert note.startswith("Take --compilation-config.compile_ranges_endpoints away where set: vLLM derives")


def test_where_the_version_changes_only_the_image_is_pasted_first() -> None:
    """The rest is for after the restart, where there is a rest."""
    (both,) = one_group({"version": "0.31.0", "model_config.max_logprobs": 5}).groups
    assert [each.label for each in pasted(both.paste)] == [
        "Image",
        "Helm values, for the vLLM production-stack chart",
    ]
    assert both.later is not None
    assert pasted(both.later)[0].text == "--max-logprobs 20"
    assert later_notes(both) == ()
    (image,) = one_group({"version": "0.31.0"}).groups
    assert (image.later, paste_notes(image)) == (None, ())


def test_what_a_baseline_leaves_open_or_mistakes_is_left_to_people() -> None:
    """A range that the pool says nothing of, and a text where vLLM has a number: neither is pasted."""
    told = document({"cache_config.gpu_memory_utilization": 0.5})
    before = fleet(alike("chat", 2, told), [told])
    agreed = Baseline(
        "agreed",
        "chat",
        {"cache_config.block_size": '"sixteen"', "model_config.max_logprobs": "7"},
        {"cache_config.gpu_memory_utilization": Tolerance((), 0.9, 0.95)},
    )
    (group,) = converge(before, "chat", agreed).groups

    assert group.paste.flags == ("--max-logprobs 7",)
    assert paste_notes(group) == (
        "Choose a value within the agreed range: cache_config.gpu_memory_utilization. The one shown is the nearest.",
        "Mend the baseline: it expects text where vLLM has a number or a switch, for cache_config.block_size.",
    )


def test_what_follows_from_a_tolerated_setting_is_taken_out_of_the_baseline() -> None:
    tokens, size = "scheduler_config.max_num_batched_tokens", "compilation_config.compile_ranges_endpoints"
    told = document({tokens: 4096, size: [4096]})
    agreed = Baseline("agreed", "chat", {size: "[8192]"}, {tokens: Tolerance(("4096", "8192"))})
    (group,) = converge(fleet(alike("chat", 2, told), [told]), "chat", agreed).groups

    assert paste_notes(group) == (
        (
            "Take out of the baseline, or ignore there, what follows from settings of which it allows several values: "
            f"{size}."
        ),
        "Nothing here can be pasted.",
    )


def test_of_a_range_what_most_of_the_pool_has_is_pasted() -> None:
    """Who was read lately counts, as long as there is one."""
    path = "cache_config.gpu_memory_utilization"
    told = [document({path: value}) for value in (0.92, 0.95, 0.5)]
    members = [
        *alike("chat", 2, told[0]),
        *(replica(f"old-{each}", pool="chat", document=told[1], fresh=False) for each in range(3)),
        replica("chat-9", document=told[2]),
    ]
    agreed = Baseline("agreed", "chat", {}, {path: Tolerance((), 0.9, 0.95)})
    (group,) = converge(fleet(members, told), "chat", agreed).groups

    assert (group.replicas, group.paste.flags) == (("http://chat-9:8000",), ("--gpu-memory-utilization 0.92",))


def test_to_go_back_on_a_rollout_is_said_first_and_is_no_gain(demo_fleet: Fleet) -> None:
    """To go on with it is neither."""
    back, on = (converge(demo_fleet, "gemma-27b", letter) for letter in "AB")

    assert cautions(back) == ("gemma-27b is moving from 0.32.0 to 0.32.1, and this goes back on it.",)
    assert cautions(on) == ()
    assert "ID-08" not in {each.rule for each in back.verdicts.gone}
    assert "ID-08" in {each.rule for each in on.verdicts.gone}


def test_what_a_router_must_know_is_said_first_too(demo_fleet: Fleet) -> None:
    """That no finding comes is no praise where no rule could judge; the file is called as the operator calls it."""
    (size,) = cautions(converge(demo_fleet, "chat-70b", "C"))
    assert size == (
        "A router that looks at prefixes must know that the block size would be 32 instead of 16. fleet.yaml does not "
        "say what the router expects (expects.block_size), so no rule judged this."
    )
    told = document(), document({"cache_config.block_size": 32, "cache_config.prefix_caching_hash_algo": "sha256"})
    members = [*alike("chat", 3, told[0]), replica("chat-9", document=told[1])]
    (both,) = cautions(converge(fleet(members, told, policy=replace(HASHING, file="prod.yaml")), "chat", "B"))
    assert both == (
        "A router that looks at prefixes must know that the block size would be 32 instead of 16 and the hash "
        "algorithm would be sha256 instead of sha256_cbor. prod.yaml does not say what the router expects "
        "(expects.block_size and expects.hash_algorithm), so no rule judged this."
    )


def test_findings_are_counted_in_the_words_of_their_pages() -> None:
    """Those for information are findings where nothing else says so."""
    told = document(), document({"cache_config.block_size": 32})
    before = fleet([*alike("chat", 3, told[0]), replica("chat-9", document=told[1])], told)
    what = converge(before, "chat", "A")
    info = replace(what.verdicts.gone[0], severity=Severity.INFO)
    warning = replace(info, severity=Severity.WARNING)

    said = [
        summary(replace(what, verdicts=Verdicts(gone=gone))).split("; ")[2]
        for gone in ((info,), (info, info), (warning, info))
    ]
    assert said == [
        "1 finding for information would go, none would come",
        "2 findings for information would go, none would come",
        "1 warning and 1 for information would go, none would come",
    ]


def test_what_is_not_known_is_said_with_names(demo_fleet: Fleet) -> None:
    """Who tells less, who was never read, what the target does not tell."""
    said = limits(converge(demo_fleet, "gemma-27b", "A"), names(demo_fleet))
    assert said[0].startswith("gemma-27b-01, gemma-27b-02, gemma-27b-06 and gemma-27b-07 do not tell all of these")
    assert said[1] == "gemma-27b-08 was never read: what would change is not known."

    told = document({"cache_config.block_size": 32}, base={"version": "0.32.0"}), document()
    less = document({"cache_config.block_size": 32, "cache_config.cache_dtype": "fp8"}, base={"version": "0.32.0"})
    members = [
        *alike("chat", 3, told[1]),
        replica("chat-7", document=less),
        replica("chat-8", document=document({}, base={"version": "0.32.0"})),
        *(down(f"chat-9{each}") for each in (1, 2)),
    ]
    before = fleet(members, [*told, less, document({}, base={"version": "0.32.0"})])
    agreed = Baseline("agreed", "chat", {"cache_config.block_size": "16"})
    assert limits(converge(before, "chat", agreed), names(before)) == (
        "chat-8 does not tell all of these settings: as far as told, nothing would change there.",
        "chat-91 and chat-92 were never read: what would change is not known.",
        "What baseline agreed does not tell is left as it is: cache_config.cache_dtype.",
    )
    plain = document(), document({"cache_config.block_size": 32})
    known = fleet([*alike("chat", 3, plain[0]), replica("chat-9", document=plain[1])], plain)
    assert limits(converge(known, "chat", "A"), names(known)) == ()


def test_a_target_is_named_by_its_kind() -> None:
    """A letter is a cohort's; foreign names stay on their line."""
    told = document()
    before = fleet(alike("chat", 3, told), [told])

    assert target_words(converge(before, "chat", "A")) == "cohort A"
    assert target_words(converge(before, "chat", Baseline("a\nb", "chat"))) == "baseline a b"
