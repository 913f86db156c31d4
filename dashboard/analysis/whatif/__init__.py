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
from dashboard.rules.settable import How

__all__ = [
    "CapacityForecast",
    "FindingForecast",
    "Group",
    "How",
    "Paste",
    "PlannedChange",
    "RankForecast",
    "WhatIf",
    "converge",
]
