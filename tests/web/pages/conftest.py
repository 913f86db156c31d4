"""A fleet whose findings can be accepted on pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dashboard import service
from dashboard.config import load_options
from dashboard.demo import default_fleet, in_thread, targets
from tests.serving import wait_for


@pytest.fixture
def accepting(tmp_path: Path) -> Iterator[Path]:
    """A live fleet with a finding; yields the file for accepted ones."""
    file = tmp_path / "fleet.yaml"
    with in_thread(default_fleet(6)) as server:
        addresses = [entry["targets"][0] for entry in targets(server.fleet, server.port)]
        options = {"targets": addresses, "suppressions_file": "accepted.yaml", "poll": {"interval_seconds": 3600}}
        file.write_text(yaml.safe_dump(options))
        service.start(load_options(file))
        try:
            wait_for(lambda: bool(service.current().inspection.findings))
            yield tmp_path / "accepted.yaml"
        finally:
            service.stop()
