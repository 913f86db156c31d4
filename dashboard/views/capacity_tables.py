"""KV cache capacity as tables and lists: outliers, DP ranks, sums of pools."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from dashboard.capacity.sums import PoolCapacity
from dashboard.fleet import formatting
from dashboard.fleet.pieces import Kind, Link, Piece, Style, page, plain
from dashboard.views.blocks import Cell, Column, Entries, Entry, Table, Tone, Value, data_table, number_cell
from dashboard.views.capacity_data import Measure, Rank, short_device
from dashboard.views.capacity_text import (
    NOT_SERVED,
    bounded,
    in_percent,
    length_words,
    naive_text,
    name_of,
    outlier_sentence,
    percent,
    rank_name,
    ranks_text,
    sum_text,
)

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
    return Table(name, caption, columns, rows, data=_pools_data(pools, name, caption, length))


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
