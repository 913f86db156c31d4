"""Rules on what people agreed a pool should look like."""

from dashboard.rules.baseline.bl_01_deviates import deviates_from_baseline
from dashboard.rules.registry import Rule

__all__ = ["BASELINE", "deviates_from_baseline"]

BASELINE: tuple[Rule, ...] = (deviates_from_baseline,)
