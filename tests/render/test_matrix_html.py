"""The matrix is a real table: escaped, readable aloud, reachable by keyboard."""

import json
import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet
from dashboard.compare import MAJORITY, Matrix, build_matrix
from dashboard.render.matrix_html import COHORT_COLOURS, colour, matrix_html
from dashboard.views.blocks import MOST_COLUMNS
from tests.builders import HOSTILE, alike, document, fleet, hostile, replica, story

ALLOWED = {"div", "table", "caption", "colgroup", "col", "thead", "tbody", "tr", "th", "td", "span", "small", "wbr"}


class Reader(HTMLParser):
    """Collects tags, and the text of cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def drawn(of: Fleet, *, interactive: bool = False, show_all: bool = False) -> str:
    """Draw the first pool of a fleet."""
    names = {each.id: each.name for each in of.replicas}
    matrix = build_matrix(of.pools[0], of.documents, MAJORITY, only_differences=not show_all).table
    return matrix_html(matrix, names, caption="Settings", corner="Setting", interactive=interactive)


def read(html: str) -> Reader:
    """Parse as a browser would."""
    reader = Reader()
    reader.feed(html)
    return reader


def row(html: str, path: str) -> str:
    """The HTML of one row."""
    return html[html.index(f'title="{path}"') :].split("</tr>", maxsplit=1)[0]


def test_heads_and_paths_name_their_column_and_row() -> None:
    """A screen reader says path and cohort with every cell."""
    reader = read(drawn(story()))

    scopes = [attributes.get("scope") for tag, attributes in reader.tags if tag == "th"]
    assert scopes == ["col"] * 4 + ["row"] * 7
    assert "caption" in {tag for tag, _ in reader.tags}


def test_a_cohort_of_one_is_named_and_a_larger_one_counted() -> None:
    """A x15, B x1 with its replica."""
    reader = read(drawn(story()))

    assert "A ×15reference: the majority" in reader.text
    assert "B ×1 chat-70b-17block_size" in reader.text


def test_only_what_differs_from_the_reference_is_marked_by_class_and_by_word() -> None:
    """Colour is never alone: the cell also says `differs`, and the row has a sign with a word."""
    html = row(drawn(story()), "cache_config.block_size")

    assert '<td>16</td><td class="differs">32<span class="said"> differs</span></td><td>16</td>' in html
    assert '<span class="glyph differs" aria-hidden="true">≠</span><span class="said">differs</span>' in html


def test_a_cell_that_not_all_of_a_cohort_tell_says_how_many_do() -> None:
    """A quiet number for the eye, whole words for the ear."""
    more, less, other = document({"a.b": 1}), document(), document({"a.b": 2})
    built = fleet(
        [*alike("chat", 3, more), *alike("chat", 2, less, first=4), replica("chat-9", document=other)],
        [more, less, other],
    )
    html = drawn(built)

    assert '<small class="mute" aria-hidden="true"> 3 of 5</small>' in row(html, "a.b")
    assert '<span class="said"> reported by 3 of 5 replicas</span>' in row(html, "a.b")
    assert "<small>2 incomplete</small>" in html
    assert "of 1<" not in html


def test_a_long_value_breaks_between_its_items_and_a_short_one_nowhere() -> None:
    """What is copied from the cell is the value: places to break are no text."""
    long, short = document({"a.b": ["lora_resolver", "fleet_config"]}), document({"a.b": ["a_b", "c"]})
    html = drawn(fleet([*alike("chat", 3, long), replica("chat-9", document=short)], [long, short]))

    assert "&quot;lora_<wbr>resolver&quot;,<wbr> &quot;fleet_<wbr>config&quot;" in row(html, "a.b")
    assert "&quot;a_b&quot;, &quot;c&quot;" in row(html, "a.b")


def test_rows_that_a_finding_names_have_its_mark() -> None:
    """What a finding names has the mark of its severity; what none names is only different."""
    built = story()
    matrix = build_matrix(built.pools[0], built.documents, MAJORITY).table
    html = matrix_html(matrix, {}, caption="", corner="", kinds={"cache_config.block_size": "critical"})

    assert html.count('<td class="mark" title="differs (critical finding)"><span class="glyph critical"') == 1


def test_a_tie_marks_every_value_and_says_why() -> None:
    """Without a majority no value is the usual one."""
    built = [document({"model_config.seed": index}) for index in range(2)]
    html = row(
        drawn(fleet([replica(f"chat-{index}", document=each) for index, each in enumerate(built)], built)),
        "model_config.seed",
    )

    assert html.count('class="differs"') == 2
    assert html.count('<span class="said"> no majority</span>') == 2
    assert 'class="mark" title="no majority"' in html


def test_the_own_name_of_a_setting_stands_out_from_its_section() -> None:
    """The section is quiet, and may be broken after; a path without one is its own name."""
    built = [document({"seed_policy": policy}) for policy in ("default", "random")]
    html = drawn(story()) + drawn(
        fleet([replica(f"chat-{index}", document=each) for index, each in enumerate(built)], built)
    )

    assert '<span class="mute">cache_config.<wbr></span>block_size</th>' in html
    assert 'title="seed_policy">seed_policy</th>' in html


def test_a_replicas_column_shows_its_cohort_by_the_letter_on_its_colour() -> None:
    built = story()
    pool = built.pools[0]
    matrix = build_matrix(pool, built.documents, MAJORITY, as_replicas=pool.replicas).table
    html = matrix_html(matrix, {}, caption="", corner="")

    assert '<small>cohort <span class="letter c1">B</span></small>' in html


def test_equal_rows_have_their_own_sign() -> None:
    """All equal is said, not only shown by the absence of colour."""
    html = row(drawn(story(), show_all=True), "model_config.dtype")

    assert '<span class="glyph same" aria-hidden="true">=</span><span class="said">all equal</span>' in html


def test_a_row_that_nobody_contradicts_but_not_all_tell_is_not_called_equal() -> None:
    """Unknown is not equal."""
    more, less = document({"a.b": 1}), document()
    built = fleet([*alike("chat", 3, more), replica("x", document=less)], [more, less])
    matrix = build_matrix(
        built.pools[0], built.documents, MAJORITY, only_differences=False, as_replicas=built.pools[0].replicas
    ).table
    html = row(matrix_html(matrix, {}, caption="", corner=""), "a.b")

    assert 'class="glyph unknown"' in html
    assert '<td class="none">not reported</td>' in html


def test_what_is_not_told_is_in_words_and_never_marked_as_a_difference() -> None:
    """Absent is not different."""
    more, less = document({"cache_config.told_by_some": 1}), document()
    html = row(
        drawn(fleet([*alike("chat", 3, more), replica("chat-9", document=less)], [more, less]), show_all=True),
        "cache_config.told_by_some",
    )

    assert 'class="differs"' not in html


def test_without_interaction_nothing_takes_the_focus() -> None:
    """A report is paper."""
    html = drawn(story())

    assert "tabindex" not in html
    assert "data-path" not in html
    assert "role" not in html


def test_the_keyboard_has_one_stop_in_the_body_and_one_per_head() -> None:
    """Tab does not walk through a thousand cells; arrow keys do."""
    html = drawn(story(), interactive=True)
    head, body = html.split("<tbody>")

    assert html.count('role="grid"') == 1
    assert body.count('tabindex="0"') == 1
    assert body.count('tabindex="-1"') == 7 * 4 - 1
    assert re.findall(r'data-column="(\w)" tabindex="0"', head) == ["A", "B", "C"]
    assert 'data-path="cache_config.block_size"' in body


def test_hostile_names_paths_and_values_stay_text() -> None:
    """Only our own tags and attributes come out, and the attack is readable as text."""
    reader = read(drawn(hostile(), interactive=True, show_all=True))

    assert {tag for tag, _ in reader.tags} <= ALLOWED
    assert not [name for _, attributes in reader.tags for name in attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in reader.text
    assert [a["data-path"] for tag, a in reader.tags if tag == "tr" and a.get("data-path") == HOSTILE]


@given(st.text(min_size=1), st.text())
def test_any_value_and_path_is_escaped(path: str, value: str) -> None:
    """The table's own tags are all that a parser finds."""
    built = document({path: value})
    other = document({path: value + "x"})
    html = drawn(fleet([replica("a", document=built), replica("b", document=other)], [built, other]), interactive=True)

    assert {tag for tag, _ in read(html).tags} <= ALLOWED


def test_columns_beyond_the_most_are_left_to_the_csv() -> None:
    """Sixty cohorts are not compared by eye."""
    built = [document({"model_config.seed": index}) for index in range(60)]
    html = drawn(fleet([replica(f"chat-{index}", document=each) for index, each in enumerate(built)], built))

    assert html.count('<th scope="col"') == 1 + MOST_COLUMNS


def test_letters_repeat_their_colours_in_order() -> None:
    """A to F differ; the seventh begins again, and after Z comes AA."""
    assert [colour(letter) for letter in "ABCDEF"] == list(range(COHORT_COLOURS))
    assert colour("G") == 0
    assert colour("AA") == 26 % COHORT_COLOURS


def test_a_matrix_without_rows_is_still_a_table() -> None:
    """No columns, no rows, no crash."""
    empty = Matrix(columns=(), rows=(), sections=(), equal=0, uncompared=0, identity=0, ignored=0, filtered=0)

    assert json.dumps(matrix_html(empty, {}, caption="none", corner="Setting"))
    assert "<tbody></tbody>" in matrix_html(empty, {}, caption="none", corner="Setting")
