"""Findings: what is wrong, on which replicas, what it breaks, what to do."""

import streamlit as st

from dashboard.views import pages
from dashboard.views.findings import findings_report
from dashboard.web import empty, findings_view, share, state

fleet = state.fleet()
if not fleet.pools and not fleet.inspection.findings:
    empty.nothing_answered()
    st.stop()

found = findings_view.known(fleet)
findings_view.draw_head(fleet)
choice = findings_view.choose(fleet, found)
asked = st.query_params.get(pages.FINDING)
opened = found.find(asked) if asked else None
findings_view.reveal(opened.key if opened else None)
if asked and opened is None:
    findings_view.draw_gone()
if opened is None:
    findings_view.draw_list(fleet, found, choice)
else:
    beside, panel = findings_view.split()
    with beside:
        findings_view.draw_list(fleet, found, choice, opened.key)
    with panel:
        findings_view.draw_detail(fleet, found, opened)
findings_view.draw_rules(fleet, found, choice)
called = state.snapshot_name()
share.offer(lambda: findings_report(fleet, choice, name=called))
