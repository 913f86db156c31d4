"""Draws the page of one replica."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Pool, Replica, formatting
from dashboard.fleet.formatting import visible
from dashboard.report.replicas import settings as replica_settings
from dashboard.report.replicas.beside import beside_its_pool
from dashboard.report.replicas.differences import Apart
from dashboard.rules.findings import Severity
from dashboard.views import pages
from dashboard.views.names import replica_names
from dashboard.web import (
    links,
    markup,
    named_paths,
    replica_engines,
    replica_hashes,
    replica_head,
    replica_offer,
    replica_probes,
    state,
)
from dashboard.web.state import shared

MOST_FINDINGS = 12  # shown above the tabs; the page Findings lists all
TABS = ("Settings", "Engines and devices", "Identity", "Probes")
EVERY_SECTION = "all sections"
ROW, HEAD, TALLEST = 35, 37, 460  # px of a table; what a click shows below it is still seen
RAW_HEIGHT, RAW_LINES = 520, 24  # px of a raw answer, and the lines that fill them
_SETTING_WIDTHS = {  # px; together they fit a page of 1,024
    "Section": 130,
    "Setting": 232,
    "Value": 220,
    replica_settings.POOL_HAS: 150,
    "State": 84,
    "Told by": 150,
}


class Known(NamedTuple):
    """One replica and what is derived for its page."""

    replica: Replica
    pool: Pool | None
    apart: tuple[Apart, ...]
    settings: pd.DataFrame
    reach: replica_settings.ReadCoverage
    hashes: str  # HTML
    offer: replica_offer.Offer | None


@shared(max_entries=16)
def known(generation: int, polled_at: datetime | None, replica: str, _fleet: Fleet) -> Known | None:  # noqa: ARG001  # the cache's key
    """Find a replica by its id and derive its page; None when the fleet has no such replica."""
    found = next((each for each in _fleet.replicas if each.id == replica), None)
    if found is None:
        return None
    beside = beside_its_pool(_fleet, found)
    document = _fleet.documents.get(found.document or "")
    own = document.settings if document else {}
    return Known(
        replica=found,
        pool=beside.pool,
        apart=beside.apart,
        settings=beside.settings,
        reach=beside.reach,
        hashes=replica_hashes.block_hashes(found, replica_hashes.peers(found, _fleet.replicas), own),
        offer=replica_offer.offer(found, own),
    )


def draw_unknown(replica: str | None) -> None:
    """Say that the address names no replica of this fleet."""
    back = markup.link(links.to(pages.REPLICAS), "All replicas")
    told = markup.code(formatting.middle_cut(formatting.one_line(replica), 80)) if replica else ""
    title = "There is no such replica" if replica else "No replica is named"
    sentence = (
        f"No target of this fleet is called {told}."
        if replica
        else "This page shows the replica that its address names. Choose one:"
    )
    st.html(f'<div class="empty"><h2>{title}</h2><p>{sentence}</p>{back}</div>')


def draw_head(found: Known, fleet: Fleet, now: datetime | None) -> None:
    """Draw what is said before any table."""
    names = replica_names(fleet)
    named = [each for each in fleet.inspection.findings if found.replica.id in each.replicas]
    worst = min((each.severity for each in named), key=list(Severity).index, default=None)
    st.html(replica_head.head(found.replica, found.reach if found.reach.read else None, worst))
    st.html(replica_head.cards(found.replica, found.pool, found.apart, found.reach, now))
    for notice in replica_head.notices(found.replica, names, now):
        st.html(notice)
    if named:
        st.html(
            markup.section(formatting.count(len(named), "finding")) + named_paths.finding_lines(named[:MOST_FINDINGS])
        )
    if found.replica.contradictions:
        st.html(replica_head.contradictions(found.replica.contradictions))


def tabs() -> Sequence[DeltaGenerator]:
    """Open the tabs; which one is seen stands in the URL."""
    return st.tabs(TABS, **links.bind(pages.TAB, TABS))


def draw_settings(found: Known) -> None:
    """Draw the settings with their search, and the whole value of the one that is selected."""
    if found.settings.empty:
        st.html(markup.notice("unknown", "Its settings were never read; the probes say why."))
        return
    with st.container(key="controls", horizontal=True, vertical_alignment="bottom", gap="small"):
        search = st.text_input(
            "Search", **links.bind(pages.SETTING), placeholder="setting or value", width=260, live=True
        )
        sections = [EVERY_SECTION, *sorted(found.settings["Section"].unique())]
        section = st.selectbox("Section", sections, **links.bind(pages.SECTION, sections), width=230)
        only = st.toggle("Only what differs", **links.bind(pages.SHOW, default=False), disabled=not found.apart)
    rows = replica_settings.filtered(
        found.settings,
        section=None if section in {None, EVERY_SECTION} else section,
        search=search or "",
        only_differences=bool(only and found.apart),
    )
    if rows.empty:
        st.html(
            markup.notice("info", f"Nothing matches; {formatting.count(len(found.settings), 'setting')} are hidden.")
        )
        return
    hidden = () if found.apart else (replica_settings.POOL_HAS,)
    _settings_table(rows, [name for name in replica_settings.SHOWN if name not in hidden], len(found.settings))


def _settings_table(rows: pd.DataFrame, columns: list[str], total: int) -> None:
    event = st.dataframe(
        rows[columns],
        key="settings",
        hide_index=True,
        height=min(HEAD + ROW * len(rows), TALLEST),
        on_select="rerun",
        selection_mode="single-cell",
        column_config={name: st.column_config.TextColumn(width=width) for name, width in _SETTING_WIDTHS.items()},
    )
    chosen = [row for row, _ in event["selection"]["cells"] if row < len(rows)]
    st.html(
        f'<div class="foot">{len(rows):,} of {formatting.count(total, "setting")}. '
        "Click one to see its whole value.</div>"
    )
    if chosen:
        st.html(markup.code(rows["path"].iloc[chosen[0]]))
        st.code(visible(str(rows["whole"].iloc[chosen[0]])), language="json", wrap_lines=True, height="content")


def draw_engines(found: Known) -> None:
    """Draw what the replica holds: names, engines, how they hash blocks, devices, KV cache groups."""
    replica = found.replica
    st.html(
        replica_engines.served(replica)
        + replica_engines.engines_table(replica.engines)
        + found.hashes
        + replica_engines.devices_table(replica.devices, replica.engines)
        + replica_engines.groups_table(replica.kv_cache_groups)
    )


def draw_identity(replica: Replica) -> None:
    """Draw what must or may differ per replica, and its labels."""
    labels = " ".join(f"{markup.code(f'{key}={value}')}" for key, value in sorted(replica.labels.items()))
    st.html(f"<p>Labels of the target: {labels or markup.muted('none')}</p>")
    if not replica.identity:
        st.html(f'<div class="foot">{markup.text("No reply tells what identifies it.")}</div>')
        return
    table = replica_settings.identity_table(replica.identity)
    st.dataframe(table, key="identity", hide_index=True, height=min(HEAD + ROW * len(table), TALLEST))
    st.html('<div class="foot">These must or may differ from replica to replica; they are never compared.</div>')


def draw_probes(replica: Replica) -> None:
    """Draw every probe, and the raw answer of the one that is chosen."""
    probes = replica_probes.in_order(replica.probes)
    if not probes:
        st.html('<div class="foot">It was never asked.</div>')
        return
    table = replica_probes.probes_table(probes)
    st.dataframe(
        table,
        key="probes",
        hide_index=True,
        height=HEAD + ROW * len(table),
        placeholder="–",
        column_config={
            "Outcome": st.column_config.TextColumn(width=146),
            "Path": st.column_config.TextColumn(width=264),
            "Status": st.column_config.NumberColumn(width=60),
            "Bytes": st.column_config.NumberColumn(format="localized", width=72),
            "ms": st.column_config.NumberColumn("Duration, ms", format="%.1f", width=94),
            "Asked at": st.column_config.DatetimeColumn(
                format="YYYY-MM-DD HH:mm:ss", timezone="UTC", width=146, help="In UTC."
            ),
        },
    )
    answers = {probe.path: probe for probe in probes if probe.raw}
    if not answers:
        said = replica_probes.NOT_KEPT if state.is_frozen() else replica_probes.NO_ANSWER
        st.html(f'<div class="foot">{markup.text(said)}</div>')
        return
    chosen = st.selectbox(
        "Raw answer, secrets removed", list(answers), index=None, key="raw", placeholder="choose a path", width=420
    )
    if chosen in answers:
        _draw_raw(replica_probes.raw_of(answers[chosen]))


def _draw_raw(raw: replica_probes.Raw) -> None:
    if raw.left_out:
        st.html(f'<div class="foot">{markup.text(raw.left_out)}</div>')
    long = raw.text.count("\n") >= RAW_LINES
    st.code(visible(raw.text), language=raw.language, wrap_lines=True, height=RAW_HEIGHT if long else "content")


def draw_offer(found: Known) -> None:
    """Offer the lines that switch the provider on, folded in at the end of the page."""
    if found.offer is None:
        return
    with st.expander(replica_offer.TITLE):
        how = f"{markup.text(replica_offer.HOW)} {markup.code(replica_offer.BUILT)}:"
        st.html(f"<p>{markup.text(replica_offer.ADDS)}</p><p>{how}</p>")
        st.code(visible(found.offer.lines), language="bash", wrap_lines=True)
        st.html(f'<div class="foot">{markup.text(" ".join(found.offer.notes))}</div>')
