"""Findings: causes, replicas, impact and fixes, the worst first."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.config import DEFAULT_FILE
from dashboard.config.rules import suppression_yaml
from dashboard.errors import OptionsError
from dashboard.fleet.formatting import count, iso, one_line
from dashboard.rules.findings import Suppression
from dashboard.store.writing import save_acceptance, undo_acceptance
from dashboard.views import pages
from dashboard.views.excluded import covered_text, default_until, scopes
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
from dashboard.views.scope import only_scope, scoped_title
from dashboard.views.since import NEWEST_FIRST, has_history, history_text, range_start
from dashboard.views.summary import findings_lead, findings_title, is_clean, no_findings_text
from dashboard.web import draw, empty, filter_box, links, markup, sessions, share, state
from dashboard.web.state import shared

WIDTHS = (5, 7)  # shares of the list and of the finding that is open
LONGEST_FIELD = 200  # characters of an owner or a reason
PRESETS = (7, 30, 90)  # days of an acceptance
NO_OWNER, NO_REASON = "OWNER", "REASON"  # to replace in the entry
ACCEPTED = "Pages, metrics and <code>check</code> honor the entry until its date."
CHANGES = "acceptance_changes"  # how many the visitor made: each scrolls to its result
ACCEPT, UNDO = "accept", "undo_accept"  # in the audit log
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
        return FindingFilter()
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
        changes = st.session_state.get(CHANGES, 0)
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
            if opened.finding.suppression is None:
                _draw_acceptance(fleet, opened)
            else:
                _draw_undo(opened.finding.suppression, opened.key)


def _acceptance_file() -> Path | None:
    """Return the file of accepted findings that this page may change; None without one."""
    options = service.options()
    return options.suppressions_file if options and not options.read_only and not state.is_frozen() else None


def _draw_undo(entry: Suppression, key: str) -> None:
    """Draw the button that undoes an acceptance, in place of the form that made it.

    Entries of fleet.yaml have none, nor those of a page that may change nothing.
    """
    file = _acceptance_file()
    if file is None or entry.file != file.name:
        return
    with st.container(key="accepted", horizontal=True, vertical_alignment="center", gap="small"):
        until = f"Accepted until {entry.until} by {entry.owner}."
        st.html(markup.notice("good", f"{markup.glyph('good')} {markup.text(until)}"), width="content")
        is_undone = st.button("Undo", key=f"accept_undo_{key}")
    if is_undone:
        _apply(UNDO, entry, lambda _: undo_acceptance(file, entry))


def _apply(action: str, entry: Suppression, change: Callable[[str], None]) -> None:
    """Change the file of accepted findings in the name of the visitor, and draw the page again; or the error."""
    who = sessions.visitor()
    scope = {"pool": entry.pool, "replicas": ", ".join(entry.replicas), "labels": str(dict(entry.labels))}
    try:
        with sessions.recorded(action, who, rule=entry.rule, **scope, owner=entry.owner, until=str(entry.until)):
            change(who.get("user", who["remote"]))
        service.reload()
    except OptionsError as error:
        st.html(markup.notice("warning", f"{markup.glyph('warning', 'warning:')} {markup.text(str(error))}"))
        return
    st.session_state[CHANGES] = st.session_state.get(CHANGES, 0) + 1
    st.toast(f"Accepted until {entry.until}" if action == ACCEPT else "Acceptance undone")
    st.rerun()


def _draw_acceptance(fleet: Fleet, listed: ListedFinding) -> None:
    """Draw the form that accepts a finding until a date: its entry for fleet.yaml, and what else that would cover."""
    finding, file = listed.finding, _acceptance_file()
    with st.expander("Accept this finding"):
        entries = scopes(fleet, finding)
        scope = st.radio("Scope", list(entries), key=f"accept_scope_{listed.key}", format_func=one_line)
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            name = f"accept_until_{listed.key}"
            until = st.date_input("Until", default_until(service.now().date()), key=name, width=150)
            for days in PRESETS:
                st.button(f"{days} days", key=f"{name}_{days}", on_click=_set_until, args=(name, days))
        with st.form(f"accept_form_{listed.key}", border=False) if file else st.container():
            owner = st.text_input("Owner", key=f"accept_owner_{listed.key}", max_chars=LONGEST_FIELD).strip()
            reason = st.text_input("Reason", key=f"accept_reason_{listed.key}", max_chars=LONGEST_FIELD).strip()
            missing = st.empty()
            is_saved = bool(file) and st.form_submit_button("Save", key=f"accept_save_{listed.key}")
            if is_saved and not (owner and reason):
                missing.html(markup.notice("warning", f"{markup.glyph('warning', 'warning:')} Enter owner and reason."))
        if not isinstance(until, date):
            return
        entry = replace(entries[str(scope)], until=until, owner=owner or NO_OWNER, reason=reason or NO_REASON)
        st.html(f"<p>{markup.text(covered_text(fleet, finding, entry))}</p>")
        st.html(markup.pasted(suppression_yaml(entry)))
        options = service.options()
        name = file.name if file else str(options.file if options else DEFAULT_FILE)
        adds = "Save adds the entry to" if file else "Add the entry to"
        st.html(f'<div class="foot">{adds} {markup.text(name)}. {ACCEPTED}</div>')
        if file and is_saved and owner and reason:
            _apply(ACCEPT, entry, lambda author: save_acceptance(file, entry, author, service.utc_now()))


def _set_until(name: str, days: int) -> None:
    st.session_state[name] = default_until(service.now().date(), days)


def draw_rules(fleet: Fleet, known: FindingList, chosen: FindingFilter) -> None:
    """Draw one of the lists of rules. Of the filters, pool and rule apply."""
    numbers = counted_rules(fleet, chosen)
    with st.container(key="all_rules"):
        st.html(f'{markup.section("All rules")}<div class="foot">{IN_SEVERAL}</div>')
        shown = st.segmented_control(
            "Rules by outcome",
            RULE_LISTS,
            **links.bind(pages.RULES, RULE_LISTS),
            required=True,
            format_func=lambda name: f"{name} {numbers[name]:,}",
            label_visibility="collapsed",
        )
        draw.draw_blocks(rules_blocks(fleet, known, chosen, str(shown)), "rules")


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
        text = markup.text("The lists of skipped and n/a rules below have the reasons.")
        title = markup.bold("No rule on settings was evaluated.")
        st.html(markup.notice("unknown", f"{markup.glyph('unknown', 'unknown:')} {title} {text}"))
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
