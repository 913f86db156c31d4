"""Replica: all that is known of one replica, and how it is known."""

import streamlit as st

from dashboard.views import pages
from dashboard.views.replica import replica_report
from dashboard.web import replica_view, share, state

fleet = state.fleet()
asked = st.query_params.get(pages.REPLICA)
found = replica_view.known(fleet.generation, fleet.polled_at, asked, fleet) if asked else None
if found is None:
    replica_view.draw_unknown(asked)
    st.stop()

replica_view.draw_head(found, fleet, state.age_reference())
settings, engines, identity, probes = replica_view.tabs()
with settings:
    replica_view.draw_settings(found)
with engines:
    replica_view.draw_engines(found)
with identity:
    replica_view.draw_identity(found.replica)
with probes:
    replica_view.draw_probes(found.replica)
replica_view.draw_offer(found)
called = state.snapshot_name()
share.offer(lambda: replica_report(fleet, str(asked), name=called))
