"""A chart over time as SVG: pages and exports draw the same one. Foreign text is escaped and cut to its place."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from dashboard.analysis.timeline import MarkKind
from dashboard.fleet.formatting import count
from dashboard.render.svg import (
    COHORTS,
    FONTS,
    GROUND,
    INK,
    LINE,
    LONGEST,
    MUTE,
    TONES,
    WIDTH,
    cut_text,
    draw_sign,
    fit,
    hatched,
    label,
    num,
    place_of,
    rect,
    widest,
)
from dashboard.views.blocks import Tone
from dashboard.views.time_chart import MOVES, Band, Cluster, Lane, Run, TimeChart, describe_times, range_text

LEFT, RIGHT = 196.0, WIDTH - 14.0  # where the times begin and end
ALONE, SEVERAL, STRIP = 180.0, 46.0, 24.0  # heights of lanes
SPACE, ROW = 10.0, 24.0  # between lanes, and of a row of marks
MOST_TICKS = 9
FONT, SMALL = 14.0, 13.0
LEAST_ROLLOUT, LEAST_WORDS, LONGEST_WORDS = 5.0, 100.0, 260.0
NO_DATA = "no data"
HIT = 'fill="none" pointer-events="all"'  # not drawn; a pointer finds it
LEAST_TEXT = 14.0  # the height of an area with a text in it
FORMER = ("#a3adb7", "#c2c9d0", "#8a949e")
STATES = {"up": "#dbe5e1", "partial": TONES[Tone.WARNING], "down": TONES[Tone.CRITICAL]}
FILLS = (
    {f"f{place}": fill for place, fill in enumerate(COHORTS)}
    | {f"g{n}": each for n, each in enumerate(FORMER)}
    | STATES
)
DARK_TEXT = frozenset({"g0", "g1", "g2", "up", "partial"})  # shades on which a dark text is readable, not a white one
SIGNS = {MarkKind.CRITICAL: Tone.CRITICAL, MarkKind.WARNING: Tone.WARNING, MarkKind.ENDED: Tone.GOOD}
STEPS = tuple(
    timedelta(minutes=each) for each in (5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440, 2_880, 5_760, 10_080, 20_160)
)
MIDNIGHT = datetime(2001, 1, 1, tzinfo=UTC)  # a Monday


class _Scale(NamedTuple):
    """Times from `since` on as horizontal positions; `unit` is the width of a second."""

    since: datetime
    unit: float

    def x(self, time: datetime) -> float:
        return min(max(LEFT + (time - self.since).total_seconds() * self.unit, LEFT), RIGHT)


def draw_times(chart: TimeChart, *, context: str | None = None) -> str:
    """Draw a chart; with a context as a file: with its title, a white ground, and the context below.

    A script reads the ends of the times from `data-` attributes, and the tooltips from titles.
    """
    since, until = chart.period
    scale = _Scale(since, (RIGHT - LEFT) / max((until - since).total_seconds(), 1))
    top = 34.0 if context is not None else 6.0
    parts: list[str] = []
    if len(chart.lanes) == 1 and not chart.lanes[0].is_strip:
        parts.append(_legend(chart.lanes[0], top))
        top += 24
    bottom = top
    places: dict[str, tuple[float, float]] = {}  # of lanes, by their labels
    for lane in chart.lanes:
        height = STRIP if lane.is_strip else ALONE if len(chart.lanes) == 1 else SEVERAL
        parts.append(_lane(lane, scale, bottom, height))
        places[lane.label] = bottom, bottom + height
        bottom += height + (SPACE / 2 if lane.is_strip else SPACE)
    lanes_end = bottom - SPACE / 2
    parts.insert(0, "".join(_axis(chart, scale, top, lanes_end)))
    parts += _gaps(chart, scale, top, lanes_end)
    for name, clusters in chart.rows.items():
        parts.append(_row(name, clusters, scale, places, bottom))
        bottom += ROW
    parts.append("".join(_ticks(chart, scale, bottom)))
    if chart.shown is not None and since <= chart.shown <= until:
        x = scale.x(chart.shown)
        parts.append(
            f'<path class="shown" d="M{num(x)} {num(top)}V{num(bottom + 4)}" stroke="{INK}" stroke-width="2"/>'
        )
    height = bottom + 26 + (18 if context else 0)
    ground = []
    if context is not None:
        ground = [
            f'<rect width="{WIDTH}" height="{num(height)}" fill="{GROUND}"/>',
            label(chart.title, 8, 22, fit(chart.title, WIDTH - 16, 16), size=16, weight=True, css="ink"),
            label(context, 8, bottom + 42, fit(context, WIDTH - 16, SMALL), size=SMALL),
        ]
    ends = " ".join(f'data-{name}="{_milliseconds(time)}"' for name, time in chart.period._asdict().items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH} {num(height)}" width="{WIDTH}" '
        f'height="{num(height)}" font-family="{FONTS}" font-size="{num(FONT)}" fill="{INK}" {ends} '
        f'data-left="{num(LEFT)}" data-right="{num(RIGHT)}" data-top="{num(top)}" data-bottom="{num(bottom)}">'
        f"<title>{cut_text(chart.title)}</title><desc>{cut_text(describe_times(chart), 10 * LONGEST)}</desc>"
        f"{''.join(ground)}{''.join(parts)}</svg>"
    )


def _lane(lane: Lane, scale: _Scale, top: float, height: float) -> str:
    unit = height / lane.highest
    middle = top + height / 2
    words = "" if lane.is_strip else count(lane.highest, "replica")
    parts = [
        label(
            lane.label,
            LEFT - 12,
            middle + (4 if lane.is_strip else -2),
            fit(lane.label, LEFT - 20, FONT),
            anchor="end",
            css="ink",
        ),
        label("", LEFT - 12, middle + 13, words, size=11, anchor="end") if words else "",
        *(_band(band, scale, top + height, unit) for band in lane.bands),
        f'<path class="rule" d="M{num(LEFT)} {num(top + height)}H{num(RIGHT)}" stroke="{LINE}"/>',
    ]
    for each in lane.moments:
        x = scale.x(each.since)
        title = "\n".join((range_text(each.since, each.until), lane.label, *each.lines))
        parts.append(rect("moment", x, top, scale.x(each.until) - x, height, HIT, _title(title)))
    return "".join(parts)


def _band(band: Band, scale: _Scale, bottom: float, unit: float) -> str:
    css = _class(band)
    outline = "".join(
        f"M{num(scale.x(run.since))} {num(bottom - run.low * unit)}V{num(bottom - run.high * unit)}"
        f"H{num(scale.x(run.until))}V{num(bottom - run.low * unit)}z"
        for run in band.runs
    )
    widest_run = max(band.runs, key=lambda run: run.until - run.since)
    return (
        f'<path class="{css}" d="{outline}" fill="{FILLS[css]}"/>{_inside(band, css, widest_run, scale, bottom, unit)}'
    )


def _inside(band: Band, css: str, run: Run, scale: _Scale, bottom: float, unit: float) -> str:
    """Write the text of a band into its longest part, if there is room."""
    left, right = scale.x(run.since), scale.x(run.until)
    if (run.high - run.low) * unit < LEAST_TEXT or widest(band.text, SMALL) > right - left - 6:
        return ""
    y = bottom - (run.high + run.low) / 2 * unit + 4
    name, fill = ("on-light", INK) if css in DARK_TEXT else ("on-dark", GROUND)
    return (
        f'<text class="{name}" x="{num((left + right) / 2)}" y="{num(y)}" text-anchor="middle" '
        f'font-size="{num(SMALL)}" font-weight="650" fill="{fill}">{cut_text(band.text)}</text>'
    )


def _legend(lane: Lane, top: float) -> str:
    """Draw what the shades of the only lane are, as many as there is room for."""
    parts, x = [], LEFT
    for band in lane.bands:
        words = fit(band.label, LONGEST_WORDS, SMALL)
        width = 18 + widest(words, SMALL) + 14
        if x + width > RIGHT:
            break
        css = _class(band)
        parts.append(rect(css, x, top, 12, 12, f'rx="2" fill="{FILLS[css]}"'))
        parts.append(label(band.label, x + 18, top + 10.5, words, size=SMALL))
        x += width
    return "".join(parts)


def _gaps(chart: TimeChart, scale: _Scale, top: float, bottom: float) -> Iterator[str]:
    for gap in chart.gaps:
        until = gap.until or chart.period.until
        left, right, height = scale.x(gap.since), scale.x(until), bottom - top
        width = max(right - left, 1.0)
        title = _title(f"{range_text(max(gap.since, scale.since), until)}\n{NO_DATA}: no poll was recorded")
        ground = rect("gap-ground", left, top, width, height, f'fill="{GROUND}" pointer-events="all"', title)
        words, half = "", widest(NO_DATA, SMALL) / 2 + 4
        if width > 2 * half:
            middle, y = (left + right) / 2, (top + bottom) / 2
            plate = rect("gap-ground", middle - half, y - 10, 2 * half, 18, f'rx="3" fill="{GROUND}"')
            words = plate + label("", middle, y + 4, NO_DATA, size=SMALL, anchor="middle")
        yield f'<g class="gap">{ground}{hatched(left, top, width, height, LINE)}{words}</g>'


def _row(name: str, clusters: list[Cluster], scale: _Scale, places: Mapping[str, tuple[float, float]], y: float) -> str:
    """Draw the marks of one row, each with its tooltip and the time that a click opens."""
    middle = y + ROW / 2
    parts = [label("", LEFT - 12, middle + 4, name, anchor="end", css="ink")]
    ends = [scale.x(each.marks[0].at) - 8 for each in clusters[1:]]
    for each, end in zip(clusters, [*ends, RIGHT], strict=True):
        first = each.marks[0]
        x, width = scale.x(first.at), max(scale.x(each.until) - scale.x(first.at), LEAST_ROLLOUT)
        if each.kind in MOVES:
            parts += _begins(each, scale, places)
            css, fill = ("rollout", INK) if each.kind is MarkKind.ROLLOUT else ("moved", MUTE)
            drawn = rect(css, x, middle - 4, width, 8, f'rx="3" fill="{fill}"')
            more = f" and {each.number - 1:,} more" if each.number > 1 else ""
            whole = f"{f'{first.pools[0]}: ' if len(places) > 1 else ''}{first.text}{more}"
            after = x + width + 6
            if end - after > LEAST_WORDS:
                words = fit(whole, end - after, SMALL)
                drawn += label(whole, after, middle + 4, words, size=SMALL)
                width += 6 + widest(words, SMALL)
        else:
            sign = f'cx="{num(x)}" cy="{num(middle)}" r="4.5" fill="none" stroke="{MUTE}" stroke-width="2"'
            is_restart = each.kind is MarkKind.RESTART
            drawn = (
                f'<circle class="restart" {sign}/>' if is_restart else draw_sign(SIGNS[each.kind], x - 5, middle - 5)
            )
            drawn += label("", x + 8, middle + 4, f"{each.number:,}", size=SMALL) if each.number > 1 else ""
        hit = rect("hit", x - 6, y, width + 12, ROW, HIT)
        at, title = _milliseconds(each.marks[-1].until), _title("\n".join(each.lines))
        parts.append(f'<g class="mark" data-at="{at}">{title}{drawn}{hit}</g>')
    return "".join(parts)


def _begins(cluster: Cluster, scale: _Scale, places: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """Draw when replicas began to move into the lanes of their pools."""
    for mark in cluster.marks:
        x = num(scale.x(mark.at))
        for top, bottom in (places[pool] for pool in mark.pools if pool in places):
            yield f'<path class="begin" d="M{x} {num(top)}V{num(bottom)}" stroke="{INK}" stroke-dasharray="2 3"/>'


def _axis(chart: TimeChart, scale: _Scale, top: float, bottom: float) -> Iterator[str]:
    for time in ticks(chart):
        x = scale.x(time)
        yield f'<path class="rule" d="M{num(x)} {num(top)}V{num(bottom)}" stroke="{LINE}"/>'


def _ticks(chart: TimeChart, scale: _Scale, bottom: float) -> Iterator[str]:
    day = None
    for time in ticks(chart):
        words = f"{time.day} {time:%b}" if time.time() == MIDNIGHT.time() else f"{time:%H:%M}"
        if day is None and ":" in words:
            words = f"{time.day} {time:%b} {words}"
        day = time.date()
        x = scale.x(time)
        half = widest(words, SMALL) / 2
        yield label("", min(max(x, LEFT + half), RIGHT - half), bottom + 18, words, size=SMALL, anchor="middle")
    yield label("", LEFT - 12, bottom + 18, "UTC", size=SMALL, anchor="end")


def ticks(chart: TimeChart) -> list[datetime]:
    """Return round times of a chart, at most MOST_TICKS."""
    since, until = chart.period
    step = next((each for each in STEPS if (until - since) / each <= MOST_TICKS), STEPS[-1])
    first = MIDNIGHT + -((MIDNIGHT - since) // step) * step
    return [time for place in range(MOST_TICKS + 1) if since <= (time := first + place * step) <= until]


def _class(band: Band) -> str:
    return f"f{place_of(band.shade)}" if band.shade.isupper() else band.shade


def _title(text: str) -> str:
    return f"<title>{chr(10).join(cut_text(line) for line in text.split(chr(10)))}</title>"


def _milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)
