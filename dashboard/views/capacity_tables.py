"""KV cache capacity as tables and lists: outliers, DP ranks, sums of pools."""

from collections.abc import Mapping, Sequence

from dashboard.capacity.outliers import Outlier
from dashboard.fleet import Basis, formatting
from dashboard.fleet.pieces import Kind, Piece, Style, Target, page, plain
from dashboard.views.blocks import Cell, Column, Entries, Entry, Table, Tone, Value, data_table, number_cell
from dashboard.views.capacity_blocks import PoolRanks
from dashboard.views.capacity_data import Measure, PoolCapacity, Rank, short_device, sum_of, value
from dashboard.views.capacity_text import (
    NOT_SERVED,
    amount,
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


def outlier_entries(pools: Sequence[PoolRanks], measure: Measure, most: int = MOST_OUTLIERS) -> tuple[Entries, ...]:
    """List the outliers, the furthest first; empty where there is none."""
    found = [(pool.ranks[place], outlier) for pool in pools for place, outlier in pool.apart.items()]
    order = sorted(found, key=lambda each: -abs(each[1].share))
    items = [_outlier(rank, outlier, measure, is_one=len(pools) == 1) for rank, outlier in order[:most]]
    if len(order) > most:
        items.append(Entry(Tone.WARNING, plain(f"{len(order) - most:,} more, in the table of ranks")))
    return (Entries(tuple(items), _outliers_data(order, measure)),) if items else ()


def ranks_table(pools: Sequence[PoolRanks], name: str, caption: str) -> Table:
    """Return a row per rank of these pools."""
    placed = [(rank, pool.apart.get(place)) for pool in pools for place, rank in enumerate(pool.ranks)]
    left = len(placed) - MOST_ROWS
    rows = tuple(_rank_row(rank, outlier) for rank, outlier in placed[:MOST_ROWS])
    return Table(
        name, caption, _RANK_COLUMNS, rows, f"{left:,} more ranks are not listed." if left > 0 else "", is_large=True
    )


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


def _outlier(rank: Rank, outlier: Outlier, measure: Measure, *, is_one: bool) -> Entry:
    where = "" if is_one else f" ({name_of(rank.replica.pool or 'no pool')})"
    name = Piece(f"{rank_name(rank)}{where}", Style.STRONG, Target(Kind.REPLICA, rank.replica.id))
    return Entry(Tone.WARNING, (name, Piece(f": {outlier_sentence(rank, outlier, measure)}")), percent(outlier.share))


def _outliers_data(found: Sequence[tuple[Rank, Outlier]], measure: Measure) -> Table:
    columns = (
        Column("Pool"),
        Column("Replica"),
        Column("DP rank", is_number=True),
        Column(f"KV {measure}" if measure is not Measure.REQUESTS else "Requests", is_number=True),
        Column("Median", is_number=True),
        Column("To the median", is_number=True, unit="%"),
    )
    rows = (
        (rank.replica.pool, rank.replica.name, rank.engine.dp_rank, each.value, each.median, in_percent(each.share))
        for rank, each in found
    )
    return data_table("outliers", "Outliers among the DP ranks", columns, rows)


def _rank_row(rank: Rank, outlier: Outlier | None) -> tuple[Cell, ...]:
    engine, bound = rank.engine, rank.engine.basis
    requests, gib = rank.at.requests, value(rank, Measure.GIB)
    at_most = Basis.ASSUMED if rank.at.at_most else Basis.REPORTED
    served = formatting.NOT_KNOWN if rank.at.served else NOT_SERVED
    name = name_of(rank.replica.name)
    target = Target(Kind.REPLICA, rank.replica.id)
    return (
        Cell(name, letter=rank.letter, value=rank.replica.name, target=target),
        number_cell(f"{engine.dp_rank}", engine.dp_rank),
        number_cell(formatting.exact(engine.kv_cache_size_tokens, bound), engine.kv_cache_size_tokens),
        Cell(percent(outlier.share), Tone.WARNING, value=in_percent(outlier.share)) if outlier else Cell(""),
        number_cell(
            served if requests is None else formatting.at_most(amount(requests, Measure.REQUESTS), at_most), requests
        ),
        number_cell("" if gib is None else f"{gib:,.1f}", gib),
        number_cell("" if engine.naive_tokens is None else f"{engine.naive_tokens:,}", engine.naive_tokens),
        Cell(f"{engine.basis}" if rank.counts else f"{engine.basis}, not counted"),
        Cell(short_device(name_of(rank.kind))),
    )


def _pool_row(pool: PoolCapacity, choices: Mapping[str, str]) -> tuple[Cell, ...]:
    misleads, naive = naive_text(pool)
    requests, requests_note = _requests(pool)
    held = sum_of(pool, Measure.GIB)
    return (
        Cell(name_of(pool.name), target=page("capacity", **choices, pool=pool.name)),
        Cell(ranks_text(pool)),
        Cell(sum_text(pool.tokens, Measure.TOKENS)),
        Cell(requests, note=requests_note),
        Cell(sum_text(held, Measure.GIB), note=_some(held.known, pool.ranks) if held.value is not None else ""),
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
    columns = (
        Column("Pool"),
        Column("Ranks", is_number=True),
        Column("KV tokens", is_number=True),
        Column("Ranks with KV tokens", is_number=True),
        Column(f"Requests at {length_words(length)}", is_number=True),
        Column("Ranks with requests", is_number=True),
        Column("Ranks that do not serve this length", is_number=True),
        Column("KV GiB", is_number=True),
        Column("Ranks with KV GiB", is_number=True),
        Column("Basis"),
        Column("Blocks × block size", is_number=True),
        Column("Blocks × block size would say"),
    )
    return data_table(name, caption, columns, map(_pool_values, pools))


def _pool_values(pool: PoolCapacity) -> tuple[Value | None, ...]:
    return (
        pool.name,
        pool.ranks,
        pool.tokens.value,
        pool.tokens.known,
        pool.requests.value,
        pool.requests.known,
        pool.not_served,
        sum_of(pool, Measure.GIB).value,
        pool.bytes.known,
        pool.basis.value,
        pool.naive,
        naive_text(pool)[1],
    )
