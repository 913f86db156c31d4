"""What the page Capacity says, as a report: the KV cache of every DP rank, and who holds less than its peers."""

from collections.abc import Iterable

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.outliers import Outlier
from dashboard.fleet.pieces import plain
from dashboard.report.capacity.pools import pools_of
from dashboard.report.capacity.ranks import Measure, Rank, outliers_of, ranks_of, silent_replicas
from dashboard.report.capacity.words import lead, most_common_reason, name_of, title
from dashboard.views.blocks import Block, Paragraph, Section, Tone, View
from dashboard.views.capacity_blocks import (
    PoolRanks,
    outlier_entries,
    pool_blocks,
    pools_table,
    ranks_by_pool,
    ranks_table,
)
from dashboard.views.context import context_of
from dashboard.views.glossary import BASIS, REQUESTS, glossary
from dashboard.views.slugs import slugs


def capacity_report(
    fleet: Fleet,
    pool: str | None = None,
    measure: Measure = Measure.TOKENS,
    length: int | None = None,
    *,
    name: str = "",
) -> View:
    """Report the ranks of one pool, or of all (None), with the sums of all pools.

    Requests are of `length` tokens each, of every replica's own length if None. `name` is the snapshot's.
    """
    ranks = ranks_of(fleet, length)
    everywhere = outliers_of(ranks, measure)
    chosen = [each for each in by_pool(fleet, ranks, measure) if pool in {None, each.name}]
    chosen_filters = {
        "pool": pool,
        "measure": None if measure is Measure.TOKENS else measure.value,
        "length": None if length is None else str(length),
    }
    return View(
        title="Capacity",
        headline=title(ranks, everywhere, measure),
        lead=lead(ranks, everywhere, measure, silent_replicas(fleet)),
        context=context_of(fleet, name=name, filters=[(key, told) for key, told in chosen_filters.items() if told]),
        parts=(
            Section("pools", "Pools", (pools_table(pools_of(ranks), length),)),
            *(_pool(fleet, each, measure) for each in chosen),
            glossary((BASIS, REQUESTS)),
        ),
    )


def by_pool(fleet: Fleet, ranks: tuple[Rank, ...], measure: Measure) -> list[PoolRanks]:
    """Sort ranks into pools: those with the most ranks that run short stand first."""
    found = ranks_by_pool(ranks, slugs(each.name for each in fleet.pools), measure)
    return sorted(found, key=lambda each: -_short(each.apart.values()))


def _short(found: Iterable[Outlier]) -> int:
    return sum(outlier.share < 0 for outlier in found)


def _pool(fleet: Fleet, pool: PoolRanks, measure: Measure) -> Section:
    told: tuple[Block, ...] = (Paragraph(plain(_nothing(pool, measure)), Tone.UNKNOWN),)
    if pool.ranks:
        table = ranks_table([pool], f"ranks-{pool.slug}", f"DP ranks of {name_of(pool.name)}")
        told = (*outlier_entries([pool], measure), *pool_blocks(fleet, pool, measure), table)
    return Section(f"pool-{pool.slug}", name_of(pool.name), told)


def _nothing(pool: PoolRanks, measure: Measure) -> str:
    why = most_common_reason(pool.ranks, measure) or "No engine of its replicas is known."
    return f"Nothing to draw in {measure}. {why}"
