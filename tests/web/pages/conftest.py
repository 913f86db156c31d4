"""Every test draws its page from the beginning: fleets made by hand share their generation and their time."""

from pathlib import Path

import pytest
import streamlit as st

from dashboard.analysis.assembly import Fleet
from tests import builders
from tests.snapshot_pages import shown_beside


@pytest.fixture(autouse=True)
def drawn_from_the_beginning() -> None:
    """Forget what sessions share."""
    st.cache_resource.clear()


@pytest.fixture
def live(tmp_path: Path) -> Fleet:
    fleet = builders.story()
    shown_beside(fleet, tmp_path / "kept")
    return fleet
