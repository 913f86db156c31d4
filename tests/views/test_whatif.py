"""A what-if in sentences and as a section; the pages of the simulated fleet are golden files."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.models import FindingChanges, OneSidedFinding, OtherSideStatus
from dashboard.analysis.paste import ChangeGroup, Paste
from dashboard.analysis.whatif import WhatIf, converge
from dashboard.analysis.whatif.after import RankForecast
from dashboard.fleet import Baseline, Basis, Tolerance
from dashboard.fleet.pieces import Piece, Style, to_plain
from dashboard.render.html import to_html
from dashboard.render.markdown import to_markdown
from dashboard.views import whatif as text
from dashboard.views.blocks import Entries, Paragraph, Section, Table, View
from dashboard.views.context import context_of
from dashboard.views.whatif import MOST_RANKS, whatif_section
from tests.analysis.whatif.pools import LARGER, pool_of
from tests.builders import HASHING, HOSTILE, alike, document, down, engine, fleet, replica

RANK = RankForecast("http://chat-9:8000", 0, 700, Basis.REPORTED, "", 1_100, 1_000, 1_200)
UNKNOWN = RankForecast("http://chat-9:8000", 0, 700, Basis.ASSUMED, "Device not reported.")
VERSION, LIMIT = {"version": "0.31.0"}, {"model_config.max_logprobs": 5}
ENDPOINTS, TOKENS = "compilation_config.compile_ranges_endpoints", "scheduler_config.max_num_batched_tokens"
UTILIZATION, ADDRESS = "cache_config.gpu_memory_utilization", "kv_events_config.endpoint"


def group_of(odd: Any, usual: Any = None) -> ChangeGroup:
    """Return the changes of the one replica that differs from its pool."""
    (group,) = converge(pool_of(odd, usual, others={"engines": (engine(9),)}), "chat", "A").groups
    return group


def group_to(settings: Any, expected: Any, tolerated: Any) -> ChangeGroup:
    """Return the changes of a pool to a baseline."""
    own = document(settings)
    agreed = Baseline("agreed", "chat", expected, tolerated)
    (group,) = converge(fleet(alike("chat", 2, own), [own]), "chat", agreed).groups
    return group


def paragraphs(part: Section) -> str:
    return " ".join(to_plain(each.line) for each in part.blocks if isinstance(each, Paragraph))


def report(fleet: Fleet, part: Section) -> View:
    return View("Compare", "What if", "", context_of(fleet), (part,))


def test_the_summary_of_a_baseline_names_no_cohort_and_that_of_a_matching_pool_counts_read_replicas() -> None:
    same = document()
    matching = converge(fleet([*alike("chat", 3, same), down("chat-9")], [same]), "chat", "A")
    agreed = Baseline("agreed", "chat", {"model_config.a_new": "1"})
    other = text.summary(converge(pool_of({"model_config.a_new": 2}, {"model_config.a_new": 1}), "chat", agreed))

    assert to_plain(text.summary(matching)) == "No replica would restart: 3 replicas already match cohort A."
    assert to_plain(other) == "1 of 4 replicas would restart; no finding fixed, none new; KV cache unchanged."
    assert other[0] == Piece("1 of 4 replicas would restart", Style.STRONG)
    assert text.target_text(converge(pool_of({}), "chat", Baseline("a\nb", "chat"))) == "baseline a b"


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ((), "KV cache unchanged"),
        ((UNKNOWN,), "KV cache unknown on 1 DP rank"),
        ((RANK, UNKNOWN), "KV cache +300 to +500 tokens, based on identical engines, unknown on 1 DP rank"),
    ],
)
def test_the_capacity_is_a_range_or_unknown(ranks: tuple[RankForecast, ...], words: str) -> None:
    assert text.capacity_text(replace(converge(pool_of({}), "chat", "A"), ranks=ranks)) == words


def test_flags_are_one_command_with_a_line_each() -> None:
    what = Paste(flags=("--block-size 16", "--served-model-name 'a b'"), removed=("--one", "--two"))

    assert text.pasted(what) == [
        ("Flags", "--block-size 16 \\\n--served-model-name 'a b'"),
        ("Flags to remove", "--one\n--two"),
    ]


@pytest.mark.parametrize(
    ("group", "notes"),
    [
        (
            group_of({ADDRESS: "tcp://{host}:5558"}, {ADDRESS: "tcp://{host}:5557"}),
            [f"Set by hand: {ADDRESS}. The value shown leaves out values of each replica.", "Nothing to paste."],
        ),
        (
            group_of({**VERSION, **LIMIT}),
            ["Change the image first, restart and compare again: other differences may be defaults of the version."],
        ),
        (group_of(VERSION), []),
        (
            group_to(
                {UTILIZATION: 0.5},
                {"cache_config.block_size": '"sixteen"', "model_config.max_logprobs": "7"},
                {UTILIZATION: Tolerance((), 0.9, 0.95)},
            ),
            [
                f"Choose a value within the agreed range: {UTILIZATION}. The one shown is the nearest.",
                "Fix the baseline: it has text where vLLM has a number or a switch, for cache_config.block_size.",
            ],
        ),
        (
            group_to({TOKENS: 4096, ENDPOINTS: [4096]}, {ENDPOINTS: "[8192]"}, {TOKENS: Tolerance(("4096", "8192"))}),
            [
                f"Remove from the baseline, or ignore, settings derived from several agreed values: {ENDPOINTS}.",
                "Nothing to paste.",
            ],
        ),
    ],
)
def test_changes_that_cannot_be_pasted_have_a_note(group: ChangeGroup, notes: list[str]) -> None:
    assert list(text.paste_notes(group)) == notes


def test_the_image_is_pasted_first_and_the_rest_after_the_restart() -> None:
    both, unknown = group_of({**VERSION, **LIMIT}), group_of({**VERSION, **LIMIT}, {"version": "main"})
    (derived,) = text.paste_notes(group_of({TOKENS: 2048, ENDPOINTS: [2048]}, {ENDPOINTS: [8192]}))

    assert [label for label, _ in text.pasted(both.paste)] == ["Image"]
    assert both.later is not None
    assert (text.pasted(both.later), text.later_notes(both)) == ([("Flags", "--max-logprobs 20")], [])
    assert (group_of(VERSION).later, text.paste_notes(unknown)[1:]) == (None, ["Nothing to paste."])
    assert derived.startswith("Remove --compilation-config.compile_ranges_endpoints where set: vLLM derives")


def test_cautions_name_a_reverted_rollout_and_the_values_that_the_router_must_know(demo_fleet: Fleet) -> None:
    odd = {**LARGER, "cache_config.prefix_caching_hash_algo": "sha256"}
    router = text.cautions(converge(pool_of(odd, policy=replace(HASHING, file="prod.yaml")), "chat", "B"))
    back, on = (text.cautions(converge(demo_fleet, "gemma-27b", letter)) for letter in "AC")

    assert "".join(map(to_plain, router)) == (
        "Reconfigure a prefix-aware router: block size 16 → 32 and hash algorithm sha256_cbor → sha256. No rule checks "
        "this, because prod.yaml does not declare expects.block_size and expects.hash_algorithm."
    )
    assert list(map(to_plain, back)) == ["Reverts a rollout: gemma-27b is in rollout 0.32.0 → 0.32.1."]
    assert list(on) == []


def limits(fleet: Fleet, what: WhatIf) -> list[str]:
    return list(text.limits(what, {each.id: each.name for each in fleet.replicas}))


def test_limits_name_incomplete_and_unread_replicas_and_unreported_settings() -> None:
    small = {"version": "0.32.0"}
    documents = [
        document(),
        document({**LARGER, "cache_config.cache_dtype": "fp8"}, base=small),
        document({}, base=small),
    ]
    members = [
        *alike("chat", 3, documents[0]),
        replica("chat-7", document=documents[1]),
        replica("chat-8", document=documents[2]),
        *(down(f"chat-9{each}") for each in (1, 2)),
    ]
    before, plain = fleet(members, documents), pool_of(LARGER)
    agreed = Baseline("agreed", "chat", {"cache_config.block_size": "16"})

    assert limits(before, converge(before, "chat", agreed)) == [
        "Incomplete settings on chat-8: no change needed as far as reported.",
        "Never read: chat-91 and chat-92. Their changes are unknown.",
        "Unchanged, because baseline agreed does not report it: cache_config.cache_dtype.",
    ]
    assert limits(plain, converge(plain, "chat", "A")) == []


def test_the_section_has_unique_anchors_and_whole_snippets_in_every_format(demo_fleet: Fleet) -> None:
    part = whatif_section(demo_fleet, converge(demo_fleet, "chat-70b", "C"))
    anchors = [part.anchor, *(each.anchor for each in part.parts)]
    on = to_markdown(report(demo_fleet, whatif_section(demo_fleet, converge(demo_fleet, "gemma-27b", "C"))))

    assert len(set(anchors)) == len(anchors)
    for written in (to_html(report(demo_fleet, part)), to_markdown(report(demo_fleet, part))):
        assert "--kv-offloading-size 64 \\\n" in written
        assert "\n--prefix-caching-hash-algo xxhash" in written.replace("\n  ", "\n")
        assert "servingEngineSpec" in written
    order = ["Change the image first", "After the restart, look again", "--enable-prefix-caching"]
    assert sorted(order, key=on.rindex) == order


def test_a_pool_that_matches_has_no_further_sections(demo_fleet: Fleet) -> None:
    part = whatif_section(demo_fleet, converge(demo_fleet, "deepseek-v3/decode", "A"))

    assert paragraphs(part).startswith("No replica would restart")
    assert part.parts == ()


def test_a_finding_without_replicas_and_a_group_without_snippets_are_written() -> None:
    before = pool_of({"cache_config.hash_block_size": 32})
    without = replace(pool_of(LIMIT).inspection.findings[0], replicas=())
    what = converge(before, "chat", "A")
    new = FindingChanges(new=(OneSidedFinding(without, is_suppressed=False, other_side=OtherSideStatus.EVALUATED),))
    what = replace(what, changes=replace(what.changes, findings=new))
    part = whatif_section(before, what)
    listed = part.parts[0].blocks[0]

    assert "Nothing to paste." in paragraphs(part.parts[-1])
    assert isinstance(listed, Entries)
    assert len(listed.items[-1].lines) == 1


def test_many_ranks_and_groups_are_cut_and_counted() -> None:
    documents = [document(), document(LARGER), *(document({"model_config.max_logprobs": each}) for each in range(8))]
    odd = [replica(f"odd-{each}", pool="chat", document=documents[1]) for each in range(MOST_RANKS + 1)]
    ranks = fleet([*alike("chat", 3, documents[0]), *odd], documents)
    groups = fleet([replica(f"chat-{place}", document=each) for place, each in enumerate(documents)], documents)
    part = whatif_section(ranks, converge(ranks, "chat", "B"))
    (table,) = (each for own in part.parts for each in own.blocks if isinstance(each, Table))
    rest = whatif_section(groups, converge(groups, "chat", "A")).parts[-1]

    assert (len(table.rows), table.note.endswith(" 1 more DP rank not listed.")) == (MOST_RANKS, True)
    assert (rest.title, len(rest.parts), rest.is_aside) == ("3 more groups", 3, True)


def test_foreign_names_and_values_stay_text() -> None:
    documents = [document({"model_config.tokenizer": HOSTILE, HOSTILE: index}) for index in range(2)]
    members = [replica(f"{HOSTILE}{index}", pool=HOSTILE, document=each) for index, each in enumerate(documents)]
    before = fleet(members, documents)
    written = to_html(report(before, whatif_section(before, converge(before, HOSTILE, "A"))))

    assert "<script>" not in written
    assert "<img" not in written
