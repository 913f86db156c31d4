"""KV cache capacity as blocks of a report: bars by DP rank, outliers, tables of ranks and pools, what is not known."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.outliers import Outlier, medians
from dashboard.fleet import Basis, formatting
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.report.capacity.pools import PoolCapacity, Sum
from dashboard.report.capacity.ranks import GIB, Measure, Rank, is_at_most, outliers_of, peers, value
from dashboard.report.capacity.remarks import least, remarks, uncounted
from dashboard.report.capacity.totals import short_device
from dashboard.report.capacity.words import (
    NEAR,
    amount,
    in_percent,
    length_words,
    naive_sentence,
    name_of,
    outlier_sentence,
    percent,
    rank_name,
    ranks_text,
    sum_text,
)
from dashboard.views.blocks import (
    Bar,
    Block,
    Cell,
    Chart,
    Column,
    Entries,
    Entry,
    Paragraph,
    Table,
    Tone,
    Value,
    data_table,
    number_cell,
)

MOST_BARS = 48  # of one chart: a page of paper, at a third of a centimetre each
MOST_OUTLIERS = 6  # named one by one; all of them stand in the table of ranks
MOST_ROWS = 4_000  # ranks of one table
NOT_SERVED = "not served"
_RANK_COLUMNS = (
    Column("Replica"),
    Column("DP rank", is_number=True),
    Column("KV tokens", is_number=True),
    Column("To the median", is_number=True, unit="%"),
    Column("Requests", is_number=True),
    Column("KV GiB", is_number=True),
    Column("Blocks × size", is_number=True),
    Column("Basis"),
    Column("Device"),
)


class PoolRanks(NamedTuple):
    """The ranks of one pool, and those of them that hold much less or more than their peers, by place."""

    name: str
    slug: str
    ranks: tuple[Rank, ...]
    apart: Mapping[int, Outlier]

    @property
    def differ(self) -> bool:
        """Tell whether ranks that count hold clearly different numbers of tokens."""
        held = [tokens for rank in self.ranks if rank.counts and (tokens := rank.engine.kv_cache_size_tokens)]
        return bool(held) and max(held) > min(held) * (1 + NEAR)


def ranks_by_pool(ranks: Sequence[Rank], slugs: Mapping[str, str], measure: Measure) -> list[PoolRanks]:
    """Sort ranks into their pools, in the order of `slugs`, which names all pools."""
    members: dict[str, list[Rank]] = {name: [] for name in slugs}
    for rank in ranks:
        if rank.replica.pool is not None:
            members[rank.replica.pool].append(rank)
    return [PoolRanks(name, slugs[name], tuple(own), outliers_of(own, measure)) for name, own in members.items()]


def pool_blocks(fleet: Fleet, pool: PoolRanks, measure: Measure) -> tuple[Block, ...]:
    """Show one pool: a chart for each kind of device, and what the bars do not show."""
    silent = [each for each in fleet.replicas if each.pool == pool.name and not each.engines]
    said = [*remarks(pool.ranks, silent, measure, 0), *uncounted(pool.ranks)]
    lines = [Paragraph((Piece(each.text, Style.MUTED),)) for each in said]
    return (*charts(pool, measure), *lines)


def outlier_entries(pools: Sequence[PoolRanks], measure: Measure, most: int = MOST_OUTLIERS) -> tuple[Entries, ...]:
    """List the ranks beyond the tolerance, the furthest first; empty where none is."""
    found = [(pool.ranks[place], outlier) for pool in pools for place, outlier in pool.apart.items()]
    order = sorted(found, key=lambda each: -abs(each[1].share))
    items = [_outlier(rank, outlier, measure, is_one=len(pools) == 1) for rank, outlier in order[:most]]
    if len(order) > most:
        items.append(Entry(Tone.WARNING, plain(f"{len(order) - most:,} more, in the table of ranks")))
    return (Entries(tuple(items), _outliers_data(order, measure)),) if items else ()


def charts(pool: PoolRanks, measure: Measure) -> tuple[Chart, ...]:
    """Draw the ranks of a pool, a chart for each kind of device: only these have one median."""
    ranks = pool.ranks
    kinds = [kind for _, kind in peers(ranks)]
    middle = medians(kinds, [value(rank, measure) if rank.counts else None for rank in ranks])
    order = sorted(dict.fromkeys(kinds))
    return tuple(
        _chart(pool, [place for place in range(len(ranks)) if kinds[place] == kind], measure, middle.get(kind), nth)
        for nth, kind in enumerate(order)
    )


def ranks_table(pools: Sequence[PoolRanks], name: str, caption: str) -> Table:
    """Return a row per rank of these pools; of a great many the first ones."""
    placed = [(rank, pool.apart.get(place)) for pool in pools for place, rank in enumerate(pool.ranks)]
    left = len(placed) - MOST_ROWS
    return Table(
        name=name,
        caption=caption,
        columns=_RANK_COLUMNS,
        rows=tuple(_rank_row(rank, outlier) for rank, outlier in placed[:MOST_ROWS]),
        note=f"{left:,} more ranks are not listed." if left > 0 else "",
    )


def pools_table(pools: Sequence[PoolCapacity], length: int | None) -> Table:
    """Return a row per pool, its ranks added up once, with what blocks x block size would say."""
    columns = (
        Column("Pool"),
        Column("Ranks", is_number=True),
        Column("KV tokens", is_number=True),
        Column(f"Requests at {length_words(length)}", is_number=True),
        Column("KV GiB", is_number=True),
        Column("Basis"),
        Column("Blocks × block size would say"),
    )
    name, caption = "capacity-of-pools", "KV cache capacity of the pools"
    return Table(name, caption, columns, tuple(map(_pool_row, pools)), data=_pools_data(pools, name, caption, length))


def _outlier(rank: Rank, outlier: Outlier, measure: Measure, *, is_one: bool) -> Entry:
    where = "" if is_one else f" of {name_of(rank.replica.pool or 'no pool')}"
    head = (Piece(f"{rank_name(rank)}{where}", Style.STRONG), Piece(f" {outlier_sentence(rank, outlier, measure)}"))
    return Entry(Tone.WARNING, head, percent(outlier.share))


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
    return data_table("outliers", "DP ranks apart from their peers", columns, rows)


def _chart(pool: PoolRanks, places: Sequence[int], measure: Measure, median: float | None, nth: int) -> Chart:
    told = [(place, value(pool.ranks[place], measure)) for place in places]
    shown = least([(place, number) for place, number in told if number is not None], MOST_BARS)
    unknown = [place for place, number in told if number is None]
    shown = sorted([*shown, *unknown[: MOST_BARS - len(shown)]])
    kind = short_device(name_of(pool.ranks[places[0]].kind))
    return Chart(
        name=f"capacity-{pool.slug}{f'-{nth + 1}' if nth else ''}",
        title=f"{name_of(pool.name)}: KV cache by DP rank{f', {kind}' if kind else ''}",
        unit=str(measure),
        bars=tuple(_bar(pool.ranks[place], pool.apart.get(place), measure) for place in shown),
        median=median,
        more=len(places) - len(shown),
    )


def _bar(rank: Rank, outlier: Outlier | None, measure: Measure) -> Bar:
    return Bar(
        label=rank_name(rank) + ("" if rank.counts else ", not counted"),
        value=value(rank, measure),
        is_at_most=is_at_most(rank, measure),
        letter=rank.letter,
        mark=percent(outlier.share) if outlier else "",
        tone=Tone.WARNING if outlier else Tone.PLAIN,
    )


def _rank_row(rank: Rank, outlier: Outlier | None) -> tuple[Cell, ...]:
    engine, bound = rank.engine, rank.engine.basis
    requests, gib = rank.at.requests, value(rank, Measure.GIB)
    at_most = Basis.ASSUMED if rank.at.at_most else Basis.REPORTED
    served = formatting.NOT_KNOWN if rank.at.served else NOT_SERVED
    return (
        Cell(name_of(rank.replica.name), letter=rank.letter, value=rank.replica.name),
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


def _pool_row(pool: PoolCapacity) -> tuple[Cell, ...]:
    misleads, naive = naive_sentence(pool)
    return (
        Cell(name_of(pool.name)),
        Cell(ranks_text(pool)),
        Cell(sum_text(pool.tokens, Measure.TOKENS)),
        Cell(_requests(pool)),
        Cell(_bytes(pool.bytes, pool.ranks)),
        Cell(f"{pool.basis}"),
        Cell(naive, Tone.WARNING if misleads else Tone.PLAIN),
    )


def _pools_data(pools: Sequence[PoolCapacity], name: str, caption: str, length: int | None) -> Table:
    """Return the sums, and of how many ranks each of them is."""
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
    held = pool.bytes.value
    return (
        pool.name,
        pool.ranks,
        pool.tokens.value,
        pool.tokens.known,
        pool.requests.value,
        pool.requests.known,
        pool.not_served,
        None if held is None else held / GIB,
        pool.bytes.known,
        pool.basis.value,
        pool.naive,
        naive_sentence(pool)[1],
    )


def _requests(pool: PoolCapacity) -> str:
    if pool.ranks and pool.not_served == pool.ranks:
        return NOT_SERVED
    beside = [f"{pool.not_served:,} {NOT_SERVED}"] if pool.not_served else []
    beside += _some(pool.requests.known, pool.ranks - pool.not_served)
    return ", ".join([sum_text(pool.requests, Measure.REQUESTS), *beside])


def _bytes(total: Sum, ranks: int) -> str:
    if total.value is None:
        return formatting.NOT_KNOWN
    return ", ".join([sum_text(total._replace(value=total.value / GIB), Measure.GIB), *_some(total.known, ranks)])


def _some(known: int, ranks: int) -> list[str]:
    return [f"{known:,} of {ranks:,} ranks"] if 0 < known < ranks else []
