"""The parts of the Capacity page for one fleet and one choice: figures, HTML, a table. Nothing here draws."""

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd
import plotly.graph_objects as go

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.outliers import Outlier
from dashboard.report.capacity.pools import PoolCapacity
from dashboard.report.capacity.ranks import Measure, Rank, outliers_of, silent_replicas, value
from dashboard.report.capacity.totals import device_noun
from dashboard.report.capacity.words import amount, lead, most_common_reason, tick_texts, title
from dashboard.web import capacity_bars, capacity_notes, charts, markup
from dashboard.web.capacity_bars import Chart
from dashboard.web.capacity_controls import GPU, POOL, Choice
from dashboard.web.capacity_tables import pools_table, ranks_table
from dashboard.web.chart_axis import NARROWEST, NARROWEST_ALONE

PER_RANK_NOTE = "One bar for each DP rank. Click a bar to open its replica."
PER_GPU_NOTE = "One bar for each {noun}, in GiB: its KV cache inside its memory. Click a bar to open its replica."
RANK_AND_GPU_NOTE = " 1·0 is {noun} 0 of DP rank 1."
EMPTY_NOTE = " An empty bar: no reply tells its KV cache in bytes."
PER_POOL_NOTE = "One bar for each pool, its ranks added up once"
NAIVE_NOTE = "; the pale bar behind it is what blocks × block size would say"


class Drawing(NamedTuple):
    """The chosen bars. `figure` is None when there is nothing to draw; then `below` says why.

    `alt` is the figure in words; `below`, `side` and `apart` are HTML, empty when there is nothing to say.
    """

    figure: go.Figure | None
    alt: str
    below: str
    side: str = ""
    apart: str = ""


class Parts(NamedTuple):
    """The whole page. `replicas` holds, per row of `table`, the id of the replica that it is of."""

    head: str
    drawing: Drawing
    pools: str
    table: pd.DataFrame
    replicas: tuple[str, ...]


def parts_of(
    fleet: Fleet, ranks: tuple[Rank, ...], pools: tuple[PoolCapacity, ...], choice: Choice, colours: charts.Palette
) -> Parts:
    """Write the page: the sentence is about the whole fleet, the bars and their table are about the chosen pool.

    Where the bars are pools, none is chosen, and there is no table of its ranks.
    """
    measure = choice.drawn
    everywhere = outliers_of(ranks, measure)
    own = tuple(rank for rank in ranks if rank.replica.pool == choice.pool and choice.per != POOL)
    apart = outliers_of(own, measure)
    if choice.per == POOL:
        drawing = _pools(pools, measure, colours)
    elif choice.per == GPU:
        drawing = _devices(own, colours)
    else:
        drawing = _ranks(fleet, own, apart, choice, colours)
    return Parts(
        head=markup.heading(
            markup.text(title(ranks, everywhere, measure)),
            markup.text(lead(ranks, everywhere, measure, silent_replicas(fleet))),
        ),
        drawing=drawing,
        pools=f'{markup.section("Pools")}<div class="pools">{pools_table(pools, choice)}</div>',
        table=ranks_table(own, apart),
        replicas=tuple(rank.replica.id for rank in own),
    )


def _ranks(
    fleet: Fleet, ranks: tuple[Rank, ...], apart: Mapping[int, Outlier], choice: Choice, colours: charts.Palette
) -> Drawing:
    measure = choice.measure
    silent = [each for each in fleet.replicas if each.pool == choice.pool and not each.engines]
    chart = capacity_bars.rank_chart(ranks, measure, apart)
    told = _note(PER_RANK_NOTE) if chart.bars else _nothing(ranks, measure)
    return Drawing(
        figure=_figure(chart, measure, colours),
        alt=_alt(ranks, apart, measure),
        below=told + capacity_notes.lines(ranks, silent, measure, chart.left_out),
        side=markup.section("KV share of device memory") + capacity_notes.device_shares(ranks),
        apart=capacity_notes.outlier_entries(ranks, apart, measure),
    )


def _devices(ranks: tuple[Rank, ...], colours: charts.Palette) -> Drawing:
    devices = capacity_bars.devices_of(ranks)
    if not devices:
        return Drawing(None, "", _unknown(markup.text(capacity_notes.NO_DEVICES)))
    chart = capacity_bars.device_chart(devices)
    noun = device_noun(one.device for one in devices)
    several = RANK_AND_GPU_NOTE if any(len(rank.replica.engines) > 1 for rank in ranks) else ""
    left = f" The {len(chart.bars):,} that hold least; {chart.left_out:,} more are not drawn." if chart.left_out else ""
    unknown = EMPTY_NOTE if any(one.rank.engine.kv_cache_bytes_per_device is None for one in devices) else ""
    return Drawing(
        figure=_figure(chart, Measure.GIB, colours, NARROWEST_ALONE),
        alt=f"KV cache inside the memory of {len(devices):,} devices",
        below=_note((PER_GPU_NOTE + several).format(noun=noun) + unknown + left) + capacity_notes.not_counted(ranks),
    )


def _pools(pools: tuple[PoolCapacity, ...], measure: Measure, colours: charts.Palette) -> Drawing:
    chart = capacity_bars.pool_chart(pools, measure)
    if not chart.bars:
        return Drawing(None, "", _unknown(markup.text(f"No pool tells its {measure}.")))
    naive = NAIVE_NOTE if any(bar.whole is not None for bar in chart.bars) else ""
    alt = f"{measure} of {len(chart.bars):,} pools"
    return Drawing(_figure(chart, measure, colours, NARROWEST_ALONE), alt, _note(f"{PER_POOL_NOTE}{naive}."))


def _figure(chart: Chart, measure: Measure, colours: charts.Palette, narrowest: int = NARROWEST) -> go.Figure | None:
    if not chart.bars:
        return None
    return charts.bar_chart(
        chart.bars,
        colours,
        tick_texts=lambda marks: tick_texts(marks, measure),
        levels=chart.levels,
        narrowest=narrowest,
    )


def _nothing(ranks: tuple[Rank, ...], measure: Measure) -> str:
    why = most_common_reason(ranks, measure) or "No engine of its replicas is known."
    return _unknown(f"{markup.bold(f'Nothing to draw in {measure}.')} {markup.text(why)}")


def _alt(ranks: tuple[Rank, ...], apart: Mapping[int, Outlier], measure: Measure) -> str:
    held = [number for rank in ranks if (number := value(rank, measure)) is not None]
    if not held:
        return ""
    return (
        f"{measure} of {len(held):,} DP ranks, from {amount(min(held), measure)} to {amount(max(held), measure)}; "
        f"{len(apart):,} of them far from the median"
    )


def _unknown(content: str) -> str:
    return markup.notice("unknown", f"{markup.glyph('unknown', 'not known:')} {content}")


def _note(text: str) -> str:
    return f'<div class="foot">{markup.text(text)}</div>'
