"""The matrix as an HTML table: escaped, readable by screen readers and by keyboard."""

import re
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet
from dashboard.compare import MAJORITY
from dashboard.compare.matrix import lay_out
from dashboard.fleet.history import Sighting
from dashboard.render.html import HtmlWriter
from dashboard.views.blocks import MOST_COLUMNS, DifferenceTable
from tests.builders import HOSTILE, POLLED_AT, alike, document, fleet, hostile, replica, story

ALLOWED = {"div", "table", "caption", "colgroup", "col", "thead", "tbody", "tr", "th", "td", "span", "small", "wbr"}
SIZE = "cache_config.block_size"


class Reader(HTMLParser):
    """Collects tags, and the text of cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def drawn(of: Fleet, *, show_all: bool = False, as_replicas: bool = False, **more: Any) -> str:
    """Draw the first pool of a fleet."""
    (pool, *_), names = of.pools, {each.id: each.name for each in of.replicas}
    columns = pool.replicas if as_replicas else None
    matrix = lay_out(pool, of.documents, MAJORITY, as_replicas=columns).table(only_differences=not show_all)
    return written(DifferenceTable("settings", "Settings", matrix, names, **more))


def written(table: DifferenceTable) -> str:
    """Return a table as a page has it."""
    return str(HtmlWriter(lambda _: "", is_page=True).blocks([table]))


def one_each(path: str, *values: Any) -> Fleet:
    """Return a pool with a replica per value of one setting."""
    documents = [document({path: value}) for value in values]
    return fleet([replica(f"chat-{number}", document=each) for number, each in enumerate(documents)], documents)


def partly(more: int, less: int, *others: Any) -> Fleet:
    """Return a pool in which some replicas report `a.b`, some do not, and some report other values."""
    documents = [document({"a.b": 1}), document(), *(document({"a.b": each}) for each in others)]
    members = [*alike("chat", more, documents[0]), *alike("chat", less, documents[1], first=more + 1)]
    return fleet([*members, *(replica("chat-9", document=each) for each in documents[2:])], documents)


def row(html: str, path: str) -> str:
    """Return the HTML of one row."""
    return html[html.index(f'title="{path}"') :].split("</tr>", maxsplit=1)[0]


@pytest.mark.parametrize(
    ("html", "path", "parts"),
    [
        pytest.param(
            drawn(partly(3, 2, 2)),
            "a.b",
            [
                '<small class="mute" aria-hidden="true"> 3 of 5</small>',
                '<span class="said"> reported by 3 of 5 replicas</span>',
            ],
            id="a setting that a part of a cohort reports",
        ),
        pytest.param(
            drawn(
                fleet(
                    [*alike("chat", 3, long := document({"a.b": ["lora_resolver", "fleet_config"]}))],
                    [long],
                ),
                show_all=True,
            ),
            "a.b",
            ["&#34;lora_<wbr>resolver&#34;,<wbr> &#34;fleet_<wbr>config&#34;"],
            id="a long value breaks between its items",
        ),
        pytest.param(
            drawn(one_each("a.b", ["a_b", "c"], 1)), "a.b", ["&#34;a_b&#34;, &#34;c&#34;"], id="a short value"
        ),
        pytest.param(
            drawn(one_each("seed_policy", "default", "random")),
            "seed_policy",
            ['title="seed_policy">seed_policy</th>'],
            id="a path without a section",
        ),
        pytest.param(
            drawn(partly(3, 1), as_replicas=True, show_all=True),
            "a.b",
            ['class="glyph unknown"', '<td class="none">not reported</td>'],
            id="a setting that some replicas do not report is not equal",
        ),
    ],
)
def test_a_row_has_its_values_and_signs(html: str, path: str, parts: list[str]) -> None:
    assert [each for each in parts if each not in row(html, path)] == []


def test_an_unreported_setting_is_not_a_difference() -> None:
    assert 'class="differs"' not in row(drawn(partly(3, 1), show_all=True), "a.b")


def test_a_column_of_a_replica_has_the_letter_and_colour_of_its_cohort() -> None:
    assert '<small>cohort <span class="letter c1">B</span></small>' in drawn(story(), as_replicas=True)


def test_only_an_interactive_table_is_focusable_with_one_stop_in_its_body_and_one_per_head() -> None:
    html = drawn(story(), is_interactive=True)
    head, body = html.split("<tbody>")

    assert html.count('role="grid"') == 1
    assert body.count('tabindex="0"') == 1
    assert body.count('tabindex="-1"') == 7 * 4 - 1
    assert re.findall(r'data-column="(\w)" tabindex="0"', head) == ["A", "B", "C"]
    assert f'data-path="{SIZE}"' in body
    assert not re.search("tabindex|data-path|role", drawn(story()))


def test_hostile_names_paths_and_values_stay_text() -> None:
    reader = Reader(drawn(hostile(), is_interactive=True, show_all=True))

    assert {tag for tag, _ in reader.tags} <= ALLOWED
    assert not [name for _, attributes in reader.tags for name in attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in reader.text
    assert [a["data-path"] for tag, a in reader.tags if tag == "tr" and a.get("data-path") == HOSTILE]


@given(st.text(min_size=1), st.text())
def test_any_value_and_path_is_escaped(path: str, value: str) -> None:
    html = drawn(one_each(path, value, value + "x"), is_interactive=True)

    assert {tag for tag, _ in Reader(html).tags} <= ALLOWED


def test_the_number_of_columns_is_limited() -> None:
    assert drawn(one_each("model_config.seed", *range(60))).count('<th scope="col"') == 1 + MOST_COLUMNS


CAME = Sighting(POLLED_AT, POLLED_AT, POLLED_AT - timedelta(minutes=1))


def test_the_last_column_says_since_when_and_tooltips_have_all_of_it() -> None:
    seen = drawn(story(), sightings={SIZE: CAME}, column_sightings={"B": CAME})
    whole = "Since 2026-03-02T11:42:05Z, not at 11:41:05 UTC"

    assert '<th scope="col" class="since">Since</th>' in seen
    assert '<time datetime="2026-03-02T11:42:05Z" data-age="{}">2026-03-02T11:42:05Z</time>' in seen
    assert f'title="{SIZE} · {whole}"' in seen
    assert f'<th scope="col" data-testid="cohort" title="{whole}"' in seen
    assert "since" not in drawn(story())


def test_a_page_with_many_columns_has_no_column_for_the_time_but_an_export_has() -> None:
    many = one_each("a.b", *range(6))
    (pool,) = many.pools
    table = DifferenceTable(
        "settings",
        "Settings",
        lay_out(pool, many.documents, MAJORITY).table(),
        {},
        sightings={"a.b": CAME},
    )

    assert ">Since</th>" not in written(table)
    assert ">Since</th>" in str(HtmlWriter(lambda _: "", is_page=False).blocks([table]))
