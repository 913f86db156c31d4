"""The KV cache capacity of the pools, as a part of the review: who holds less, then the sums."""

from collections.abc import Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count, first_of
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.views.blocks import Block, Paragraph, Section
from dashboard.views.capacity import by_pool
from dashboard.views.capacity_blocks import PoolRanks, pool_blocks
from dashboard.views.capacity_data import Measure, Rank, count_without_ranks, outliers_of, pools_of, ranks_of
from dashboard.views.capacity_tables import outlier_entries, pools_table, ranks_table
from dashboard.views.capacity_text import lead, name_of, title

CAPACITY = "capacity"
TITLE = "Capacity of each pool"
MEASURE = Measure.TOKENS
MOST_OUTLIERS = 12  # ranks named one by one
MOST_CHARTS = 8  # pools with a chart; those that hold less stand first
MOST_NAMED = 12  # pools that a sentence names


def capacity_parts(fleet: Fleet, said: tuple[Block, ...]) -> tuple[Section, tuple[Section, ...]]:
    """Return the part of the review, and its appendix with every rank. `said` are notes on this part."""
    ranks = ranks_of(fleet, None)
    found = outliers_of(ranks, MEASURE)
    pools = by_pool(fleet, ranks, MEASURE)
    drawn = _alike([pool for pool in pools if pool.apart or pool.differ])
    more = f" {lead(ranks, found, MEASURE, count_without_ranks(fleet))}"
    head = Paragraph((Piece(f"{title(ranks, found, MEASURE)}.", Style.STRONG), Piece(more)))
    part = Section(
        CAPACITY,
        TITLE,
        (head, *said, *outlier_entries(pools, MEASURE, MOST_OUTLIERS), *_sums(ranks), *_not_drawn(pools, drawn)),
        tuple(_pool(fleet, group) for group in drawn[:MOST_CHARTS]),
    )
    table = ranks_table(pools, "all-ranks", "All DP ranks")
    appendix = (Section("all-ranks", "All DP ranks", (table,), is_appendix=True),) if table.rows else ()
    return part, appendix


def _alike(pools: Sequence[PoolRanks]) -> list[list[PoolRanks]]:
    """Put pools together whose ranks hold the same, cohort by cohort."""
    groups: dict[object, list[PoolRanks]] = {}
    for pool in pools:
        held = sorted(
            (rank.letter, rank.engine.kv_cache_size_tokens or 0, rank.engine.basis, rank.counts) for rank in pool.ranks
        )
        groups.setdefault(tuple(held), []).append(pool)
    return list(groups.values())


def _pool(fleet: Fleet, alike: Sequence[PoolRanks]) -> Section:
    first, *others = alike
    named = first_of([name_of(pool.name) for pool in others], MOST_NAMED)
    same = [Paragraph(plain(f"The same in {named}."))] if others else []
    more = f" and {len(others):,} more like it" if others else ""
    return Section(
        f"capacity-{first.slug}",
        f"KV cache of {name_of(first.name)}{more}",
        (*same, *pool_blocks(fleet, first, MEASURE)),
    )


def _sums(ranks: tuple[Rank, ...]) -> list[Block]:
    sums = pools_of(ranks)
    return [pools_table(sums, None)] if sums else []


def _not_drawn(pools: Sequence[PoolRanks], drawn: Sequence[Sequence[PoolRanks]]) -> list[Block]:
    """Say which pools have no chart, and why."""
    same = [name_of(pool.name) for pool in pools if pool.ranks and not (pool.apart or pool.differ)]
    left = sum(map(len, drawn[MOST_CHARTS:]))
    said = [f"{count(left, 'more pool has', 'more pools have')} ranks that differ: see the appendix."] if left else []
    if same:
        each = "Within each of" if len(same) > 1 else "Within"
        said.append(f"{each} {first_of(same, MOST_NAMED)}, all ranks hold about the same: no bars are drawn.")
    return [Paragraph(plain(each)) for each in said]
