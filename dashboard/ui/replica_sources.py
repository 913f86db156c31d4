"""Which of a replica's answers is the best that was had, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.normalize.documents import TRUST
from dashboard.ui.value_dialog import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dashboard.models import Source


def best_answer(sources: Iterable[Source]) -> str | None:
    """Name the source that is trusted most of those that answered; None where nothing did."""
    best = min(sources, key=TRUST.__getitem__, default=None)
    return SOURCES[best] if best is not None else None
