"""The page Capacity: KV cache per DP rank, per GPU and per pool, outliers, and what is unknown."""

from collections.abc import Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.sums import PoolCapacity
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.views.blocks import Block, Chart, Columns, Entries, Paragraph, Section, Tone, View, quiet_paragraph
from dashboard.views.capacity_blocks import (
    BARS,
    NO_DEVICES,
    PRINTED_BARS,
    PoolRanks,
    charts,
    device_chart,
    device_gauges,
    memory_blocks,
    notes,
    pools_chart,
    ranks_by_pool,
)
from dashboard.views.capacity_data import Measure, count_without_ranks, pools_of, ranks_of
from dashboard.views.capacity_tables import outlier_entries, pools_table, ranks_table
from dashboard.views.capacity_text import lead, most_common_reason, name_of, not_counted, pool_title, title
from dashboard.views.context import context_of
from dashboard.views.glossary import BASIS, REQUESTS, glossary

# What a bar is, as in the URL of the page.
RANK, GPU, POOL = "DP rank", "GPU", "pool"
WIDTHS = (3.4, 1)  # of the bars and of the shares of device memory at their right
PER_RANK_NOTE = "One bar per DP rank. Click a bar to open its replica."
PER_GPU_NOTE = "One bar per device: KV cache (solid) within its memory, in GiB."
TICKS_NOTE = " 1·0 is device 0 of DP rank 1."
PER_POOL_NOTE = "One bar per pool, each rank counted once. Pale: the naive estimate."


def capacity_report(
    fleet: Fleet,
    pool: str | None = None,
    measure: Measure = Measure.TOKENS,
    length: int | None = None,
    *,
    per: str = RANK,
    name: str = "",
) -> View:
    """Return the ranks of one pool, or of all (None), with the sums of all pools.

    Requests have `length` tokens, or each replica's own length (None). `name` is the snapshot's.
    """
    drawn = Measure.GIB if per == GPU else measure  # a GPU has memory only
    ranks = ranks_of(fleet, length, drawn)
    sums = pools_of(fleet, ranks, length)
    choices = {
        "measure": "" if measure is Measure.TOKENS else measure.value,
        "length": "" if length is None else str(length),
        "per": "" if per == RANK else per,
    }
    chosen = {key: text for key, text in choices.items() if text}
    shown = [each for each in ranks_by_pool(fleet, ranks) if pool in {None, each.name}]
    most = PRINTED_BARS if pool is None else BARS
    links = {key: text for key, text in chosen.items() if key != "per" or text == GPU}
    named = None if per == POOL else pool  # by the heading
    bars = [_by_pool(sums, measure)] if per == POOL else [_pool(fleet, each, measure, per, most) for each in shown]
    return View(
        title="Capacity",
        headline=title(ranks) if named is None else pool_title(named, ranks),
        lead=lead([each for each in ranks if named in {None, each.replica.pool}], count_without_ranks(fleet, named)),
        context=context_of(fleet, name=name, filters=[*([("pool", pool)] if pool else []), *chosen.items()]),
        parts=(
            *bars,
            Section("pools", "Pools", (pools_table(sums, length, links),)),
            *([] if per == POOL else [_ranks(each) for each in shown if each.ranks]),
            glossary((BASIS, REQUESTS)),
        ),
    )


def order_pools(fleet: Fleet) -> tuple[str, ...]:
    """Return the names of the pools, those with the most short ranks first."""
    return tuple(each.name for each in ranks_by_pool(fleet, ranks_of(fleet, None)))


def _pool(fleet: Fleet, pool: PoolRanks, measure: Measure, per: str, most: int) -> Section:
    blocks = _devices(pool, most) if per == GPU else _bars(fleet, pool, measure, most)
    return Section(f"pool-{pool.slug}", name_of(pool.name), blocks)


def _bars(fleet: Fleet, pool: PoolRanks, measure: Measure, most: int) -> tuple[Block, ...]:
    drawn: tuple[Chart, ...] = charts(pool, most)
    known = any(bar.value is not None for chart in drawn for bar in chart.bars)
    head: tuple[Block, ...] = (*drawn, quiet_paragraph(PER_RANK_NOTE)) if known else (_nothing(pool, measure),)
    left: tuple[Block, ...] = (*head, *notes(fleet, pool))
    found: tuple[Entries, ...] = outlier_entries(pool.outliers, measure)
    return (Columns((left, (device_gauges(pool),)), WIDTHS), *found, *memory_blocks(pool))


def _devices(pool: PoolRanks, most: int) -> tuple[Block, ...]:
    chart = device_chart(pool, most)
    if chart is None:
        return (Paragraph(plain(NO_DEVICES), Tone.UNKNOWN),)
    several = TICKS_NOTE if any("·" in bar.tick for bar in chart.bars) else ""
    return (chart, quiet_paragraph(PER_GPU_NOTE + several), *(Paragraph(text) for text in not_counted(pool.ranks)))


def _by_pool(sums: Sequence[PoolCapacity], measure: Measure) -> Section:
    chart = pools_chart(sums, measure)
    if chart is None:
        return Section(
            "by-pool", "KV cache by pool", (Paragraph(plain(f"No pool reports its {measure}."), Tone.UNKNOWN),)
        )
    return Section("by-pool", "KV cache by pool", (chart, quiet_paragraph(PER_POOL_NOTE)))


def _ranks(pool: PoolRanks) -> Section:
    caption = f"DP ranks of {name_of(pool.name)}"
    table = ranks_table(pool.ranks, f"ranks-{pool.slug}", caption)
    return Section(table.name, caption, (table,), is_aside=True)


def _nothing(pool: PoolRanks, measure: Measure) -> Paragraph:
    why = most_common_reason(pool.ranks) or "No engine data."
    return Paragraph((Piece(f"No {measure} to draw. ", Style.STRONG), Piece(why)), Tone.UNKNOWN)
