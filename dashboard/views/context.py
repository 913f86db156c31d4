"""What every page and every export says of its data: a picture of it can be traced to what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dashboard import __version__
from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import iso, short_id
from dashboard.rules.catalogue import RULE_SET

AS_OF = "data as of "
IMPORTED = "imported "  # of saved answers, which tell no time
SHORT_FORM = 3  # parts: fleet, snapshot, time


@dataclass(frozen=True, slots=True)
class Context:
    """Whose data, of when, how much of it, seen with what. `snapshot` is None where nothing was frozen.

    `filters` pairs what was chosen with its value, as it stands in the URL. Of a comparison it is the context of the
    second side, and `before` that of the first. `as_of` stands before the time: AS_OF, or IMPORTED. No clock: the same
    data gives the same bytes on every day.
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


def context_of(fleet: Fleet, *, name: str = "", filters: Sequence[tuple[str, str]] = ()) -> Context:
    """Return the context of a fleet; `name` is what its snapshot is called."""
    counts = fleet.coverage
    return Context(
        fleet=fleet.name,
        data_as_of=fleet.polled_at,
        answered=counts.answered,
        targets=counts.targets,
        snapshot=fleet.snapshot,
        name=name,
        filters=tuple(filters),
        as_of=as_of_words(fleet),
    )


def as_of_words(fleet: Fleet) -> str:
    """Return what stands before the time of a fleet's data."""
    return IMPORTED if fleet.is_saved_answers else AS_OF


def as_of(fleet: Fleet) -> str:
    """Write `data as of` or `imported` with the time of a fleet's data; nothing before the first poll."""
    return f"{as_of_words(fleet)}{iso(fleet.polled_at)}" if fleet.polled_at else ""


def compared(before: Context, after: Context) -> Context:
    """Return the context of what is said of two sides together."""
    return replace(after, before=before)


def context_parts(context: Context) -> tuple[str, ...]:
    """Write the context as short parts in a fixed order, each foreign text as it is."""
    filters = "filters: " + ", ".join(f"{name}={value}" for name, value in context.filters)
    return (*_whose(context), *seen_with(context), *([filters] if context.filters else []))


def seen_with(context: Context) -> tuple[str, ...]:
    """Write which program and which rules show it."""
    return f"vllm-fleet-dashboard {context.program_version}", f"rule set {context.rule_set}"


def short_parts(context: Context) -> tuple[str, ...]:
    """Write whose data it is and of when, for where there is little room."""
    before = context.before
    if before is None:
        return _side(context)[:SHORT_FORM]
    fleets = context.fleet if before.fleet == context.fleet else f"{before.fleet} to {context.fleet}"
    return (
        fleets,
        f"{_frozen(before)} to {_frozen(context)}",
        f"{_as_of(before)} to {_as_of(context).removeprefix(AS_OF)}",
    )


def context_line(context: Context) -> str:
    """Write the context on one line."""
    return " · ".join(context_parts(context))


def _whose(context: Context) -> tuple[str, ...]:
    """Write whose data it is; of two sides each in one part, after the fleet's name where they share it."""
    before = context.before
    if before is None:
        return _side(context)
    shared = int(before.fleet == context.fleet)
    told = (f"{when}: {', '.join(_side(each)[shared:])}" for when, each in (("before", before), ("after", context)))
    return (*_side(context)[:shared], *told)


def _side(context: Context) -> tuple[str, ...]:
    frozen = _frozen(context) + (f" “{context.name}”" if context.name and context.snapshot else "")
    return context.fleet, frozen, _as_of(context), f"{context.answered:,} of {context.targets:,} answered"


def _frozen(context: Context) -> str:
    return f"snapshot {short_id(context.snapshot)}" if context.snapshot else "not frozen"


def _as_of(context: Context) -> str:
    return f"{context.as_of}{iso(context.data_as_of)}" if context.data_as_of else "no data yet"
