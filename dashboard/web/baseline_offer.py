"""The button that gives what is looked at as a baseline: a file that says what the pool should look like."""

import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.compare import Reference
from dashboard.config.baseline_file import baseline_yaml, taken_from
from dashboard.fleet import Pool
from dashboard.fleet.formatting import middle_cut
from dashboard.views.context import context_line, context_of
from dashboard.web import links

LARGEST = "A"  # cohort; what a baseline is made of unless the reference is another cohort or a replica
LONGEST_NAME = 60  # characters


def draw(fleet: Fleet, pool: Pool, reference: Reference) -> None:
    """Draw the button; nothing where no replica of the pool was ever read. The file is made when it is asked for."""
    taken = taken_from(fleet, pool, reference.key or LARGEST)
    if taken is None:
        return
    st.download_button(
        "Baseline",
        data=lambda: baseline_yaml(
            pool.name, taken.settings, made_of=taken.made_of, context_line=context_line(context_of(fleet))
        ),
        file_name=f"{links.make_file_name(pool.name)}.yaml",
        mime="application/yaml",
        key="baseline_offer",
        on_click="ignore",
        help=f"The settings of {middle_cut(taken.made_of, LONGEST_NAME)} as a file that says what this pool should "
        "look like. Edit it, name it under baselines in fleet.yaml, and every replica is held against it.",
    )
