"""Rows of simple_rules.yaml are checked when they are read."""

import pytest
from pydantic import ValidationError

from dashboard.rules.simple import _Group


def test_a_row_names_a_known_value_equivalence() -> None:
    with pytest.raises(ValidationError, match="no such function in value_equivalence"):
        _Group(compare=("cache_config.block_size",), meaning="nope")
