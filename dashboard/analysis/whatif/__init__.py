"""What would change if a pool converged to one of its cohorts or to its baseline. Nothing is ever applied."""

from dashboard.analysis.whatif.converge import converge
from dashboard.analysis.whatif.nouns import Capacity, Change, Group, Paste, RankChange, Verdicts, WhatIf
from dashboard.rules.settable import How

__all__ = [
    "Capacity",
    "Change",
    "Group",
    "How",
    "Paste",
    "RankChange",
    "Verdicts",
    "WhatIf",
    "converge",
]
