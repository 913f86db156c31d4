"""Reads a report that was written as HTML, and proves that nothing in it runs or fetches anything."""

import re
from html.parser import HTMLParser

from dashboard.fleet.formatting import HIDDEN
from dashboard.render.html import to_html
from dashboard.views.blocks import Block
from tests.sample_reports import report

VOID = {"meta", "br", "col", "wbr", "rect", "path"}
TAGS = (
    "html head meta title style body header nav main footer section h1 h2 h3 h4 h5 h6 p a b code span div br dl dt dd "
    "ul ol li pre table caption colgroup col thead tbody tr th td small wbr figure figcaption svg desc rect path text"
)
ALLOWED = set(TAGS.split())


class Reader(HTMLParser):
    """Reads a page as a browser would: its elements in order, and that each is closed where it was opened."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.style = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for each, attributes in self.elements if each == tag]


def page(*blocks: Block) -> str:
    """The HTML of a report with these blocks."""
    return to_html(report(*blocks))


def body(*blocks: Block) -> str:
    """The same, its one part only."""
    return page(*blocks).partition("<main>")[2].partition("</main>")[0]


def harmless(html: str) -> Reader:
    """Whatever was in the report: only elements and attributes of ours, nothing that is run or fetched."""
    reader = Reader(html)
    assert reader.open == []
    assert {tag for tag, _ in reader.elements} <= ALLOWED
    names = [name for _, attributes in reader.elements for name in attributes]
    assert not [
        name for name in names if name.startswith("on") or name in {"src", "srcset", "action", "data", "poster"}
    ]
    assert all(str(each.get("href")).startswith("#") for each in reader.all("a"))
    assert not re.search(r"url\s*\(|@import|expression|javascript:", reader.style)
    assert [each for _, attributes in reader.elements if (each := attributes.get("style") or "")] == [
        each
        for _, attributes in reader.elements
        if re.fullmatch(r"--columns:\d+|--w:\d+\.\d%", each := attributes.get("style") or "")
    ]
    assert not HIDDEN.search(html.replace("\n", ""))
    return reader
