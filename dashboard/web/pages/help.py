"""Help: what each page answers, how to use it, keys and terms."""

import streamlit as st

from dashboard.views import pages
from dashboard.views.help import help_report
from dashboard.web import draw, share, state


def draw_page() -> None:
    about = st.query_params.get(pages.ABOUT, "").removeprefix("overview")
    view = help_report(state.fleet(), about)
    draw.draw_head(view)
    draw.draw_sections(view.parts, "help")
    share.offer(lambda: view)
