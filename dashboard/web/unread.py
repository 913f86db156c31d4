"""What could not be read, and why, one entry per replica."""

from collections.abc import Sequence
from datetime import datetime

from dashboard.fleet import Replica, ReplicaState, formatting
from dashboard.report.replicas.standing import mark, reason
from dashboard.views import pages
from dashboard.views.names import brief
from dashboard.web import links, markup

MOST = 8  # entries on Overview; the page Replicas lists all


def unread(replicas: Sequence[Replica], now: datetime | None, most: int = MOST) -> list[tuple[str, str, str]]:
    """Return (kind of stripe, content, nothing) as HTML for the replicas that were not read whole.

    Without `now` times are told instead of ages.
    """
    shown = replicas if len(replicas) <= most else replicas[: most - 1]
    rows = [(mark(replica.state).value, _content(replica, now), "") for replica in shown]
    if len(shown) < len(replicas):
        left = formatting.count(len(replicas) - len(shown), "more replica")
        rows.append(("unknown", markup.link(links.to(pages.REPLICAS), markup.text(left), css="more"), ""))
    return rows


def _content(replica: Replica, now: datetime | None) -> str:
    glyph = markup.glyph(mark(replica.state), f"{replica.state}:")
    name = markup.link(
        links.to(pages.REPLICA_PAGE, replica=replica.id), markup.bold(brief(replica.name)), title=replica.name
    )
    state = "down" if replica.state is ReplicaState.DOWN else "partial"
    kind = f" · {formatting.FAILURE_WORDS[replica.failure.kind]}" if replica.failure else ""
    seen = ""
    if replica.state is ReplicaState.DOWN and replica.observed_at is not None:
        seen = f" Last read {formatting.when(replica.observed_at, now)}; its values are kept and marked."
    who = f'<span class="who">{glyph} {name} {markup.muted(state + kind)}</span>'
    return f"{who}<small>{markup.text(reason(replica) + seen)}</small>"
