"""Findings: causes, replicas, impact and fixes, the worst first."""

from functools import partial

import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count, iso
from dashboard.views import pages
from dashboard.views.finding_list import (
    SORTS,
    FindingFilter,
    FindingList,
    ListedFinding,
    finding_keys,
    list_findings,
    sort_findings,
)
from dashboard.views.findings import (
    finding_section,
    findings_report,
    list_section,
    missing_finding,
)
from dashboard.views.rules import RULE_LISTS, error_blocks, rule_counts, rules_blocks
from dashboard.views.since import NEWEST_FIRST, has_history, history_text, range_start
from dashboard.views.summary import findings_lead, findings_title, is_clean, no_findings_text, only_scope, scoped_title
from dashboard.web import causes, draw, empty, filter_box, links, markup, share, state
from dashboard.web.state import shared

WIDTHS = (5, 7)  # shares of the list and of the finding that is open
IN_SEVERAL = "A rule can be in several lists: passed for one pool, skipped for another."

_reveal = markup.component("findings_reveal", "findings_reveal.js")


known_findings = shared(max_entries=4)(list_findings)
_only_scope = shared(max_entries=4, has_times=True)(only_scope)


def scoped_fleet(fleet: Fleet, pool: str | None) -> Fleet:
    """Return the part of a fleet that the page is limited to; without a pool all of it."""
    return _only_scope(fleet, pool) if pool else fleet


counted_rules = shared(max_entries=16)(rule_counts)


def draw_head(fleet: Fleet, pool: str | None) -> None:
    inspection = fleet.inspection
    title = scoped_title(findings_title(inspection), pool)
    head = markup.heading(markup.text(title), markup.text(findings_lead(fleet)))
    st.html(head + draw.html_of(error_blocks(inspection)))


def choose(fleet: Fleet, known: FindingList) -> FindingFilter:
    """Draw the search box with its filters and return their choice; without findings nothing is drawn."""
    if not known.active:
        return FindingFilter(pool=links.scope())
    search = filter_box.draw_box(
        finding_keys(fleet, known.rules), "severity:critical pool:chat", partial(_draw_sort, fleet)
    )
    start = range_start(fleet, "".join(search.chosen.get("new", ())[-1:]))
    if text := history_text(fleet, start):
        st.html(f'<div class="foot">{markup.text(text)}</div>')
    return FindingFilter(search, links.scope(), start)


def _draw_sort(fleet: Fleet) -> None:
    sorts = sorts_of(fleet)
    st.selectbox("Sort", sorts, **links.bind(pages.SORT, sorts), format_func=lambda sort: SORTS[sort][0])


def sorts_of(fleet: Fleet) -> list[str]:
    """Return the sorts of findings; by time only with a history."""
    return [each for each in SORTS if each != NEWEST_FIRST or has_history(fleet)]


def draw_findings(fleet: Fleet, known: FindingList, chosen: FindingFilter) -> None:
    """Draw the list, and next to it the finding that the URL names."""
    key = st.query_params.get(pages.FINDING)
    opened = known.find(key) if key else None
    with st.container(key="findings_reveal"):  # scrolls the list to the entry that is open, or was open before
        changes = st.session_state.get(causes.CHANGES, 0)
        _reveal(key="findings_reveal_open", data={"finding": opened.key if opened else None, "changes": changes})
    if opened is None:
        if key:
            st.html(draw.html_of([missing_finding(_choices())]))
        _draw_list(fleet, known, chosen)
        return
    with st.container(key="findings_split"):
        left, right = st.columns(WIDTHS, gap="medium")
    with left:
        _draw_list(fleet, known, chosen, opened)
    with right, st.container(key="finding_panel"):
        section = finding_section(fleet, known, opened, _choices())
        draw.draw_blocks(section.blocks, "finding")
        parts = draw.prepare_sections(section.parts, 3)
        draw.open_link(draw.draw_prepared(parts, f"finding_parts_{opened.key}"))
        with st.container(key="acceptance"):
            entry, file = opened.finding.suppression, causes.acceptance_file()
            if entry is None:
                causes.draw_form(fleet, [opened.finding], opened.key, "Accept this finding")
            elif file and entry.file == file.name:  # an entry of fleet.yaml is not undone here
                causes.draw_undo([entry], opened.key)


def draw_rules(fleet: Fleet, known: FindingList, chosen: FindingFilter) -> None:
    """Draw one of the lists of rules. Of the filters, pool and rule apply."""
    part = scoped_fleet(fleet, chosen.pool)
    numbers = counted_rules(fleet, part, chosen)
    with st.container(key="all_rules"):
        st.html(f'{markup.section("All rules")}<div class="foot">{IN_SEVERAL}</div>')
        words = {name: f"{name} {number:,}" for name, number in numbers.items()}
        shown = links.draw_segments("Rules by outcome", pages.RULES, RULE_LISTS, words.__getitem__)
        draw.draw_blocks(rules_blocks(fleet, part, known, chosen, shown), "rules")


def _choices() -> tuple[tuple[str, str], ...]:
    """Return what a link on this page keeps of the URL: the filters, and which rules are listed."""
    return tuple(
        (name, st.query_params[name])
        for name in (pages.POOL, pages.SEARCH, pages.SORT, pages.RULES)
        if name in st.query_params
    )


def _draw_list(fleet: Fleet, known: FindingList, chosen: FindingFilter, opened: ListedFinding | None = None) -> None:
    """Draw the findings that match the filters, or why there are none."""
    found = sort_findings(filter(chosen.matches, known.active), links.read_choice(pages.SORT, sorts_of(fleet)))
    shown, number = scoped_fleet(fleet, chosen.pool), sum(map(FindingFilter(pool=chosen.pool).matches, known.active))
    if not number and is_clean(shown):
        empty.all_equal("No findings.", no_findings_text(shown))
    elif not number:
        why = "The lists of skipped and n/a rules below have the reasons."
        empty.unknown("No rule on settings was evaluated.", why)
    elif not found:
        hidden = f"They hide all {number:,} findings." if number > 1 else "They hide the only finding."
        if (since := chosen.new_since) and not any(map(FindingFilter(new_since=since).matches, known.active)):
            hidden += f" None is new since {iso(since)}."
        number = sum(map(chosen.matches, known.suppressed))
        if number:
            hidden += f" {count(number, 'suppressed finding')}, listed below under Suppressed."
        empty.filter_hides_all(hidden, links.to(pages.FINDINGS))
    else:
        section = list_section(known, found, _choices(), opened.key if opened else None)
        with st.container(key="findings_narrow" if opened else "findings_list"):
            draw.draw_blocks(section.blocks, "findings")


def draw_page() -> None:
    fleet = state.fleet()
    if not fleet.pools and not fleet.inspection.findings:
        empty.nothing_answered()
        return

    known = known_findings(fleet)
    pool = links.scope()
    shown = scoped_fleet(fleet, pool)
    draw_head(shown, pool)
    chosen = choose(fleet, known)
    draw_findings(fleet, known, chosen)
    draw_rules(fleet, known, chosen)
    share.offer(lambda: findings_report(shown, chosen))
