"""Cases of a test that only `make test-long` runs."""

from collections.abc import Iterable
from typing import Any

import pytest


def long(cases: Iterable[Any]) -> list[Any]:
    """Return the parameters of a test, marked long."""
    return [pytest.param(each, marks=pytest.mark.long) for each in cases]
