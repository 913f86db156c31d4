"""Replica: everything known about one replica, with its sources."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.errors import SnapshotError
from dashboard.fleet import CLUSTER, ProbeResult, Replica
from dashboard.fleet.formatting import count, middle_cut, one_line, whole_text
from dashboard.views import pages
from dashboard.views.blocks import View
from dashboard.views.names import find_replicas
from dashboard.views.pool_comparison import SettingChoice
from dashboard.views.replica import (
    ENGINES,
    HEAD,
    IDENTITY,
    PROBES,
    PROVIDER,
    SETTINGS,
    in_order,
    raw_answer,
    replica_report,
)
from dashboard.views.replica_settings import EVERY_SETTING, ReplicaComparison, compare_with_pool, settings_blocks
from dashboard.views.timeline import with_timeline
from dashboard.web import draw, links, markup, share, state, timeline
from dashboard.web.state import shared

TABS = ("Settings", "Engines and devices", "Identity", "Probes")
ALL_SECTIONS = "all sections"
NOT_KEPT = "No raw answers: only snapshots that were saved here have them."
NOT_RECORDED = "The history keeps raw answers of snapshots only."
NO_ANSWER = "No answer to show."


@shared(max_entries=16)
def comparison_of(fleet: Fleet, replica: str) -> ReplicaComparison:
    return compare_with_pool(fleet, fleet.by_id[replica])


@shared(max_entries=16, has_times=True)
def view_of(fleet: Fleet, replica: str) -> View:
    return replica_report(fleet, replica, comparison=comparison_of(fleet, replica))


def draw_unknown(replica: str | None, found: Sequence[Replica]) -> None:
    """Draw why no replica is shown, and the several ones that have the name."""
    title = "Replica not found" if replica else "No replica selected"
    name = markup.code(middle_cut(one_line(replica), 80)) if replica else ""
    sentence = f"This fleet has no target {name}." if replica else "Select one from the list."
    if found:
        title, sentence = f"{count(len(found), 'replica')} with this name", f"Select one of {name} by its address."
    addresses = (markup.link(links.to(pages.REPLICA_PAGE, replica=each.id), markup.text(each.id)) for each in found)
    back = markup.link(links.to(pages.REPLICAS), "All replicas")
    choices = "".join(f"<p>{each}</p>" for each in (*addresses, back))
    st.html(f'<div class="empty"><h2>{title}</h2><p>{sentence}</p>{choices}</div>')


def draw_head(view: View, replica: Replica) -> None:
    """Draw the name, and links to all replicas and to the dashboard that reports this one before the lead."""
    parts = [markup.link(links.to(pages.REPLICAS), "All replicas")]
    if (home := service.home_of(replica.id, service.options())) is not None:
        cluster = markup.text(replica.labels.get(CLUSTER, ""))
        parts.append(markup.link(home, f"Dashboard of {cluster} (probes, raw answers)"))
    st.html(markup.heading(markup.text(view.headline), " · ".join([*parts, markup.text(view.lead)])))


def choose_settings(comparison: ReplicaComparison) -> SettingChoice:
    if comparison.rows.empty:
        return EVERY_SETTING
    with draw.controls_row("controls"):
        search = st.text_input(
            "Search", **links.bind(pages.SETTING), placeholder="setting or value", width=260, live=True
        )
        sections = [ALL_SECTIONS, *sorted(comparison.rows["section"].unique())]
        section = links.draw_select("Section", pages.SECTION, sections, 230)
        has_differences = bool(comparison.differences)
        only = st.toggle("Only differences", **links.bind(pages.SHOW, default=False), disabled=not has_differences)
    return SettingChoice(bool(only and has_differences), section, search or "")


def draw_raw_answer(fleet: Fleet, replica: Replica) -> None:
    if not replica.probes:
        return
    try:
        probes = in_order(_with_answers(fleet, replica))
    except SnapshotError as error:
        st.html(markup.notice("warning", markup.text(error)))
        return
    answers = {probe.path: probe for probe in probes if probe.raw}
    if not answers:
        shown = state.fleet()
        why = NOT_KEPT if shown.snapshot else NOT_RECORDED if shown.past else NO_ANSWER
        st.html(f'<div class="foot">{why}</div>')
        return
    selected = st.selectbox(
        "Raw answer, secrets removed", list(answers), index=None, key="raw", placeholder="select a path", width=420
    )
    if selected not in answers:
        return
    text, note = raw_answer(answers[selected])
    if note:
        st.html(f'<div class="foot">{markup.text(note)}</div>')
    st.html(markup.pasted(text, f"Raw answer of {selected}"))


def _with_answers(fleet: Fleet, replica: Replica) -> Sequence[ProbeResult]:
    """Return the probes of a replica with their raw answers, which a snapshot keeps apart."""
    if fleet.snapshot is None:
        return replica.probes
    raw = service.snapshots().answers(fleet.snapshot, [each.id for each in fleet.replicas].index(replica.id))
    return [replace(each, raw=raw.get(each.path, b"")) for each in replica.probes]


def draw_page() -> None:
    fleet = state.fleet()
    asked = st.query_params.get(pages.REPLICA)
    found = find_replicas(fleet, asked or "")
    if len(found) != 1:
        draw_unknown(asked, found)
        return
    (replica,) = found
    comparison, view = comparison_of(fleet, replica.id), view_of(fleet, replica.id)
    sections = {each.anchor: each for each in view.parts}

    draw_head(view, replica)
    draw.draw_blocks(sections[HEAD[0]].blocks, HEAD[0])
    draw.draw_sections([sections[each] for each in HEAD[1:] if each in sections], "head")
    past = timeline.draw_replica(fleet, replica)
    first = TABS[-1 if replica.document is None else 0]  # probes show why a replica was not read
    tabs = st.tabs(TABS, **links.bind(pages.TAB, TABS, default=first))
    with tabs[0]:
        settings = settings_blocks(replica, comparison, choose_settings(comparison))
    for tab, anchor in zip(tabs, (SETTINGS, ENGINES, IDENTITY, PROBES), strict=True):
        with tab:
            shown = settings if anchor == SETTINGS else sections[anchor].blocks
            draw.open_link(draw.draw_blocks(shown, anchor))
            draw.draw_sections(sections[anchor].parts, f"{anchor}_parts")
    document, path = fleet.documents.get(replica.document or ""), st.query_params.get(pages.SETTING, "")
    if document is not None and path in document.settings:
        setting = document.settings[path]
        with tabs[0]:
            st.html(markup.code(path) + markup.pasted(whole_text(setting.value, setting.state), path))
    with tabs[-1]:
        draw_raw_answer(fleet, replica)
    if PROVIDER in sections:
        draw.draw_sections([sections[PROVIDER]], PROVIDER)
    share.offer(lambda: with_timeline(view, past), charts=bool(past))
