"""What changed between two fleets: replicas, settings, findings, capacity."""

from dashboard.analysis.changes.between import changes_between
from dashboard.analysis.changes.capacity_nouns import Amount, CapacityChanges, PoolCapacity, RankChange
from dashboard.analysis.changes.finding_nouns import Elsewhere, FindingChanges, KeptFinding, LoneFinding
from dashboard.analysis.changes.nouns import (
    Changes,
    Reach,
    ReplicaChanges,
    Seen,
    SettingChanges,
    SettingGroup,
    Share,
    Side,
    Silence,
    Stayed,
    ValueChange,
)

__all__ = [
    "Amount",
    "CapacityChanges",
    "Changes",
    "Elsewhere",
    "FindingChanges",
    "KeptFinding",
    "LoneFinding",
    "PoolCapacity",
    "RankChange",
    "Reach",
    "ReplicaChanges",
    "Seen",
    "SettingChanges",
    "SettingGroup",
    "Share",
    "Side",
    "Silence",
    "Stayed",
    "ValueChange",
    "changes_between",
]
