"""A chart over time as SVG: pages and exports draw the same one. Foreign text is escaped and cut to its place."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from dashboard.analysis.timeline import MarkKind
from dashboard.render.svg import (
    COHORTS,
    GROUND,
    INK,
    LINE,
    MUTE,
    TONES,
    WIDTH,
    cut_text,
    draw_sign,
    drawing,
    fit,
    ground,
    hatched,
    label,
    num,
    place_of,
    rect,
    widest,
)
from dashboard.views.blocks import Tone
from dashboard.views.time_chart import MOVES, Band, Cluster, Lane, TimeChart, describe_times, range_text

MARGIN = 14.0  # on each side of the plot, which begins at 0
PLOT = WIDTH - 2 * MARGIN  # the width of the times in a file
NARROWEST = 700.0  # px of the times on a page; on a phone look_timeline.css hides what has no room
PAGE_FONT = 0.8  # of the widest sans serif, which a file may get: the font of pages is Source Sans
ALONE, SEVERAL, STRIP = 180.0, 32.0, 20.0  # heights of lanes
RATES_ALONE, RATES = 90.0, 48.0  # of lanes of rates
HEAD, SPACE = 22.0, 8.0  # above a lane: its name and its areas; between lanes
ROW = 36.0  # of marks, with its name above
MOST_TICKS = 9
FONT, SMALL, TINY = 14.0, 13.0, 10.0
LEAST_ROLLOUT, LEAST_WORDS, LONGEST_WORDS = 5.0, 100.0, 260.0
NO_DATA = "no data"
HIT = 'fill="none" pointer-events="all"'  # not drawn; a pointer finds it
FORMER = ("#a3adb7", "#c2c9d0", "#8a949e")
STATES = {"up": "#dbe5e1", "partial": TONES[Tone.WARNING], "down": TONES[Tone.CRITICAL]}
FILLS = (
    {f"f{place}": fill for place, fill in enumerate(COHORTS)}
    | {f"g{n}": each for n, each in enumerate(FORMER)}
    | STATES
)
SIGNS = {MarkKind.CRITICAL: Tone.CRITICAL, MarkKind.WARNING: Tone.WARNING, MarkKind.ENDED: Tone.GOOD}
STEPS = (
    *(timedelta(seconds=each) for each in (1, 2, 5, 10, 15, 30)),
    *(timedelta(minutes=each) for each in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)),
    *(timedelta(days=each) for each in (1, 2, 4, 7, 14)),
)
MIDNIGHT = datetime(2001, 1, 1, tzinfo=UTC)  # a Monday


class _Scale(NamedTuple):
    """Times from `since` on as horizontal positions; `unit` is the width of a second.

    `is_wide`: the plot is as wide as its page, and positions are percentages of it. Texts and signs keep their size.
    """

    since: datetime
    unit: float
    is_wide: bool

    def x(self, time: datetime) -> float:
        return min(max((time - self.since).total_seconds() * self.unit, 0.0), PLOT)

    def at(self, x: float) -> str:
        return f"{x / PLOT * 100:.3f}%" if self.is_wide else num(x)

    def room(self, width: float) -> float:
        """Return how much of a width there is for texts."""
        return width * NARROWEST / PLOT / PAGE_FONT if self.is_wide else width

    def put(self, x: float, inside: str) -> str:
        """Return shapes at a position; they keep their size."""
        return (
            f'<svg x="{self.at(x)}" overflow="visible">{inside}</svg>'
            if self.is_wide
            else f'<g transform="translate({num(x)} 0)">{inside}</g>'
        )

    def stretch(self, inside: str, top: float, height: float) -> str:
        box = f"0 {num(top)} {num(PLOT)} {num(height)}"
        size = f'y="{num(top)}" width="100%" height="{num(height)}"'
        return f'<svg {size} viewBox="{box}" preserveAspectRatio="none">{inside}</svg>' if self.is_wide else inside

    def line(self, css: str, x: float, top: float, bottom: float, more: str) -> str:
        at = self.at(x)
        return f'<line class="{css}" x1="{at}" y1="{num(top)}" x2="{at}" y2="{num(bottom)}" {more}/>'


def draw_times(chart: TimeChart, *, context: str | None = None, is_wide: bool = False) -> str:
    """Draw a chart; with a context as a file: with its title, a white ground, and the context below.

    `is_wide`: for a page, as wide as its place, with texts of one size. A script reads the ends of the times from
    `data-` attributes, and the tooltips from titles.
    """
    since, until = chart.period
    scale = _Scale(since, PLOT / max((until - since).total_seconds(), 1), is_wide)
    top = 34.0 if context is not None else 6.0
    parts: list[str] = []
    bottom, heads = top, []
    places: dict[str, tuple[float, float]] = {}  # of lanes, by their labels
    is_alone = sum(not lane.rate_of for lane in chart.lanes) == 1
    for lane in chart.lanes:
        height = STRIP if lane.is_strip else ALONE if is_alone else SEVERAL
        if lane.rate_of:
            height = RATES_ALONE if is_alone else RATES if lane.bands else STRIP
        heads.append(_head(lane, scale, bottom))
        bottom += HEAD
        parts.append(_lane(lane, scale, bottom, height))
        if lane.rate_of:
            parts += _restarts(chart, lane.rate_of, scale, bottom, bottom + height)
        else:
            places[lane.label] = bottom, bottom + height
        bottom += height + SPACE
    lanes_end = bottom - SPACE / 2
    axis = [scale.line("rule", scale.x(time), top, lanes_end, f'stroke="{LINE}"') for time in ticks(chart)]
    parts.insert(0, "".join(axis))
    parts += (*_gaps(chart, scale, top, lanes_end), *heads)
    for name, clusters in chart.rows.items():
        parts.append(_row(name, clusters, scale, places, bottom))
        bottom += ROW
    parts.append("".join(_ticks(chart, scale, bottom)))
    if chart.shown is not None and since <= chart.shown <= until:
        for css, colour, width in (("halo", GROUND, 6), ("shown", INK, 2)):
            more = f'stroke="{colour}" stroke-width="{width}"'
            parts.append(scale.line(css, scale.x(chart.shown), top, lanes_end, more))
    height = bottom + 26 + (18 if context else 0)
    if context is not None:
        below = label(context, 8 - MARGIN, bottom + 42, fit(context, WIDTH - 16, SMALL), size=SMALL)
        parts.insert(0, ground(chart.title, height, -MARGIN) + below)
    ends = " ".join(f'data-{name}="{_milliseconds(time)}"' for name, time in chart.period._asdict().items())
    places_of = f'{ends} data-top="{num(top)}" data-bottom="{num(bottom)}"'
    size = 'width="100%"' if is_wide else f'viewBox="{num(-MARGIN)} 0 {WIDTH} {num(height)}" width="{WIDTH}"'
    return drawing(size, height, FONT, chart.title, describe_times(chart), parts, places_of)


def _head(lane: Lane, scale: _Scale, top: float) -> str:
    """Name a lane and its areas, each with its number of replicas at the end; as many as there is room for.

    Texts of lines have their present rate.
    """
    share, room = (PAGE_FONT, NARROWEST) if scale.is_wide else (1.0, PLOT)
    name = fit(lane.label, LONGEST_WORDS, FONT)
    parts = [label(lane.label, 0, top + 15, name, css="ink")]
    x = widest(name, FONT) * share + 16
    until = max((each.until for each in lane.moments), default=scale.since)
    for band in lane.bands:
        last = band.runs[-1]
        is_counted = not lane.is_strip and not lane.rate_of and last.until == until
        number = f" ×{last.high - last.low:,}" if is_counted else ""
        words = f"{fit(band.text, LONGEST_WORDS, SMALL)}{number}"
        width = 17 + widest(words, SMALL) * share + 12
        if x + width > room:
            break
        css = _class(band)
        square = rect(css, x, top + 5, 11, 11, f'rx="2" fill="{FILLS[css]}"')
        whole = label(f"{band.text}{number}", x + 17, top + 15, words, size=SMALL)
        parts.append(f'<g class="key">{square}{whole}</g>')
        x += width
    return f"<g>{''.join(parts)}</g>"


def _lane(lane: Lane, scale: _Scale, top: float, height: float) -> str:
    unit = height / lane.highest
    parts = [
        scale.stretch("".join(_band(band, scale, top + height, unit) for band in lane.bands), top, height),
        f'<line class="rule" y1="{num(top + height)}" x2="{scale.at(PLOT)}" y2="{num(top + height)}" stroke="{LINE}"/>',
        *(_shares(scale, top, height) if lane.rate_of and lane.bands else ()),
    ]
    for each in lane.moments:
        x = scale.x(each.since)
        title = "\n".join((range_text(each.since, each.until), lane.label, *each.lines))
        width = scale.at(scale.x(each.until) - x)
        parts.append(rect("moment", scale.at(x), top, width, height, HIT, _title(title)))
    return "".join(parts)


def _shares(scale: _Scale, top: float, height: float) -> Iterator[str]:
    """Draw the lines of 100% and 50% with their numbers, and the number of the line below a lane, which is 0%."""
    for part, below, words in ((0, 10, "100%"), (0.5, 4, "50%"), (1, -3, "0%")):
        y = top + height * part
        yield f'<line class="rule" y1="{num(y)}" x2="{scale.at(PLOT)}" y2="{num(y)}" stroke="{LINE}"/>'
        yield label("", 0, y + below, words, size=TINY)


def _band(band: Band, scale: _Scale, bottom: float, unit: float) -> str:
    css = _class(band)
    outline = "".join(
        f"M{num(scale.x(run.since))} {num(bottom - run.low * unit)}V{num(bottom - run.high * unit)}"
        f"H{num(scale.x(run.until))}V{num(bottom - run.low * unit)}z"
        for run in band.runs
    )
    return f'<path class="{css}" d="{outline}" fill="{FILLS[css]}"/>'


def _gaps(chart: TimeChart, scale: _Scale, top: float, bottom: float) -> Iterator[str]:
    for gap in chart.gaps:
        until = gap.until or chart.period.until
        left, right, height = scale.x(gap.since), scale.x(until), bottom - top
        width = max(right - left, 1.0)
        title = _title(f"{range_text(max(gap.since, scale.since), until)}\n{NO_DATA}: no poll was recorded")
        fill = f'fill="{GROUND}" pointer-events="all"'
        ground = rect("gap-ground", scale.at(left), top, scale.at(width), height, fill, title)
        words, half = "", widest(NO_DATA, SMALL) / 2 * (PAGE_FONT if scale.is_wide else 1)
        if scale.room(width) > widest(NO_DATA, SMALL):
            y = (top + bottom) / 2
            plate = rect("gap-ground", -half, y - 10, 2 * half, 18, f'rx="3" fill="{GROUND}"')
            words = scale.put(left + width / 2, plate + label("", 0, y + 4, NO_DATA, size=SMALL, anchor="middle"))
        hatch = scale.stretch(hatched(left, top, width, height, LINE), top, height)
        yield f'<g class="gap">{ground}{hatch}{words}</g>'


def _row(name: str, clusters: list[Cluster], scale: _Scale, places: Mapping[str, tuple[float, float]], y: float) -> str:
    """Draw the marks of one row, each with its tooltip and the time that a click opens."""
    middle = y + 24
    parts = [label("", 0, y + 11, name, css="ink")]
    ends, taken = [scale.x(each.marks[0].at) - 8 for each in clusters[1:]], 0.0
    for each, end in zip(clusters, [*ends, PLOT], strict=True):
        first = each.marks[0]
        x, width = scale.x(first.at), max(scale.x(each.until) - scale.x(first.at), LEAST_ROLLOUT)
        left, right = x - 6, x + width + 6  # what a pointer finds
        if each.kind in MOVES:
            parts += _begins(each, scale, places)
            css, fill = ("rollout", INK) if each.kind is MarkKind.ROLLOUT else ("moved", MUTE)
            drawn = rect(css, scale.at(x), middle - 4, scale.at(width), 8, f'rx="3" fill="{fill}"')
            more = f" and {each.number - 1:,} more" if each.number > 1 else ""
            whole = f"{f'{first.pools[0]}: ' if len(places) > 1 else ''}{first.text}{more}"
            before, after = scale.room(x - taken) - 12, scale.room(end - x - width) - 6
            if max(before, after) > LEAST_WORDS:
                is_before = before > after and widest(whole, SMALL) > after
                words = fit(whole, before if is_before else after, SMALL)
                if is_before:
                    drawn += label(
                        whole, scale.at(x), middle + 4, words, size=SMALL, dx=-6, anchor="end", css="mute what"
                    )
                    left -= widest(words, SMALL)
                else:
                    drawn += label(whole, scale.at(x + width), middle + 4, words, size=SMALL, dx=6, css="mute what")
                    right += widest(words, SMALL)
        else:
            sign = f'cy="{num(middle)}" r="4.5" fill="none" stroke="{MUTE}" stroke-width="2"'
            is_restart = each.kind is MarkKind.RESTART
            drawn = f'<circle class="restart" {sign}/>' if is_restart else draw_sign(SIGNS[each.kind], -5, middle - 5)
            drawn += label("", 8, middle + 4, f"{each.number:,}", size=SMALL) if each.number > 1 else ""
            drawn = scale.put(x, drawn)
        taken = right
        hit = rect("hit", scale.at(left), middle - 12, scale.at(right - left), 24, HIT)
        at, title = _milliseconds(each.marks[-1].until), _title("\n".join(each.lines))
        parts.append(f'<g class="mark" data-at="{at}">{title}{drawn}{hit}</g>')
    return "".join(parts)


def _begins(cluster: Cluster, scale: _Scale, places: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """Draw when replicas began to move into the lanes of their pools."""
    for mark in cluster.marks:
        for top, bottom in (places[pool] for pool in mark.pools if pool in places):
            yield scale.line("begin", scale.x(mark.at), top, bottom, f'stroke="{INK}" stroke-dasharray="2 3"')


def _restarts(chart: TimeChart, pool: str, scale: _Scale, top: float, bottom: float) -> Iterator[str]:
    """Draw when replicas of a pool restarted, with an empty cache."""
    for mark in chart.marks:
        if mark.kind is MarkKind.RESTART and pool in mark.pools:
            yield scale.line("begin", scale.x(mark.at), top, bottom, f'stroke="{MUTE}" stroke-dasharray="2 3"')


def _ticks(chart: TimeChart, scale: _Scale, bottom: float) -> Iterator[str]:
    times = ticks(chart)
    is_short = any(each.second for each in times)
    for place, time in enumerate(times):
        date, clock = f"{time.day} {time:%b}", f"{time:%H:%M:%S}" if is_short else f"{time:%H:%M}"
        words = date if time.time() == MIDNIGHT.time() else clock
        words = words if place else f"{words if words == date else f'{date} {clock}'} UTC"
        x, half = scale.x(time), widest(words, SMALL) / 2
        anchor = "start" if scale.room(x) < half else "end" if scale.room(PLOT - x) + MARGIN < half else "middle"
        css = "mute between" if place % 2 else "mute"
        yield label("", scale.at(x), bottom + 18, words, size=SMALL, anchor=anchor, css=css)


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
