"""The page Overview: its view, shared by all sessions."""

from dashboard.analysis.assembly import Fleet
from dashboard.views.blocks import View
from dashboard.views.overview import overview_report
from dashboard.views.sharing import pools_by_urgency
from dashboard.web.state import shared


@shared(max_entries=8, has_times=True)
def overview_view(fleet: Fleet, name: str, sort: str, *, has_ages: bool = False) -> View:
    """Return the view of a fleet. `name` is the snapshot's, `sort` that of the table of pools.

    Ages count from the poll: sessions share them.
    """
    return overview_report(fleet, name, sort, fleet.polled_at if has_ages else None)


@shared(max_entries=4, has_times=True)
def pool_order(fleet: Fleet) -> tuple[str, ...]:
    """Return the names of the pools, those with problems first."""
    return tuple(pool.name for pool in pools_by_urgency(fleet))
