"""Review: the agenda of a meeting on one page, with notes."""

import streamlit as st

from dashboard import service
from dashboard.store.reviews import earlier
from dashboard.views.review import FINDINGS
from dashboard.views.review_new import NEW
from dashboard.web import review_page, share, state

fleet = state.fleet()
known = earlier(service.snapshots(), fleet)
last = review_page.chosen_last(known, fleet)
stored = state.stored()
notes = stored.notes if stored else {}
recency = review_page.chosen_recency(fleet)
shown = review_page.review(fleet, last.fleet, last.noted, last.missing, recency)

review_page.draw_agenda(shown.sections)
review_page.draw_controls(fleet)
for section in shown.sections:
    with st.container(key=section.key):
        review_page.draw_title(section, shown.head)
        if section.anchor == NEW:
            review_page.draw_last(known, last, fleet)
        elif section.anchor == FINDINGS:
            review_page.draw_recency(fleet)
        review_page.draw_body(section, fleet.snapshot, notes)
st.html(shown.appendix)
share.offer(lambda: review_page.report(fleet, last, recency))
