"""What every page and every export says of its data: a picture of it can be traced to what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboard import __version__
from dashboard.report.parts import coverage
from dashboard.rules.catalogue import RULE_SET
from dashboard.wording import iso

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from dashboard.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Context:
    """Whose data, of when, how much of it, seen with what. `snapshot` is None where nothing was frozen.

    `filters` pairs what was chosen with its value, as it stands in the URL. No clock: the same data gives the same
    bytes on every day.
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


def context_of(fleet: Fleet, *, name: str = "", filters: Sequence[tuple[str, str]] = ()) -> Context:
    """Return the context of a fleet; `name` is what its snapshot is called."""
    counts = coverage(fleet)
    return Context(
        fleet=fleet.name,
        data_as_of=fleet.polled_at,
        answered=counts.answered,
        targets=counts.targets,
        snapshot=fleet.snapshot,
        name=name,
        filters=tuple(filters),
    )


def context_parts(context: Context) -> tuple[str, ...]:
    """Write the context as short parts in a fixed order, each foreign text as it is."""
    frozen = f"snapshot {context.snapshot}" if context.snapshot else "not frozen"
    as_of = f"data as of {iso(context.data_as_of)}" if context.data_as_of else "no data yet"
    filters = "filters: " + ", ".join(f"{name}={value}" for name, value in context.filters)
    parts = [
        context.fleet,
        frozen + (f" “{context.name}”" if context.name and context.snapshot else ""),
        as_of,
        f"{context.answered:,} of {context.targets:,} answered",
        f"vllm-fleet-dashboard {context.program_version}",
        f"rule set {context.rule_set}",
    ]
    return (*parts, *([filters] if context.filters else []))


def context_line(context: Context) -> str:
    """Write the context on one line."""
    return " · ".join(context_parts(context))
