"""Fixtures of the live tests: the environment of vLLM, the provider, and other plugins."""

import os
from pathlib import Path

import pytest

from tests.live.installed import install

PLUGINS = Path(__file__).parent / "plugins"
METADATA = "Metadata-Version: 2.1\nName: live-test-plugins\nVersion: 1\n"
ENTRY_POINTS = """
[vllm.general_plugins]
fleet_witness = fleet_witness:register

[vllm.endpoint_plugins]
fleet_witness = fleet_witness:WitnessEndpoint
captured_introspection = captured_introspection:CapturedIntrospection
"""


@pytest.fixture(scope="session")
def venv() -> Path:
    """The virtual environment that holds vLLM."""
    return Path(os.environ["VLLM_VENV"])


@pytest.fixture(scope="session")
def site(venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed provider, for PYTHONPATH."""
    return install(venv, tmp_path_factory.mktemp("provider"))


@pytest.fixture(scope="session")
def others(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Two plugins of the tests, as other people's would be installed, for PYTHONPATH."""
    info = tmp_path_factory.mktemp("others") / "live_test_plugins-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return info.parent, PLUGINS
