"""The origin of the data on every page and in every export, so that a picture can be traced to its data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dashboard import __version__
from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Gap, PastTime
from dashboard.fleet.formatting import iso, short_id, uncapitalized
from dashboard.fleet.times import write_time
from dashboard.rules.catalogue import RULE_SET

AS_OF = "data as of "
IMPORTED = "imported "  # of saved answers, which have no time of their own
SHORT_FORM = 3  # parts: fleet, snapshot, time


@dataclass(frozen=True, slots=True)
class Context:
    """The fleet, the time of its data, coverage, filters, versions.

    `snapshot` is None for the live fleet and for a past one; `past` is the time of the latter in the history.

    `filters` are parameters of the URL. Of a comparison it is the context of the second side, and `before` that of the
    first. `as_of` precedes the time: AS_OF or IMPORTED. Without a clock: the same data gives the same bytes.
    """

    fleet: str
    data_as_of: datetime | None
    answered: int
    targets: int
    snapshot: str | None = None
    name: str = ""
    filters: tuple[tuple[str, str], ...] = ()
    program_version: str = __version__
    rule_set: int = RULE_SET
    before: Context | None = None
    as_of: str = AS_OF
    past: PastTime | None = None


def context_of(fleet: Fleet, *, name: str = "", filters: Iterable[tuple[str, str | None]] = ()) -> Context:
    """Return the context of a fleet; `name` is that of its snapshot. Filters without a text are left out."""
    counts = fleet.coverage
    return Context(
        fleet=fleet.name,
        data_as_of=fleet.polled_at,
        answered=counts.answered,
        targets=counts.targets,
        snapshot=fleet.snapshot,
        past=fleet.past,
        name=name,
        filters=tuple((name, text) for name, text in {"cluster": fleet.cluster, **dict(filters)}.items() if text),
        as_of=as_of_text(fleet),
    )


def as_of_text(fleet: Fleet) -> str:
    """Return the text before the time of a fleet's data."""
    return IMPORTED if fleet.is_saved_answers else AS_OF


def as_of(fleet: Fleet) -> str:
    """Return `data as of` or `imported` with the time of a fleet's data; nothing before the first poll."""
    return f"{as_of_text(fleet)}{iso(fleet.polled_at)}" if fleet.polled_at else ""


def context_parts(context: Context) -> tuple[str, ...]:
    """Return the context as parts in a fixed order, unescaped."""
    filters = "filters: " + ", ".join(f"{name}={value}" for name, value in context.filters)
    return (*_sides(context), *version_parts(context), *([filters] if context.filters else []))


def version_parts(context: Context) -> tuple[str, ...]:
    return f"vllm-fleet-dashboard {context.program_version}", f"rule set {context.rule_set}"


def short_parts(context: Context) -> tuple[str, ...]:
    """Return fleet, snapshot and time, for the foot of a page."""
    before = context.before
    if before is None:
        return _side(context)[:SHORT_FORM]
    fleets = context.fleet if before.fleet == context.fleet else f"{before.fleet} to {context.fleet}"
    return (
        fleets,
        f"{source_text(before)} to {source_text(context)}",
        f"{_as_of(before)} to {_as_of(context).removeprefix(AS_OF)}",
    )


def context_line(context: Context) -> str:
    return " · ".join(context_parts(context))


def _sides(context: Context) -> tuple[str, ...]:
    """Return fleet, snapshot, time and coverage. A comparison has a part for each side, after a shared fleet."""
    before = context.before
    if before is None:
        return _side(context)
    shared = int(before.fleet == context.fleet)
    sides = (f"{when}: {', '.join(_side(each)[shared:])}" for when, each in (("before", before), ("after", context)))
    return (*_side(context)[:shared], *sides)


def _side(context: Context) -> tuple[str, ...]:
    source = source_text(context) + (f" “{context.name}”" if context.name and context.snapshot else "")
    return context.fleet, source, _as_of(context), f"{context.answered:,} of {context.targets:,} answered"


def source_text(context: Context) -> str:
    """Return which fleet it is: `snapshot 3fa9c01b2e`, `history at 2026-11-22T14:00Z` or `live`."""
    if context.snapshot:
        return f"snapshot {short_id(context.snapshot)}"
    if context.past is None:
        return "live"
    gap = f" ({uncapitalized(gap_text(context.past.gap)).rstrip('.')})" if context.past.gap else ""
    return f"history at {write_time(context.past.at)}{gap}"


def gap_text(gap: Gap) -> str:
    until = iso(gap.until) if gap.until else "now"
    return f"No poll was recorded between {iso(gap.since)} and {until}: the fleet may have changed."


def _as_of(context: Context) -> str:
    return f"{context.as_of}{iso(context.data_as_of)}" if context.data_as_of else "no data yet"
