"""Timelines on pages: read when they are opened, shared by sessions. A click opens a time, a drag leads to Changes."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.timeline import Period
from dashboard.errors import HistoryError
from dashboard.fleet import Pool, Replica
from dashboard.fleet.pieces import Kind, Link
from dashboard.fleet.times import write_time
from dashboard.render.svg_timeline import draw_times
from dashboard.store.history.reader import HistoryReader
from dashboard.store.history.traffic import TICK
from dashboard.views import pages
from dashboard.views.blocks import Block, Section
from dashboard.views.time_chart import TimeChart
from dashboard.views.timeline import (
    RANGES,
    TITLE,
    LinkAt,
    default_range,
    drawn_pools,
    here_at,
    pool_blocks,
    replica_blocks,
    setting_blocks,
)
from dashboard.web import draw, links, markup
from dashboard.web.sides import first_poll
from dashboard.web.state import shared

MOST_RATES = 96  # of a cohort in a range: in 24 h one in 15 minutes
HINT = "Click a time or a mark to open the page as it was then. Drag to select a range."
CHANGES_LINK = "Changes in this range"
AS_TABLES = "Marks and numbers"
_component = markup.component("timeline", "timeline.js", css="surface timeline")


class Window(NamedTuple):
    """The range that is shown, by its name, with the time that the page is about unless it is live."""

    name: str
    period: Period
    shown: datetime | None


# The `place` of a timeline is the link to its page with the choices that lead to it; its pool is that of the changes.
BlockReader = Callable[[HistoryReader, Window], tuple[Block, ...]]


def draw_pool(fleet: Fleet, pool: Pool) -> tuple[Block, ...]:
    """Draw the cohorts of a pool in an expander; return them once they are drawn, for an export."""
    place = Link(Kind.PAGE, pages.COMPARE, pool.name, ((pages.POOL, pool.name),))
    return _fold(fleet, place, partial(_pools, fleet, (pool.name,), pool.name, place))


def draw_fleet(fleet: Fleet, pools: Sequence[str], pool: str | None, window: Window) -> tuple[Block, ...]:
    """Draw the cohorts of all pools, or of one, and return them for an export."""
    place = Link(Kind.PAGE, pages.TIMELINE, pool or "", ((pages.POOL, pool),) if pool else ())
    read = partial(_pools, fleet, (pool,) if pool else tuple(pools), pool, place)
    return _draw(read, window, place, "timeline")


def draw_replica(fleet: Fleet, one: Replica) -> tuple[Block, ...]:
    """Draw settings, state, version and restarts of a replica in an expander; return them for an export."""
    place = Link(Kind.PAGE, pages.REPLICA_PAGE, one.pool or "", ((pages.REPLICA, one.id),))
    return _fold(fleet, place, partial(_replica, fleet, one.id, one.pool, place))


def draw_setting(fleet: Fleet, path: str, pool: str | None) -> tuple[Block, ...]:
    """Draw the values of a setting in a pool, or in all, in an expander; return them for an export."""
    place = Link(Kind.PAGE, pages.SETTINGS, choices=((pages.PATH, path),))
    return _fold(fleet, place, partial(_setting, fleet, path, pool, place))


def draw_setting_of_pool(fleet: Fleet, path: str, pool: Pool) -> None:
    """Draw the values of a setting in a pool, in a dialog: its range is that of the page."""
    if has_history(fleet):
        place = Link(Kind.PAGE, pages.COMPARE, pool.name, ((pages.POOL, pool.name), (pages.PATH, path)))
        window = _window(fleet, links.read_choice(pages.RANGE, list(RANGES), default=_default(fleet)))
        st.html(markup.section(f"{TITLE}, {_range_words(window.name)}"))
        _draw(partial(_setting, fleet, path, pool.name, place), window, place, "timeline_dialog")


@shared(max_entries=8)
def _pools(
    fleet: Fleet, pools: tuple[str, ...], pool: str | None, place: Link, _reader: HistoryReader, window: Window
) -> tuple[Block, ...]:
    timeline = _reader.timeline(window.period, pool)
    least = (window.period.until - window.period.since) / MOST_RATES
    step = TICK * math.ceil(max(least, timedelta(seconds=fleet.traffic_window)) / TICK)
    drawn = drawn_pools(timeline, pools)
    traffic = [each for name in drawn for each in _reader.traffic(*window.period, name, step)]
    return pool_blocks(fleet, timeline, pools, _here(place, window), window.shown, traffic)


@shared(max_entries=16)
def _replica(
    fleet: Fleet, replica: str, pool: str | None, place: Link, _reader: HistoryReader, window: Window
) -> tuple[Block, ...]:
    timeline = _reader.replica_timeline(window.period, replica)
    return replica_blocks(fleet, pool, timeline, _here(place, window), window.shown)


@shared(max_entries=16)
def _setting(
    fleet: Fleet, path: str, pool: str | None, place: Link, _reader: HistoryReader, window: Window
) -> tuple[Block, ...]:
    pools = [pool] if pool else [each.name for each in fleet.pools]
    timeline = _reader.setting_timeline(window.period, path, pools[0] if len(pools) == 1 else None)
    return setting_blocks(path, timeline, pools, _here(place, window), window.shown)


def _here(place: Link, window: Window) -> LinkAt:
    return here_at(place.key, window.name, **dict(place.choices))


def has_history(fleet: Fleet) -> bool:
    """Return whether a history covers what is shown: a snapshot may be of another fleet, or of a gap."""
    reader = service.history()
    if reader is None or fleet.polled_at is None or fleet.snapshot is None:
        return reader is not None and fleet.polled_at is not None
    try:
        return fleet.name == service.current().name and reader.poll_at(fleet.polled_at)[1] is None
    except HistoryError:  # before the first poll, or unreadable
        return False


def _fold(fleet: Fleet, place: Link, read: BlockReader) -> tuple[Block, ...]:
    """Draw an expander, and a timeline in it once it is open; it is open where the URL names a range."""
    if not has_history(fleet):
        return ()
    is_open = pages.RANGE in st.query_params
    with st.expander(TITLE, expanded=is_open, key=f"timeline_{place.key}", on_change="rerun") as aside:
        return _draw(read, choose_range(fleet), place, "timeline") if aside.open else ()


def choose_range(fleet: Fleet) -> Window:
    """Draw the choice of a range, which is in the URL."""
    return _window(fleet, links.draw_segments("Range", pages.RANGE, list(RANGES), _range_words, _default(fleet)))


def _range_words(name: str) -> str:
    """Return the name of a range as a choice: `24 h`."""
    return f"{name[:-1]} {name[-1]}"


def _window(fleet: Fleet, name: str) -> Window:
    """Return the range until the last poll; of a past time or a snapshot the range around it.

    It begins with the first poll where that is later: before it there is nothing to show.
    """
    width, newest, shown = RANGES[name], _newest(fleet), _shown(fleet)
    until = newest if shown is None or shown >= newest - width else shown + width / 2
    first = first_poll(service.current())
    since = max(until - width, first) if first is not None and first < until else until - width
    return Window(name, Period(since, until), shown)


def _default(fleet: Fleet) -> str:
    return default_range(first_poll(service.current()), _newest(fleet))


def _newest(fleet: Fleet) -> datetime:
    """Return the last poll, also where an earlier time is shown."""
    shown = _shown(fleet)
    return max(service.current().polled_at or shown, shown) if shown else fleet.polled_at or service.now()


def _shown(fleet: Fleet) -> datetime | None:
    """Return the time of the past, or of the snapshot, that is shown; None for the live fleet."""
    if fleet.past is not None:
        return fleet.past.at
    return fleet.polled_at if fleet.snapshot is not None else None


def _draw(read: BlockReader, window: Window, place: Link, key: str) -> tuple[Block, ...]:
    reader = service.history()
    if reader is None:
        return ()
    try:
        blocks = read(reader, window)
    except HistoryError as error:
        st.html(markup.notice("warning", markup.text(str(error))))
        return ()
    chart, *rest = blocks
    if not isinstance(chart, TimeChart):
        draw.draw_blocks(blocks, key)
        return ()
    at = links.live(place.key, **dict(place.choices), **{pages.RANGE: window.name})
    _component(key=f"{key}_chart", data={"html": _html(chart, place), "at": at})
    st.html(draw.folded_html(Section("timeline-tables", AS_TABLES, tuple(rest), is_aside=True)))
    return blocks


def _html(chart: TimeChart, place: Link) -> str:
    since, until = (write_time(each.replace(microsecond=0)) for each in chart.period)
    address = markup.text(
        links.live(pages.CHANGES, **{pages.FROM: since, pages.TO: until, pages.POOL: place.pool or None})
    )
    whole = f'href="{address}" data-whole="{address}" data-text="{CHANGES_LINK}"'
    return (
        f'<div class="drawing times">{draw_times(chart, is_wide=True)}</div>'
        '<div class="tip" hidden></div><a class="go" hidden></a>'
        f'<div class="foot"><span>{HINT}</span><a class="changes" {whole}>{CHANGES_LINK}</a></div>'
    )
