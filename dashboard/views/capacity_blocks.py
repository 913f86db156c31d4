"""KV cache capacity as blocks: bars, outliers, tables of ranks and pools, shares of device memory."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

import pandas as pd

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.memory import MemoryPart, Parts, main_cause, memory_parts, usual_parts
from dashboard.capacity.outliers import outliers
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
    not_drawn,
    percent,
    rank_name,
    short_device,
    short_value,
    sum_of,
    sum_text,
    tick_texts,
    value_text,
)
from dashboard.views.names import brief, slugs

BARS = 240  # of one chart: about five pixels each on a wide screen
PRINTED_BARS = 48  # of one chart in a report of many pools: a page of paper
MOST_GAUGES = 6
SHARE_TITLE = "KV share of device memory"
MEMORY_WIDTHS = (1.5, 1)  # of the bars by part, and of the table at their right
NO_MEMORY = "Memory by part not reported. Provider 1.2 reports it where vLLM measured it (docs/config-api.md)."
MEMORY_NOTE = "Measured by the worker at its start; not yet verified on a GPU. The parts add up to the device."
NO_DEVICES = "Devices not reported. The provider reports devices and KV cache bytes; stock vLLM reports neither."


def ranks_by_pool(fleet: Fleet, ranks: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the ranks of each pool; pools with the most short ranks come first."""
    known = dict(iter(ranks.groupby("pool")))
    short = Counter(ranks["pool"][ranks["off"] < 0])
    names = sorted((pool.name for pool in fleet.pools), key=lambda name: -short[name])
    return {name: known.get(name, ranks[:0]) for name in names}


def is_uneven(ranks: pd.DataFrame) -> bool:
    """Return whether a rank is an outlier, or ranks that count have clearly different numbers of tokens."""
    held = ranks["kv_cache_size_tokens"][ranks["counts"]].dropna()
    held = held[held > 0]
    return bool(ranks["off"].notna().any() or (len(held) and held.max() > held.min() * (1 + NEAR)))


def pool_blocks(fleet: Fleet, pool: str, ranks: pd.DataFrame, most: int = PRINTED_BARS) -> tuple[Block, ...]:
    """Return a chart for each kind of device of a pool, and what the bars do not show."""
    return (*charts(fleet, pool, ranks, most), *notes(fleet, pool, ranks))


def notes(fleet: Fleet, pool: str, ranks: pd.DataFrame) -> list[Paragraph]:
    silent = [each for each in fleet.replicas if each.pool == pool and not each.engines]
    return [Paragraph(_quiet(text)) for text in not_drawn(ranks, silent)]


def slug_of(fleet: Fleet, pool: str) -> str:
    return slugs(each.name for each in fleet.pools)[pool]


def charts(fleet: Fleet, pool: str, ranks: pd.DataFrame, most: int = PRINTED_BARS) -> tuple[Chart, ...]:
    """Return the bars of a pool's ranks, a chart for each kind of device: only these have one median."""
    found = []
    for nth, (_, own) in enumerate(ranks.groupby("peers")):
        shown = list(rows_of(_least(own, own["value"], most)))
        first = shown[0]
        device = short_device(brief(first.device))
        found.append(
            Chart(
                name=f"capacity-{slug_of(fleet, pool)}{f'-{nth + 1}' if nth else ''}",
                title=f"{brief(pool)}: KV cache by DP rank{f', {device}' if device else ''}",
                unit=str(first.measure),
                bars=tuple(map(_rank_bar, shown)),
                median=first.usual,
                more=len(own) - len(shown),
                median_label=f"median {short_value(first.usual, first.measure)}" if first.usual is not None else "",
                ticks=_ticks(first.measure),
                is_wide=False,
            )
        )
    return tuple(found)


def devices_of(fleet: Fleet, ranks: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return by pool the devices of ranks whose memory is reported: the frame `devices` beside their rank."""
    devices = fleet.frames.devices.drop(columns=["pool", "cohort", "counts", "kv_cache_bytes"])
    devices = devices.rename(columns={"name": "device_name", "rank": "device_rank"})
    devices["is_only"] = ~devices.duplicated(["replica", "dp_rank"], keep=False)
    found = ranks.merge(devices, on=["replica", "dp_rank"])
    found = found[(found["total_memory_bytes"] > 0).fillna(value=False).astype(bool)]
    return {str(pool): own.reset_index(drop=True) for pool, own in found.groupby("pool")}


def device_chart(fleet: Fleet, pool: str, found: pd.DataFrame, most: int = BARS) -> Chart:
    """Return the KV cache of each device of a pool, in GiB, inside its memory."""
    held = found["kv_cache_bytes_per_device"]
    counted = [each.kv_cache_bytes_per_device if each.counts else None for each in rows_of(found)]
    off = {each.place: each.share for each in outliers(list(found["device_name"]), counted)}
    found["device_off"] = pd.array([off.get(place) for place in range(len(found))], dtype="Float64")
    shown = _least(found, held.fillna(0), most).sort_values("device_name", kind="stable")
    noun = device_noun(found["device_name"])
    return Chart(
        name=f"devices-{slug_of(fleet, pool)}",
        title=f"{brief(pool)}: KV cache in the memory of each {noun}",
        unit=str(Measure.GIB),
        bars=tuple(map(_device_bar, rows_of(shown))),
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
        lines = [brief(pool.name), sum_text(total, measure) + f" {measure}"]
        lines += [f"naive estimate {naive:,}"] if naive else []
        link = page("capacity", pool=pool.name)
        bars.append(Bar(brief(pool.name), total.value, total.at_most, link=link, hover=tuple(lines), whole=naive))
    if not bars:
        return None
    return Chart("capacity-pools", "KV cache by pool", str(measure), tuple(bars), ticks=_ticks(measure))


def memory_blocks(fleet: Fleet, pool: str, ranks: pd.DataFrame) -> tuple[Block, ...]:
    """Return the memory of the shortest rank by part beside the median engine of its kind; empty where not reported."""
    less = ranks[ranks["off"] < 0]
    if less.empty:
        return ()
    (short,) = rows_of(less.nsmallest(1, "off"))
    peers = ranks[(ranks["peers"] == short.peers) & ranks["counts"]]
    known = _parts_by_rank(fleet, peers)
    own = known.get((short.replica, short.dp_rank))
    if own is None:
        return (quiet_paragraph(NO_MEMORY),)
    usual = usual_parts(tuple(known.values()))
    name = rank_name(short)
    slug = slug_of(fleet, pool)
    chart = Chart(
        name=f"memory-{slug}",
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
    table = Table(f"memory-{slug}", f"Memory of {name}", columns, rows, MEMORY_NOTE)
    return (Paragraph(_cause_text(name, own, usual)), Columns(((chart,), (table,)), MEMORY_WIDTHS))


def _parts_by_rank(fleet: Fleet, ranks: pd.DataFrame) -> dict[tuple[str, int], Parts]:
    wanted = set(zip(ranks["replica"], ranks["dp_rank"], strict=True))
    return {
        (replica.id, engine.dp_rank): parts
        for replica in fleet.replicas
        for engine in replica.engines
        if (replica.id, engine.dp_rank) in wanted and (parts := memory_parts(engine, replica.devices))
    }


def _gib_text(size: int) -> str:
    """Write bytes in GiB with one decimal: `5.7`, `−5.7`, and `0.0` without a sign."""
    return f"{size / GIB:z,.1f}".replace("-", "−")


def _cause_text(name: str, own: Parts, usual: Parts) -> Text:
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


def device_gauges(fleet: Fleet, pool: str, ranks: pd.DataFrame, devices: pd.DataFrame | None) -> Gauges | Paragraph:
    """Return the share of device memory that the KV cache has, an item per kind; outliers have their own.

    An item counts the devices with reported KV cache bytes, as the pools' GiB do.
    """
    found = [] if devices is None else list(rows_of(devices[devices["counts"]]))
    if not found:
        return quiet_paragraph(NO_DEVICES)
    kinds = [(short_device(brief(each.device_name)), each.total_memory_bytes) for each in found]
    held = [each.kv_cache_bytes_per_device for each in found]
    apart = {outlier.place for outlier in outliers(kinds, held)}
    items = []
    for kind in dict.fromkeys(kinds):
        sizes = [size for place, size in enumerate(held) if kinds[place] == kind and place not in apart]
        known = [size for size in sizes if size is not None]
        items.append(_gauge(f"{kind[0]} ×{len(known) or len(sizes):,}", median(known) if known else None, kind[1]))
    items += [_gauge(_device_name(found[place]), held[place], kinds[place][1]) for place in sorted(apart)]
    more = f" {len(items) - MOST_GAUGES:,} more per GPU." if len(items) > MOST_GAUGES else ""
    reporting = len({(each.replica, each.dp_rank) for each in found if each.kv_cache_bytes_per_device})
    counted = int(ranks["counts"].sum())
    some = "" if reporting == counted else f" Reported by {reporting:,} of {count(counted, 'rank')}."
    note = f"Solid: KV cache. The rest: weights, activations, graphs, other processes.{some}{more}"
    caption = f"{brief(pool)}: {SHARE_TITLE}"
    return Gauges(f"device-memory-{slug_of(fleet, pool)}", caption, SHARE_TITLE, tuple(items[:MOST_GAUGES]), note)


def _quiet(text: Sequence[Piece]) -> tuple[Piece, ...]:
    return tuple(each._replace(style=Style.MUTED) if each.style is Style.PLAIN else each for each in text)


def _least(ranks: pd.DataFrame, values: "pd.Series[Any]", most: int) -> pd.DataFrame:
    """Return the rows with the least values and, with room left, with unknown ones: short ranks matter most."""
    return ranks.loc[values.sort_values(kind="stable").index[:most].sort_values()]


def _ticks(measure: Measure) -> Callable[[Sequence[float]], Sequence[str]]:
    return lambda marks: tick_texts(marks, measure)


def _rank_bar(rank: Any) -> Bar:
    lines = [f"{brief(rank.name)}, rank {rank.dp_rank}"]
    lines.append(f"{value_text(rank)} {rank.measure}{f' ({percent(rank.off)} off the median)' if rank.off else ''}")
    lines += [f"basis: {rank.basis}"] if rank.measure is Measure.TOKENS else []
    lines += [short_device(brief(rank.device))] if rank.device else []
    lines += [f"cohort {rank.letter}"] if rank.letter else []
    lines += [] if rank.counts else ["not counted: stale, or second address of one process"]
    label = rank_name(rank) + ("" if rank.counts else ", not counted")
    return _bar(rank, label, rank.value, f"{rank.dp_rank}", lines, rank.off)._replace(is_at_most=rank.is_bound)


def _device_bar(device: Any) -> Bar:
    held, name = device.kv_cache_bytes_per_device, brief(device.name)
    tick = f"{device.device_rank}" if device.is_alone else f"{device.dp_rank}·{device.device_rank}"
    memory = _held_of(held, device.total_memory_bytes)
    lines = [f"{name}, rank {device.dp_rank}, device {device.device_rank}", memory, brief(device.device_name)]
    bar = _bar(device, f"{name}, {tick}", None if held is None else held / GIB, tick, lines, device.device_off)
    return bar._replace(whole=device.total_memory_bytes / GIB)


def _bar(rank: Any, label: str, value: float | None, tick: str, hover: Sequence[str], off: float | None) -> Bar:
    """Return a bar of a rank or one of its devices, marked if it is off the median."""
    return Bar(
        label=label,
        value=value,
        letter=rank.letter,
        mark=percent(off) if off is not None else "",
        tone=Tone.WARNING if off is not None else Tone.PLAIN,
        link=Link(Kind.REPLICA, rank.replica),
        group=brief(rank.name),
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


def _device_name(device: Any) -> str:
    name = rank_name(device)
    return name if device.is_only else f"{name}, {device_noun([device.device_name])} {device.device_rank}"
