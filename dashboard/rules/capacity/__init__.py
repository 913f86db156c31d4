"""Rules on capacity and performance: CP-01 to CP-09."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dashboard.rules.registry import Rule

CAPACITY: tuple[Rule, ...] = ()
