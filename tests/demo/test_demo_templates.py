"""The committed templates equal those made from the captures."""

import pytest

from tests.demo.make_templates import TEMPLATES, VERSIONS, metrics, server_info


@pytest.mark.parametrize("version", VERSIONS)
def test_templates_are_made_from_the_captures(version: str) -> None:
    """When this fails, run `python tests/demo/make_templates.py`."""
    assert (TEMPLATES / version / "server_info.json").read_text() == server_info(version)
    assert (TEMPLATES / version / "metrics.txt").read_text() == metrics(version)
