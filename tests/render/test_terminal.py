"""What changed, as text for a terminal."""

from dashboard.analysis.changes import changes_between
from dashboard.fleet.pieces import Piece, plain
from dashboard.render.terminal import to_terminal
from dashboard.views.blocks import Chart, Entries, Entry, Paragraph, Section, Tone, View
from dashboard.views.changes import changes_report
from dashboard.views.context import context_of
from tests.analysis.changes.sides import NEW, RESTARTED, chat, fleet
from tests.builders import engine
from tests.inspected_fleets import EVIL


def table(width: int = 160, *, colour: bool = False) -> str:
    then = fleet(*chat(4))
    now = fleet(*chat(2), *chat(1, NEW, first=3, engines=(engine(600_000),), **RESTARTED))
    told = changes_report(changes_between(then, now), context_of(then), context_of(now))
    return to_terminal(told, width=width, colour=colour)


def test_the_headline_comes_first_and_where_it_is_from_last() -> None:
    first, *rest = table().splitlines()
    last = " ".join(rest[rest.index("", -4) + 1 :])  # both sides: more than fits on one line

    assert first.endswith("1 replica changed: block_size 16 -> 32; 1 removed and 1 restarted")
    assert last.startswith("prod-eu · before: not frozen, data as of ")
    assert " · after: not frozen, data as of 2026-03-02T11:42:05Z, 3 of 3 answered · " in last


def test_each_part_has_its_lines_and_appendices_are_left_out() -> None:
    told = table()

    assert "New (2):\n" in told
    assert "    ✖ critical  chat block_size is 32; 2 of 3 replicas use 16.  [B ×1 chat-03]" in told or (
        "    ✖ critical  chat block_size is 32; 2 of 3 replicas use 16.  [B chat-03]" in told
    )
    assert "    ·  1 of 3 replicas of chat: block_size 16 -> 32  [A -> B]\n" in told
    assert "        cache_config.block_size 16 -> 32\n" in told
    assert "    ▲ warning  1 rank of chat with less KV cache: −50 %\n" in told
    assert "New findings 2 (1 critical, 1 warning, 0 info) · Fixed findings 0 ·" in told
    assert "Changed settings" not in told


def test_no_line_is_wider_than_asked_and_colour_only_where_it_is_wanted() -> None:
    assert max(map(len, table(80).splitlines())) <= 80
    assert "\x1b[" not in table()
    assert "\x1b[" in table(colour=True)


def test_foreign_text_stays_on_its_line_and_what_a_terminal_cannot_draw_is_left_out() -> None:
    entry = Entry(Tone.UNKNOWN, (Piece(EVIL),), EVIL, (plain(EVIL),))
    part = Section("a", EVIL, (Paragraph(plain(EVIL), Tone.GOOD), Entries((entry,)), Chart("c", EVIL, "GiB", ())))
    told = to_terminal(View(EVIL, EVIL, EVIL, context_of(fleet(name=EVIL)), (part,)), width=2000, colour=False)

    assert "\x1b" not in told
    assert "\u202e" not in told
    assert len(told.splitlines()) == 9
