"""KV cache capacity as blocks: bars, outliers, tables of ranks and pools, shares of device memory."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from statistics import median
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.outliers import MemoryCause, MemoryPart, main_cause, memory_parts, outliers, usual_parts
from dashboard.capacity.sums import GIB, PoolCapacity, device_noun
from dashboard.fleet import formatting
from dashboard.fleet.formatting import count
from dashboard.fleet.frames import rows_of
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, page
from dashboard.rules.sentences import capital
from dashboard.views.blocks import (
    Bar,
    Block,
    Cell,
    Chart,
    Column,
    Columns,
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
    is_short,
    not_drawn,
    percent,
    rank_name,
    short_value,
    sum_text,
    tick_texts,
    value_text,
)
from dashboard.views.names import brief, short_device

BARS = 240  # of one chart: about five pixels each on a wide screen
PRINTED_BARS = 48  # of one chart of a review: a page of paper
MOST_GAUGES = 6
SHARE_TITLE = "KV share of device memory"
MEMORY_WIDTHS = (1.5, 1)  # of the memory by part, and of its note at the right
NO_MEMORY = "Memory by part not reported. Provider 1.2 reports it where vLLM measured it (docs/config-api.md)."
MEMORY_COLUMNS = ("Difference", "This rank", "Median")
MEMORY_NOTE = "In GiB, of one device; measured by its worker at the start, not yet verified on a GPU."
NO_DEVICES = "Devices not reported. The provider reports devices and KV cache bytes; stock vLLM reports neither."


def ranks_by_pool(fleet: Fleet, ranks: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the ranks of each pool, the pool with the most short ranks first, of equally many the shortest."""
    known: dict[str, list[Any]] = {pool.name: [] for pool in fleet.pools}
    for rank in ranks:
        if rank.pool is not None:
            known[rank.pool].append(rank)

    def urgency(item: tuple[str, list[Any]]) -> tuple[int, float]:
        off = [rank.off for rank in item[1] if is_short(rank)]
        return -len(off), round(min(off, default=0.0), 2)

    return dict(sorted(known.items(), key=urgency))


def is_uneven(ranks: Sequence[Any]) -> bool:
    """Return whether a rank is an outlier, or ranks that count have clearly different numbers of tokens."""
    held = [rank.kv_cache_size_tokens for rank in ranks if rank.counts and rank.kv_cache_size_tokens]
    return any(rank.off is not None for rank in ranks) or bool(held and max(held) > min(held) * (1 + NEAR))


def notes(fleet: Fleet, pool: str, ranks: Sequence[Any]) -> list[Paragraph]:
    """Return what the bars of a pool do not show."""
    silent = [replica for replica in fleet.replicas if replica.pool == pool and not replica.engines]
    return [Paragraph(_quiet(text)) for text in not_drawn(ranks, silent)]


def charts(pool: str, slug: str, ranks: Sequence[Any], most: int = PRINTED_BARS) -> tuple[Chart, ...]:
    """Return the bars of a pool's ranks, a chart for each kind of device: only these have one median."""
    found = []
    for nth, peers in enumerate(sorted({rank.peers for rank in ranks})):
        own = [rank for rank in ranks if rank.peers == peers]
        shown = _least(own, [rank.value for rank in own], most)
        first = shown[0]
        device = short_device(brief(first.device))
        found.append(
            Chart(
                name=f"capacity-{slug}{f'-{nth + 1}' if nth else ''}",
                title=f"{brief(pool)}: KV cache by DP rank{f', {device}' if device else ''}",
                unit=str(first.measure),
                bars=tuple(map(_rank_bar, shown)),
                median=first.usual,
                more=len(own) - len(shown),
                median_label=f"median {short_value(first.usual, first.measure)}" if first.usual is not None else "",
                ticks=partial(tick_texts, measure=first.measure),
                is_wide=False,
            )
        )
    return tuple(found)


def devices_of(fleet: Fleet, ranks: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the devices of ranks whose memory is reported: pairs of a rank and its device."""
    frame = fleet.frames.devices
    devices: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for device in rows_of(frame[frame["replica"].isin({rank.replica for rank in ranks})]):
        devices[device.replica, device.dp_rank].append(device)
    return [
        (rank, device) for rank in ranks for device in devices[rank.replica, rank.dp_rank] if device.total_memory_bytes
    ]


def device_chart(pool: str, slug: str, found: Sequence[tuple[Any, Any]]) -> Chart:
    """Return the KV cache of each device of a pool, in GiB, inside its memory."""
    held = [rank.kv_cache_bytes_per_device for rank, _ in found]
    counted = [size if rank.counts else None for size, (rank, _) in zip(held, found, strict=True)]
    names = [device.name for _, device in found]
    off = outliers(names, counted)
    places: list[int] = _least(range(len(found)), [size or 0 for size in held], BARS)
    places.sort(key=names.__getitem__)
    noun = device_noun(names)
    return Chart(
        name=f"devices-{slug}",
        title=f"{brief(pool)}: KV cache in the memory of each {noun}",
        unit=str(Measure.GIB),
        bars=tuple(_device_bar(*found[place], off.get(place)) for place in places),
        more=len(found) - len(places),
        ticks=partial(tick_texts, measure=Measure.GIB),
    )


def pools_chart(pools: Sequence[PoolCapacity], measure: Measure) -> Chart | None:
    """Return one bar per pool; in tokens with the naive estimate behind it. None where no pool reports."""
    bars = []
    for pool in pools:
        total = {Measure.TOKENS: pool.tokens, Measure.GIB: pool.gib, Measure.REQUESTS: pool.requests}[measure]
        if total.value is None:
            continue
        naive = pool.naive if measure is Measure.TOKENS and pool.naive != pool.naive_of else None
        lines = [brief(pool.name), sum_text(total, measure) + f" {measure}"]
        lines += [f"naive estimate {naive:,}"] if naive else []
        link = page("capacity", pool=pool.name)
        bars.append(Bar(brief(pool.name), total.value, total.at_most, link=link, hover=tuple(lines), whole=naive))
    if not bars:
        return None
    return Chart(
        "capacity-pools", "KV cache by pool", str(measure), tuple(bars), ticks=partial(tick_texts, measure=measure)
    )


def memory_blocks(fleet: Fleet, slug: str, ranks: Sequence[Any]) -> tuple[Block, ...]:
    """Return the memory of the shortest rank by part beside the median engine of its kind; empty where not reported."""
    less = list(filter(is_short, ranks))
    if not less:
        return ()
    short = min(less, key=lambda rank: rank.off)
    peers = {(rank.replica, rank.dp_rank) for rank in ranks if rank.peers == short.peers and rank.counts}
    known = {
        (replica.id, engine.dp_rank): parts
        for replica in fleet.replicas
        if replica.pool == short.pool
        for engine in replica.engines
        if (replica.id, engine.dp_rank) in peers and (parts := memory_parts(engine, replica.devices))
    }
    own = known.get((short.replica, short.dp_rank))
    if own is None:
        return (quiet_paragraph(NO_MEMORY),)
    usual = usual_parts(tuple(known.values()))
    name, cause = rank_name(short), main_cause(own, usual)
    rows = []
    for part in MemoryPart:
        sizes = own[part] - usual[part], own[part], usual[part]
        # One decimal: `5.7`, `−5.7`, and `0.0` without a sign.
        numbers = [number_cell(f"{size / GIB:z,.1f}".replace("-", "−"), size / GIB) for size in sizes]
        if cause is not None and part is cause.part:
            numbers[0] = numbers[0]._replace(tone=Tone.WARNING)
        rows.append((Cell(capital(part)), *numbers))
    columns = (Column("Part"), *(Column(title, is_number=True, unit="GiB") for title in MEMORY_COLUMNS))
    table = Table(f"memory-{slug}", f"Memory of {name}", columns, tuple(rows))
    return (Paragraph(_cause_text(name, cause)), Columns(((table,), (quiet_paragraph(MEMORY_NOTE),)), MEMORY_WIDTHS))


def _cause_text(name: str, cause: MemoryCause | None) -> Text:
    head = (Piece(f"Why is {name} short? ", Style.STRONG),)
    if cause is None:
        return (*head, Piece("No part of the memory explains most of the gap."))
    more, gap = f"{cause.more / GIB:,.1f} GiB", f"{cause.gap / GIB:,.1f} GiB"
    if cause.part is MemoryPart.OTHER:
        return (*head, Piece(f"Another process probably holds {more} of its device (gap: {gap})."))
    return (*head, Piece(f"{capital(cause.part)}: {more} more than on the median engine (gap: {gap})."))


def device_gauges(pool: str, slug: str, ranks: Sequence[Any], devices: Iterable[tuple[Any, Any]]) -> Gauges | Paragraph:
    """Return the share of device memory that the KV cache has, an item per kind; outliers have their own.

    An item counts the devices with reported KV cache bytes, as the pools' GiB do.
    """
    found = [(rank, device) for rank, device in devices if rank.counts]
    if not found:
        return quiet_paragraph(NO_DEVICES)
    kinds = [(short_device(brief(device.name)), device.total_memory_bytes) for _, device in found]
    held = [rank.kv_cache_bytes_per_device for rank, _ in found]
    apart = sorted(outliers(kinds, held))
    alike: dict[tuple[str, int], list[int | None]] = {kind: [] for kind in kinds}
    for place, kind in enumerate(kinds):
        if place not in apart:
            alike[kind].append(held[place])
    items = []
    for (name, memory), sizes in alike.items():
        known = [size for size in sizes if size is not None]
        items.append(_gauge(f"{name} ×{len(known) or len(sizes):,}", median(known) if known else None, memory))
    of_rank = Counter((rank.replica, rank.dp_rank) for rank, _ in found)
    for place in apart:
        rank, device = found[place]
        is_only = of_rank[rank.replica, rank.dp_rank] == 1
        name = rank_name(rank) + ("" if is_only else f", {device_noun([device.name])} {device.rank}")
        items.append(_gauge(name, held[place], device.total_memory_bytes))
    more = f" {len(items) - MOST_GAUGES:,} more per GPU." if len(items) > MOST_GAUGES else ""
    reporting = len({(rank.replica, rank.dp_rank) for rank, _ in found if rank.kv_cache_bytes_per_device})
    counted = sum(rank.counts for rank in ranks)
    some = "" if reporting == counted else f" Reported by {reporting:,} of {count(counted, 'rank')}."
    note = f"Solid: KV cache. The rest: weights, activations, graphs, other processes.{some}{more}"
    caption = f"{brief(pool)}: {SHARE_TITLE}"
    return Gauges(f"device-memory-{slug}", caption, SHARE_TITLE, tuple(items[:MOST_GAUGES]), note)


def _quiet(text: Sequence[Piece]) -> tuple[Piece, ...]:
    return tuple(each._replace(style=Style.MUTED) if each.style is Style.PLAIN else each for each in text)


def _least(items: Sequence[Any], values: Sequence[float | None], most: int) -> list[Any]:
    """Return the items with the least values and, with room left, with unknown ones: short ranks matter most."""
    order = sorted(range(len(items)), key=lambda place: math.inf if (value := values[place]) is None else value)
    return [items[place] for place in sorted(order[:most])]


def _rank_bar(rank: Any) -> Bar:
    lines = [f"{brief(rank.name)}, rank {rank.dp_rank}"]
    lines.append(f"{value_text(rank)} {rank.measure}{f' ({percent(rank.off)} off the median)' if rank.off else ''}")
    lines += [f"basis: {rank.basis}"] if rank.measure is Measure.TOKENS else []
    lines += (
        [f"KV cache in use: {formatting.share(rank.traffic.kv_usage)}"] if rank.traffic.kv_usage is not None else []
    )
    lines += [short_device(brief(rank.device))] if rank.device else []
    lines += [f"cohort {rank.cohort}"] if rank.cohort else []
    lines += [] if rank.counts else ["not counted: stale, or second address of one process"]
    label = rank_name(rank) + ("" if rank.counts else ", not counted")
    return _bar(rank, label, rank.value, f"{rank.dp_rank}", lines, rank.off)._replace(is_at_most=rank.is_bound)


def _device_bar(rank: Any, device: Any, off: float | None) -> Bar:
    held, name = rank.kv_cache_bytes_per_device, brief(rank.name)
    tick = f"{device.rank}" if rank.is_alone else f"{rank.dp_rank}·{device.rank}"
    memory = _held_of(held, device.total_memory_bytes)
    lines = [f"{name}, rank {rank.dp_rank}, device {device.rank}", memory, brief(device.name)]
    bar = _bar(rank, f"{name}, {tick}", None if held is None else held / GIB, tick, lines, off)
    return bar._replace(whole=device.total_memory_bytes / GIB)


def _bar(rank: Any, label: str, value: float | None, tick: str, hover: Sequence[str], off: float | None) -> Bar:
    """Return a bar of a rank or one of its devices, marked if it is off the median."""
    return Bar(
        label=label,
        value=value,
        letter=rank.cohort or "",
        mark=percent(off) if off is not None else "",
        tone=Tone.WARNING if off is not None else Tone.PLAIN,
        link=Link(Kind.REPLICA, rank.replica),
        group=brief(rank.name),
        tick=tick,
        hover=tuple(hover),
        used=rank.traffic.kv_usage,
        is_faint=not rank.counts,
    )


def _gauge(name: str, held: float | None, total: int) -> Bar:
    return Bar(name, None if held is None else min(held / total, 1), mark=_held_of(held, total))


def _held_of(held: float | None, total: int | None) -> str:
    """Return `46.4 of 80 GiB`."""
    of = f"{total / GIB:,.1f}".removesuffix(".0") + " GiB" if total else formatting.NOT_KNOWN
    return f"{held / GIB:,.1f} of {of}" if held is not None else f"{formatting.NOT_KNOWN} of {of}"
