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
    view = changes_report(changes_between(then, now), context_of(then), context_of(now))
    return to_terminal(view, width=width, colour=colour)


def test_the_headline_is_first_and_the_context_last() -> None:
    first, *rest = table().splitlines()
    last = " ".join(rest[rest.index("", -4) + 1 :])  # both sides: more than fits on one line

    assert first.endswith("1 replica changed: block_size 16 -> 32; 1 removed and 1 restarted")
    assert last.startswith("prod-eu · before: not frozen, data as of ")
    assert " · after: not frozen, data as of 2026-03-02T11:42:05Z, 3 of 3 answered · " in last


def test_each_section_has_its_lines_and_appendices_are_omitted() -> None:
    text = table()

    assert "New (2):\n" in text
    assert "    ✖ critical  chat block_size is 32; 2 of 3 replicas use 16.  [B ×1 chat-03]" in text or (
        "    ✖ critical  chat block_size is 32; 2 of 3 replicas use 16.  [B chat-03]" in text
    )
    assert "    ·  1 of 3 replicas of chat: block_size 16 -> 32  [A -> B]\n" in text
    assert "        cache_config.block_size 16 -> 32\n" in text
    assert "    ▲ warning  1 rank of chat with less KV cache: −50 %\n" in text
    assert "New findings 2 (1 critical, 1 warning, 0 info) · Fixed findings 0 ·" in text
    assert "Changed settings" not in text


def test_lines_have_at_most_the_width_and_colours_only_on_request() -> None:
    assert max(map(len, table(80).splitlines())) <= 80
    assert "\x1b[" not in table()
    assert "\x1b[" in table(colour=True)


def test_foreign_text_stays_on_its_line_and_charts_are_omitted() -> None:
    entry = Entry(Tone.UNKNOWN, (Piece(EVIL),), EVIL, (plain(EVIL),))
    part = Section("a", EVIL, (Paragraph(plain(EVIL), Tone.GOOD), Entries((entry,)), Chart("c", EVIL, "GiB", ())))
    text = to_terminal(View(EVIL, EVIL, EVIL, context_of(fleet(name=EVIL)), (part,)), width=2000, colour=False)

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.splitlines()) == 9
