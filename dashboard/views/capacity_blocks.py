"""KV cache capacity as blocks: bars, outliers, tables of ranks and pools, shares of device memory."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.memory import MemoryPart, Parts, main_cause, memory_parts, usual_parts
from dashboard.capacity.outliers import outliers
from dashboard.capacity.sums import GIB, PoolCapacity, device_noun
from dashboard.fleet import Device, formatting
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, page
from dashboard.rules.sentences import capital
from dashboard.views.blocks import (
    Bar,
    Block,
    Cell,
    Chart,
    Column,
    Columns,
    Gauge,
    Gauges,
    Paragraph,
    Table,
    Tone,
    number_cell,
    quiet_paragraph,
)
from dashboard.views.capacity_text import (
    NEAR,
    Measure,
    Rank,
    brief,
    name_of,
    not_drawn,
    percent,
    rank_name,
    short_device,
    sum_of,
    sum_text,
    tick_texts,
    value_text,
)
from dashboard.views.slugs import slugs

BARS = 240  # of one chart: about five pixels each on a wide screen
PRINTED_BARS = 48  # of one chart in a report of many pools: a page of paper
MOST_GAUGES = 6
MEMORY_WIDTHS = (1.5, 1)  # of the bars by part, and of the table at their right
NO_MEMORY = "Memory by part not reported. Provider 1.2 reports it where vLLM measured it (docs/config-api.md)."
MEMORY_NOTE = "Measured by the worker at its start; not yet verified on a GPU. The parts add up to the device."
NO_DEVICES = "Devices not reported. The provider reports devices and KV cache bytes; stock vLLM reports neither."


class PoolRanks(NamedTuple):
    """The ranks of one pool."""

    name: str
    slug: str
    ranks: tuple[Rank, ...]

    @property
    def outliers(self) -> list[Rank]:
        """The ranks that are far from the median of their peers."""
        return [rank for rank in self.ranks if rank.off is not None]

    @property
    def is_uneven(self) -> bool:
        """Whether a rank is an outlier, or ranks that count have clearly different numbers of tokens."""
        held = [tokens for rank in self.ranks if rank.counts and (tokens := rank.engine.kv_cache_size_tokens)]
        return bool(self.outliers) or (bool(held) and max(held) > min(held) * (1 + NEAR))


class RankDevice(NamedTuple):
    """One accelerator of a rank."""

    rank: Rank
    device: Device


def ranks_by_pool(fleet: Fleet, ranks: Sequence[Rank]) -> list[PoolRanks]:
    """Return the ranks of each pool; pools with the most short ranks come first."""
    members: dict[str | None, list[Rank]] = defaultdict(list)
    for rank in ranks:
        members[rank.replica.pool].append(rank)
    named = slugs(pool.name for pool in fleet.pools)
    found = [PoolRanks(name, slug, tuple(members[name])) for name, slug in named.items()]
    return sorted(found, key=lambda pool: -sum((rank.off or 0) < 0 for rank in pool.ranks))


def pool_blocks(fleet: Fleet, pool: PoolRanks, most: int = PRINTED_BARS) -> tuple[Block, ...]:
    """Return a chart for each kind of device of a pool, and what the bars do not show."""
    return (*charts(pool, most), *notes(fleet, pool))


def notes(fleet: Fleet, pool: PoolRanks) -> list[Paragraph]:
    """Return what bars of ranks do not show, as quiet paragraphs."""
    silent = [each for each in fleet.replicas if each.pool == pool.name and not each.engines]
    return [Paragraph(_quiet(text)) for text in not_drawn(pool.ranks, silent)]


def charts(pool: PoolRanks, most: int = PRINTED_BARS) -> tuple[Chart, ...]:
    """Return the bars of a pool's ranks, a chart for each kind of device: only these have one median."""
    found = []
    for nth, kind in enumerate(sorted({rank.peers for rank in pool.ranks})):
        ranks = [rank for rank in pool.ranks if rank.peers == kind]
        shown = _least([rank.value for rank in ranks], most)
        measure, median = ranks[0].measure, ranks[0].median
        name = short_device(name_of(ranks[0].device))
        found.append(
            Chart(
                name=f"capacity-{pool.slug}{f'-{nth + 1}' if nth else ''}",
                title=f"{name_of(pool.name)}: KV cache by DP rank{f', {name}' if name else ''}",
                unit=str(measure),
                bars=tuple(_rank_bar(ranks[place]) for place in shown),
                median=median,
                more=len(ranks) - len(shown),
                median_label=f"median {brief(median, measure)}" if median is not None else "",
                ticks=_ticks(measure),
                is_wide=False,
            )
        )
    return tuple(found)


def devices_of(ranks: Sequence[Rank]) -> tuple[RankDevice, ...]:
    """Return the devices of ranks whose memory is reported."""
    return tuple(
        RankDevice(rank, device)
        for rank in ranks
        for device in rank.replica.devices
        if device.dp_rank == rank.engine.dp_rank and device.total_memory_bytes
    )


def device_chart(pool: PoolRanks, most: int = BARS) -> Chart | None:
    """Return the KV cache of each device of a pool, in GiB, inside its memory; None where none is reported."""
    found = devices_of(pool.ranks)
    if not found:
        return None
    held = [one.rank.engine.kv_cache_bytes_per_device for one in found]
    counted = [size if one.rank.counts else None for one, size in zip(found, held, strict=True)]
    off = {each.place: each.share for each in outliers([one.device.name for one in found], counted)}
    shown = _least([size or 0 for size in held], most)
    order = sorted(shown, key=lambda place: (found[place].device.name, place))
    noun = device_noun(one.device for one in found)
    return Chart(
        name=f"devices-{pool.slug}",
        title=f"{name_of(pool.name)}: KV cache in the memory of each {noun}",
        unit=str(Measure.GIB),
        bars=tuple(_device_bar(found[place], off.get(place)) for place in order),
        more=len(found) - len(shown),
        ticks=_ticks(Measure.GIB),
    )


def pools_chart(pools: Sequence[PoolCapacity], measure: Measure) -> Chart | None:
    """Return one bar per pool; in tokens with the naive estimate behind it. None where no pool reports."""
    bars = []
    for pool in pools:
        total = sum_of(pool, measure)
        if total.value is None:
            continue
        naive = pool.naive if measure is Measure.TOKENS and pool.naive != pool.naive_of else None
        lines = [name_of(pool.name), sum_text(total, measure) + f" {measure}"]
        lines += [f"naive estimate {naive:,}"] if naive else []
        link = page("capacity", pool=pool.name)
        bars.append(Bar(name_of(pool.name), total.value, total.at_most, link=link, hover=tuple(lines), whole=naive))
    if not bars:
        return None
    return Chart("capacity-pools", "KV cache by pool", str(measure), tuple(bars), ticks=_ticks(measure))


def memory_blocks(pool: PoolRanks) -> tuple[Block, ...]:
    """Return the memory of the shortest rank by part beside the median engine of its kind; empty where not reported."""
    short = min((rank for rank in pool.outliers if (rank.off or 0) < 0), key=lambda rank: rank.off or 0, default=None)
    if short is None:
        return ()
    peers = [rank for rank in pool.ranks if rank.peers == short.peers and rank.counts]
    known = {id(rank): parts for rank in peers if (parts := memory_parts(rank.engine, rank.replica.devices))}
    own = known.get(id(short))
    if own is None:
        return (quiet_paragraph(NO_MEMORY),)
    usual = usual_parts(tuple(known.values()))
    name = rank_name(short)
    chart = Chart(
        name=f"memory-{pool.slug}",
        title=f"Memory of {name} by part, beside the median engine",
        unit=str(Measure.GIB),
        bars=tuple(_part_bars(name, own, usual)),
        ticks=_ticks(Measure.GIB),
        is_wide=False,
    )
    columns = (
        Column("Part"),
        *(Column(each, is_number=True, unit="GiB") for each in ("This rank", "Median", "Difference")),
    )
    rows = tuple(
        (Cell(capital(part)), *(number_cell(_gib_text(size), size / GIB) for size in sizes))
        for part, sizes in ((part, (own[part], usual[part], own[part] - usual[part])) for part in MemoryPart)
    )
    table = Table(f"memory-{pool.slug}", f"Memory of {name}", columns, rows, MEMORY_NOTE)
    return (Paragraph(_cause_text(name, own, usual)), Columns(((chart,), (table,)), MEMORY_WIDTHS))


def _gib_text(size: int) -> str:
    """Write bytes in GiB with one decimal: `5.7`, `−5.7`, and `0.0` without a sign."""
    return f"{size / GIB:z,.1f}".replace("-", "−")


def _cause_text(name: str, own: Parts, usual: Parts) -> Text:
    """Write why a rank has less memory for its KV cache than the median engine."""
    cause = main_cause(own, usual)
    head = (Piece(f"Why is {name} short? ", Style.STRONG),)
    if cause is None:
        return (*head, Piece("No part of the memory explains most of the gap."))
    more, gap = f"{cause.more / GIB:,.1f} GiB", f"{cause.gap / GIB:,.1f} GiB"
    return (*head, Piece(f"Most of the gap of {gap} is {cause.part}: {more} more than on the median engine."))


def _part_bars(name: str, own: Parts, usual: Parts) -> Iterator[Bar]:
    """Yield two bars for each part, each where the part before ended: the parts add up to the device."""
    cause, starts = main_cause(own, usual), [0, 0]
    for part in (each for each in MemoryPart if own[each] or usual[each]):
        for place, (tick, parts) in enumerate(((name, own), ("median", usual))):
            is_cause = cause is not None and part is cause.part and parts is own
            yield Bar(
                label=f"{capital(part)}, {tick}",
                value=parts[part] / GIB,
                start=starts[place] / GIB,
                group=capital(part),
                tick="median" if place else "rank",
                hover=(capital(part), tick, f"{parts[part] / GIB:,.1f} GiB"),
                is_faint=bool(place),
                tone=Tone.WARNING if is_cause else Tone.PLAIN,
                mark=f"+{cause.more / GIB:,.1f}" if is_cause and cause else "",
            )
            starts[place] += parts[part]


def device_gauges(pool: PoolRanks) -> Gauges | Paragraph:
    """Return the share of device memory that the KV cache has, an item per kind; outliers have their own.

    An item counts the devices with reported KV cache bytes, as the pools' GiB do.
    """
    found = [one for one in devices_of(pool.ranks) if one.rank.counts]
    if not found:
        return quiet_paragraph(NO_DEVICES)
    kinds = [(short_device(name_of(one.device.name)), one.device.total_memory_bytes or 1) for one in found]
    held = [one.rank.engine.kv_cache_bytes_per_device for one in found]
    apart = {outlier.place for outlier in outliers(kinds, held)}
    items = []
    for kind in dict.fromkeys(kinds):
        sizes = [size for place, size in enumerate(held) if kinds[place] == kind and place not in apart]
        known = [size for size in sizes if size is not None]
        items.append(_gauge(f"{kind[0]} ×{len(known) or len(sizes):,}", median(known) if known else None, kind[1]))
    items += [_gauge(_device_name(found[place]), held[place], kinds[place][1]) for place in sorted(apart)]
    more = f" {len(items) - MOST_GAUGES:,} more per GPU." if len(items) > MOST_GAUGES else ""
    reporting = {(one.rank.replica.id, one.rank.engine.dp_rank) for one, size in zip(found, held, strict=True) if size}
    counted = sum(rank.counts for rank in pool.ranks)
    some = "" if len(reporting) == counted else f" Reported by {len(reporting):,} of {count(counted, 'rank')}."
    note = f"Solid: KV cache. The rest: weights, activations, graphs, other processes.{some}{more}"
    title = "KV share of device memory"
    return Gauges(
        f"device-memory-{pool.slug}", f"{name_of(pool.name)}: {title}", title, tuple(items[:MOST_GAUGES]), note
    )


def _quiet(text: Sequence[Piece]) -> tuple[Piece, ...]:
    return tuple(each._replace(style=Style.MUTED) if each.style is Style.PLAIN else each for each in text)


def _least(numbers: Sequence[float | None], most: int) -> list[int]:
    """Return the places of the least values and, with room left, of unknown ones: short ranks matter most."""
    order = sorted(range(len(numbers)), key=lambda place: (numbers[place] is None, numbers[place] or 0))
    return sorted(order[:most])


def _ticks(measure: Measure) -> Callable[[Sequence[float]], Sequence[str]]:
    return lambda marks: tick_texts(marks, measure)


def _rank_bar(rank: Rank) -> Bar:
    name, number = name_of(rank.replica.name), rank.engine.dp_rank
    share = f" ({percent(rank.off)} off the median)" if rank.off is not None else ""
    lines = [f"{name}, rank {number}", f"{value_text(rank)} {rank.measure}{share}"]
    lines += [f"basis: {rank.engine.basis}"] if rank.measure is Measure.TOKENS else []
    lines += [short_device(name_of(rank.device))] if rank.device else []
    lines += [f"cohort {rank.letter}"] if rank.letter else []
    lines += [] if rank.counts else ["not counted: stale, or second address of one process"]
    label = rank_name(rank) + ("" if rank.counts else ", not counted")
    bar = _bar(rank, label, rank.value, f"{number}", lines, rank.off)
    return bar._replace(is_at_most=rank.is_at_most)


def _device_bar(one: RankDevice, off: float | None) -> Bar:
    rank, device = one
    held, name = rank.engine.kv_cache_bytes_per_device, name_of(rank.replica.name)
    tick = f"{rank.engine.dp_rank}·{device.rank}" if len(rank.replica.engines) > 1 else str(device.rank)
    memory = _held_of(held, device.total_memory_bytes)
    lines = [f"{name}, rank {rank.engine.dp_rank}, device {device.rank}", memory, name_of(device.name)]
    bar = _bar(rank, f"{name}, {tick}", None if held is None else held / GIB, tick, lines, off)
    return bar._replace(whole=(device.total_memory_bytes or 0) / GIB)


def _bar(rank: Rank, label: str, value: float | None, tick: str, hover: Sequence[str], off: float | None) -> Bar:
    """Return a bar of a rank or one of its devices, marked if it is off the median."""
    return Bar(
        label=label,
        value=value,
        letter=rank.letter,
        mark=percent(off) if off is not None else "",
        tone=Tone.WARNING if off is not None else Tone.PLAIN,
        link=Link(Kind.REPLICA, rank.replica.id),
        group=name_of(rank.replica.name),
        tick=tick,
        hover=tuple(hover),
        is_faint=not rank.counts,
    )


def _gauge(name: str, held: float | None, total: int) -> Gauge:
    return Gauge(name, _held_of(held, total), None if held is None else min(held / total, 1))


def _held_of(held: float | None, total: int | None) -> str:
    """Return `46.4 of 80 GiB`."""
    of = f"{total / GIB:,.1f}".removesuffix(".0") + " GiB" if total else formatting.NOT_KNOWN
    return f"{held / GIB:,.1f} of {of}" if held is not None else f"{formatting.NOT_KNOWN} of {of}"


def _device_name(one: RankDevice) -> str:
    several = len([each for each in one.rank.replica.devices if each.dp_rank == one.rank.engine.dp_rank]) > 1
    return f"{rank_name(one.rank)}, {device_noun([one.device])} {one.device.rank}" if several else rank_name(one.rank)
