"""The page Capacity: KV cache per DP rank, per GPU and per pool, outliers, and what is unknown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import pandas as pd

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.sums import PoolCapacity
from dashboard.fleet import Basis, formatting
from dashboard.fleet.frames import rows_of
from dashboard.fleet.pieces import Kind, Link, Piece, Style, page, plain
from dashboard.views.blocks import (
    Block,
    Cell,
    Column,
    Columns,
    Entries,
    Entry,
    Paragraph,
    Section,
    Table,
    Tone,
    Value,
    View,
    data_table,
    number_cell,
    quiet_paragraph,
)
from dashboard.views.capacity_blocks import (
    BARS,
    NO_DEVICES,
    PRINTED_BARS,
    charts,
    device_chart,
    device_gauges,
    memory_blocks,
    notes,
    pools_chart,
    ranks_by_pool,
    slug_of,
)
from dashboard.views.capacity_text import (
    NOT_SERVED,
    Measure,
    bounded,
    count_without_ranks,
    in_percent,
    lead,
    length_words,
    most_common_reason,
    naive_text,
    not_counted,
    outlier_sentence,
    percent,
    pool_title,
    pools_of,
    rank_name,
    ranks_of,
    ranks_text,
    short_device,
    sum_text,
    title,
)
from dashboard.views.context import context_of
from dashboard.views.glossary import BASIS, REQUESTS, glossary
from dashboard.views.names import brief

MOST_OUTLIERS = 6  # named one by one; the table of ranks has all
MOST_ROWS = 4_000  # ranks of one table
NAIVE = "Naive estimate"
_ValueOf = Callable[[Any], Value | None]
_RANK_COLUMNS = (
    Column("Replica"),
    Column("DP rank", is_number=True, term="DP rank"),
    Column("KV tokens", is_number=True, term="capacity"),
    Column("Off median", is_number=True, unit="%", key="To the median"),
    Column("Requests", is_number=True),
    Column("KV GiB", is_number=True),
    Column(NAIVE, is_number=True, term="naive tokens", key="Blocks × size"),
    Column("Basis", term="basis"),
    Column("Device"),
)
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
    filters = [*([("pool", pool)] if pool else []), *chosen.items()]
    shown = {each: own for each, own in ranks_by_pool(fleet, ranks).items() if pool in {None, each}}
    most = PRINTED_BARS if pool is None else BARS
    links = {key: text for key, text in chosen.items() if key != "per" or text == GPU}
    parts = [Section("pools", "Pools", (pools_table(sums, length, links),))]
    if per == POOL:
        parts.insert(0, _by_pool(sums, measure))
        pool = None  # for the heading
    else:
        bars = [_pool(fleet, each, own, measure, per, most) for each, own in shown.items()]
        tables = [_ranks(fleet, each, own) for each, own in shown.items() if len(own)]
        parts = [*bars, *parts, *tables]
    return View(
        title="Capacity",
        headline=title(ranks) if pool is None else pool_title(pool, ranks),
        lead=lead(ranks if pool is None else ranks[ranks["pool"] == pool], count_without_ranks(fleet, pool)),
        context=context_of(fleet, name=name, filters=filters),
        parts=(*parts, glossary((BASIS, REQUESTS))),
    )


def order_pools(fleet: Fleet) -> tuple[str, ...]:
    """Return the names of the pools, those with the most short ranks first."""
    return tuple(ranks_by_pool(fleet, ranks_of(fleet)))


def _pool(fleet: Fleet, pool: str, ranks: pd.DataFrame, measure: Measure, per: str, most: int) -> Section:
    blocks = _devices(fleet, pool, ranks, most) if per == GPU else _bars(fleet, pool, ranks, measure, most)
    return Section(f"pool-{slug_of(fleet, pool)}", brief(pool), blocks)


def _bars(fleet: Fleet, pool: str, ranks: pd.DataFrame, measure: Measure, most: int) -> tuple[Block, ...]:
    head: tuple[Block, ...] = (*charts(fleet, pool, ranks, most), quiet_paragraph(PER_RANK_NOTE))
    if ranks["value"].isna().all():
        why = most_common_reason(ranks) or "No engine data."
        head = (Paragraph((Piece(f"No {measure} to draw. ", Style.STRONG), Piece(why)), Tone.UNKNOWN),)
    left: tuple[Block, ...] = (*head, *notes(fleet, pool, ranks))
    found = outlier_entries(ranks[ranks["off"].notna()], measure)
    return (
        Columns((left, (device_gauges(fleet, pool, ranks),)), WIDTHS),
        *found,
        *memory_blocks(fleet, pool, ranks),
    )


def _devices(fleet: Fleet, pool: str, ranks: pd.DataFrame, most: int) -> tuple[Block, ...]:
    chart = device_chart(fleet, pool, ranks, most)
    if chart is None:
        return (Paragraph(plain(NO_DEVICES), Tone.UNKNOWN),)
    several = TICKS_NOTE if any("·" in bar.tick for bar in chart.bars) else ""
    return (chart, quiet_paragraph(PER_GPU_NOTE + several), *(Paragraph(text) for text in not_counted(ranks)))


def _by_pool(sums: Sequence[PoolCapacity], measure: Measure) -> Section:
    chart = pools_chart(sums, measure)
    if chart is None:
        return Section(
            "by-pool", "KV cache by pool", (Paragraph(plain(f"No pool reports its {measure}."), Tone.UNKNOWN),)
        )
    return Section("by-pool", "KV cache by pool", (chart, quiet_paragraph(PER_POOL_NOTE)))


def _ranks(fleet: Fleet, pool: str, ranks: pd.DataFrame) -> Section:
    caption = f"DP ranks of {brief(pool)}"
    table = ranks_table(ranks, f"ranks-{slug_of(fleet, pool)}", caption)
    return Section(table.name, caption, (table,), is_aside=True)


def outlier_entries(
    ranks: pd.DataFrame, measure: Measure, most: int = MOST_OUTLIERS, *, has_pools: bool = False
) -> tuple[Entries, ...]:
    """List outliers, the furthest first; empty where there is none. `has_pools`: each is named with its pool."""
    order = list(rows_of(ranks.loc[ranks["off"].abs().sort_values(ascending=False, kind="stable").index]))
    items = [_outlier(rank, has_pools=has_pools) for rank in order[:most]]
    if len(order) > most:
        items.append(Entry(Tone.WARNING, plain(f"{len(order) - most:,} more, in the table of ranks")))
    columns: dict[Column, _ValueOf] = {
        Column("Pool"): attrgetter("pool"),
        Column("Replica"): attrgetter("name"),
        Column("DP rank", is_number=True): attrgetter("dp_rank"),
        Column("Requests" if measure is Measure.REQUESTS else f"KV {measure}", is_number=True): attrgetter("value"),
        Column("Median", is_number=True): attrgetter("usual"),
        Column("To the median", is_number=True, unit="%"): lambda rank: in_percent(rank.off or 0),
    }
    data = _data_table("outliers", "Outliers among the DP ranks", columns, order)
    return (Entries(tuple(items), data),) if items else ()


def ranks_table(ranks: pd.DataFrame, name: str, caption: str) -> Table:
    """Return a row per rank."""
    left = len(ranks) - MOST_ROWS
    note = f"{left:,} more ranks are not listed." if left > 0 else ""
    rows = tuple(map(_rank_row, rows_of(ranks[:MOST_ROWS])))
    return Table(name, caption, _RANK_COLUMNS, rows, note, is_large=True)


def pools_table(pools: Sequence[PoolCapacity], length: int | None, choices: Mapping[str, str] | None = None) -> Table:
    """Return a row per pool with its sums and the naive estimate; `choices` are those of the links to each pool."""
    columns = (
        Column("Pool"),
        Column("Ranks", is_number=True, term="DP rank"),
        Column("KV tokens", is_number=True, term="capacity"),
        Column(f"Requests at {length_words(length)}", is_number=True),
        Column("KV GiB", is_number=True),
        Column("Basis", term="basis"),
        Column(NAIVE, term="naive tokens"),
    )
    name, caption = "capacity-of-pools", "KV cache capacity of the pools"
    rows = tuple(_pool_row(pool, choices or {}) for pool in pools)
    return Table(name, caption, columns, rows, for_programs=lambda: _pools_data(pools, name, caption, length))


def _data_table(name: str, caption: str, columns: Mapping[Column, _ValueOf], items: Iterable[object]) -> Table:
    return data_table(name, caption, tuple(columns), ([value(each) for value in columns.values()] for each in items))


def _outlier(rank: Any, *, has_pools: bool) -> Entry:
    where = f" ({brief(rank.pool or 'no pool')})" if has_pools else ""
    name = Piece(f"{rank_name(rank)}{where}", Style.STRONG, Link(Kind.REPLICA, rank.replica))
    return Entry(Tone.WARNING, (name, Piece(f": {outlier_sentence(rank)}")), percent(rank.off))


def _rank_row(rank: Any) -> tuple[Cell, ...]:
    served = formatting.NOT_KNOWN if rank.is_served else NOT_SERVED
    requests = rank.requests
    return (
        Cell(brief(rank.name), letter=rank.letter, value=rank.name, link=Link(Kind.REPLICA, rank.replica)),
        number_cell(f"{rank.dp_rank}", rank.dp_rank),
        number_cell(formatting.exact(rank.kv_cache_size_tokens, Basis(rank.basis)), rank.kv_cache_size_tokens),
        Cell("") if rank.off is None else Cell(percent(rank.off), Tone.WARNING, value=in_percent(rank.off)),
        number_cell(
            served if requests is None else bounded(requests, Measure.REQUESTS, rank.is_requests_bound), requests
        ),
        number_cell("" if rank.gib is None else f"{rank.gib:,.1f}", rank.gib),
        number_cell("" if rank.naive_tokens is None else f"{rank.naive_tokens:,}", rank.naive_tokens),
        Cell(f"{rank.basis}" if rank.counts else f"{rank.basis}, not counted"),
        Cell(short_device(brief(rank.device))),
    )


def _pool_row(pool: PoolCapacity, choices: Mapping[str, str]) -> tuple[Cell, ...]:
    misleads, naive = naive_text(pool)
    requests, requests_note = _requests(pool)
    return (
        Cell(brief(pool.name), link=page("capacity", **choices, pool=pool.name)),
        Cell(ranks_text(pool)),
        Cell(sum_text(pool.tokens, Measure.TOKENS)),
        Cell(requests, note=requests_note),
        Cell(sum_text(pool.gib, Measure.GIB), note=_some(pool.gib.known, pool.ranks)),
        Cell(f"{pool.basis}"),
        Cell(naive, Tone.WARNING if misleads else Tone.PLAIN),
    )


def _requests(pool: PoolCapacity) -> tuple[str, str]:
    """Return the requests of a pool, and of how many ranks they are where not of all."""
    if pool.ranks and pool.not_served == pool.ranks:
        return NOT_SERVED, ""
    rest = [f"{pool.not_served:,} {NOT_SERVED}"] if pool.not_served else []
    rest += filter(None, [_some(pool.requests.known, pool.ranks - pool.not_served)])
    return sum_text(pool.requests, Measure.REQUESTS), ", ".join(rest)


def _some(known: int, ranks: int) -> str:
    return f"{known:,} of {ranks:,} ranks" if 0 < known < ranks else ""


def _pools_data(pools: Sequence[PoolCapacity], name: str, caption: str, length: int | None) -> Table:
    """Return the sums, and of how many ranks each of them is, for programs."""
    columns: dict[Column, _ValueOf] = {
        Column("Pool"): attrgetter("name"),
        Column("Ranks", is_number=True): attrgetter("ranks"),
        Column("KV tokens", is_number=True): attrgetter("tokens.value"),
        Column("Ranks with KV tokens", is_number=True): attrgetter("tokens.known"),
        Column(f"Requests at {length_words(length)}", is_number=True): attrgetter("requests.value"),
        Column("Ranks with requests", is_number=True): attrgetter("requests.known"),
        Column("Ranks that do not serve this length", is_number=True): attrgetter("not_served"),
        Column("KV GiB", is_number=True): attrgetter("gib.value"),
        Column("Ranks with KV GiB", is_number=True): attrgetter("gib.known"),
        Column("Basis"): attrgetter("basis.value"),
        Column("Naive tokens", is_number=True): attrgetter("naive"),
        Column("Naive estimate"): lambda pool: naive_text(pool)[1],
    }
    return _data_table(name, caption, columns, pools)
