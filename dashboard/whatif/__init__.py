"""What would change if a pool converged to one of its cohorts or to its baseline. Nothing is ever applied."""

from dashboard.rules.settable import How
from dashboard.whatif.converge import converge
from dashboard.whatif.nouns import Capacity, Change, Group, Paste, RankChange, Verdicts, WhatIf

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
