"""Fixtures of pages; what they share is cleared first: fleets built by hand have equal generations and times."""

from pathlib import Path

import pytest
import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.store.snapshots import Snapshots
from tests import builders
from tests.page_runner import show_with_snapshots


@pytest.fixture(autouse=True)
def no_cached_pages() -> None:
    """Clear what sessions share."""
    st.cache_resource.clear()


@pytest.fixture
def live(tmp_path: Path) -> Fleet:
    fleet = builders.story()
    show_with_snapshots(fleet, tmp_path / "kept")
    return fleet


@pytest.fixture
def store(tmp_path: Path) -> Snapshots:
    """An empty folder of snapshots."""
    return Snapshots(tmp_path / "snapshots")
