"""Compares two fleets: replicas, settings, findings, capacity."""

from dataclasses import replace

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.findings import finding_changes
from dashboard.analysis.changes.models import (
    CapacityChanges,
    CapacitySum,
    Changes,
    CohortCount,
    FindingChanges,
    OneSidedFinding,
    OneSidedSettings,
    OtherSideStatus,
    PersistingFinding,
    PoolCapacity,
    RankChange,
    ReplicaChanges,
    ReplicaPair,
    ReplicaSide,
    SettingChanges,
    SettingGroup,
    Side,
)
from dashboard.analysis.changes.replicas import capacity_changes, replica_changes
from dashboard.analysis.changes.settings import setting_changes
from dashboard.fleet import SettingChange

__all__ = [
    "CapacityChanges",
    "CapacitySum",
    "Changes",
    "CohortCount",
    "FindingChanges",
    "OneSidedFinding",
    "OneSidedSettings",
    "OtherSideStatus",
    "PersistingFinding",
    "PoolCapacity",
    "RankChange",
    "ReplicaChanges",
    "ReplicaPair",
    "ReplicaSide",
    "SettingChange",
    "SettingChanges",
    "SettingGroup",
    "Side",
    "changes_between",
]


def changes_between(before: Fleet, after: Fleet) -> Changes:
    """Return what changed from one fleet to another; `Changes.after_is_older` if they are in the wrong order."""
    return Changes(
        before=_side(before),
        after=_side(after),
        replicas=replica_changes(before, after),
        settings=setting_changes(before, after),
        findings=finding_changes(before, after),
        capacity=capacity_changes(before, after),
        names={replica.id: replica.name for fleet in (before, after) for replica in fleet.replicas},
        options_differ=_options(before) != _options(after),
    )


def _side(fleet: Fleet) -> Side:
    return Side(fleet.name, fleet.polled_at, fleet.snapshot, fleet.coverage)


def _options(fleet: Fleet) -> tuple[object, ...]:
    """Return the options that decide findings, without the name of their file."""
    return replace(fleet.policy, file=""), fleet.ignored
