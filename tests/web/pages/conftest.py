"""Every test draws its page from the beginning: fleets made by hand share their generation and their time."""

from pathlib import Path

import pytest
import streamlit as st

from dashboard.analysis.assembly import Fleet
from tests import builders
from tests.page_runner import show_with_snapshots


@pytest.fixture(autouse=True)
def drawn_from_the_beginning() -> None:
    """Forget what sessions share."""
    st.cache_resource.clear()


@pytest.fixture
def live(tmp_path: Path) -> Fleet:
    fleet = builders.story()
    show_with_snapshots(fleet, tmp_path / "kept")
    return fleet
