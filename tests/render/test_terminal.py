"""A view as text for a terminal; what its blocks look like is in golden files."""

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


def test_lines_have_at_most_the_width_and_colours_only_on_request() -> None:
    assert max(map(len, table(80).splitlines())) <= 80
    assert "\x1b[" not in table()
    assert "\x1b[" in table(colour=True)


def test_heads_and_names_of_settings_are_never_cut_at_a_hundred_columns() -> None:
    text = table(100)

    assert "before" in text
    assert "befor " not in text
    assert "cache_config.block_size" in text


def test_foreign_text_stays_on_its_line_and_charts_are_omitted() -> None:
    entry = Entry(Tone.UNKNOWN, (Piece(EVIL),), EVIL, (plain(EVIL),))
    part = Section("a", EVIL, (Paragraph(plain(EVIL), Tone.GOOD), Entries((entry,)), Chart("c", EVIL, "GiB", ())))
    text = to_terminal(View(EVIL, EVIL, EVIL, context_of(fleet(name=EVIL)), (part,)), width=2000, colour=False)

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.splitlines()) == 9
