"""Snapshots: fleets that were frozen, to be opened, compared, renamed and taken away."""

from dashboard.web import snapshots_dialog, snapshots_import, snapshots_view

found = snapshots_view.listed()
if found is not None and (found.snapshots or found.damaged):
    snapshots_view.draw_head(found)
    snapshots_view.draw_list(found)
    snapshots_view.draw_compare(found.snapshots)
elif found is not None:
    snapshots_view.draw_empty()
snapshots_import.draw()
snapshots_dialog.draw()
