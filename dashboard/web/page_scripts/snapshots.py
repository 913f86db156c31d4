"""Snapshots: open, compare, rename, export, delete and import frozen fleets."""

from dashboard.web import snapshot_actions, snapshots

found = snapshots.read()
if found is not None and (found.snapshots or found.damaged):
    snapshots.draw_head(found)
    snapshots.draw_list(found)
    snapshots.draw_compare(found.snapshots)
elif found is not None:
    snapshots.draw_empty()
snapshot_actions.draw_import()
snapshot_actions.draw_dialog()
