"""A view as PDF: landscape pages, nothing fetched, the same bytes, a cause if there is none."""

import io
import re
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from weasyprint import HTML

from dashboard.errors import ReportError
from dashboard.fleet.pieces import plain
from dashboard.render.export import Format, written
from dashboard.render.html import to_html
from dashboard.render.pdf import main, to_pdf
from dashboard.views.blocks import Entries, Entry, Section, Tone
from tests.sample_reports import attack, meeting, replica_table, report


def streams(pdf: bytes) -> bytes:
    """Return a PDF with its streams decompressed."""
    packed = re.findall(rb"/FlateDecode[^\n]*\nstream\n(.*?)\nendstream", pdf, re.DOTALL)
    return pdf + b"".join(zlib.decompressobj().decompress(each) for each in packed)


@pytest.fixture(scope="module")
def pdf() -> bytes:
    return to_pdf(to_html(meeting()))


def test_a_pdf_has_the_time_of_its_data_landscape_pages_an_outline_and_tags(pdf: bytes) -> None:
    whole = streams(pdf)
    boxes = {tuple(map(float, each.split())) for each in re.findall(rb"/MediaBox \[([\d. ]+)\]", whole)}

    assert pdf.startswith(b"%PDF-1.")
    assert whole.count(b"/Type /Page/") >= 4
    assert b"/CreationDate (D:20260302114205Z)" in whole
    assert b"/Outlines" in whole
    assert b"/StructTreeRoot" in whole
    assert b"/Title (Two pools need attention: prefixes are not shared in chat-70b)" in whole
    assert b"/Title (Contents)" not in whole
    assert {(round(width), round(height)) for _, _, width, height in boxes} == {(842, 595)}


def test_the_export_is_the_pdf_of_the_html_and_the_same_bytes(pdf: bytes) -> None:
    assert written(meeting(), Format.PDF) == pdf


def test_the_process_reads_html_and_writes_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(to_html(report()).encode())))
    monkeypatch.setattr(sys, "stdout", pages)
    main()

    assert pages.buffer.getvalue().startswith(b"%PDF-1.")


def test_without_weasyprint_the_process_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    with pytest.raises(SystemExit, match=r"pip install -r requirements-pdf\.txt"):
        main()


def pages_of_entries(*entries: Entry) -> list[set[int]]:
    """Return the numbers of the pages that each entry is on."""
    view = replace(report(), parts=(Section("p", "P", (Entries(entries),)),))
    found: dict[Any, set[int]] = {}
    for number, page in enumerate(HTML(string=to_html(view)).render().pages):
        for box in page._page_box.descendants():
            if box.element is not None and box.element.tag == "li":
                found.setdefault(box.element, set()).add(number)
    return list(found.values())


def test_an_entry_is_on_one_page_unless_it_is_longer() -> None:
    """Entries of many heights: some of them meet the end of a page."""
    entries = [
        Entry(tone, plain("head"), side, (plain("line"),) * height, ("pasted",))
        for height in range(1, 12)
        for tone, side in ((Tone.WARNING, "A chat-01"), (Tone.PLAIN, ""))
    ]
    found = pages_of_entries(*entries)
    assert len(found) == len(entries)
    assert all(len(pages) == 1 for pages in found)
    assert len(set.union(*found)) > 2

    (long,) = pages_of_entries(Entry(Tone.INFO, plain("head"), "side", (plain("line"),) * 100))
    assert len(long) > 1


def test_short_appendices_share_a_page() -> None:
    short = [Section(f"a{number}", f"Appendix {number}", (replica_table(3),), is_appendix=True) for number in range(3)]
    view = replace(report(), parts=(Section("p", "P", (Entries((Entry(Tone.INFO, plain("head")),)),)), *short))

    assert len(HTML(string=to_html(view)).render().pages) == 2


@pytest.mark.no_cover
def test_foreign_text_becomes_pages() -> None:
    assert to_pdf(to_html(attack())).startswith(b"%PDF-1.")


def test_nothing_is_fetched() -> None:
    html = to_html(report()).replace("<main>", '<main><img src="http://127.0.0.1:9/secret.png" alt="x">')

    assert b"secret" not in streams(to_pdf(html))


@pytest.mark.parametrize("error", ["ImportError", "OSError"])
def test_without_weasyprint_the_error_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: str
) -> None:
    """OSError: its libraries are missing."""
    (tmp_path / "weasyprint.py").write_text(f"raise {error}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(ReportError, match=r"A PDF needs WeasyPrint, .*\[dashboard,pdf\].*requirements-pdf\.txt.*Pango"):
        to_pdf(to_html(report()))


def test_any_other_error_is_the_last_line_of_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "weasyprint.py").write_text("raise ValueError('no pages')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(ReportError, match="no pages"):
        to_pdf(to_html(report()))


def test_a_process_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "weasyprint.py").write_text("import threading\nthreading.Event().wait()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("dashboard.render.pdf.SECONDS", 1)

    with pytest.raises(ReportError, match="timed out after 1 s; print the HTML"):
        to_pdf(to_html(report()))
