"""The dialog of one cause of the fix plan, on each page that lists causes."""

import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Cause
from dashboard.analysis.plan import plan_of, suppressed_of
from dashboard.fleet.formatting import SOME, count, shortlist
from dashboard.fleet.pieces import plain
from dashboard.render.markdown import to_markdown
from dashboard.views import pages
from dashboard.views.blocks import Entries, Entry, Tone
from dashboard.views.names import brief
from dashboard.views.plan import cause_view
from dashboard.views.rules import SUPPRESSED
from dashboard.web import acceptance, draw, links, markup

TICKET = "Text for a ticket (Markdown)"


def draw_cause(fleet: Fleet) -> None:
    """Open the cause that the URL names; it stays there, so that the link can be shared."""
    key = st.query_params.get(pages.CAUSE)
    found = next((each for each in plan_of(fleet).causes if each.key == key), None) if key else None
    if key:
        st.dialog("Fix plan", width="large", on_dismiss=_close)(_draw)(fleet, found, key)


def _draw(fleet: Fleet, cause: Cause | None, key: str) -> None:
    accepted, entries = st.session_state.get(acceptance.LAST, ("", ()))
    if cause is None and accepted == key:
        acceptance.draw_undo(entries, key)
        return
    if cause is None:
        st.html(markup.notice("info", _gone_html(fleet, key)))
        return
    view = cause_view(fleet, cause)
    st.html(f"<h2>{markup.text(view.title)}</h2>")
    draw.draw_sections(view.parts, "cause")
    ticket = Entry(Tone.PLAIN, plain(TICKET), fold=TICKET, snippets=(to_markdown(view),))
    draw.draw_blocks((Entries((ticket,)),), "ticket")
    number = count(len(cause.findings), "finding")
    acceptance.draw_form(fleet, cause.findings, key, f"Intended? Accept {number} until a date")


def _gone_html(fleet: Fleet, key: str) -> str:
    """Return why the plan has no cause with this key: who suppressed its findings, with a link to these."""
    entries = [each.suppression for each in suppressed_of(fleet, key)]
    by = dict.fromkeys(f"until {each.until} by {brief(each.owner)}" for each in entries if each)
    if not by:
        return markup.text("The plan no longer has this cause.")
    link = markup.link(links.to(pages.FINDINGS, **{pages.RULES: SUPPRESSED}), "Suppressed findings")
    return f"{markup.text(f'Its findings are suppressed {shortlist(by, SOME)}.')} {link}"


def _close() -> None:
    st.query_params.pop(pages.CAUSE, None)
