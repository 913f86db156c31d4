"""Frozen snapshots on disk."""

from dashboard.store.snapshots import SnapshotList, Snapshots, StoredSnapshot

__all__ = ["SnapshotList", "Snapshots", "StoredSnapshot"]
