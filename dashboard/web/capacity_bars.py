"""The bars of the Capacity page: per DP rank, per GPU, per pool."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dashboard.capacity.outliers import Outlier, medians, outliers
from dashboard.fleet import Basis, Device, formatting
from dashboard.report.capacity.pools import PoolCapacity
from dashboard.report.capacity.ranks import GIB, Measure, Rank, is_at_most, peers, value
from dashboard.report.capacity.remarks import least
from dashboard.report.capacity.totals import short_device
from dashboard.report.capacity.words import amount, brief, name_of, percent
from dashboard.web.charts import Bar, Level

MOST_BARS = 240  # in one chart: about five pixels each on a wide screen
NOT_COUNTED = "not counted: last read too long ago, or a second address of one process"
_UNIT = {Measure.TOKENS: " tokens", Measure.GIB: " GiB", Measure.REQUESTS: " requests"}


class Chart(NamedTuple):
    """Bars with their medians. `left_out` counts those that hold more than the ones shown."""

    bars: tuple[Bar, ...]
    levels: tuple[Level, ...]
    left_out: int


class OnDevice(NamedTuple):
    """One accelerator of a rank."""

    rank: Rank
    device: Device


def rank_chart(ranks: Sequence[Rank], measure: Measure, found: Mapping[int, Outlier]) -> Chart:
    """Draw the ranks of one pool whose value is known. `found` are the outliers among `ranks`, by place."""
    known = [place for place, rank in enumerate(ranks) if value(rank, measure) is not None]
    shown = least([(place, value(ranks[place], measure) or 0) for place in known], MOST_BARS)
    kinds = [kind for _, kind in peers(ranks)]
    order = sorted(shown, key=lambda place: (kinds[place], place))
    bars = tuple(_rank_bar(ranks[place], measure, found.get(place)) for place in order)
    middle = medians(kinds, [value(rank, measure) if rank.counts else None for rank in ranks])
    return Chart(bars, _levels([kinds[place] for place in order], middle, measure), len(known) - len(shown))


def devices_of(ranks: Sequence[Rank]) -> tuple[OnDevice, ...]:
    """Return the devices of these ranks whose memory is told."""
    return tuple(
        OnDevice(rank, device)
        for rank in ranks
        for device in rank.replica.devices
        if device.dp_rank == rank.engine.dp_rank and device.total_memory_bytes
    )


def device_chart(found: Sequence[OnDevice]) -> Chart:
    """Draw the KV cache of each device, in GiB, inside its memory."""
    held = [one.rank.engine.kv_cache_bytes_per_device for one in found]
    kinds = [one.device.name for one in found]
    apart = {
        out.place: out
        for out in outliers(kinds, [size if one.rank.counts else None for one, size in zip(found, held, strict=True)])
    }
    shown = least([(place, held[place] or 0) for place in range(len(found))], MOST_BARS)
    order = sorted(shown, key=lambda place: (kinds[place], place))
    return Chart(tuple(_device_bar(found[place], apart.get(place)) for place in order), (), len(found) - len(shown))


def pool_chart(pools: Sequence[PoolCapacity], measure: Measure) -> Chart:
    """Draw one bar per pool; in tokens, behind it what blocks x block size would say."""
    sums = {Measure.TOKENS: "tokens", Measure.REQUESTS: "requests", Measure.GIB: "bytes"}
    bars = []
    for pool in pools:
        total = getattr(pool, sums[measure])
        if total.value is None:
            continue
        number = total.value / GIB if measure is Measure.GIB else total.value
        naive = pool.naive if measure is Measure.TOKENS and pool.naive != pool.naive_of else None
        lines = [pool.name, _told(number, measure, at_most=total.at_most)]
        lines += [f"blocks × block size would say {naive:,}"] if naive else []
        bars.append(
            Bar(name_of(pool.name), "", number, "", total.at_most, hover=tuple(map(name_of, lines)), whole=naive)
        )
    return Chart(tuple(bars), (), 0)


def _rank_bar(rank: Rank, measure: Measure, outlier: Outlier | None) -> Bar:
    number = value(rank, measure) or 0.0
    at_most = is_at_most(rank, measure)
    share = f" ({percent(outlier.share)} from the median)" if outlier else ""
    lines = [
        f"{name_of(rank.replica.name)}, rank {rank.engine.dp_rank}",
        _told(number, measure, at_most=at_most) + share,
    ]
    lines += [f"basis: {rank.engine.basis}"] if measure is Measure.TOKENS else []
    lines += [short_device(name_of(rank.kind))] if rank.kind else []
    lines += [f"cohort {rank.letter}"] if rank.letter else []
    lines += [] if rank.counts else [NOT_COUNTED]
    return Bar(
        group=name_of(rank.replica.name),
        tick=str(rank.engine.dp_rank),
        value=number,
        letter=rank.letter,
        at_most=at_most,
        faint=not rank.counts,
        note=percent(outlier.share) if outlier else "",
        hover=tuple(lines),
        target=rank.replica.id,
    )


def _device_bar(one: OnDevice, outlier: Outlier | None) -> Bar:
    rank, device = one
    held = rank.engine.kv_cache_bytes_per_device
    several = len(rank.replica.engines) > 1
    return Bar(
        group=name_of(rank.replica.name),
        tick=f"{rank.engine.dp_rank}·{device.rank}" if several else str(device.rank),
        value=None if held is None else held / GIB,
        letter=rank.letter,
        faint=not rank.counts,
        note=percent(outlier.share) if outlier else "",
        hover=(
            f"{name_of(rank.replica.name)}, rank {rank.engine.dp_rank}, device {device.rank}",
            held_of(held, device.total_memory_bytes),
            name_of(device.name),
        ),
        whole=(device.total_memory_bytes or 0) / GIB,
        target=rank.replica.id,
    )


def held_of(held: int | None, total: int | None) -> str:
    """Write `46.4 of 80 GiB`."""
    of = f"{total / GIB:,.1f}".removesuffix(".0") + " GiB" if total else formatting.NOT_KNOWN
    return f"{held / GIB:,.1f} of {of}" if held is not None else f"{formatting.NOT_KNOWN} of {of}"


def _told(number: float, measure: Measure, *, at_most: bool) -> str:
    return formatting.at_most(amount(number, measure), Basis.ASSUMED if at_most else Basis.REPORTED) + _UNIT[measure]


def _levels(kinds: Sequence[str], middle: Mapping[object, float], measure: Measure) -> tuple[Level, ...]:
    levels = []
    for kind in dict.fromkeys(kinds):
        if kind in middle:
            first = kinds.index(kind)
            named = f"{short_device(name_of(kind))}: " if kind and len(middle) > 1 else ""
            label = f"{named}median {brief(middle[kind], measure)}"
            levels.append(Level(middle[kind], label, first, first + kinds.count(kind) - 1))
    return tuple(levels)
