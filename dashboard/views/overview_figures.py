"""The fleet in six numbers, each with what it means for a reader."""

from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import formatting
from dashboard.report.findings.headline import FleetSummary
from dashboard.rules.findings import Severity
from dashboard.views.blocks import Figure, Tone
from dashboard.views.capacity_data import total


class OverviewFigures(NamedTuple):
    """The numbers in the order in which they are shown; a tone other than plain is drawn before the value."""

    replicas: Figure
    pools: Figure
    critical: Figure
    warnings: Figure
    unknown: Figure
    capacity: Figure


def overview_figures(fleet: Fleet, now: FleetSummary) -> OverviewFigures:
    """Count a fleet; `now` is its standing."""
    return OverviewFigures(
        replicas=_replicas(now),
        pools=_pools(now),
        critical=_found(now, fleet, Severity.CRITICAL, "Critical"),
        warnings=_found(now, fleet, Severity.WARNING, "Warnings"),
        unknown=_unknown(now),
        capacity=_capacity(fleet),
    )


def _replicas(now: FleetSummary) -> Figure:
    parts = [f"{now.down:,} down" if now.down else "", f"{now.partial:,} partial" if now.partial else ""]
    states = " · ".join(filter(None, parts)) or "all up"
    return Figure("Replicas", f"{now.replicas - now.down:,} / {now.replicas:,}", states)


def _pools(now: FleetSummary) -> Figure:
    split = len(now.split)
    counts = ((split, "split"), (now.read - split, "uniform"), (now.pools - now.read, "not read"))
    words = ", ".join(f"{number:,} {what}" for number, what in counts if number) or "no replica told its model"
    return Figure("Pools", f"{now.pools:,}", words)


def _found(now: FleetSummary, fleet: Fleet, severity: Severity, label: str) -> Figure:
    """Count the findings of one severity, and what of them is suppressed."""
    number = getattr(now.found, severity)
    pools = {pool for each in fleet.inspection.findings if each.severity is severity for pool in each.pools}
    suppressed = sum(each.severity is severity for each in fleet.inspection.suppressed)
    notes = [f"in {formatting.count(len(pools), 'pool')}"] if pools else []
    notes += [f"{suppressed:,} suppressed"] if suppressed else []
    note = " · ".join(notes) or ("found by no rule" if now.read else "nothing was compared")
    return Figure(label, f"{number:,}", note, Tone(severity) if number else Tone.PLAIN)


def _unknown(now: FleetSummary) -> Figure:
    number = len(now.unread)
    rules = f"{formatting.count(now.found.unknown, 'rule')} not judged everywhere" if now.found.unknown else ""
    if not number:
        return Figure("Unknown", "0", rules or "every replica was read")
    note = "replicas not read whole" if number > 1 else "replica not read whole"
    return Figure("Unknown", f"{number:,}", note, Tone.UNKNOWN)


def _capacity(fleet: Fleet) -> Figure:
    held = total(fleet.replicas)
    parts = ["tokens"] if held.tokens is not None else []
    least = "" if held.whole else "≥ "
    parts += [f"{least}{formatting.size(held.bytes)}"] if held.bytes is not None else []
    parts += [f"{least}{formatting.count(held.devices, held.noun)}"] if held.devices else []
    parts += [f"{formatting.count(held.unknown, 'rank')} not known"] if held.unknown else []
    label = f"KV cache, {held.basis}" if held.tokens is not None else "KV cache"
    return Figure(label, formatting.short(held.tokens, held.basis), " · ".join(parts))
