"""Frozen snapshots on disk."""

from dashboard.store.snapshots import Listed, Snapshots, Stored

__all__ = ["Listed", "Snapshots", "Stored"]
