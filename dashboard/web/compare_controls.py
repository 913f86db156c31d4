"""The controls of Compare. Every choice stands in the URL under the name of its key."""

from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard.compare import BASELINE, MAJORITY, parse_reference
from dashboard.fleet import Baseline, Pool
from dashboard.fleet.formatting import natural, one_line
from dashboard.report.pools.compared import Choice
from dashboard.views import pages
from dashboard.views.glossary import TERMS
from dashboard.web import links

MOST_REPLICA_COLUMNS = 12  # a larger pool is compared by cohorts only
# What a control shows is also what stands in the URL.
DIFFERENCES, ALL = "Only differences", "All settings"
COHORTS, REPLICAS = "Cohorts", "Replicas"
EVERY_SECTION = "all"
OTHER_POOL = "other_pool"  # the choice in place of a pool that does not exist


def choose_pool(pools: Sequence[str]) -> str | None:
    """Let the reader choose a pool; the first is the one that needs a look most. None: the URL names another."""
    if st.query_params.get(pages.POOL, pools[0]) not in pools:
        st.selectbox(
            "Pool",
            pools,
            index=None,
            key=OTHER_POOL,
            format_func=one_line,
            on_change=_leave_for,
            placeholder="Choose a pool",
            label_visibility="collapsed",
            width=280,
        )
        return None
    bound = links.bind(pages.POOL, pools)
    chosen = st.selectbox("Pool", pools, **bound, format_func=one_line, label_visibility="collapsed", width=280)
    return str(chosen)


def choose(pool: Pool, names: Mapping[str, str], baseline: Baseline | None) -> Choice:
    """Draw the controls into the row that is open and return what they say.

    `names` gives replicas their names, `baseline` is the pool's if it has one.
    """
    shown = links.draw_segments("Show", pages.SHOW, (DIFFERENCES, ALL))
    search = st.text_input(
        "Search",
        **links.bind(pages.SEARCH),
        placeholder="path or value",
        live=True,
        width=150,
    )
    sections = sorted({path.partition(".")[0] for cohort in pool.cohorts for path in cohort.settings})
    sections = [EVERY_SECTION, *sections]
    section = st.selectbox("Section", sections, **links.bind(pages.SECTION, sections), format_func=one_line, width=165)
    reference = _choose_reference(pool, names, baseline)
    columns = COHORTS
    if len(pool.replicas) <= MOST_REPLICA_COLUMNS:
        columns = links.draw_segments("Columns", pages.COLUMNS, (COHORTS, REPLICAS))
    return Choice(
        only_differences=shown != ALL,
        section=None if section in {None, EVERY_SECTION} else section,
        search=search or "",
        reference=parse_reference(reference, pool, baseline),
        by_replica=columns == REPLICAS,
    )


def _choose_reference(pool: Pool, names: Mapping[str, str], baseline: Baseline | None) -> str:
    letters = [cohort.letter for cohort in pool.cohorts]
    replicas = [replica for cohort in pool.cohorts for replica in cohort.replicas]
    agreed = {BASELINE.text: f"baseline {baseline.name}"} if baseline else {}
    options = [MAJORITY.text, *agreed, *letters, *sorted(replicas, key=lambda replica: natural(names[replica]))]
    has_majority = any(difference.majority for difference in pool.differences) or not pool.differences
    shown = {
        **names,
        **agreed,
        **{letter: f"cohort {letter}" for letter in letters},
        MAJORITY.text: "majority" if has_majority else "majority: there is none",
    }
    bound = links.bind(pages.REFERENCE, options)
    told = TERMS["reference"]
    return str(
        st.selectbox("Reference", options, **bound, format_func=lambda key: one_line(shown[key]), width=175, help=told)
    )


def _leave_for() -> None:
    st.query_params[pages.POOL] = st.session_state[OTHER_POOL]
