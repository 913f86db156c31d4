"""One finding, opened: what is wrong, why it matters here, what it rests on, what to do."""

from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count, visible
from dashboard.report.findings.listed import Known, Listed
from dashboard.report.findings.words import how_sure
from dashboard.report.pools.domain_words import known_how, rollout_words
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Finding, Inspection, Remedy
from dashboard.views import pages
from dashboard.views.finding_entries import where_of
from dashboard.web import findings_words, links, markup
from dashboard.web.findings_controls import rule_title
from dashboard.web.findings_entries import tags
from dashboard.web.findings_evidence import People, compare_links, evidence_table, replicas_html
from dashboard.web.findings_rule import marked, rule_html

MOST_NAMED = 60  # replicas of one finding by name; the page Replicas lists all
MOST_SIBLINGS = 24  # other pools with the same finding, as links
SNIPPETS = {
    "flag": ("Flag", "bash"),
    "env": ("Environment variable", "bash"),
    "yaml": ("YAML", "yaml"),
    "shell": ("Command", "bash"),
}


def draw(found: Known, listed: Listed, fleet: Fleet, address: Mapping[str, str]) -> None:
    """Draw the finding that is open. `address` is what links on this page keep."""
    finding = listed.finding
    pools = {each.id: each.pool for each in fleet.replicas if each.pool}
    people = People(found.names, pools, found.letters, _compared(fleet, finding))
    st.html(head(finding, address))
    st.html(_concerned(finding, people) + _siblings(found.alike(listed), listed, address))
    if said := remarks(finding, fleet.inspection):
        st.html(said)
    st.html(_why(finding, fleet.inspection))
    st.html(f"<h3>Evidence</h3>{evidence_table(finding, people)}{_compare(finding, people)}")
    _draw_remedy(finding.remedy)
    if finding.rule in BY_ID:
        with st.expander(f"About rule {rule_title(finding.rule)}"):
            st.html(rule_html(BY_ID[finding.rule], finding.context))


def head(finding: Finding, address: Mapping[str, str]) -> str:
    """Head the panel: how bad, which rule, the sentence, and the way back to the list. HTML."""
    close = markup.link(links.to(pages.FINDINGS, **address), "Close", title="Back to the list", css="close")
    rule, known = markup.muted(rule_title(finding.rule)), tags(finding)
    sentence = findings_words.text_html(finding.text)
    return (
        f'<div class="finding-head {finding.severity}"><div class="row">'
        f"{findings_words.severity_mark(finding.severity)} {rule}{known}{close}</div><h2>{sentence}</h2></div>"
    )


def remarks(finding: Finding, inspection: Inspection) -> str:
    """Say what else holds of a finding: suppressed, no longer so, part of a rollout, less than sure. HTML or empty."""
    said: list[tuple[str, str]] = []
    if (by := finding.suppression) is not None:
        said.append(("info", f"Suppressed by {by.owner} until {by.until}: {by.reason}"))
    if (by := finding.expired) is not None:
        said.append(("warning", f"Was suppressed by {by.owner} until {by.until}, which is over: {by.reason}"))
    if finding.is_rollout:
        said += [
            ("info", rollout_words(inspection.rollouts[pool])) for pool in finding.pools if pool in inspection.rollouts
        ]
    said += [("info", words) for words in how_sure(finding)]
    if finding.unknown:
        silent = f"{finding.unknown:,} of {count(finding.total, 'replica')}"
        said.append(("unknown", f"Unknown on {silent}: the settings that it names are not told there."))
    items = "".join(f"<li>{markup.glyph(kind, '')} <span>{markup.text(words)}</span></li>" for kind, words in said)
    return f'<ul class="remarks">{items}</ul>' if said else ""


def _why(finding: Finding, inspection: Inspection) -> str:
    known = known_how(finding, inspection)
    below = f'<p class="basis">{markup.text(known)}</p>' if known else ""
    return f"<h3>Why it matters here</h3><p>{marked(finding.why)}</p>{below}"


def _concerned(finding: Finding, people: People) -> str:
    """Say where it is and whom it concerns, every replica with a link to its page."""
    pools = findings_words.pool_links(finding.pools)
    number = count(len(finding.replicas), "replica")
    where = f" of {pools}" if pools else ""
    return (
        f'<div class="concerned"><b>{number}</b>{where}'
        f'<div class="members">{replicas_html(finding.replicas, people, MOST_NAMED)}</div></div>'
    )


def _siblings(alike: Sequence[Listed], opened: Listed, address: Mapping[str, str]) -> str:
    """Link the pools of which the same is said."""
    others = [each for each in alike if each.key != opened.key]
    shown = [
        markup.link(
            links.to(pages.FINDINGS, **address, finding=each.key),
            markup.text(where_of(each.finding)),
        )
        for each in others[:MOST_SIBLINGS]
    ]
    more = [f"and {len(others) - MOST_SIBLINGS:,} more"] if len(others) > MOST_SIBLINGS else []
    return f'<p class="same">The same in {", ".join([*shown, *more])}</p>' if others else ""


def _draw_remedy(remedy: Remedy) -> None:
    st.html(f"<h3>What to do</h3><p>{marked(remedy.sentence)}</p>")
    for number, snippet in enumerate(remedy.snippets):
        if number and remedy.any_of:
            st.html('<div class="or">or</div>')
        label, language = SNIPPETS[snippet.kind]
        st.html(f'<div class="snippet">{label}</div>')
        st.code(visible(snippet.text), language=language, wrap_lines=True)


def _compare(finding: Finding, people: People) -> str:
    shown = compare_links(finding, people)
    return f'<div class="foot">Open in Compare: {shown}</div>' if shown else ""


def _compared(fleet: Fleet, finding: Finding) -> dict[str, set[str]]:
    """Return per pool of the finding those of its paths that Compare knows."""
    return {
        pool.name: {path for path in finding.paths if any(path in cohort.settings for cohort in pool.cohorts)}
        for pool in fleet.pools
        if pool.name in finding.pools
    }
