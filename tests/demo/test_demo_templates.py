"""The committed templates equal those made from the captures."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def _maker() -> Any:
    spec = importlib.util.spec_from_file_location("make_templates", HERE / "make_templates.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("version", ["0.12.0", "0.20.2", "0.32.0"])
def test_templates_are_made_from_the_captures(version: str) -> None:
    """When this fails, run `python tests/demo/make_templates.py`."""
    maker = _maker()
    assert (maker.TEMPLATES / version / "server_info.json").read_text() == maker.server_info(version)
    assert (maker.TEMPLATES / version / "metrics.txt").read_text() == maker.metrics(version)
