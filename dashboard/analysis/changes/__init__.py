"""Compares two fleets: replicas, settings, findings, capacity."""

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.comparison import capacity_changes, finding_changes, replica_changes
from dashboard.analysis.changes.models import Changes
from dashboard.analysis.changes.settings import setting_changes


def changes_between(before: Fleet, after: Fleet) -> Changes:
    """Return what changed from one fleet to another; `Changes.after_is_older` if they are in the wrong order."""
    return Changes(
        before=before,
        after=after,
        replicas=replica_changes(before, after),
        settings=setting_changes(before, after),
        findings=finding_changes(before, after),
        capacity=capacity_changes(before, after),
        names={replica.id: replica.name for fleet in (before, after) for replica in fleet.replicas},
    )
