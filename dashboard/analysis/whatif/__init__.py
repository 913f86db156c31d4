"""What would change if a pool converged to one of its cohorts or to its baseline. Nothing is ever applied."""

from dashboard.analysis.whatif.converge import converge
from dashboard.analysis.whatif.models import (
    CapacityForecast,
    FindingForecast,
    Group,
    Paste,
    PlannedChange,
    RankForecast,
    WhatIf,
)
from dashboard.rules.apply_method import ApplyMethod

__all__ = [
    "ApplyMethod",
    "CapacityForecast",
    "FindingForecast",
    "Group",
    "Paste",
    "PlannedChange",
    "RankForecast",
    "WhatIf",
    "converge",
]
