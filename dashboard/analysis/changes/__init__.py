"""What changed between two fleets: replicas, settings, findings, capacity."""

from dashboard.analysis.changes.between import changes_between
from dashboard.analysis.changes.capacity_nouns import Amount, CapacityChanges, PoolCapacity, RankChange
from dashboard.analysis.changes.finding_nouns import FindingChanges, OneSidedFinding, OtherSideStatus, PersistingFinding
from dashboard.analysis.changes.nouns import (
    Changes,
    OneSidedSettings,
    ReplicaChanges,
    Seen,
    SettingChanges,
    SettingGroup,
    Share,
    Side,
    Stayed,
    ValueChange,
)

__all__ = [
    "Amount",
    "CapacityChanges",
    "Changes",
    "FindingChanges",
    "OneSidedFinding",
    "OneSidedSettings",
    "OtherSideStatus",
    "PersistingFinding",
    "PoolCapacity",
    "RankChange",
    "ReplicaChanges",
    "Seen",
    "SettingChanges",
    "SettingGroup",
    "Share",
    "Side",
    "Stayed",
    "ValueChange",
    "changes_between",
]
