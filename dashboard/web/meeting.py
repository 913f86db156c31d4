"""Meeting mode: larger type, no updates, and an agenda with keys for each section."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import streamlit as st

from dashboard.fleet.formatting import short_id
from dashboard.views import pages
from dashboard.views.context import as_of, context_of, source_text
from dashboard.web import links, markup, state

BEGIN = "begin_meeting"
KEYS = (
    ("j", "k", "next and previous section"),
    ("1", "…", "7", "jump to a section"),
    ("Page Down", "Page Up", "scroll by a screen"),
    ("?", "these keys"),
    ("Esc", "leave"),
)
HELP = "Larger type and no updates. Keys: j and k or digits for sections, Page Down, Esc to leave."
_component = st.components.v2.component(
    "agenda",
    html='<div class="agenda-surface surface"></div>',
    js=Path(__file__).with_name("review.js").read_text(encoding="utf-8"),
    isolate_styles=False,  # the style sheet of the pages also applies to the agenda
)


def draw(page: str) -> None:
    """Draw the bar of a meeting; outside Review it links back there. Escape ends the meeting."""
    place = st.empty()  # always: without it the browser would remount what follows
    if not state.is_meeting():
        return
    with place.container(key="meeting"):
        st.html(markup.said("Meeting mode"))
        if page != pages.REVIEW:
            back = markup.link(links.to(pages.REVIEW), "Back to the review", css="back")
            _mount(f'<nav class="agenda back-to-review" aria-label="Meeting">{back}{_LEAVE}</nav>', ())


def draw_agenda(titles: Mapping[str, str]) -> None:
    """Draw the agenda above the sections, which have their titles as HTML by the keys of their containers."""
    entries = "".join(
        f'<li><button type="button" data-key="{markup.text(key)}"><span class="number">{number}</span> '
        f"{title}</button></li>"
        for number, (key, title) in enumerate(titles.items(), 1)
    )
    keys = f'{_KEYS_BUTTON}{_LEAVE}<p class="keys" id="meeting-keys" hidden>{_keys()}</p>' if state.is_meeting() else ""
    html = (
        f"{_snapshot_html() if state.is_meeting() else ''}"
        f'<nav class="agenda" aria-label="Agenda"><ol>{entries}</ol>{keys}</nav>'
        '<div class="said" aria-live="polite"></div>'
    )
    with st.container(key="agenda"):
        _mount(html, titles)


def draw_switch() -> None:
    """Draw the button that starts a meeting. The URL holds its state; the agenda ends it."""
    if not state.is_meeting():
        st.button("Meeting mode", key=BEGIN, on_click=_begin, help=HELP)


def _begin() -> None:
    st.query_params[pages.MEETING] = "1"


def _snapshot_html() -> str:
    """Return the snapshot and the time of its data; the line stays visible with the agenda."""
    fleet, stored = state.fleet(), state.stored()
    name = f"“{stored.metadata.name}” " if stored and stored.metadata.name else ""
    what = (
        f"Snapshot {name}{short_id(fleet.snapshot)}"
        if fleet.snapshot
        else f"{fleet.name}, {source_text(context_of(fleet))}"
    )
    when = as_of(fleet) or "waiting for the first poll"
    return f'<p class="shown"><span>{markup.text(what)}</span> · {markup.text(when)}</p>'


def _mount(html: str, keys: Iterable[str]) -> None:
    _component(key="agenda_keys", data={"html": html, "keys": list(keys), "meeting": state.is_meeting()})


def _keys() -> str:
    return " · ".join(f"{' '.join(f'<kbd>{key}</kbd>' for key in keys)} {action}" for *keys, action in KEYS)


_KEYS_BUTTON = (
    '<button type="button" class="show-keys" data-keys aria-expanded="false" aria-controls="meeting-keys">'
    "<kbd>?</kbd> keys</button>"
)
_LEAVE = '<button type="button" class="leave" data-leave>Leave the meeting</button>'
