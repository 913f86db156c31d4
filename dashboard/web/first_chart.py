"""The bars of a chart as a light drawing, which a page shows until the browser has loaded and run Plotly."""

from collections.abc import Iterator
from typing import Any

import plotly.graph_objects as go

from dashboard.web.markup import text


def first_html(figure: go.Figure) -> str:
    """Return the bars at the places that they have in the figure of `charts.figure_of`, without any text.

    They are boxes: Streamlit removes SVG from HTML.
    """
    layout = figure.layout
    bars = "".join(bar for trace in figure.data for bar in _boxes(trace, layout.xaxis.range, layout.yaxis.range[1]))
    margin = layout.margin
    return (
        f'<div class="first-chart" aria-hidden="true" style="height:{layout.height}px;'
        f'padding:{margin.t}px {margin.r}px {margin.b}px {margin.l}px"><div>{bars}</div></div>'
    )


def _boxes(trace: Any, places: tuple[float, float], highest: float) -> Iterator[str]:
    left, width = places[0], places[1] - places[0]
    for place, value, base in zip(trace.x, trace.y, trace.base or [0] * len(trace.x), strict=True):
        if value is not None:
            yield (
                f'<i style="left:{(place - trace.width / 2 - left) / width:.3%};width:{trace.width / width:.3%};'
                f'bottom:{base / highest:.3%};height:{value / highest:.3%};background:{text(trace.marker.color)}"></i>'
            )
