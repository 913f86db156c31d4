"""YAML as text with lines: a value or a mistake for any bytes."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.config.document import MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_VALUES, Mistake, read_document


def test_scalars_are_text_as_written() -> None:
    raw = b"a: 1.10\nb: yes\nc: 2026-01-02\nd: 1:30\ne: null\nf: 'null'\ng:\nh: ~\ni: ''\n"
    assert read_document(raw).value == {
        "a": "1.10",
        "b": "yes",
        "c": "2026-01-02",
        "d": "1:30",
        "e": None,
        "f": "null",
        "g": None,
        "h": None,
        "i": "",
    }


def test_each_value_has_its_line() -> None:
    document = read_document(b"# comment\npoll:\n  interval_seconds: 5\ntargets:\n- a\n-\n  url: b\n")
    assert document.lines == {
        (): 2,
        ("poll",): 2,
        ("poll", "interval_seconds"): 3,
        ("targets",): 4,
        ("targets", 0): 5,
        ("targets", 1): 7,
        ("targets", 1, "url"): 7,
    }


@pytest.mark.parametrize(
    ("raw", "mistake"),
    [
        (b"a: 1\nb: \xe9\n", Mistake(2, "not UTF-8; save the file as UTF-8")),
        (gzip.compress(b"name: x", mtime=0), Mistake(1, "compressed; use a text file")),
        ("name: x".encode("utf-16"), Mistake(1, "not UTF-8; save the file as UTF-8")),
        (b"a: 1\nb: \x00", Mistake(2, "not YAML: control character")),
        (b"a:\n\t- b", Mistake(2, "not YAML: a tab, @, % or ` at column 1; indent with spaces, quote values")),
        (b"a: 1\n\tb: 2", Mistake(2, "not YAML: a tab at column 1; indent with spaces")),
        (b"a: @x", Mistake(1, "not YAML: a tab, @, % or ` at column 4; indent with spaces, quote values")),
        (b"name: x\n  y: z", Mistake(2, "not YAML: no key can be at column 4; align keys, quote a value with `: `")),
        (b"a:\n  - b\n c: d", Mistake(3, "not YAML: wrong indentation at column 2; align the keys of one mapping")),
        (b"a:\n  - b\n  c: d", Mistake(3, "not YAML: wrong indentation at column 3; align the entries of one list")),
        (b"a: &x 1\nb: *x", Mistake(2, "not YAML: aliases (*name) are not supported; write the value")),
        (b"a: &x [*x]", Mistake(1, "not YAML: aliases (*name) are not supported; write the value")),
        (b"a: !!python/object:os.x 1", Mistake(1, "not YAML: tags (!name) are not supported; write the value")),
        (b"a: !!map {}", Mistake(1, "not YAML: tags (!name) are not supported; write the value")),
        (b"a: 1\n---\nb: 1", Mistake(2, "not YAML: a second document; keep one")),
        (b"? [a]\n: 1", Mistake(1, "not YAML: a key that is not a string")),
        (b"x" * (MAX_DOCUMENT_BYTES + 1), Mistake(1, "larger than 8 MiB; check that it is the right file")),
        (b"[" + b"a," * (MAX_VALUES + 1) + b"]", Mistake(1, "not YAML: more than 250,000 values")),
        (b"[" * 100_000, Mistake(1, f"not YAML: nested deeper than {MAX_DEPTH} levels")),
        (b"- " * 100_000, Mistake(1, f"not YAML: nested deeper than {MAX_DEPTH} levels")),
        (b"{a: " * 100_000, Mistake(1, f"not YAML: nested deeper than {MAX_DEPTH} levels")),
    ],
)
def test_an_unreadable_text_is_one_mistake_with_its_line(raw: bytes, mistake: Mistake) -> None:
    document = read_document(raw)
    assert document.value is None
    assert document.mistakes == (mistake,)


@given(st.binary(max_size=200) | st.text(alphabet="a:- \n[]{}&*!'\"\\#?|>\t%", max_size=60).map(str.encode))
def test_any_bytes_give_a_document(raw: bytes) -> None:
    document = read_document(raw)
    assert document.mistakes or document.value is None or () in document.lines
