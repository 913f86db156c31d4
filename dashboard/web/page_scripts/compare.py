"""Compare: how the replicas of one pool differ, setting by setting."""

import streamlit as st

from dashboard.render.csv_table import matrix_csv
from dashboard.report.pools.compared import members_of, pool_named, unmatched_words
from dashboard.views import pages
from dashboard.views.compare import compare_report
from dashboard.web import (
    baseline_offer,
    compare_controls,
    compare_view,
    empty,
    links,
    share,
    state,
    value_dialog,
    whatif_view,
)
from dashboard.web.matrix import matrix
from dashboard.web.overview import overview

fleet = state.fleet()
if not fleet.pools:
    empty.nothing_answered()
    st.stop()

with st.container(key="pool_head", horizontal=True, vertical_alignment="center"):
    title = st.container()
    name = compare_controls.choose_pool(overview(fleet.generation, fleet.polled_at, fleet).order)
if name is None:
    empty.no_such_pool(st.query_params[pages.POOL])
    st.stop()
pool = pool_named(fleet, name)
members = members_of(fleet, pool)
names = {member.id: member.name for member in members}
title.html(compare_view.head(pool, members, fleet.inspection.domains.get(name)))

band = st.container(key="band")
with st.container(key="controls", horizontal=True, vertical_alignment="bottom", gap="small"):
    choice = compare_controls.choose(pool, names, fleet.policy.baseline(name))
    view = compare_view.view(fleet.generation, fleet.polled_at, name, choice, fleet)
    st.download_button(
        "CSV",
        data=lambda: matrix_csv(view.matrix, view.notes, names),
        file_name=f"{links.make_file_name(fleet.name, name)}.csv",
        mime="text/csv",
        on_click="ignore",
        help="What the table shows, values uncut.",
    )
    baseline_offer.draw(fleet, pool, choice.reference)
with band:
    st.html(view.band)
    opened = matrix(view.prefix, key="compare_prefix") if pool.cohorts else None
if view.matrix.rows:
    opened = matrix(view.table, key="compare_settings") or opened
elif not pool.cohorts and any(member.fresh for member in members):
    empty.no_settings_reported("pool")
elif choice.is_filtered:
    empty.filter_hides_all(unmatched_words(view.matrix, choice), links.to(pages.COMPARE, pool=name))
elif sum(len(cohort.replicas) for cohort in pool.cohorts) > 1:
    empty.all_equal("No difference:" if view.is_good else "No setting differs:", view.equal, is_good=view.is_good)
else:
    empty.too_few_replicas(view.notes[-1])

what = whatif_view.draw(fleet, pool, is_split=view.is_split)
called = state.snapshot_name()
share.offer(lambda: compare_report(fleet, pool.name, choice, what=what, name=called))

if opened:
    value_dialog.open_from(opened, pool)
value_dialog.draw(fleet, pool)
