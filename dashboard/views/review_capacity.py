"""The KV cache capacity of the pools, as a section of the review: ranks with less, then the sums."""

from collections.abc import Iterator, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count, first_of
from dashboard.fleet.pieces import Piece, Style, page, plain
from dashboard.views.blocks import Block, Paragraph, Section
from dashboard.views.capacity import outlier_entries, pools_table, ranks_table
from dashboard.views.capacity_blocks import PoolRanks, pool_blocks, ranks_by_pool
from dashboard.views.capacity_text import Measure, count_without_ranks, lead, name_of, pools_of, ranks_of, title
from dashboard.views.pages import CAPACITY as CAPACITY_PAGE
from dashboard.views.pages import POOL

CAPACITY = "capacity"
TITLE = "Capacity by pool"
MEASURE = Measure.TOKENS
MOST_OUTLIERS = 12  # ranks named one by one
MOST_CHARTS = 8  # pools with a chart, those with the least KV cache first
MOST_NAMED = 12  # pools that a sentence names


def capacity_parts(fleet: Fleet, notes: tuple[Block, ...]) -> tuple[Section, tuple[Section, ...]]:
    """Return the section of the review, and its appendix with every rank."""
    ranks = ranks_of(fleet, None)
    pools = ranks_by_pool(fleet, ranks)
    uneven = _alike([pool for pool in pools if pool.is_uneven])
    text = f" {lead(ranks, count_without_ranks(fleet))}"
    head = Paragraph((Piece(f"{title(ranks)}.", Style.STRONG), Piece(text)))
    sums = pools_of(fleet, ranks, None)
    off = [rank for pool in pools for rank in pool.outliers]
    blocks = (
        head,
        *notes,
        *outlier_entries(off, MEASURE, MOST_OUTLIERS, has_pools=len(pools) > 1),
        *([pools_table(sums, None)] if sums else []),
        *_without_chart(pools, uneven),
    )
    charts = tuple(_pool(fleet, group) for group in uneven[:MOST_CHARTS])
    table = ranks_table([rank for pool in pools for rank in pool.ranks], "all-ranks", "All DP ranks")
    link = page(CAPACITY_PAGE)
    appendix = (Section("all-ranks", "All DP ranks", (table,), is_appendix=True, link=link),) if table.rows else ()
    return Section(CAPACITY, TITLE, blocks, charts), appendix


def _alike(pools: Sequence[PoolRanks]) -> list[list[PoolRanks]]:
    """Group pools whose ranks have the same KV cache, cohort by cohort."""
    groups: dict[object, list[PoolRanks]] = {}
    for pool in pools:
        ranks = sorted(
            (rank.letter, rank.engine.kv_cache_size_tokens or 0, rank.engine.basis, rank.counts) for rank in pool.ranks
        )
        groups.setdefault(tuple(ranks), []).append(pool)
    return list(groups.values())


def _pool(fleet: Fleet, alike: Sequence[PoolRanks]) -> Section:
    """Return the charts of a pool; a page folds them, for its table of pools has the same numbers."""
    first, *others = alike
    named = first_of([name_of(pool.name) for pool in others], MOST_NAMED)
    same = [Paragraph(plain(f"The same in {named}."))] if others else []
    more = f" and {len(others):,} more like it" if others else ""
    return Section(
        f"capacity-{first.slug}",
        f"KV cache of {name_of(first.name)}{more}",
        (*same, *pool_blocks(fleet, first)),
        is_aside=True,
        link=page(CAPACITY_PAGE, **{POOL: first.name}),
    )


def _without_chart(pools: Sequence[PoolRanks], uneven: Sequence[Sequence[PoolRanks]]) -> Iterator[Block]:
    """Yield which pools have no chart, and why."""
    if left := sum(map(len, uneven[MOST_CHARTS:])):
        yield Paragraph(plain(f"{count(left, 'more pool')} with uneven ranks: see the appendix."))
    even = [name_of(pool.name) for pool in pools if pool.ranks and not pool.is_uneven]
    if even:
        yield Paragraph(plain(f"Even ranks, no chart: {first_of(even, MOST_NAMED)}."))
