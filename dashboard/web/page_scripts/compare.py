"""Compare: how the replicas of one pool differ, setting by setting."""

import streamlit as st

from dashboard.render.csv_table import matrix_csv
from dashboard.views import pages
from dashboard.views.compare import compare_report
from dashboard.views.pool_comparison import head_text, members_of, pool_named, unmatched_text
from dashboard.views.timeline import with_timeline
from dashboard.web import chosen_page, compare_page, draw, empty, links, markup, share, state, timeline
from dashboard.web.overview import pool_order

fleet = state.fleet()
if not fleet.pools:
    empty.nothing_answered()
    state.end_page()

if chosen := st.query_params.get(pages.CHOSEN):
    chosen_page.draw_chosen(fleet, chosen)
    state.end_page()

with st.container(key="pool_head", horizontal=True, vertical_alignment="center"):
    title = st.container()
    name = compare_page.choose_pool(pool_order(fleet))
if name is None:
    empty.no_such_pool(st.query_params[pages.POOL])
    state.end_page()
pool = pool_named(fleet, name)
members = members_of(fleet, pool)
names = {member.id: member.name for member in members}
head = head_text(pool, members, fleet.inspection.domains.get(name))
title.html(markup.heading(markup.text(pool.name), markup.text(head)))

band = st.container(key="band")
with st.container(key="controls", horizontal=True, vertical_alignment="bottom", gap="small"):
    choice = compare_page.choose(pool, names, fleet.policy.baseline(name))
    has_ages = state.age_reference() is not None
    found = compare_page.shown(fleet, name, choice, has_ages=has_ages)
    st.download_button(
        "CSV",
        data=lambda: matrix_csv(found.matrix, found.notes, names, found.sightings),
        file_name=f"{links.make_file_name(fleet.name, name, *pages.choices_of(fleet).values())}.csv",
        mime="text/csv",
        on_click="ignore",
        help="What the table shows, values uncut.",
    )
    compare_page.offer_baseline(fleet, pool, choice.reference)
with band:
    draw.draw_prepared(found.band, "compare_band")
clicked = None
if found.matrix.rows:
    clicked = compare_page.draw_matrix(found)
elif not pool.cohorts and any(member.fresh for member in members):
    empty.no_settings_reported("pool")
elif choice.is_filtered:
    empty.filter_hides_all(unmatched_text(found.matrix, choice), links.to(pages.COMPARE, pool=name))
elif sum(len(cohort.replicas) for cohort in pool.cohorts) > 1:
    empty.all_equal("No difference:" if found.is_good else "No setting differs:", found.equal, is_good=found.is_good)
else:
    empty.too_few_replicas(found.notes[-1])

clicked = draw.draw_prepared(found.deciding, "compare_deciding") or clicked
past = timeline.draw_pools(fleet, [name], pool)
what = compare_page.draw_whatif(fleet, pool, is_split=found.is_split)
snapshot = state.snapshot_name()
share.offer(
    lambda: with_timeline(compare_report(fleet, pool.name, choice, what=what, name=snapshot), past), charts=bool(past)
)

if clicked:
    compare_page.open_clicked(clicked)
compare_page.draw_dialog(fleet, pool)
links.keep_choice(pages.COMPARE, pages.POOL, name)
