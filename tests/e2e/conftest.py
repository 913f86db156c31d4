"""Fixtures: the dashboard on a frozen fleet, and Chromium."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from tempfile import TemporaryDirectory

import httpx2
import pytest
from playwright.sync_api import Browser, Page

from tests.browser import chromium, tab
from tests.e2e.frozen_fleets import STORY
from tests.serving import ROOT, START_SECONDS, free_port, started, wait_until_healthy


@pytest.fixture(scope="session")
def frozen_url() -> Iterator[str]:
    """Serve the frozen simulated fleet. A test that switches to another fleet switches back."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "tests/e2e/frozen_app.py", "--server.headless=true"]
    with (
        TemporaryDirectory() as folder,  # a server that is killed does not remove its own folder
        started([*command, f"--server.port={port}"], environment={"PYTHONPATH": str(ROOT), "FROZEN_APPS": folder}),
    ):
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url)
        yield url


@pytest.fixture(scope="session")
def ids(frozen_url: str) -> Mapping[str, str]:
    """The ids of the snapshots by their placeholders."""
    shown = httpx2.get(f"{frozen_url}/frozen/{STORY}", timeout=START_SECONDS, trust_env=False)
    return dict(shown.raise_for_status().json())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium per module: while it runs, no other test can start an event loop."""
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page of 1600 pixels, light."""
    with tab(browser) as found:
        yield found
