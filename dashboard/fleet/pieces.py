"""Text as pieces with styles and links, so that each format can style and link them."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class Style(StrEnum):
    """The style of a piece of text."""

    PLAIN = "plain"
    STRONG = "strong"
    CODE = "code"
    MUTED = "muted"
    TAG = "tag"  # a word or two in a small box


class Kind(StrEnum):
    """The kind of thing that a link names."""

    SETTING = "setting"
    REPLICA = "replica"
    POOL = "pool"
    COHORT = "cohort"
    RULE = "rule"
    FINDING = "finding"
    PAGE = "page"
    SECTION = "section"  # of the same view, by its anchor
    WEB = "web"  # another site, by its URL


class Link(NamedTuple):
    """The thing that a piece of text names. A page links to it, an export to the section about it.

    `key` is a setting's path, a replica's id, a pool's name, a cohort's letter, a rule's or a finding's id, a page, or
    a URL. `choices` are URL parameters: those of a page, or another snapshot than the current one. `anchor` is the
    section of an export with the same content.
    """

    kind: Kind
    key: str
    pool: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    anchor: str = ""


class Age(NamedTuple):
    """What a live page shows in place of a text with a time: how long ago it was, in `words` such as `over {}`."""

    time: datetime
    words: str = "{}"


class Piece(NamedTuple):
    """Text in one style, its link, and its age where it has a time."""

    text: str
    style: Style = Style.PLAIN
    link: Link | None = None
    age: Age | None = None


Text = tuple[Piece, ...]


def plain(text: str) -> Text:
    return (Piece(text),)


def value(text: str) -> Piece:
    return Piece(text, Style.CODE)


def setting(path: str, pool: str = "") -> Piece:
    """Return the name of a setting, without its section: `block_size` of `cache_config.block_size`."""
    return Piece(path.rpartition(".")[2], Style.CODE, Link(Kind.SETTING, path, pool))


def replica(name: str, key: str) -> Piece:
    return Piece(name, link=Link(Kind.REPLICA, key))


def pool(name: str, shown: str = "") -> Piece:
    return Piece(shown or name, link=Link(Kind.POOL, name))


def cohort(letter: str, pool: str) -> Piece:
    return Piece(letter, link=Link(Kind.COHORT, letter, pool))


def page(name: str, anchor: str = "", /, **choices: str) -> Link:
    """Return a page with its URL parameters; `anchor` is the section of an export with the same content."""
    return Link(Kind.PAGE, name, "", tuple(choices.items()), anchor)


def section(anchor: str) -> Link:
    return Link(Kind.SECTION, anchor, anchor=anchor)


def join_texts(texts: Iterable[Text], between: str = ", ", last: str = " and ") -> Text:
    """Join texts: `a, b and c`."""
    every = list(texts)
    pieces: list[Piece] = []
    for place, text in enumerate(every):
        if place:
            pieces.append(Piece(last if place == len(every) - 1 else between))
        pieces += text
    return tuple(pieces)


def shortlist_texts(texts: Iterable[Text], most: int, noun: str = "", between: str = ", ", last: str = " and ") -> Text:
    """Join the first texts as `a, b and 3 more`; `noun` is that of those that are only counted."""
    known = list(texts)
    rest = len(known) - most
    more = f"{rest:,} more{f' {noun}' if noun else ''}{'s' if noun and rest > 1 else ''}"
    return join_texts([*known[:most], *([plain(more)] if rest > 0 else [])], between, last)


def to_plain(text: Text) -> str:
    """Return the text without its styles and links."""
    return "".join(each.text for each in text)
