"""The mistakes in a fleet.yaml."""

from pathlib import Path

import pytest

from dashboard.config import load_options
from dashboard.errors import OptionsError


def mistakes_of(text: str | bytes) -> tuple[str, ...]:
    """Write ./fleet.yaml and return its mistakes."""
    Path("fleet.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(OptionsError) as caught:
        load_options()
    return caught.value.mistakes
