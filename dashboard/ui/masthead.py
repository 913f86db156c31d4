"""The header of every page: whose fleet, how many answered, how old the data is, and a pause."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from dashboard import service, wording
from dashboard.report.finding_words import answered
from dashboard.rules import rollup
from dashboard.ui import markup, state
from dashboard.ui.tally import tally_glyphs

if TYPE_CHECKING:
    from datetime import datetime

    from dashboard.fleet import Fleet

TICK_SECONDS = 5  # how often a session looks for a newer fleet; a look costs a few milliseconds
STALE_INTERVALS = 3  # data older than this many poll intervals is called stale
_HERE = Path(__file__).parent
_LOOK = (_HERE / "look.css").read_text(encoding="utf-8")
_navigate = st.components.v2.component("navigate", js=(_HERE / "navigate.js").read_text(encoding="utf-8"))


def draw(fleet: Fleet) -> None:
    """Draw the header, and above the page what keeps the data from being fresh."""
    st.html(f"<style>:root{{--fleet:{css_string(fleet.name)}}}{_LOOK}</style>")
    with st.container(key="navigate"):
        _navigate(key="navigate_links")
    _tick()
    for sentence in service.discovery_failures():
        st.html(stale_targets(sentence))


def words(fleet: Fleet, now: datetime, interval_seconds: float, *, paused: bool = False) -> str:
    """Write the header's line as HTML: who answered, how old that is, and whether the page stands still."""
    name = markup.said(f"Fleet {fleet.name}: ")
    if fleet.polled_at is None:
        return f'<div class="asof">{name}waiting for the first poll</div>'
    number, _, word = answered(fleet).rpartition(" ")
    seconds = (now - fleet.polled_at).total_seconds()
    still = f"{markup.bold('paused')} · " if paused else ""
    late = markup.glyph("warning", "stale:") + " " if seconds > STALE_INTERVALS * interval_seconds else ""
    return (
        f'<div class="asof">{name}{_found(fleet)}<b>{number}</b> {word} · '
        f'{still}{late}<span class="roomy">data as of </span>'
        f'<b title="{wording.iso(fleet.polled_at)}">{wording.clock(fleet.polled_at)}</b>'
        f'<span class="roomy">, <span class="age">{wording.age(seconds)}</span></span></div>'
    )


def _found(fleet: Fleet) -> str:
    """Count the findings that somebody should act on: notes for information stand on their page."""
    tally = rollup.of_fleet(fleet.inspection)._replace(info=0)
    drawn = tally_glyphs(tally)
    return f"{drawn} · " if drawn else ""


def stale_targets(sentence: str) -> str:
    """Say that targets could not be looked up again, so that the last known ones are shown. HTML."""
    glyph = markup.glyph("warning", "stale:")
    return markup.notice("warning", f"{glyph} {markup.bold('Targets may be out of date.')} {markup.text(sentence)}")


def css_string(text: str) -> str:
    """Write any text as a CSS string: every character that is not a plain letter or digit as its code point."""
    return '"{}"'.format("".join(c if c.isascii() and c.isalnum() else f"\\{ord(c):x} " for c in text))


@st.fragment(run_every=TICK_SECONDS)
def _tick() -> None:
    with st.container(key="masthead", horizontal=True, vertical_alignment="center", gap="small"):
        st.html(words(state.confirmed(), service.now(), service.interval_seconds(), paused=state.paused()))
        st.toggle("Pause", key=state.PAUSED)
    if state.outdated():
        st.rerun()
