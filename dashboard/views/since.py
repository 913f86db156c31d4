"""Since when something is there: in words, for programs, and as a choice of what is new."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import clock, count, iso, uncapitalized
from dashboard.fleet.history import NO_SIGHTINGS, Sighting
from dashboard.fleet.pieces import Age, Piece, Style, Text, to_plain
from dashboard.fleet.times import PERIODS, parse_period
from dashboard.views.blocks import Cell, Column, Paragraph
from dashboard.views.pages import SORT

ANY_TIME = ""  # no choice in the URL
RANGE_WORDS = {ANY_TIME: "any time", "1h": "last hour", "24h": "last 24 h", "7d": "last 7 days"}
PERIOD = rf"\d{{1,4}}[{''.join(PERIODS)}]"  # other ranges
_NEVER = datetime.min.replace(tzinfo=UTC)
NEWEST_FIRST = "-since"  # as a sort in the URL
SINCE = Column("Since")


class Recency(NamedTuple):
    """A reader's choice of findings and differences: only those since `new_since`, and the newest first."""

    new_since: datetime | None = None
    is_newest_first: bool = False

    def keeps(self, sighting: Sighting | None) -> bool:
        """Return whether something is shown; without a sighting only where all is."""
        return self.new_since is None or (sighting is not None and sighting.is_new_since(self.new_since))

    def shown_text(self, shown: int, every: str) -> str:
        """Return `2 of 7 findings shown: new since T.`, `every` being `7 findings`; empty where all is shown."""
        return f"{shown:,} of {every} shown: new since {iso(self.new_since)}." if self.new_since else ""

    @property
    def choices(self) -> list[tuple[str, str]]:
        sort = NEWEST_FIRST if self.is_newest_first else ""
        return [("new_since", iso(self.new_since) if self.new_since else ""), (SORT, sort)]


ANYTHING = Recency()


def newest_first(sighting: Sighting | None) -> timedelta:
    """Return the key that sorts by what came last; what has no sighting is last."""
    return _NEVER - (sighting.since if sighting else _NEVER)


def since_text(sighting: Sighting) -> str:
    """Return since when something is there, and the last poll without it: `Since T, not at 14:02:05 UTC`."""
    return f"Since {iso(sighting.since)}{_end(sighting)}"


def short_pieces(sighting: Sighting | None) -> Text:
    """Return the time for a cell; nothing where the begin was not recorded: that is equal in all rows.

    A page breaks no line within its time.
    """
    if sighting is None or sighting.absent_at is None:
        return ()
    return (Piece(iso(sighting.since), Style.MUTED, age=Age(sighting.since)),)


def since_pieces(sighting: Sighting | None) -> Text:
    """Return the same as the quiet end of a line; nothing without a recorded begin."""
    if sighting is None or sighting.absent_at is None:
        return ()
    between = Piece(" · ", Style.MUTED), Piece("since ", Style.MUTED, age=Age(sighting.since, ""))
    return (*between, *short_pieces(sighting))


def whole_since_pieces(sighting: Sighting | None) -> Text:
    """Return the text of `since_text` as the quiet end of a line; nothing without a sighting."""
    return (Piece(f" · {uncapitalized(since_text(sighting))}", Style.MUTED),) if sighting else ()


def since_paragraphs(sighting: Sighting | None, what: str = "") -> tuple[Paragraph, ...]:
    """Return the whole text, after `what` is there, as a quiet paragraph; nothing without a sighting."""
    if sighting is None:
        return ()
    begin = f"{what} since " if what else "Since "
    age = Age(sighting.since, f"{begin}{iso(sighting.since)} ({{}})")
    text = Piece(f"{begin}{iso(sighting.since)}", Style.MUTED, age=age)
    return (Paragraph((text, Piece(f"{_end(sighting)}.", Style.MUTED))),)


def since_cell(sighting: Sighting | None) -> Cell:
    """Return the short text as a cell, with the whole text as its tooltip."""
    if sighting is None:
        return Cell("")
    if sighting.absent_at is None:
        return Cell("", hint=since_text(sighting))
    return Cell(to_plain(short_pieces(sighting)), hint=since_text(sighting), age=Age(sighting.since))


def newest(sightings: Iterable[Sighting | None]) -> Sighting | None:
    return max(filter(None, sightings), key=lambda each: each.since, default=None)


def has_history(fleet: Fleet) -> bool:
    return fleet.sightings != NO_SIGHTINGS


def ranges_of(fleet: Fleet, asked: str = ANY_TIME) -> list[str]:
    """Return the names of the ranges to choose from, a valid period that is asked for among them.

    Without a history there is only any time.
    """
    if not has_history(fleet):
        return [ANY_TIME]
    return list(dict.fromkeys([*RANGE_WORDS, *([asked] if _period(asked) else [])]))


def range_words(chosen: str) -> str:
    """Return a range as a choice: `last 24 h`; of a period that only the URL names `last 90 minutes`."""
    number, unit = chosen.strip()[:-1], chosen.strip()[-1:]
    return RANGE_WORDS[chosen] if chosen in RANGE_WORDS else f"last {count(int(number), PERIODS[unit].rstrip('s'))}"


def range_start(fleet: Fleet, chosen: str) -> datetime | None:
    """Return the begin of a range, which ends with the data of a fleet; None for any time."""
    period = _period(chosen)
    return fleet.polled_at - period if period and fleet.polled_at else None


def history_text(fleet: Fleet, start: datetime | None) -> str:
    """Return that the history is shorter than a range; empty where it is not."""
    begin = min((each.first_seen for each in fleet.sightings.replicas.values()), default=None)
    if start is None or begin is None or start >= begin:
        return ""
    return f"The history begins at {iso(begin)}: findings of its first poll are not counted as new."


def _period(text: str) -> timedelta | None:
    try:
        return parse_period(text)
    except ValueError:
        return None


def _end(sighting: Sighting) -> str:
    """Return how exact the begin is known, and when it was seen first."""
    first_seen, since, absent_at = sighting
    text = " or earlier"
    if absent_at is not None:
        text = f", not at {clock(absent_at) if absent_at.date() == since.date() else iso(absent_at)}"
    return f"{text}; first seen {iso(first_seen)}" if first_seen < since else text
