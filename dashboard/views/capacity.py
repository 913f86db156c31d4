"""The page Capacity: KV cache per DP rank, per GPU and per pool, outliers, and what is unknown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.sums import PoolCapacity
from dashboard.fleet import formatting
from dashboard.fleet.pieces import Kind, Link, Piece, Style, page, plain
from dashboard.views.blocks import (
    Block,
    Cell,
    Chart,
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
    PoolRanks,
    charts,
    device_chart,
    device_gauges,
    memory_blocks,
    notes,
    pools_chart,
    ranks_by_pool,
)
from dashboard.views.capacity_text import (
    NOT_SERVED,
    Measure,
    Rank,
    bounded,
    count_without_ranks,
    in_percent,
    lead,
    length_words,
    most_common_reason,
    naive_text,
    name_of,
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


def outlier_entries(
    ranks: Iterable[Rank], measure: Measure, most: int = MOST_OUTLIERS, *, has_pools: bool = False
) -> tuple[Entries, ...]:
    """List outliers, the furthest first; empty where there is none. `has_pools`: each is named with its pool."""
    order = sorted(ranks, key=lambda rank: -abs(rank.off or 0))
    items = [_outlier(rank, has_pools=has_pools) for rank in order[:most]]
    if len(order) > most:
        items.append(Entry(Tone.WARNING, plain(f"{len(order) - most:,} more, in the table of ranks")))
    columns: dict[Column, _ValueOf] = {
        Column("Pool"): attrgetter("replica.pool"),
        Column("Replica"): attrgetter("replica.name"),
        Column("DP rank", is_number=True): attrgetter("engine.dp_rank"),
        Column("Requests" if measure is Measure.REQUESTS else f"KV {measure}", is_number=True): attrgetter("value"),
        Column("Median", is_number=True): attrgetter("median"),
        Column("To the median", is_number=True, unit="%"): lambda rank: in_percent(rank.off or 0),
    }
    data = _data_table("outliers", "Outliers among the DP ranks", columns, order)
    return (Entries(tuple(items), data),) if items else ()


def ranks_table(ranks: Sequence[Rank], name: str, caption: str) -> Table:
    """Return a row per rank."""
    left = len(ranks) - MOST_ROWS
    note = f"{left:,} more ranks are not listed." if left > 0 else ""
    return Table(name, caption, _RANK_COLUMNS, tuple(map(_rank_row, ranks[:MOST_ROWS])), note, is_large=True)


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


def _outlier(rank: Rank, *, has_pools: bool) -> Entry:
    where = f" ({name_of(rank.replica.pool or 'no pool')})" if has_pools else ""
    name = Piece(f"{rank_name(rank)}{where}", Style.STRONG, Link(Kind.REPLICA, rank.replica.id))
    return Entry(Tone.WARNING, (name, Piece(f": {outlier_sentence(rank)}")), percent(rank.off or 0))


def _rank_row(rank: Rank) -> tuple[Cell, ...]:
    engine, requests = rank.engine, rank.at.requests
    served = formatting.NOT_KNOWN if rank.at.served else NOT_SERVED
    return (
        Cell(
            name_of(rank.replica.name),
            letter=rank.letter,
            value=rank.replica.name,
            link=Link(Kind.REPLICA, rank.replica.id),
        ),
        number_cell(f"{engine.dp_rank}", engine.dp_rank),
        number_cell(formatting.exact(engine.kv_cache_size_tokens, engine.basis), engine.kv_cache_size_tokens),
        Cell("") if rank.off is None else Cell(percent(rank.off), Tone.WARNING, value=in_percent(rank.off)),
        number_cell(served if requests is None else bounded(requests, Measure.REQUESTS, rank.at.at_most), requests),
        number_cell("" if rank.gib is None else f"{rank.gib:,.1f}", rank.gib),
        number_cell("" if engine.naive_tokens is None else f"{engine.naive_tokens:,}", engine.naive_tokens),
        Cell(f"{engine.basis}" if rank.counts else f"{engine.basis}, not counted"),
        Cell(short_device(name_of(rank.device))),
    )


def _pool_row(pool: PoolCapacity, choices: Mapping[str, str]) -> tuple[Cell, ...]:
    misleads, naive = naive_text(pool)
    requests, requests_note = _requests(pool)
    return (
        Cell(name_of(pool.name), link=page("capacity", **choices, pool=pool.name)),
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
