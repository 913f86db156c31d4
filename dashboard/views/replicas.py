"""What the page Replicas says, as a report: all replicas that the filters leave, what is wrong first."""

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import plain
from dashboard.report.replicas import table as replica_table
from dashboard.views import fleet_summary
from dashboard.views.blocks import Block, Paragraph, Section, View
from dashboard.views.context import context_of
from dashboard.views.excluded import unread_entries
from dashboard.views.glossary import COHORT, POOL, glossary
from dashboard.views.replica_rows import replicas_table


def replicas_report(
    fleet: Fleet, *, pool: str | None = None, state: str | None = None, search: str = "", name: str = ""
) -> View:
    """Report the replicas of a pool, in a state, that hold every word of a search. `name` is the snapshot's."""
    now = fleet_summary.summarize(fleet)
    rows = replica_table.filtered(replica_table.rows_of(fleet), pool=pool, state=state, search=search)
    filters = {"pool": pool, "state": state, "search": search}
    shown = set(rows["id"])
    unread = unread_entries(each for each in now.unread if each.id in shown)
    told: Block = replicas_table(rows) if len(rows) else Paragraph(plain("The filters leave no replica."))
    return View(
        title="Replicas",
        headline=fleet_summary.replicas_title(now),
        lead=f"{_number(len(rows), now.replicas)} in {count(now.pools, 'pool')}.",
        context=context_of(fleet, name=name, filters=[(key, value) for key, value in filters.items() if value]),
        parts=(
            *([Section("not-read", "Not read whole", unread)] if unread else []),
            Section("replicas", "Replicas", (told,)),
            glossary((POOL, COHORT)),
        ),
    )


def _number(shown: int, total: int) -> str:
    return f"{shown:,} of {count(total, 'replica')}" if shown < total else count(total, "replica")
