"""The page Overview: its view, shared by all sessions."""

from datetime import datetime

from dashboard.analysis.assembly import Fleet
from dashboard.views import fleet_summary
from dashboard.views.blocks import View
from dashboard.views.overview import overview_report
from dashboard.views.sharing import pools_by_urgency, sharing_verdicts
from dashboard.web.state import shared


@shared(max_entries=8)
def overview_view(
    generation: int,  # noqa: ARG001
    polled_at: datetime | None,
    name: str,
    sort: str,
    _fleet: Fleet,
    *,
    has_ages: bool = False,
) -> View:
    """Return the view of a fleet. `name` is the snapshot's, `sort` that of the table of pools.

    Ages count from the poll: sessions share them.
    """
    return overview_report(_fleet, name, sort, polled_at if has_ages else None)


@shared(max_entries=4)
def pool_order(generation: int, polled_at: datetime | None, _fleet: Fleet) -> tuple[str, ...]:  # noqa: ARG001
    """Return the names of the pools, those with problems first."""
    pools = pools_by_urgency(_fleet, sharing_verdicts(_fleet), fleet_summary.summarize(_fleet).by_pool)
    return tuple(pool.name for pool in pools)
