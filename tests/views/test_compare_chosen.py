"""Compare: chosen replicas of any pools side by side."""

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.compare import MAJORITY, Reference, ReferenceKind
from dashboard.views.blocks import DifferenceTable
from dashboard.views.chosen_columns import (
    MOST_CHOSEN,
    OpenedSnapshot,
    chosen_columns,
    not_shown,
    read_chosen,
    with_snapshots,
    write_chosen,
)
from dashboard.views.compare import chosen_reference, chosen_report
from dashboard.views.pool_comparison import SettingChoice
from tests.builders import alike, document, down, fleet, replica
from tests.findings_builder import evidence, finding, with_findings
from tests.used import with_traffic
from tests.views.walking import blocks_of, text_of

SIZE = "cache_config.block_size"
USUAL, LARGE = document(), document({SIZE: 32})
CHAT, CHAT_2 = "http://chat-01:8000", "http://chat-02:8000"
EMBED, DOWN = "http://embed-1:8000", "http://gone:8000"


def mixed() -> Fleet:
    """Two pools, whose replicas differ in one setting, and a replica that is down."""
    members = [*alike("chat", 2, USUAL), replica("embed-1", pool="embed", document=LARGE), down("gone", pool="embed")]
    return fleet(members, [USUAL, LARGE])


def tables(built: Fleet, ids: tuple[str, ...], asked: str = "") -> list[DifferenceTable]:
    choice = SettingChoice(by_replica=True, reference=chosen_reference(built, ids, asked))
    return [
        each for each in blocks_of(chosen_report(built, ids, choice, {}).parts) if isinstance(each, DifferenceTable)
    ]


@pytest.mark.parametrize("ids", [(CHAT, EMBED), ("a,b", "c%2Cd"), ("http://[::1]:8000", "file:x/y z")])
def test_ids_survive_the_url(ids: tuple[str, ...]) -> None:
    built = fleet([replica(f"r{place}", id=each, document=USUAL) for place, each in enumerate(ids)], [USUAL])

    assert read_chosen(built, write_chosen(ids)) == ids


def test_unknown_ids_are_named_and_repeated_ones_count_once() -> None:
    text = f"{EMBED},{CHAT},{EMBED},http://removed:8000,"

    assert read_chosen(mixed(), text) == (EMBED, CHAT)
    assert not_shown(mixed(), text, {}, {}) == ["http://removed:8000 is not in this fleet."]


def test_more_than_the_limit_are_counted() -> None:
    built = fleet(alike("chat", MOST_CHOSEN + 2, USUAL), [USUAL])
    text = write_chosen(each.id for each in built.replicas)

    assert len(read_chosen(built, text)) == MOST_CHOSEN
    assert not_shown(built, text, {}, {}) == [f"At most {MOST_CHOSEN} replicas are compared: 2 are left out."]


def test_each_replica_is_a_column_with_its_pool_and_the_reference_is_marked() -> None:
    settings, *_ = tables(mixed(), (EMBED, CHAT))

    notes = {each.key: (each.note, each.cohort) for each in settings.matrix.columns}
    assert notes == {CHAT: ("chat, reference", ""), EMBED: ("embed", "")}
    assert [row.path for row in settings.matrix.rows] == [SIZE]


@pytest.mark.parametrize(
    ("ids", "asked", "columns"),
    [
        pytest.param((EMBED, CHAT, CHAT_2), "", [CHAT, EMBED, CHAT_2], id="the first of the majority"),
        pytest.param((EMBED, CHAT, CHAT_2), CHAT_2, [CHAT_2, EMBED, CHAT], id="the one that is asked for"),
        pytest.param((CHAT_2, EMBED, CHAT), "http://removed:8000", [CHAT_2, EMBED, CHAT], id="unknown"),
        pytest.param((DOWN, EMBED, CHAT), "", [CHAT, EMBED], id="the larger cohort of its pool"),
    ],
)
def test_the_reference_is_the_first_column_and_the_others_are_in_the_order_of_the_url(
    ids: tuple[str, ...], asked: str, columns: list[str]
) -> None:
    for table in tables(mixed(), ids, asked):
        assert [each.key for each in table.matrix.columns] == columns
        assert [each.note.endswith(", reference") for each in table.matrix.columns] == [
            place == 0 for place in range(len(columns))
        ]


def test_the_verdict_on_sharing_names_the_replicas() -> None:
    text = text_of(chosen_report(mixed(), (CHAT, EMBED), SettingChoice(by_replica=True), {}))

    assert "embed-1 does not share prefixes with chat-01" in text


def test_replicas_of_which_none_was_read_have_no_reference() -> None:
    assert chosen_reference(mixed(), (DOWN,)) == MAJORITY


def test_findings_of_any_of_them_mark_their_settings() -> None:
    built = mixed()
    found = with_findings(built, finding(built, ["embed-1"], evidence=(evidence(SIZE, "32", (EMBED,)),)))

    assert SIZE in tables(found, (CHAT, EMBED))[0].kinds


def test_a_replica_that_was_never_read_is_named_as_not_compared() -> None:
    choice = SettingChoice(by_replica=True, reference=Reference(ReferenceKind.REPLICA, CHAT))

    assert "Not compared (unreachable): gone." in text_of(chosen_report(mixed(), (CHAT, EMBED, DOWN), choice, {}))


def test_each_replica_has_its_hit_rate_also_as_it_was_in_a_snapshot() -> None:
    now, then = with_traffic(mixed(), {CHAT: 0.6, EMBED: 0.2}), with_traffic(mixed(), {CHAT: 0.04})
    text = f"{CHAT},{EMBED},{CHAT}@0123456789"
    built = with_snapshots(now, chosen_columns(text), {"0123456789": OpenedSnapshot(then, "before")})
    settings, *_ = tables(built, read_chosen(built, text))
    shown = {title: [each.text for each in cells.values()] for title, cells in settings.measures}

    assert sorted(shown["Prefix hit rate"]) == ["20%", "4%", "60%"]
    assert "Share of prompts" not in shown
