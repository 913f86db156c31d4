"""Puts the page Findings together: head, filters, the list, the finding that is open, all rules."""

from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.analysis.assembly import Fleet
from dashboard.report.findings import head as findings_head
from dashboard.report.findings import listed as listed_findings
from dashboard.report.findings.listed import Choice, Known, Listed
from dashboard.report.findings.rule_coverage import rule_coverage
from dashboard.views import pages
from dashboard.web import (
    empty,
    findings_controls,
    findings_detail,
    findings_entries,
    findings_list,
    findings_outcomes,
    links,
    markup,
)

_reveal = st.components.v2.component(
    "findings_reveal", js=Path(__file__).with_name("findings_reveal.js").read_text(encoding="utf-8")
)
BESIDE, PANEL = 5, 7  # shares of the width: the list, and the finding that is open


def known(fleet: Fleet) -> Known:
    """Return what the page derives of a fleet's findings."""
    return findings_list.known(fleet.generation, fleet.since, fleet)


def draw_head(fleet: Fleet) -> None:
    """Say how bad it is, what that rests on, and which rules failed to run."""
    inspection = fleet.inspection
    st.html(
        markup.heading(markup.text(findings_head.title(inspection)), markup.text(findings_head.lead(fleet)))
        + findings_outcomes.errors_html(inspection.outcomes)
    )


def choose(fleet: Fleet, found: Known) -> Choice:
    """Draw the filters where there is something to filter."""
    if not found.active:
        return Choice()
    return findings_controls.choose(fleet, found)


def reveal(opened: str | None) -> None:
    """Keep the reader's place in the list: at the finding that is open, and where it was closed at its entry again."""
    with st.container(key="findings_reveal"):
        _reveal(key="findings_reveal_open", data={"finding": opened})


def split() -> list[DeltaGenerator]:
    """Open two columns: the list stays where it is while one finding after the other is read beside it."""
    with st.container(key="findings_split"):
        return st.columns([BESIDE, PANEL], gap="medium")


def draw_list(fleet: Fleet, found: Known, choice: Choice, opened: str | None = None) -> None:
    """Draw the list that the filters leave, or say why there is none."""
    if not found.active:
        _draw_calm(fleet)
        return
    kept = listed_findings.kept(found.active, choice)
    if not kept:
        number = len(found.active)
        hidden = f"They hide all {number:,} findings." if number > 1 else "They hide the only finding."
        empty.filter_hides_all(hidden, links.to(pages.FINDINGS))
        return
    groups = listed_findings.grouped(kept)
    address = findings_controls.kept_choices()
    more = markup.text(findings_entries.more_words(groups, len(found.active)))
    with st.container(key="findings_beside" if opened else "findings_list"):
        st.html(findings_entries.entries(groups, found.names, address, opened) + f'<div class="foot">{more}</div>')


def draw_detail(fleet: Fleet, found: Known, opened: Listed) -> None:
    """Draw the finding that is open."""
    with st.container(key="finding_panel"):
        findings_detail.draw(found, opened, fleet, findings_controls.kept_choices())


def draw_gone() -> None:
    """Say that the address names a finding that is no more."""
    back = markup.link(links.to(pages.FINDINGS, **findings_controls.kept_choices()), "Close")
    said = markup.bold("This finding is gone.")
    st.html(markup.notice("info", f"{said} It was fixed, or what the replicas tell has changed since. {back}"))


def draw_rules(fleet: Fleet, found: Known, choice: Choice) -> None:
    """Draw what became of all rules."""
    with st.container(key="all_rules"):
        findings_outcomes.draw(fleet, found, choice, findings_controls.kept_choices())


def _draw_calm(fleet: Fleet) -> None:
    """Say that nothing was found, which is good news only as far as something was judged."""
    told = rule_coverage(fleet.inspection)
    if findings_head.is_clean(fleet, told):
        empty.all_equal("No rule is broken.", findings_head.no_findings_text(fleet, told))
        return
    glyph = markup.glyph("unknown", "not known:")
    why = markup.text("The reasons stand below, under Skipped and Not applicable.")
    st.html(markup.notice("unknown", f"{glyph} {markup.bold('No rule on settings could be judged.')} {why}"))
