"""All that changed from one fleet to another, in one value."""

from dataclasses import replace

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.capacity import capacity_changes
from dashboard.analysis.changes.findings import finding_changes
from dashboard.analysis.changes.nouns import Changes, Side
from dashboard.analysis.changes.replicas import replica_changes
from dashboard.analysis.changes.settings import setting_changes


def changes_between(before: Fleet, after: Fleet) -> Changes:
    """Return what changed. Which fleet is the earlier one the caller says; `Changes.after_is_older` where it is not."""
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
    """Return what decides findings beside the replicas; how the file is called does not."""
    return replace(fleet.policy, file=""), fleet.ignored
