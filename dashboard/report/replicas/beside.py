"""The settings of one replica beside those of its pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Pool, Replica
from dashboard.report.replicas.differences import Apart, apart_from_majority
from dashboard.report.replicas.settings import ReadCoverage, comparable, reach, settings_table

if TYPE_CHECKING:
    import pandas as pd


class Beside(NamedTuple):
    """A replica's pool, in what it is apart from the majority of it, its settings as rows, how far they were read."""

    pool: Pool | None
    apart: tuple[Apart, ...]
    settings: pd.DataFrame
    reach: ReadCoverage


def beside_its_pool(fleet: Fleet, replica: Replica) -> Beside:
    """Hold a replica of this fleet against its pool."""
    pool = next((pool for pool in fleet.pools if pool.name == replica.pool), None)
    document = fleet.documents.get(replica.document or "")
    apart = apart_from_majority(pool, document) if pool and document else ()
    own = document.settings if document else {}
    held = {each.document for each in fleet.replicas if each.pool == replica.pool and each.id != replica.id}
    others = [each for key, each in fleet.documents.items() if key in held]
    table = settings_table(own, apart, comparable(pool, others) if pool else frozenset())
    of_pool = {*own, *(path for other in others for path in other.settings)}
    return Beside(pool, apart, table, reach(table, of_pool))
