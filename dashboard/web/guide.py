"""The guide for a first visit: three sentences that go away for good when the reader has read them."""

from pathlib import Path

import streamlit as st

from dashboard.views import pages
from dashboard.web import links, markup, state

_component = st.components.v2.component(
    "guide",
    html='<div class="surface"></div>',
    js=Path(__file__).with_name("guide.js").read_text(encoding="utf-8"),
    isolate_styles=False,  # the one style sheet of the pages also dresses the guide
)


def draw() -> None:
    """Draw the guide; the browser remembers who closed it. A picture, a meeting and a snapshot do without."""
    if not state.screenshot() and not state.meeting() and not state.is_frozen():
        with st.container(key="guide"):
            _component(key="first_visit", data={"html": guide()})


def guide() -> str:
    """Write the guide. HTML."""
    findings = markup.link(links.to(pages.FINDINGS), "Findings")
    compare = markup.link(links.to(pages.COMPARE), "Compare")
    see = "Replicas that should be alike stand in one pool; those that say the same are a cohort, A the largest."
    act = f"{findings} says what a difference breaks and what to type; {compare} shows every setting that differs."
    keep = "Look around freely: nothing here changes a replica, and Share keeps what you see under a link."
    steps = "".join(f"<li>{sentence}</li>" for sentence in (see, act, keep))
    return (
        '<aside class="guide" aria-label="Guide for a first visit" hidden><div class="guide-head">'
        f'<b>New here?</b><button type="button" class="copy">Got it</button></div><ol>{steps}</ol></aside>'
    )
