"""The list of findings of one fleet, derived once for all sessions that show it."""

from datetime import datetime

from dashboard.analysis.assembly import Fleet
from dashboard.report.findings.listed import Known, known_findings
from dashboard.web.state import shared


@shared(max_entries=4)
def known(generation: int, since: datetime | None, _fleet: Fleet) -> Known:  # noqa: ARG001  # the cache's key
    """Derive the list for one fleet; every session that shows it shares the result."""
    return known_findings(_fleet)
