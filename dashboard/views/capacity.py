"""The page Capacity: KV cache per DP rank, per GPU and per pool, outliers, and what is unknown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.sums import PoolCapacity
from dashboard.fleet import Basis, formatting
from dashboard.fleet.formatting import NOT_KNOWN, count
from dashboard.fleet.pieces import Kind, Link, Piece, Style, page, plain
from dashboard.views import capacity_text
from dashboard.views.blocks import (
    Block,
    Cell,
    Columns,
    Entries,
    Entry,
    Paragraph,
    Section,
    Table,
    Tone,
    View,
    quiet_paragraph,
)
from dashboard.views.capacity_blocks import (
    BARS,
    NO_DEVICES,
    charts,
    device_chart,
    device_gauges,
    devices_of,
    memory_blocks,
    notes,
    pools_chart,
    ranks_by_pool,
)
from dashboard.views.context import context_of
from dashboard.views.help import glossary
from dashboard.views.names import brief, short_device, slugs
from dashboard.views.table import Field, to_data, to_table
from dashboard.views.traffic import KV_USAGE

MOST_OUTLIERS = 6  # named one by one; the table of ranks has all
MOST_ROWS = 4_000  # ranks of one table
WORST_POOLS = 5  # rows above the bars of the worst pool
NAIVE = "Naive estimate"
RANKS = (
    Field(
        "name",
        "Replica",
        lambda rank: Cell(brief(rank.name), letter=rank.cohort or "", value=rank.name),
        link=lambda rank: Link(Kind.REPLICA, rank.replica),
    ),
    Field("dp_rank", "DP rank", is_number=True, term="DP rank"),
    Field(
        "kv_cache_size_tokens",
        "KV tokens",
        lambda rank: formatting.exact(rank.kv_cache_size_tokens, Basis(rank.basis)),
        missing=NOT_KNOWN,
        is_number=True,
        term="capacity",
    ),
    Field(
        "off",
        "Off median",
        lambda rank: Cell(capacity_text.percent(rank.off), Tone.WARNING),
        lambda rank: capacity_text.in_percent(rank.off),
        key="To the median",
        unit="%",
        is_number=True,
    ),
    Field("", "Requests", capacity_text.requests_text, attrgetter("requests"), is_number=True),
    Field("gib", "KV GiB", "{:,.1f}", is_number=True),
    KV_USAGE,
    Field("naive_tokens", NAIVE, is_number=True, term="naive tokens", key="Blocks × size"),
    Field("basis", "Basis", lambda rank: rank.basis if rank.counts else f"{rank.basis}, not counted", term="basis"),
    Field("device", "Device", lambda rank: short_device(brief(rank.device))),
)
# What a bar is, as in the URL of the page.
RANK, GPU, POOL = "DP rank", "GPU", "pool"
WIDTHS = (3.4, 1)  # of the bars and of the shares of device memory at their right
PER_RANK_NOTE = "One bar per DP rank. Click a bar to open its replica."
PER_GPU_NOTE = "One bar per device: KV cache (solid) within its memory, in GiB."
TICKS_NOTE = " 1·0 is device 0 of DP rank 1."
PER_POOL_NOTE = "One bar per pool, each rank counted once."
NAIVE_NOTE = " Pale: the naive estimate."


def capacity_report(
    fleet: Fleet,
    pool: str | None = None,
    measure: capacity_text.Measure = capacity_text.Measure.TOKENS,
    length: int | None = None,
    per: str = RANK,
) -> View:
    """Return the sums of all pools, the worst first, and the ranks of one pool; None: of the worst.

    Requests have `length` tokens, or each replica's own length (None).
    """
    drawn = capacity_text.Measure.GIB if per == GPU else measure  # a GPU has memory only
    ranks = capacity_text.ranks_of(fleet, length, drawn)
    sums = capacity_text.pools_of(fleet, ranks, length)
    choices = {
        "measure": "" if measure is capacity_text.Measure.TOKENS else measure.value,
        "length": "" if length is None else str(length),
        "per": "" if per == RANK else per,
    }
    chosen = {key: text for key, text in choices.items() if text}
    filters = [("pool", pool), *chosen.items()]
    by_pool = ranks_by_pool(fleet, ranks)
    shown = pool or next(iter(by_pool), None)
    links = {key: text for key, text in chosen.items() if key != "per" or text == GPU}
    sums = tuple(sorted(sums, key=lambda each: list(by_pool).index(each.name)))
    parts = [Section("pools", "Pools", (replace(pools_table(fleet, sums, length, links, by_pool), first=WORST_POOLS),))]
    if per == POOL:
        parts.insert(0, _by_pool(sums, measure))
        pool = None  # for the heading
    elif shown is not None:
        own, slug = by_pool[shown], slugs(each.name for each in fleet.pools)[shown]
        devices = devices_of(fleet, own)
        blocks = _devices(shown, slug, own, devices) if per == GPU else _bars(fleet, shown, slug, own, devices, measure)
        parts.append(Section(f"pool-{slug}", brief(shown), blocks))
        if own:
            table = ranks_table(own, f"ranks-{slug}", f"DP ranks of {brief(shown)}")
            parts.append(Section(table.name, table.caption, (table,), is_aside=True))
    held = fleet.total if pool is None else fleet.capacity[pool]
    elsewhere = sum(capacity_text.is_short(rank) for rank in ranks if pool is not None and rank.pool != pool)
    return View(
        title="Capacity",
        headline=capacity_text.title(ranks) if pool is None else capacity_text.pool_title(pool, by_pool[pool]),
        lead=capacity_text.lead(ranks if pool is None else by_pool[pool], held.silent, elsewhere),
        context=context_of(fleet, filters=filters),
        parts=(*parts, glossary(("basis", "requests"))),
    )


def order_pools(fleet: Fleet) -> tuple[str, ...]:
    """Return the names of the pools, those with the most short ranks first."""
    return tuple(ranks_by_pool(fleet, capacity_text.ranks_of(fleet)))


def _bars(
    fleet: Fleet,
    pool: str,
    slug: str,
    ranks: Sequence[Any],
    devices: Sequence[tuple[Any, Any]],
    measure: capacity_text.Measure,
) -> tuple[Block, ...]:
    if any(rank.value is not None for rank in ranks):
        head: tuple[Block, ...] = (*charts(pool, slug, ranks, BARS), quiet_paragraph(PER_RANK_NOTE))
    else:
        why = capacity_text.most_common_reason(ranks) or "No engine data."
        head = (Paragraph((Piece(f"No {measure} to draw. ", Style.STRONG), Piece(why)), Tone.UNKNOWN),)
    left: tuple[Block, ...] = (*head, *notes(fleet, pool, ranks))
    return (
        Columns((left, (device_gauges(pool, slug, ranks, devices),)), WIDTHS),
        *outlier_entries(ranks, measure),
        *memory_blocks(fleet, slug, ranks),
    )


def _devices(pool: str, slug: str, ranks: Sequence[Any], devices: Sequence[tuple[Any, Any]]) -> tuple[Block, ...]:
    known = [(rank, device) for rank, device in devices if rank.kv_cache_bytes_per_device is not None]
    if not known:
        return (Paragraph(plain(NO_DEVICES), Tone.UNKNOWN),)
    chart = device_chart(pool, slug, known)
    silent = len(devices) - len(known)
    left_out = f" Left out: {count(silent, 'device')} whose KV cache bytes are not reported." if silent else ""
    several = TICKS_NOTE if any("·" in bar.tick for bar in chart.bars) else ""
    return (
        chart,
        quiet_paragraph(PER_GPU_NOTE + several + left_out),
        *([quiet_paragraph(f"Inner bars: {used}")] if (used := capacity_text.used_text(ranks)) else []),
        *(Paragraph(text) for text in capacity_text.not_counted(ranks)),
    )


def _by_pool(sums: Sequence[PoolCapacity], measure: capacity_text.Measure) -> Section:
    chart = pools_chart(sums, measure)
    if chart is None:
        return Section(
            "by-pool", "KV cache by pool", (Paragraph(plain(f"No pool reports its {measure}."), Tone.UNKNOWN),)
        )
    has_naive = any(bar.whole is not None for bar in chart.bars)
    note = quiet_paragraph(PER_POOL_NOTE + (NAIVE_NOTE if has_naive else ""))
    return Section("by-pool", "KV cache by pool", (chart, note))


def outlier_entries(
    ranks: Iterable[Any], measure: capacity_text.Measure, most: int = MOST_OUTLIERS, *, has_pools: bool = False
) -> tuple[Entries, ...]:
    """List outliers, the furthest first; empty where there is none. `has_pools`: each is named with its pool."""
    order = sorted((rank for rank in ranks if rank.off is not None), key=lambda rank: -abs(rank.off))
    items = [_outlier(rank, has_pools=has_pools) for rank in order[:most]]
    if len(order) > most:
        items.append(Entry(Tone.WARNING, plain(f"{len(order) - most:,} more, in the table of ranks")))
    fields = (
        Field("pool", key="Pool"),
        Field("name", key="Replica"),
        Field("dp_rank", key="DP rank", is_number=True),
        Field(
            "value", key="Requests" if measure is capacity_text.Measure.REQUESTS else f"KV {measure}", is_number=True
        ),
        Field("usual", key="Median", is_number=True),
        Field(
            "off", value=lambda rank: capacity_text.in_percent(rank.off), key="To the median", unit="%", is_number=True
        ),
    )
    caption = "Outliers among the DP ranks"
    return (Entries(tuple(items), lambda: to_data(order, fields, "outliers", caption)),) if items else ()


def ranks_table(ranks: Iterable[Any], name: str, caption: str) -> Table:
    known = list(ranks)
    note = capacity_text.used_text(known)
    fields = [field for field in RANKS if note or field is not KV_USAGE]
    rest = "{:,} more ranks are not listed.".format
    table = to_table(known, fields, name, caption, note, most=MOST_ROWS, rest=rest, is_whole=True)
    return replace(table, test_id="rank")


def pools_table(
    fleet: Fleet,
    pools: Sequence[PoolCapacity],
    length: int | None,
    choices: Mapping[str, str] | None = None,
    ranks: Mapping[str, Sequence[Any]] | None = None,
) -> Table:
    """Return a row per pool with its sums and the naive estimate; `choices` are those of the links to each pool.

    With the `ranks` of each pool it counts the short ones. Programs also read of how many ranks each sum is.
    """
    requests = f"Requests at {capacity_text.length_words(length)}"
    windows = capacity_text.window_texts(fleet)

    def short_cell(pool: PoolCapacity) -> Cell:
        off = [rank.off for rank in (ranks or {})[pool.name] if capacity_text.is_short(rank)]
        text = f"{len(off):,} ({capacity_text.percent(min(off))})" if off else "0"
        return Cell(text, Tone.WARNING if off else Tone.PLAIN, value=len(off))

    def naive_cell(pool: PoolCapacity) -> Cell:
        misleads, text = capacity_text.naive_text(pool, windows.get(pool.name, ""))
        return Cell(text, Tone.WARNING if misleads else Tone.PLAIN)

    fields = (
        Field(
            "name",
            "Pool",
            lambda pool: Cell(brief(pool.name), value=pool.name),
            link=lambda pool: page("capacity", **(choices or {}), pool=pool.name),
        ),
        Field("ranks", "Ranks", capacity_text.ranks_text, is_number=True, term="DP rank"),
        *([Field("", "Short ranks", short_cell, is_number=True)] if ranks else []),
        Field(
            "tokens.value",
            "KV tokens",
            lambda pool: capacity_text.sum_text(pool.tokens, capacity_text.Measure.TOKENS),
            missing=NOT_KNOWN,
            is_number=True,
            term="capacity",
        ),
        Field("tokens.known", key="Ranks with KV tokens", is_number=True),
        Field("", requests, _requests_cell, attrgetter("requests.value"), is_number=True),
        Field("requests.known", key="Ranks with requests", is_number=True),
        Field("not_served", key="Ranks that do not serve this length", is_number=True),
        Field("gib.value", "KV GiB", _gib_cell, missing=NOT_KNOWN, is_number=True),
        Field("gib.known", key="Ranks with KV GiB", is_number=True),
        Field("basis", "Basis", attrgetter("basis.value"), term="basis"),
        Field("naive", key="Naive tokens", is_number=True),
        Field("", NAIVE, naive_cell, term="naive tokens"),
    )
    table = to_table(pools, fields, "capacity-of-pools", "KV cache capacity of the pools")
    return replace(table, test_id="pool")


def _gib_cell(pool: PoolCapacity) -> Cell:
    return Cell(capacity_text.sum_text(pool.gib, capacity_text.Measure.GIB), note=_some(pool.gib.known, pool.ranks))


def _outlier(rank: Any, *, has_pools: bool) -> Entry:
    where = f" ({brief(rank.pool or 'no pool')})" if has_pools else ""
    name = Piece(f"{capacity_text.rank_name(rank)}{where}", Style.STRONG, Link(Kind.REPLICA, rank.replica))
    return Entry(Tone.WARNING, (name, Piece(f": {capacity_text.outlier_sentence(rank)}")))


def _requests_cell(pool: PoolCapacity) -> Cell:
    if pool.ranks and pool.not_served == pool.ranks:
        return Cell(capacity_text.NOT_SERVED)
    rest = [f"{pool.not_served:,} {capacity_text.NOT_SERVED}"] if pool.not_served else []
    rest += filter(None, [_some(pool.requests.known, pool.ranks - pool.not_served)])
    return Cell(capacity_text.sum_text(pool.requests, capacity_text.Measure.REQUESTS), note=", ".join(rest))


def _some(known: int, ranks: int) -> str:
    return f"{known:,} of {ranks:,} ranks" if 0 < known < ranks else ""
