"""The text of a search box: words, filters, mistakes, and what controls write into it."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dashboard.views.filters import FilterKey, read_search, replace_filters, write_filter

KEYS = {
    "state": FilterKey(("up", "down", "partial")),
    "pool": FilterKey(("chat", "chat-70b", "two words")),
    "version": FilterKey(("0.31.0", "0.32.0", "0.32.1")),
    "new": FilterKey(("1h", "24h"), r"\d+m"),
}


@pytest.mark.parametrize(
    ("text", "words", "chosen"),
    [
        ("", (), {}),
        ("Block SIZE", ("block", "size"), {}),
        ('"block size" x', ("block size", "x"), {}),
        ("state:down x", ("x",), {"state": ("down",)}),
        ("State:UP state:down", (), {"state": ("up", "down")}),
        ("version:0.32", (), {"version": ("0.32.0", "0.32.1")}),
        ("pool:chat", (), {"pool": ("chat",)}),
        ('pool:"two words" pool:"chat', (), {"pool": ("two words", "chat")}),
        ("new:90m", (), {"new": ("90m",)}),
        ("state: x", ("x",), {}),
        ("10.0.0.1:8000 http://a:80 localhost:8000", ("10.0.0.1:8000", "http://a:80", "localhost:8000"), {}),
    ],
)
def test_a_text_is_words_and_filters(text: str, words: tuple[str, ...], chosen: dict[str, tuple[str, ...]]) -> None:
    search = read_search(text, KEYS)
    assert (search.words, search.chosen, search.problems) == (words, chosen, ())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("stat:down", "Ignored “stat:down”: unknown filter. Did you mean state?"),
        ("x:y", "Ignored “x:y”: unknown filter. Known: state, pool, version and new."),
        ("state:donw", "Ignored “state:donw”: unknown value. Did you mean down?"),
        ("version:9", "Ignored “version:9”: unknown value. Known: 0.31.0, 0.32.0 and 0.32.1."),
    ],
)
def test_a_mistake_is_ignored_with_a_sentence_that_helps(text: str, problem: str) -> None:
    search = read_search(f"{text} word", KEYS)
    assert (search.words, search.chosen, search.problems) == (("word",), {}, (problem,))
    assert read_search("x:y", {}).problems == ("Ignored “x:y”: unknown filter. Known: none.",)


def test_a_wrong_value_does_not_remove_the_right_ones_of_its_key() -> None:
    assert read_search("state:down state:x", KEYS).chosen == {"state": ("down",)}


def test_a_search_allows_what_has_one_value_of_every_key_and_all_words() -> None:
    search = read_search("state:up state:down one two", KEYS)
    assert search.allows("state", "down")
    assert not search.allows("state", None)
    assert search.allows("pool", "chat")
    assert search.is_in("two, one")
    assert not search.is_in("two")


def test_a_control_replaces_the_values_of_its_key_and_keeps_the_rest() -> None:
    text = replace_filters('state:up "a b" pool:chat Pool:x', "pool", ["two words", "chat-70b"])
    assert text == 'state:up "a b" pool:"two words" pool:chat-70b'
    assert replace_filters(text, "pool", []) == 'state:up "a b"'


@given(some.text(min_size=1).filter(str.strip))
def test_every_value_is_read_as_it_was_written(value: str) -> None:
    assert read_search(write_filter("pool", value), {"pool": FilterKey((value,))}).chosen == {"pool": (value,)}
