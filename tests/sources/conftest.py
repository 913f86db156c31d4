"""Shared by tests of sources: a real server on loopback, and a kubeconfig."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources.polling.hostile import HostileServer


@pytest.fixture(scope="module")
def module_server() -> Iterator[HostileServer]:
    with HostileServer() as server:
        yield server


@pytest.fixture
def server(module_server: HostileServer) -> HostileServer:
    """Return the server of the module, without routes and requests of other tests."""
    module_server.routes.clear()
    module_server.asked.clear()
    module_server.connections = 0
    return module_server


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"
