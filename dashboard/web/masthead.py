"""The header of every page: whose fleet, how many answered, how old the data is, what can be shared, and a pause."""

from datetime import datetime
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.fleet import formatting
from dashboard.report.findings.words import answered
from dashboard.rules import rollup
from dashboard.views import pages
from dashboard.views.context import as_of_words
from dashboard.web import markup, state
from dashboard.web.changes_sides import Sides
from dashboard.web.tally import tally_glyphs

TICK_SECONDS = 5  # how often a session looks for a newer fleet; a look costs a few milliseconds
STALE_INTERVALS = 3  # data older than this many poll intervals is called stale
_HERE = Path(__file__).parent
# look.css is the base; a part of a page that needs more brings a look_*.css of its own.
_LOOK = "".join(file.read_text(encoding="utf-8") for file in sorted(_HERE.glob("look*.css")))
_STILL = (_HERE / "still.css").read_text(encoding="utf-8")  # nothing moves
_MEETING = (_HERE / "meeting.css").read_text(encoding="utf-8")
# What stands there is read aloud as soon as it does: navigate.js tells it.
_LATE = f'<span class="late" data-told="The data is stale.">{markup.glyph("warning", "")} <b>stale</b></span>'
_SCRIPTS = "".join((_HERE / name).read_text(encoding="utf-8") for name in ("copying.js", "navigate.js"))
_navigate = st.components.v2.component("navigate", js=_SCRIPTS)


def draw(fleet: Fleet, sides: Sides | None = None) -> DeltaGenerator:
    """Draw the header, and above the page what keeps the data from being fresh; return the place for more controls.

    Where two `sides` are compared it speaks of them, and `fleet` is the second one.
    """
    meeting = _MEETING if state.meeting() else ""
    still = _STILL if state.screenshot() else ""
    st.html(f"<style>:root{{--fleet:{css_string(fleet.name)}}}{_LOOK}{meeting}{still}</style>")
    with st.container(key="navigate"):
        _navigate(key="navigate_links")
    is_live = not state.is_frozen() if sides is None else sides.is_live
    with st.container(key="masthead", horizontal=True, vertical_alignment="center", gap="small"):
        _ticking_line(sides) if is_live and not state.still() else _line(sides)
        controls = st.container(key="masthead_controls", horizontal=True, vertical_alignment="center", gap="small")
        if is_live and not state.is_frozen() and not state.screenshot():  # else nothing moves
            st.toggle("Pause", key=state.PAUSED)
    if is_live:
        for sentence in service.discovery_failures():
            st.html(stale_targets(sentence))
    return controls


def words(fleet: Fleet, now: datetime, interval_seconds: float, *, paused: bool = False) -> str:
    """Write the header's line as HTML: who answered, how old that is, and whether the page stands still."""
    name = markup.said(f"Fleet {fleet.name}: ")
    if fleet.polled_at is None:
        return f'<div class="asof">{name}waiting for the first poll</div>'
    number, _, word = answered(fleet).rpartition(" ")
    frozen = fleet.snapshot is not None
    as_of = (
        _frozen_as_of(fleet, fleet.polled_at)
        if frozen
        else _as_of(fleet.polled_at, now, interval_seconds, paused=paused)
    )
    return f'<div class="asof">{name}{_found(fleet)}<b>{number}</b> <span class="word">{word}</span> · {as_of}</div>'


def compared_words(sides: Sides, live: Fleet | None, now: datetime, interval_seconds: float, *, paused: bool) -> str:
    """Write the header's line where two fleets are compared: which, and how old the data of a live one is. HTML.

    `live` is the newest fleet that says the same as the live side, if there is one.
    """
    if sides.both is None:
        return '<div class="asof">nothing is compared</div>'
    told = " → ".join(
        _live_side(live or fleet, now, interval_seconds, paused=paused)
        if side.is_live
        else _frozen_side(side.name, fleet)
        for side, fleet in zip((sides.before, sides.after), sides.both, strict=True)
    )
    kind = "with-live" if live else "frozen-both"
    return f'<div class="asof {kind}">{markup.said("Compared: ")}{told}</div>'


def _live_side(fleet: Fleet, now: datetime, interval_seconds: float, *, paused: bool) -> str:
    as_of = _as_of(fleet.polled_at, now, interval_seconds, paused=paused) if fleet.polled_at else ""
    return f"{markup.bold(pages.LIVE)}{_covered(fleet)} · {as_of}"


def _frozen_side(name: str, fleet: Fleet) -> str:
    as_of = f'<span class="roomy"> · {formatting.iso(fleet.polled_at)}</span>' if fleet.polled_at else ""
    key = markup.text(formatting.short_id(fleet.snapshot or ""))
    return f'<b title="{markup.text(name)}">{key}</b>{_covered(fleet)}{as_of}'


def _covered(fleet: Fleet) -> str:
    return f'<span class="covered"> · {answered(fleet).rpartition(" ")[0]}</span>'


def _as_of(polled_at: datetime, now: datetime, interval_seconds: float, *, paused: bool) -> str:
    seconds = (now - polled_at).total_seconds()
    still = f"{markup.bold('paused')} · " if paused else ""
    clock = f'<b title="{formatting.iso(polled_at)}">{formatting.clock(polled_at)}</b>'
    age = f', <span class="age">{formatting.age(seconds)}</span>'
    if seconds > STALE_INTERVALS * interval_seconds:  # its age is said in a narrow header, too
        return f'{still}{_LATE}<span class="roomy"> · data as of</span><span class="clock"> {clock}</span>{age}'
    return f'{still}<span class="roomy">data as of </span>{clock}<span class="roomy">{age}</span>'


def _frozen_as_of(fleet: Fleet, polled_at: datetime) -> str:
    return f'<span class="roomy">{as_of_words(fleet)}</span><b>{formatting.iso(polled_at)}</b>'


def _found(fleet: Fleet) -> str:
    """Count the findings that somebody should act on: notes for information stand on their page."""
    tally = rollup.of_fleet(fleet.inspection)._replace(info=0)
    drawn = tally_glyphs(tally)
    return f'<span class="found">{drawn} · </span>' if drawn else ""


def stale_targets(sentence: str) -> str:
    """Say that targets could not be looked up again, so that the last known ones are shown. HTML."""
    glyph = markup.glyph("warning", "stale:")
    return markup.notice("warning", f"{glyph} {markup.bold('Targets may be out of date.')} {markup.text(sentence)}")


def css_string(text: str) -> str:
    """Write any text as a CSS string: every character that is not a plain letter or digit as its code point."""
    return '"{}"'.format("".join(c if c.isascii() and c.isalnum() else f"\\{ord(c):x} " for c in text))


def _line(sides: Sides | None) -> None:
    shown, paused = state.confirmed(), state.paused() and not state.is_frozen()
    if sides is None:
        st.html(words(shown, state.now(), service.interval_seconds(), paused=paused))
        return
    live = sides.live and (sides.live if state.is_frozen() else shown)  # beside a snapshot that is open, too
    now = live.polled_at if live and live.polled_at and state.screenshot() else service.now()
    st.html(compared_words(sides, live, now, service.interval_seconds(), paused=paused))


@st.fragment(run_every=TICK_SECONDS)
def _ticking_line(sides: Sides | None) -> None:
    _line(sides)
    if state.outdated():
        st.rerun()
