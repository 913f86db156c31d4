"""Remedies as lines with code in backticks."""

import re

from dashboard.fleet.pieces import Piece, Style
from dashboard.views.blocks import Line

_CODE = re.compile(r"`([^`]+)`")


def with_code(text: str) -> Line:
    """Return a sentence of the program whose parts in backticks are code."""
    parts = _CODE.split(text)
    return tuple(Piece(part, Style.CODE if place % 2 else Style.PLAIN) for place, part in enumerate(parts) if part)
