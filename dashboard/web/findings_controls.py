"""The filters of the page Findings. Every choice stands in the URL under the name of its key."""

from collections import Counter
from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import one_line
from dashboard.report.findings.listed import Choice, Known
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Family, Severity
from dashboard.views import pages
from dashboard.views.glossary import TERMS
from dashboard.web import links

EVERY_SEVERITY, EVERY_FAMILY, EVERY_POOL, EVERY_RULE = "all", "all families", "all pools", "all rules"
FILTERS = (pages.SEVERITY, pages.FAMILY, pages.POOL, pages.RULE, pages.SEARCH)


def choose(fleet: Fleet, found: Known) -> Choice:
    """Draw the filters in one row and return what they say."""
    with st.container(key="filters", horizontal=True, vertical_alignment="bottom", gap="small"):
        severity = _severity(Counter(each.finding.severity for each in found.active))
        family = _one_of("Family", pages.FAMILY, [EVERY_FAMILY, *Family], 160)
        pools = [EVERY_POOL, *(pool.name for pool in fleet.pools)]
        pool = _one_of("Pool", pages.POOL, pools, 230)
        rule = _one_of("Rule", pages.RULE, [EVERY_RULE, *found.rules], 260)
        search = st.text_input(
            "Search", **links.bind(pages.SEARCH), placeholder="replica, setting or words", width=230, live=True
        )
    return Choice(
        severity=Severity(severity) if severity != EVERY_SEVERITY else None,
        family=Family(family) if family else None,
        pool=pool,
        rule=rule,
        search=search or "",
    )


def kept_choices() -> dict[str, str]:
    """Return what a link on this page keeps of the address: the filters, and which rules are listed."""
    return {name: st.query_params[name] for name in (*FILTERS, pages.RULES) if name in st.query_params}


def rule_title(rule: str) -> str:
    """Write a rule as id and name; a rule that is no longer known as its id."""
    return f"{rule} {BY_ID[rule].name}" if rule in BY_ID else rule


def _severity(counts: Mapping[Severity, int]) -> str:
    options: list[str] = [EVERY_SEVERITY, *Severity]
    shown = {EVERY_SEVERITY: EVERY_SEVERITY} | {str(each): f"{each} {counts.get(each, 0):,}" for each in Severity}
    bound = links.bind(pages.SEVERITY, options)
    chosen = st.segmented_control(
        "Severity",
        options,
        **bound,
        required=True,
        format_func=lambda each: shown[each],
        help=TERMS["severity"],
    )
    return str(chosen)


def _one_of(label: str, name: str, options: Sequence[str], width: int) -> str | None:
    """Let the reader choose one; None is the first option, which stands for everything."""
    shown = st.selectbox(
        label,
        options,
        **links.bind(name, options),
        width=width,
        format_func=rule_title if name == pages.RULE else one_line,
    )
    return None if shown in {None, options[0]} else str(shown)
