"""The dialog of one cause of the fix plan, and the form that accepts findings until a date, with its undo."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import streamlit as st

from dashboard import service
from dashboard.access import audit
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Cause
from dashboard.analysis.plan import plan_of, suppressed_of
from dashboard.config import DEFAULT_FILE
from dashboard.config.rules import suppression_yaml
from dashboard.errors import DashboardError
from dashboard.fleet.formatting import SOME, count, one_line, shortlist
from dashboard.fleet.pieces import plain
from dashboard.render.markdown import to_markdown
from dashboard.rules.findings import Finding, Suppression
from dashboard.store.writing import save_acceptance, undo_acceptance
from dashboard.views import pages
from dashboard.views.blocks import Entries, Entry, Tone
from dashboard.views.excluded import covered_text, default_until, scopes
from dashboard.views.names import brief
from dashboard.views.plan import cause_view
from dashboard.views.rules import SUPPRESSED
from dashboard.web import draw, links, markup, sessions, state

TICKET = "Text for a ticket (Markdown)"
LONGEST_FIELD = 200  # characters of an owner or a reason
PRESETS = (7, 30, 90)  # days of an acceptance
NO_OWNER, NO_REASON = "OWNER", "REASON"  # to replace in the entry
ACCEPTED = "Pages, metrics and <code>check</code> honor it until its date."
CHANGES = "acceptance_changes"  # how many the visitor made: each scrolls to its result
LAST = "acceptance_last"  # what the visitor accepted last: its key, and the entries


def draw_cause(fleet: Fleet) -> None:
    """Open the cause that the URL names; it stays there, so that the link can be shared."""
    key = st.query_params.get(pages.CAUSE)
    found = next((each for each in plan_of(fleet).causes if each.key == key), None) if key else None
    if key:
        st.dialog("Fix plan", width="large", on_dismiss=_close)(_draw)(fleet, found, key)


def _draw(fleet: Fleet, cause: Cause | None, key: str) -> None:
    accepted, entries = st.session_state.get(LAST, ("", ()))
    if cause is None and accepted == key:
        draw_undo(entries, key)
        return
    if cause is None:
        st.html(markup.notice("info", _gone_html(fleet, key)))
        return
    view = cause_view(fleet, cause)
    st.html(f"<h2>{markup.text(view.title)}</h2>")
    draw.draw_sections(view.parts, "cause")
    ticket = Entry(Tone.PLAIN, plain(TICKET), fold=TICKET, snippets=(to_markdown(view),))
    draw.draw_blocks((Entries((ticket,)),), "ticket")
    number = count(len(cause.findings), "finding")
    draw_form(fleet, cause.findings, key, f"Intended? Accept {number} until a date")


def _gone_html(fleet: Fleet, key: str) -> str:
    """Return why the plan has no cause with this key: who suppressed its findings, with a link to these."""
    entries = [each.suppression for each in suppressed_of(fleet, key)]
    by = dict.fromkeys(f"until {each.until} by {brief(each.owner)}" for each in entries if each)
    if not by:
        return markup.text("The plan no longer has this cause.")
    link = markup.link(links.to(pages.FINDINGS, **{pages.RULES: SUPPRESSED}), "Suppressed findings")
    return f"{markup.text(f'Its findings are suppressed {shortlist(by, SOME)}.')} {link}"


def _close() -> None:
    st.query_params.pop(pages.CAUSE, None)


def acceptance_file() -> Path | None:
    """Return the file of accepted findings that this page may change; None without one."""
    options = service.options()
    return options.suppressions_file if options and not options.read_only and not state.is_frozen() else None


def draw_undo(entries: Sequence[Suppression], key: str) -> None:
    """Draw the button that undoes an acceptance, in place of the form that made it; nothing where it is not allowed."""
    file, entry = acceptance_file(), entries[0]
    if file is None:
        return
    with st.container(key="accepted", horizontal=True, vertical_alignment="center", gap="small"):
        until = f"Accepted until {entry.until} by {entry.owner}."
        st.html(markup.notice("good", f"{markup.glyph('good')} {markup.text(until)}"), width="content")
        is_undone = st.button("Undo", key=f"accept_undo_{key}", **sessions.control(_undo_of(entries)))
    if is_undone:
        _apply(lambda: _undo(file, entries), "Acceptance undone")


def draw_form(fleet: Fleet, findings: Sequence[Finding], key: str, title: str) -> None:
    """Draw the form: what it covers until when, owner and reason, and the entries of fleet.yaml."""
    file = acceptance_file()
    with st.expander(title):
        choices = scopes(fleet, findings)
        scope = st.radio("Scope", list(choices), key=f"accept_scope_{key}", format_func=one_line)
        today = service.now().date()
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            name = f"accept_until_{key}"
            st.session_state.setdefault(name, default_until(today))
            until = st.date_input("Until", key=name, width=150)
            for days in PRESETS:
                st.button(f"{days} days", key=f"{name}_{days}", on_click=_set_until, args=(name, days))
        if not isinstance(until, date):
            return
        entries = [replace(each, until=until) for each in choices[str(scope)]]
        st.html(f"<p>{markup.text(covered_text(fleet, findings, entries, today))}</p>")
        with st.form(f"accept_form_{key}", border=False) if file else st.container():
            owner = st.text_input("Owner", key=f"accept_owner_{key}", max_chars=LONGEST_FIELD).strip()
            reason = st.text_input("Reason", key=f"accept_reason_{key}", max_chars=LONGEST_FIELD).strip()
            missing = st.empty()
            is_saved = bool(file) and st.form_submit_button(
                "Save", key=f"accept_save_{key}", **sessions.control("accept")
            )
            if is_saved and not (owner and reason):
                missing.html(markup.notice("warning", f"{markup.glyph('warning', 'warning:')} Enter owner and reason."))
        by, why, author = owner or NO_OWNER, reason or NO_REASON, sessions.visitor().author
        entries = [replace(each, owner=by, reason=why, author=author) for each in entries]
        st.html(markup.pasted(suppression_yaml(entries)))
        options = service.options()
        target = file.name if file else str(options.file if options else DEFAULT_FILE)
        adds = f"{sessions.missing_role('accept', 'Save')} Save adds this to".lstrip() if file else "Add this to"
        st.html(f'<div class="foot">{adds} {markup.text(target)}. {ACCEPTED}</div>')
        if file and is_saved and owner and reason:
            st.session_state[LAST] = (key, entries)
            _apply(lambda: _accept(file, entries), f"Accepted until {until}")


def _accept(file: Path, entries: Sequence[Suppression]) -> None:
    with audit.performed("accept", sessions.visitor(), **_described(entries)):
        save_acceptance(file, entries, service.utc_now())


def _undo(file: Path, entries: Sequence[Suppression]) -> None:
    with audit.performed(_undo_of(entries), sessions.visitor(), **_described(entries)):
        undo_acceptance(file, entries)


def _undo_of(entries: Sequence[Suppression]) -> str:
    """Return the action that undoes entries: that of another where the visitor saved not all of them."""
    return "undo" if {each.author for each in entries} == {sessions.visitor().author} else "undo_of_another"


def _described(entries: Sequence[Suppression]) -> dict[str, str]:
    """Return what the audit log has of entries: they differ in rule, pool and replicas only."""
    first = entries[0]
    return {
        "rule": ", ".join(dict.fromkeys(each.rule for each in entries)),
        "pool": ", ".join(dict.fromkeys(each.pool or "" for each in entries)),
        "replicas": ", ".join(dict.fromkeys(name for each in entries for name in each.replicas)),
        "labels": str(dict(first.labels)) if first.labels else "",
        "owner": first.owner,
        "until": str(first.until),
    }


def _apply(change: Callable[[], None], done: str) -> None:
    """Change the file of accepted findings, and draw the page again; or the error."""
    try:
        change()
        service.reload()
    except DashboardError as error:
        st.html(markup.notice("warning", f"{markup.glyph('warning', 'warning:')} {markup.text(str(error))}"))
        return
    st.session_state[CHANGES] = st.session_state.get(CHANGES, 0) + 1
    st.toast(done)
    st.rerun()


def _set_until(name: str, days: int) -> None:
    st.session_state[name] = default_until(service.now().date(), days)
