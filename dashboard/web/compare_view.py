"""What Compare shows of one pool: the band that decides prefix sharing, the matrix, and the line on what is hidden."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.compare import Matrix
from dashboard.fleet import Pool, Replica
from dashboard.render.matrix_html import matrix_html
from dashboard.report.pools.compared import (
    Choice,
    compared,
    coverage_words,
    equal_words,
    grey_words,
    head_words,
    hidden_words,
    members_of,
    pool_named,
)
from dashboard.rules.domain import Domain
from dashboard.web import markup
from dashboard.web.prefix_words import prefix_band
from dashboard.web.sharing_matrix import sharing_matrix
from dashboard.web.state import shared

COPY = '<button type="button" class="copy" data-copy-table>Copy table</button>'


class View(NamedTuple):
    """The drawn parts, as HTML, and the matrix itself for its CSV. `notes` are plain text.

    `is_good`: all can share prefixes, as far as settings or engines tell; `is_split`: engines of one cohort computed
    different block hashes.
    """

    band: str
    prefix: str
    table: str
    equal: str
    matrix: Matrix
    notes: tuple[str, ...]
    is_good: bool
    is_split: bool


@shared(max_entries=24)
def view(generation: int, polled_at: datetime | None, pool_name: str, choice: Choice, _fleet: Fleet) -> View:  # noqa: ARG001
    """Lay out one pool as chosen; sessions that look at the same share the result."""
    pool = pool_named(_fleet, pool_name)
    members = members_of(_fleet, pool)
    names = {replica.id: replica.name for replica in members}
    found = compared(_fleet, pool, choice)
    hidden = hidden_words(pool, found.matrix, members)
    foot = " ".join([hidden, *grey_words(found.matrix, found.named)])
    return View(
        band=prefix_band(found) + sharing_matrix(found.sharing, found.kind),
        prefix=matrix_html(
            found.prefix,
            names,
            caption="What decides prefix sharing",
            corner="Prefix sharing",
            kinds=found.named,
            interactive=True,
        ),
        table=matrix_html(
            found.matrix,
            names,
            caption=f"Settings of {pool.name}",
            corner="Setting",
            kinds=found.named,
            interactive=True,
        )
        + f'<div class="foot">{markup.text(foot)} {COPY}</div>',
        equal=equal_words(pool, found.matrix, members),
        matrix=found.matrix,
        notes=(coverage_words(_fleet), hidden),
        is_good=found.kind == "good",
        is_split=bool(found.sharing.split),
    )


def head(pool: Pool, members: Sequence[Replica], domain: Domain | None) -> str:
    """Head the page: the pool, how many replicas in how many cohorts, on what devices, and what they share. HTML."""
    return markup.heading(markup.text(pool.name), markup.text(head_words(pool, members, domain)))
