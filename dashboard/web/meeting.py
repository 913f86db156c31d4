"""The agenda of the review, and its meeting mode: one section a screen, without the application around it."""

from collections.abc import Mapping
from pathlib import Path

import streamlit as st

from dashboard.fleet.formatting import short_id
from dashboard.views import pages
from dashboard.views.context import AS_OF, as_of, context_of, source_text
from dashboard.web import links, markup, state

_MARK = ' aria-current="true"'
HELP = "One section a screen, larger type, no updates."
_STYLE = Path(__file__).with_name("meeting.css").read_text(encoding="utf-8")
_component = markup.component("review", "review.js")


def draw_agenda(titles: Mapping[str, str]) -> None:
    """Draw links to the sections, whose titles are HTML by their ids, and the one that starts the meeting."""
    entries = "".join(f'<li><a href="#{key}">{title}</a></li>' for key, title in titles.items())
    begin = markup.link(_url(**{pages.MEETING: "1"}), "Meeting mode", title=HELP, css="button")
    with st.container(key="agenda"):
        st.html(f'<nav class="agenda" aria-label="Agenda"><ol>{entries}</ol>{begin}</nav>')
    listen()


def draw_bar(titles: Mapping[str, str], current: str) -> None:
    """Draw the bar of a meeting: the keys, which are links, the sections, and what is shown.

    Titles are HTML by the anchors of their sections.
    """
    anchors = list(titles)
    place = anchors.index(current)
    entries = "".join(
        f'<li><a href="{markup.text(_url(section=key))}"{_MARK if key == current else ""}>{title}</a></li>'
        for key, title in titles.items()
    )
    keys = (
        _key("previous", "←", anchors[place - 1] if place else None),
        _key("next", "→", anchors[place + 1] if place + 1 < len(anchors) else None),
    )
    leave = markup.link(_url(meeting=None, section=None), "<kbd>Esc</kbd> leave", css="leave")
    st.html(
        f"<style>{_STYLE}</style>"
        f'<nav class="agenda meeting" aria-label="Agenda"><span class="keys">{"".join(keys)}</span><ol>{entries}</ol>'
        f'<p class="shown">{_shown_html()}</p>{leave}</nav>'
        f'<p class="said" role="status">Section {place + 1} of {len(anchors)}</p>'
    )
    listen()


def _key(name: str, arrow: str, section: str | None) -> str:
    kbd = f"<kbd aria-hidden=true>{arrow}</kbd>{markup.said(f'{name.capitalize()} section')}"
    return f"<span>{kbd}</span>" if section is None else markup.link(_url(section=section), kbd, css=name)


def listen() -> None:
    """Let the browser listen to the keys of a meeting, and mark notes that are not saved."""
    _component(key="review_keys", data={"meeting": state.is_meeting()})


def _url(**choices: str | None) -> str:
    return links.to(pages.REVIEW, **{**links.page_choices(), **choices})


def _shown_html() -> str:
    """Return what is shown, and the time of its data: of the live fleet the name is enough."""
    fleet, stored = state.fleet(), state.stored()
    name = f"“{stored.metadata.name}” " if stored and stored.metadata.name else ""
    past = f", {source_text(context_of(fleet))}" if fleet.past else ""
    what = f"Snapshot {name}{short_id(fleet.snapshot)}" if fleet.snapshot else f"{fleet.name}{past}"
    return f"<span>{markup.text(what)}</span> · {markup.text(as_of(fleet).removeprefix(AS_OF))}"
