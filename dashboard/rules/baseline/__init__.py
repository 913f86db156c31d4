"""Rules on what people agreed a pool should look like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.rules.baseline.bl_01_deviates import deviates_from_baseline

if TYPE_CHECKING:
    from dashboard.rules.registry import Rule

__all__ = ["BASELINE", "deviates_from_baseline"]

BASELINE: tuple[Rule, ...] = (deviates_from_baseline,)
