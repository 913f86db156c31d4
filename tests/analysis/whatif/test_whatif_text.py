"""A what-if in sentences: exact, and the same on the page and in exports."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif import CapacityForecast, Paste, RankForecast, WhatIf, converge
from dashboard.analysis.whatif.text import (
    after_text,
    before_text,
    capacity_text,
    cautions,
    change_text,
    group_text,
    later_notes,
    limits,
    paste_notes,
    pasted,
    span_text,
    summary,
    target_text,
    total_text,
)
from dashboard.fleet import Baseline, Basis, Tolerance
from dashboard.fleet.pieces import Piece, Style, to_plain
from tests.builders import HASHING, alike, document, down, engine, fleet, replica

RANK = RankForecast("http://chat-9:8000", 0, 700, Basis.REPORTED, 1_100, Basis.ASSUMED, 3, 1_000, 1_200)
UNKNOWN = RankForecast("http://chat-9:8000", 0, 700, Basis.ASSUMED, None, Basis.UNKNOWN)


def names(fleet: Fleet) -> dict[str, str]:
    """Return the names of replicas by their ids."""
    return {each.id: each.name for each in fleet.replicas}


def sentence(what: WhatIf) -> str:
    """Return the summary as plain text."""
    return to_plain(summary(what))


def test_the_summary_names_restarts_findings_and_capacity(demo_fleet: Fleet) -> None:
    assert sentence(converge(demo_fleet, "chat-70b", "A")) == (
        "2 of 17 replicas would restart; 14 of 17 already match cohort A; 2 critical findings, 3 warnings and 2 info "
        "findings fixed, none new; KV cache +21.6 k to +22.2 k tokens, based on identical engines."
    )
    assert "; 1 critical finding and 1 warning on more replicas; " in sentence(converge(demo_fleet, "chat-70b", "B"))
    assert "; 1 known only after the restart; " in sentence(converge(demo_fleet, "gemma-27b", "A"))


def test_the_summary_of_a_pool_that_matches_its_target_names_the_replicas_that_were_read() -> None:
    same = document()
    before = fleet([*alike("chat", 3, same), down("chat-9")], [same])

    assert sentence(converge(before, "chat", "A")) == "No replica would restart: 3 replicas already match cohort A."


def test_the_summary_names_no_cohort_for_a_baseline_and_counts_findings_by_severity() -> None:
    documents = document({"model_config.a_new": 1}), document({"model_config.a_new": 2})
    before = fleet([*alike("chat", 3, documents[0]), replica("chat-9", document=documents[1])], documents)
    agreed = Baseline("agreed", "chat", {"model_config.a_new": "1"})
    what = converge(before, "chat", agreed)

    assert sentence(what) == "1 of 4 replicas would restart; no finding fixed, none new; KV cache unchanged."
    assert summary(what)[0] == Piece("1 of 4 replicas would restart", Style.STRONG)


@pytest.mark.parametrize(
    ("capacity", "words"),
    [
        (CapacityForecast(), "KV cache unchanged"),
        (CapacityForecast((UNKNOWN,)), "KV cache unknown on 1 DP rank"),
        (
            CapacityForecast((RANK, UNKNOWN), least=300, most=500),
            "KV cache +300 to +500 tokens, based on identical engines, unknown on 1 DP rank",
        ),
    ],
)
def test_capacity_is_a_range_or_unknown(capacity: CapacityForecast, words: str) -> None:
    assert capacity_text(capacity) == words


def test_numbers_of_a_rank_say_their_sign_and_range() -> None:
    """A range is told from its least to its most; one number where they are the same."""
    assert (before_text(RANK), after_text(RANK), change_text(RANK)) == ("700", "1,000 to 1,200", "+300 to +500")
    one = RANK._replace(least=600, most=600)
    assert (after_text(one), change_text(one)) == ("600", "−100")
    assert (before_text(UNKNOWN), after_text(UNKNOWN), change_text(UNKNOWN)) == ("≤ 700", "not known", "not known")
    assert change_text(RANK._replace(before=None)) == "not known"
    assert span_text(0, 0) == "±0"
    assert span_text(-2_000_000, 21_600, is_short=True) == "−2.0 M to +21.6 k"


def test_sums_name_unknown_and_unchanged_ranks() -> None:
    assert total_text(CapacityForecast((RANK,), 2, 9_000, 9_400)) == (
        "Pool: 9,000 tokens now, about 9,400 tokens after. 2 other DP ranks unchanged."
    )
    assert total_text(CapacityForecast((UNKNOWN,), 1, 700, 0, 0, 1, is_bound=True, is_bound_after=True)) == (
        "Pool: ≤ 700 tokens now, ≤ 0 tokens (1 DP rank unknown) after. 1 other DP rank unchanged."
    )


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

    assert group_text(group) == (
        "1 replica: block_size 32 → 16, VLLM_X a → b, max_logprobs not set → 20 and 1 more setting"
    )
    assert group_text(one_group({"cache_config.block_size": 32}).groups[0]) == "1 replica: block_size 32 → 16"


def test_what_is_pasted_is_labelled(demo_fleet: Fleet) -> None:
    """Flags, flags to remove, variables, image, chart: what there is of it."""
    first, _ = converge(demo_fleet, "chat-70b", "A").groups

    assert [each.label for each in pasted(first.paste)] == [
        "Flags",
        "Flags to remove",
        "Environment variables",
        "Helm values (vLLM production-stack chart)",
    ]


def test_a_flag_stands_on_one_line_with_its_value() -> None:
    """A shell reads the lines as one command; removed flags are a list."""
    told = Paste(flags=("--block-size 16", "--served-model-name 'a b'"), removed=("--one", "--two"))

    flags, removed = pasted(told)

    assert flags.text == "--block-size 16 \\\n--served-model-name 'a b'"
    assert removed.text == "--one\n--two"


def test_what_cannot_simply_be_pasted_is_said() -> None:
    """An image comes first, derived settings need no flag, parts are set by hand."""
    by_hand = {"kv_events_config.endpoint": "tcp://{host}:5557"}
    (group,) = one_group({"kv_events_config.endpoint": "tcp://{host}:5558"}, by_hand).groups
    assert paste_notes(group) == (
        "Set by hand: kv_events_config.endpoint. The value shown leaves out values of each replica.",
        "Nothing to paste.",
    )
    (image,) = one_group({"version": "0.31.0", "model_config.max_logprobs": 5}).groups
    assert paste_notes(image) == (
        "Change the image first, restart and compare again: other differences may be defaults of the version.",
    )
    (unknown,) = one_group({"version": "0.31.0", "model_config.max_logprobs": 5}, {"version": "main"}).groups
    assert paste_notes(unknown)[1:] == ("Nothing to paste.",)
    (derived,) = one_group(
        {"scheduler_config.max_num_batched_tokens": 2048, "compilation_config.compile_ranges_endpoints": [2048]},
        {"compilation_config.compile_ranges_endpoints": [8192]},
    ).groups
    (note,) = paste_notes(derived)
    assert note.startswith("Remove --compilation-config.compile_ranges_endpoints where set: vLLM derives")


def test_where_the_version_changes_only_the_image_is_pasted_first() -> None:
    """The rest is for after the restart, where there is a rest."""
    (both,) = one_group({"version": "0.31.0", "model_config.max_logprobs": 5}).groups
    assert [each.label for each in pasted(both.paste)] == [
        "Image",
        "Helm values (vLLM production-stack chart)",
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
        "Fix the baseline: it has text where vLLM has a number or a switch, for cache_config.block_size.",
    )


def test_what_follows_from_a_tolerated_setting_is_taken_out_of_the_baseline() -> None:
    tokens, size = "scheduler_config.max_num_batched_tokens", "compilation_config.compile_ranges_endpoints"
    told = document({tokens: 4096, size: [4096]})
    agreed = Baseline("agreed", "chat", {size: "[8192]"}, {tokens: Tolerance(("4096", "8192"))})
    (group,) = converge(fleet(alike("chat", 2, told), [told]), "chat", agreed).groups

    assert paste_notes(group) == (
        f"Remove from the baseline, or ignore, settings derived from several agreed values: {size}.",
        "Nothing to paste.",
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


def test_reverting_a_rollout_is_a_caution_and_fixes_nothing(demo_fleet: Fleet) -> None:
    back, on = (converge(demo_fleet, "gemma-27b", letter) for letter in "AB")

    assert [to_plain(each) for each in cautions(back)] == [
        "Reverts a rollout: gemma-27b is in rollout 0.32.0 → 0.32.1."
    ]
    assert cautions(on) == ()
    assert "ID-08" not in {each.rule for each in back.verdicts.gone}
    assert "ID-08" in {each.rule for each in on.verdicts.gone}


def test_values_that_the_router_must_know_are_a_caution() -> None:
    documents = document(), document({"cache_config.block_size": 32, "cache_config.prefix_caching_hash_algo": "sha256"})
    members = [*alike("chat", 3, documents[0]), replica("chat-9", document=documents[1])]
    (both,) = cautions(converge(fleet(members, documents, policy=replace(HASHING, file="prod.yaml")), "chat", "B"))

    assert to_plain(both) == (
        "Reconfigure a prefix-aware router: block size 16 → 32 and hash algorithm sha256_cbor → sha256. No rule checks "
        "this, because prod.yaml does not declare expects.block_size and expects.hash_algorithm."
    )


def test_what_is_not_known_is_said_with_names(demo_fleet: Fleet) -> None:
    """Who tells less, who was never read, what the target does not tell."""
    said = limits(converge(demo_fleet, "gemma-27b", "A"), names(demo_fleet))
    assert said[0].startswith("Incomplete settings on gemma-27b-01, gemma-27b-02, gemma-27b-06 and gemma-27b-07:")
    assert said[1] == "Never read: gemma-27b-08. Their changes are unknown."

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
        "Incomplete settings on chat-8: no change needed as far as reported.",
        "Never read: chat-91 and chat-92. Their changes are unknown.",
        "Unchanged, because baseline agreed does not report it: cache_config.cache_dtype.",
    )
    plain = document(), document({"cache_config.block_size": 32})
    known = fleet([*alike("chat", 3, plain[0]), replica("chat-9", document=plain[1])], plain)
    assert limits(converge(known, "chat", "A"), names(known)) == ()


def test_a_target_is_named_by_its_kind() -> None:
    """A letter is a cohort's; foreign names stay on their line."""
    told = document()
    before = fleet(alike("chat", 3, told), [told])

    assert target_text(converge(before, "chat", "A")) == "cohort A"
    assert target_text(converge(before, "chat", Baseline("a\nb", "chat"))) == "baseline a b"
