"""Status: sources and targets, options in force, assumptions, and which facts replicas report."""

from dashboard import service
from dashboard.views.status import status_report
from dashboard.web import draw, share, state


def draw_page() -> None:
    fleet = state.fleet()
    if state.is_frozen():
        view = status_report(fleet)
    else:
        view = status_report(
            fleet,
            sources=service.sources(),
            conflicts=service.label_conflicts(),
            options=service.options(),
            reload=service.reload_status(),
            history=service.history_status(),
            receivers=service.receivers(),
        )
    draw.draw_head(view)
    draw.draw_sections(view.parts, "status")
    share.offer(lambda: view)
