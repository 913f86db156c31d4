"""The fix plan in words; that of the simulated fleet is a golden file."""

from dataclasses import replace

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Gain, Plan
from dashboard.analysis.plan import plan_of
from dashboard.fleet.pieces import Kind, to_plain
from dashboard.render.markdown import to_markdown
from dashboard.render.terminal import to_terminal
from dashboard.views.blocks import Entries, Paragraph, Section
from dashboard.views.cause import cause_section, effect_text, title_of
from dashboard.views.overview import overview_report
from dashboard.views.plan import (
    MOST_CAUSES,
    cause_view,
    plan_section,
    plan_text,
    plan_view,
    pool_section,
)
from tests.analysis.whatif.pools import LARGER, pool_of
from tests.builders import alike, document, fleet, replica
from tests.views.walking import part

BLOCKS, SEQS = {"cache_config.block_size": 16}, "scheduler_config.max_num_seqs"


def entries(section: Section) -> Entries:
    return next(block for block in section.blocks if isinstance(block, Entries))


def titles(found: Fleet) -> list[str]:
    return [to_plain(title_of(each)) for each in plan_of(found).causes if each.fixes]


def test_the_first_causes_are_shown_and_the_rest_folded(demo_fleet: Fleet) -> None:
    section = plan_section(demo_fleet)
    total = len(plan_of(demo_fleet).causes)

    assert len(entries(section).items) == MOST_CAUSES
    assert [(each.title, each.is_aside) for each in section.parts] == [(f"{total - MOST_CAUSES} more", True)]
    assert plan_text(plan_of(demo_fleet)) in to_plain(section.note)


def test_each_replica_to_restart_is_counted_once_also_for_an_action(demo_fleet: Fleet) -> None:
    found = plan_of(demo_fleet)
    mode = next(each for each in found.causes if each.key == "CO-14")
    unread = next(each for each in found.causes if each.key == "ID-05")

    assert mode.restarts == set(mode.replicas)
    assert mode.restarts <= found.restarts
    assert plan_text(Plan((mode, unread))) == "2 causes; 2 replicas to restart"
    assert plan_text(Plan((unread,))) == "1 cause"


@pytest.mark.parametrize(
    ("pool", "text"),
    [("chat-70b", "2 replicas to restart, 1 in other pools"), ("deepseek-v3/prefill", "2 replicas to restart, 8 in")],
)
def test_of_one_pool_its_own_replicas_are_counted_apart_from_others(demo_fleet: Fleet, pool: str, text: str) -> None:
    assert text in plan_text(plan_of(demo_fleet).of_pool(pool, demo_fleet.replicas))


def test_pools_are_named_up_to_two_and_then_counted() -> None:
    documents = document(BLOCKS), document(LARGER)

    def pools(number: int) -> Fleet:
        members = [
            each
            for place in range(number)
            for each in (
                *alike(f"p{place}", 3, documents[0]),
                replica(f"odd-{place}", document=documents[1], pool=f"p{place}"),
            )
        ]
        return fleet(members, documents)

    assert titles(pools(2)) == ["Restart 2 replicas of p0 and p1 with --block-size 16"]
    assert titles(pools(3)) == ["Restart 3 replicas in 3 pools with --block-size 16"]


@pytest.mark.parametrize(
    ("odd", "usual", "title"),
    [
        ({SEQS: 64}, {SEQS: 256}, "with --max-num-seqs 256"),
        (
            {"cache_config.kv_offloading_size": 64.0},
            {"cache_config.kv_offloading_size": None},
            "without --kv-offloading-size",
        ),
    ],
)
def test_a_title_says_what_to_set_and_what_to_remove(
    odd: dict[str, object], usual: dict[str, object], title: str
) -> None:
    assert any(each.endswith(title) for each in titles(pool_of({**BLOCKS, **odd}, {**BLOCKS, **usual})))


def test_a_title_says_on_how_many_replicas_each_image_goes(demo_fleet: Fleet) -> None:
    image = "image: vllm/vllm-openai:v0.32"
    assert any(each.endswith(f"with {image}.1 on 6 and {image}.0 on 2") for each in titles(demo_fleet))


@pytest.mark.parametrize(
    ("sizes", "end"),
    [
        ((16, 32), "with --block-size 16 on 1 and --block-size 32 on 1"),
        ((16, 32, 64), "with --block-size (3 values)"),
    ],
)
def test_a_title_keeps_values_of_one_setting_apart(sizes: tuple[int, ...], end: str) -> None:
    documents = [document({**BLOCKS, "cache_config.block_size": each}) for each in (*sizes, 128)]
    members = []
    for place, own in enumerate(documents[:-1]):
        members += alike(f"p{place}", 3, own)
        members.append(replica(f"odd-{place}", document=documents[-1], pool=f"p{place}"))

    assert [each for each in titles(fleet(members, documents)) if each.endswith(end)]


def test_an_action_with_several_steps_has_a_title_and_says_for_which_replicas_each_snippet_is(
    demo_fleet: Fleet,
) -> None:
    cause = next(each for each in plan_of(demo_fleet).causes if each.key == "ID-05")
    heads = [
        to_plain(each.head)
        for each in entries(cause_section(demo_fleet, plan_of(demo_fleet), cause)).items
        if each.snippets
    ]

    assert to_plain(title_of(cause)).startswith("Make vLLM readable at each address · 4 replicas")
    assert {each for each in heads if each.startswith("YAML")} == {
        "YAML for qwen3-8b-07",
        "YAML for chat-70b-17",
        "YAML for qwen3-8b-03",
    }


@pytest.mark.parametrize("key", ["cache_config.block_size", "CP-01"])
def test_the_name_and_address_of_a_single_replica_can_be_copied(demo_fleet: Fleet, key: str) -> None:
    cause = next(each for each in plan_of(demo_fleet).causes if each.key == key)
    section = cause_section(demo_fleet, plan_of(demo_fleet), cause)
    sections = section.parts[:-1] or (section,)
    copied = {each.fold: each.snippets for each in entries(sections[0]).items if each.fold}

    (own,) = cause.replicas
    assert copied["Replica name"] == (demo_fleet.by_id[own].name,)
    assert copied["Replica address"] == (own,)


def test_a_terminal_names_replicas_once_and_labels_each_snippet(demo_fleet: Fleet) -> None:
    text = to_terminal(plan_view(demo_fleet, plan_of(demo_fleet), is_short=True), width=100, colour=False)

    assert not [each for each in text.splitlines() if each.strip() == "·"]
    assert "and 1 more" not in text


def test_a_cause_names_the_others_that_restart_the_same_replica(demo_fleet: Fleet) -> None:
    cause = plan_of(demo_fleet).causes[0]
    row = entries(plan_section(demo_fleet)).items[0].lines[0]
    alone = to_markdown(cause_view(demo_fleet, cause))

    assert to_plain(row).endswith(" use 16. chat-70b-04 also restarts for causes 10, 11 and 13.")
    links = [each.link for each in row if each.link and each.link.kind is Kind.PAGE]
    assert [each.choices[-1][1] for each in links] == [plan_of(demo_fleet).causes[each].key for each in (9, 10, 12)]
    assert "Restart 1 replica of chat-70b with --max-logprobs 20. One restart applies all changes." in alone


def test_of_one_pool_only_its_own_replicas_are_named_as_restarted_by_several(demo_fleet: Fleet) -> None:
    found = plan_of(demo_fleet)
    limited = replace(found, members=frozenset(each.id for each in demo_fleet.replicas if each.pool == "gemma-27b"))
    section = cause_section(demo_fleet, limited, found.causes[8], 9)
    (own,) = (
        to_plain(each.line)
        for each in section.blocks
        if isinstance(each, Paragraph) and "for causes" in to_plain(each.line)
    )

    assert own.startswith("gemma-27b-03 also restarts for causes 7, 12 and 14.")


def test_choices_are_named_in_their_order() -> None:
    found = pool_of(LARGER, BLOCKS, number=1)
    (cause,) = (each for each in plan_of(found).causes if each.fixes)

    shown = [each.title for each in cause_section(found, plan_of(found), cause).parts if not each.is_aside]
    assert shown == ["Recommended: with --block-size 16", "Or: with --block-size 32"]


def test_new_findings_are_part_of_the_effect(demo_fleet: Fleet) -> None:
    cause = plan_of(demo_fleet).causes[0]
    gains = {"chat-70b": Gain(1, -1_000, 2_000)}
    worse = replace(cause, fixes=(replace(cause.fixes[0], new=cause.findings, gains=gains),))

    assert effect_text(worse).split("\n") == [
        "fixes 1 critical",
        "1 critical new",
        "+1 can share prefixes",
        "−1.0 k to +2.0 k KV tokens",
    ]


def test_of_a_pool_its_own_part_of_a_cause_is_first_and_what_is_gained_elsewhere_is_not_its_own(
    demo_fleet: Fleet,
) -> None:
    whole = next(each for each in plan_of(demo_fleet).causes if each.key == "env.PYTHONHASHSEED")
    (section,) = pool_section(demo_fleet, "deepseek-v3/prefill")
    (entry,) = entries(section).items

    assert effect_text(whole) == "fixes 1 critical, 1 info\n+8 can share prefixes"
    assert to_plain(entry.head) == (
        "1. Restart 2 replicas of deepseek-v3/prefill and 8 in 1 other pool with PYTHONHASHSEED=0"
    )
    assert entry.side == "fixes 1 info\nfixes 1 critical in other pools"


def test_a_ticket_has_no_empty_heading(demo_fleet: Fleet) -> None:
    tickets = [to_markdown(cause_view(demo_fleet, cause)) for cause in plan_of(demo_fleet).causes]
    assert not [line for each in tickets for line in each.splitlines() if line.strip() in {"##", "###"}]


def test_without_findings_there_is_nothing_to_fix() -> None:
    own = document(BLOCKS)
    calm = fleet(alike("chat", 3, own), [own])
    calm = replace(calm, inspection=replace(calm.inspection, findings=()))

    assert plan_of(calm) == Plan()
    assert not any(isinstance(block, Entries) for block in part(overview_report(calm), "plan").blocks)
