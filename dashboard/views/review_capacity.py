"""The KV cache capacity of the pools, as a section of the review: ranks with less, then the sums."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import MOST, count, shortlist
from dashboard.fleet.pieces import Piece, Style, page, plain
from dashboard.views.blocks import Block, Paragraph, Section
from dashboard.views.capacity import outlier_entries, pools_table, ranks_table
from dashboard.views.capacity_blocks import is_uneven, pool_blocks, ranks_by_pool, slug_of
from dashboard.views.capacity_text import Measure, lead, pools_of, ranks_of, title
from dashboard.views.names import brief
from dashboard.views.pages import CAPACITY as CAPACITY_PAGE
from dashboard.views.pages import POOL

CAPACITY = "capacity"
TITLE = "Capacity by pool"
MEASURE = Measure.TOKENS
MOST_OUTLIERS = 12  # ranks named one by one
MOST_CHARTS = 8  # pools with a chart, those with the least KV cache first


def capacity_parts(fleet: Fleet, notes: tuple[Block, ...]) -> tuple[Section, tuple[Section, ...]]:
    """Return the section of the review, and its appendix with every rank."""
    ranks = ranks_of(fleet)
    pools = ranks_by_pool(fleet, ranks)
    uneven = _alike({name: own for name, own in pools.items() if is_uneven(own)})
    text = f" {lead(ranks, fleet.total.silent)}"
    head = Paragraph((Piece(f"{title(ranks)}.", Style.STRONG), Piece(text)))
    sums = pools_of(fleet, ranks, None)
    ordered = pd.concat(pools.values()) if pools else ranks[:0]
    blocks = (
        head,
        *notes,
        *outlier_entries(ordered[ordered["off"].notna()], MEASURE, MOST_OUTLIERS, has_pools=len(pools) > 1),
        *([pools_table(sums, None)] if sums else []),
        *_without_chart(pools, uneven),
    )
    charts = tuple(_pool(fleet, names, pools[names[0]]) for names in uneven[:MOST_CHARTS])
    table = ranks_table(ordered, "all-ranks", "All DP ranks")
    link = page(CAPACITY_PAGE)
    appendix = (Section("all-ranks", "All DP ranks", (table,), is_appendix=True, link=link),) if table.rows else ()
    return Section(CAPACITY, TITLE, blocks, charts), appendix


def _alike(pools: Mapping[str, pd.DataFrame]) -> list[list[str]]:
    """Group pools whose ranks have the same KV cache, cohort by cohort."""
    groups: dict[object, list[str]] = {}
    for name, ranks in pools.items():
        same = ranks[["letter", "kv_cache_size_tokens", "basis", "counts"]].fillna({"kv_cache_size_tokens": 0})
        groups.setdefault(tuple(sorted(same.itertuples(index=False, name=None))), []).append(name)
    return list(groups.values())


def _pool(fleet: Fleet, alike: Sequence[str], ranks: pd.DataFrame) -> Section:
    """Return the charts of pools that are alike; a page folds them, for its table of pools has the same numbers."""
    first, *others = alike
    named = shortlist(map(brief, others), MOST)
    same = [Paragraph(plain(f"The same in {named}."))] if others else []
    more = f" and {len(others):,} more like it" if others else ""
    return Section(
        f"capacity-{slug_of(fleet, first)}",
        f"KV cache of {brief(first)}{more}",
        (*same, *pool_blocks(fleet, first, ranks)),
        is_aside=True,
        link=page(CAPACITY_PAGE, **{POOL: first}),
    )


def _without_chart(pools: Mapping[str, pd.DataFrame], uneven: Sequence[Sequence[str]]) -> Iterator[Block]:
    """Yield which pools have no chart, and why."""
    if left := sum(map(len, uneven[MOST_CHARTS:])):
        yield Paragraph(plain(f"{count(left, 'more pool')} with uneven ranks: see the appendix."))
    even = [brief(name) for name, ranks in pools.items() if len(ranks) and not is_uneven(ranks)]
    if even:
        yield Paragraph(plain(f"Even ranks, no chart: {shortlist(even, MOST)}."))
