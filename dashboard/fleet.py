"""A fleet: all snapshots of one poll, with everything derived from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from dashboard.frames import Frames
    from dashboard.models import Document, Pool, Replica


@dataclass(frozen=True, slots=True)
class Fleet:
    """One complete poll, immutable. `polled_at` is None before the first poll ended."""

    name: str
    generation: int
    polled_at: datetime | None
    replicas: tuple[Replica, ...]
    documents: Mapping[str, Document]
    pools: tuple[Pool, ...]
    frames: Frames
    ignored: tuple[str, ...] = ()
