"""Shared by tests of sources."""

from pathlib import Path

import pytest


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"
