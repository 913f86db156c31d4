"""Changes of one pool, one setting or one replica: what is compared, and what happened in between."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet, only_pool
from dashboard.analysis.changes.events import Event, EventKind
from dashboard.fleet import Document
from dashboard.rules.findings import Finding


class ChangeFilter(NamedTuple):
    """What is wanted: a pool, settings whose path has a text, a replica by its id or name; empty for all."""

    pool: str = ""
    path: str = ""
    replica: str = ""


ALL_CHANGES = ChangeFilter()


def filter_fleet(fleet: Fleet, wanted: ChangeFilter) -> Fleet:
    """Return the wanted part of a fleet, to be compared; a path leaves every replica."""
    if wanted.pool:
        fleet = only_pool(fleet, wanted.pool)
    if wanted.path:
        documents = {key: _only_paths(each, wanted.path) for key, each in fleet.documents.items()}
        fleet = replace(fleet, documents=documents)
    ids = {each.id for each in fleet.replicas if wanted.replica in {each.id, each.name, ""}}
    found, suppressed = (
        tuple(part for each in listed if (part := _part_of(each, wanted, ids)))
        for listed in (fleet.inspection.findings, fleet.inspection.suppressed)
    )
    inspection = replace(fleet.inspection, findings=found, suppressed=suppressed)
    replicas = tuple(each for each in fleet.replicas if each.id in ids)
    return replace(fleet, replicas=replicas, inspection=inspection)


def filter_events(events: Iterable[Event], wanted: ChangeFilter, fleets: Sequence[Fleet]) -> tuple[Event, ...]:
    """Return the wanted events; a gap and another rule set concern every pool, setting and replica.

    A history records neither paths nor replicas of a finding: those are what the finding has in `fleets`. A filter by
    path or replica leaves out what none of them has.
    """
    known: dict[str, list[Finding]] = defaultdict(list)
    for each in _findings_of(fleets):
        known[each.fingerprint].append(each)
    ids = {each.id for fleet in fleets for each in fleet.replicas if wanted.replica in {each.id, each.name}}
    return tuple(each for each in events if _is_wanted(each, wanted, known.get(each.fingerprint, []), ids))


def begun_between(events: Iterable[Event], wanted: ChangeFilter, ends: Sequence[Fleet]) -> dict[datetime, set[str]]:
    """Return the findings that a filter has to look up, by fingerprint at the polls at which they began, newest first.

    They began and ended in between: none of the `ends` has them.
    """
    known = {each.fingerprint for each in _findings_of(ends)}
    begun: dict[datetime, set[str]] = defaultdict(set)
    for each in events if wanted.path or wanted.replica else ():
        is_of_pool = not wanted.pool or wanted.pool in each.pools
        if each.kind is EventKind.FINDING_BEGAN and each.fingerprint not in known and is_of_pool:
            begun[each.at].add(each.fingerprint)
    return {at: begun[at] for at in sorted(begun, reverse=True)}


def _findings_of(fleets: Iterable[Fleet]) -> Iterator[Finding]:
    for each in fleets:
        yield from (*each.inspection.findings, *each.inspection.suppressed)


def _only_paths(document: Document, path: str) -> Document:
    return replace(document, settings={name: each for name, each in document.settings.items() if path in name})


def _part_of(finding: Finding, wanted: ChangeFilter, ids: set[str]) -> Finding | None:
    """Return a finding on the wanted replicas only; None where it is on another setting or on none of them."""
    if wanted.path and not any(wanted.path in each for each in finding.paths):
        return None
    if not wanted.replica:
        return finding
    own = tuple(each for each in finding.replicas if each in ids)
    return replace(finding, replicas=own) if own else None


def _is_wanted(event: Event, wanted: ChangeFilter, findings: Iterable[Finding], ids: Collection[str]) -> bool:
    if event.kind in {EventKind.GAP, EventKind.RULES}:
        return True
    paths = [each.path for each in event.changes] + [path for each in findings for path in each.paths]
    names = [text for pair in event.replicas for text in pair]
    is_on_it = wanted.replica in names or any(key in ids for each in findings for key in each.replicas)
    return (
        (not wanted.pool or wanted.pool in event.pools)
        and (not wanted.path or any(wanted.path in path for path in paths))
        and (not wanted.replica or is_on_it)
    )
