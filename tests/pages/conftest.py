"""Every test draws its page from the beginning: fleets made by hand share their generation and their time."""

from __future__ import annotations

import pytest
import streamlit as st


@pytest.fixture(autouse=True)
def drawn_from_the_beginning() -> None:
    """Forget what sessions share."""
    st.cache_resource.clear()
