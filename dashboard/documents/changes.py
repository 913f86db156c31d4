"""The JSON documents of what changed between two fleets, and of what happened to one between two times.

The first is what `diff --format json` prints, the second what `GET /api/v1/events` answers: commands read it from the
API of another dashboard. No clock: the same fleets give the same bytes.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, get_type_hints

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from dashboard import __version__
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import models
from dashboard.analysis.changes.events import Event, EventPeriod
from dashboard.capacity.sums import PoolCapacity
from dashboard.documents import pick, value_object, write_json
from dashboard.documents.findings import past_object, suppression_object
from dashboard.documents.load import check_size
from dashboard.documents.models import many, object_of, type_of
from dashboard.documents.secrets import clean_settings
from dashboard.errors import SnapshotError
from dashboard.fleet import Replica, SettingChange, SettingValue
from dashboard.rules.catalogue import RULE_SET
from dashboard.rules.findings import Finding
from vllm_fleet_provider.shared.redaction import redact, redact_known

SCHEMA_VERSION = EVENTS_VERSION = 1
TEXTS = ("before", "now", "rule", "sentence", "fingerprint")  # null where an event has none


def changes_json(
    changed: models.Changes,
    happened: EventPeriod | None = None,
    *,
    headline: str,
    lead: str,
    warnings: Sequence[str],
    indent: int | None = None,
) -> bytes:
    """Return the document of what changed, with the sentences on it, and of what happened in between."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "program_version": __version__,
        "rule_set": RULE_SET,
        "before": _side_object(changed.before),
        "after": _side_object(changed.after),
        "changed": not changed.is_empty,
        "headline": headline,
        "lead": lead,
        "warnings": warnings,
        "options_differ": changed.options_differ,
        "names": dict(sorted(changed.names.items())),
        "replicas": _replicas_object(changed.replicas),
        "settings": _settings_object(changed.settings),
        "findings": _findings_object(changed.findings),
        "capacity": _capacity_object(changed.capacity),
        "between": happened and period_object(happened),
    }
    return write_json(document, indent)


def _side_object(fleet: Fleet) -> dict[str, Any]:
    return {
        "fleet": fleet.name,
        "snapshot": fleet.snapshot,
        "past": past_object(fleet.past),
        "data_as_of": fleet.polled_at,
        "coverage": fleet.coverage._asdict(),
    }


def _replicas_object(changed: models.ReplicaChanges) -> dict[str, Any]:
    pairs = [
        {
            "before": _seen(pair.before, changed.letters_before),
            "after": _seen(pair.after, changed.letters_after),
            "restarted": pair.restarted,
        }
        for pair in changed.changed
    ]
    return {
        "added": [_seen(replica, changed.letters_after) for replica in changed.added],
        "removed": [_seen(replica, changed.letters_before) for replica in changed.removed],
        "changed": pairs,
        "stayed": len(changed.both),
        "start_unknown": changed.start_unknown,
    }


def _seen(replica: Replica, letters: Mapping[str, str]) -> dict[str, Any]:
    return {
        "replica": replica.id,
        **pick(replica, ("name", "pool", "state", "version", "started_at")),
        "cohort": letters.get(replica.id),
    }


def _settings_object(changed: models.SettingChanges) -> dict[str, Any]:
    return {
        "groups": [_group_object(group) for group in changed.groups],
        "no_longer_reported": [_one_sided_object(settings) for settings in changed.no_longer_reported],
        "newly_reported": [_one_sided_object(settings) for settings in changed.newly_reported],
        **pick(changed, ("ignored", "compared", "unread_before", "unread_after")),
    }


def _group_object(group: models.SettingGroup) -> dict[str, Any]:
    before, after = (
        [{"cohort": letter or None, "count": number} for letter, number in cohorts.items()]
        for cohorts in (group.cohorts_before, group.cohorts_after)
    )
    return {
        "pool_before": group.pools[0],
        "pool_after": group.pools[1],
        "changes": [change_object(change) for change in group.changes],
        "replicas": group.replicas,
        "of_before": group.pool_sizes[0],
        "of_after": group.pool_sizes[1],
        "cohorts_before": before,
        "cohorts_after": after,
        **pick(group, ("restarted", "start_unknown")),
    }


def _one_sided_object(settings: models.OneSidedSettings) -> dict[str, Any]:
    before, after = settings.pools
    return {"pool_before": before, "pool_after": after, **pick(settings, ("paths", "replicas", "why"))}


def _findings_object(changed: models.FindingChanges) -> dict[str, Any]:
    return {
        "new": [_lone_finding(each) for each in changed.new],
        "no_longer_found": [_lone_finding(each) for each in changed.no_longer_found],
        "changed": [_persisting_finding(each) for each in changed.changed],
        "same": len(changed.persisting) - len(changed.changed),
    }


def _identity(finding: Finding) -> dict[str, Any]:
    return pick(finding, ("id", "rule", "severity", "subject", "pools", "replicas", "sentence"))


def _lone_finding(found: models.OneSidedFinding) -> dict[str, Any]:
    return {
        **_identity(found.finding),
        "suppressed": found.is_suppressed,
        **pick(found, ("other_side", "absent", "unread", "silent", "outcome")),
        "reason": found.reason or None,
    }


def _persisting_finding(found: models.PersistingFinding) -> dict[str, Any]:
    return {
        **_identity(found.after),
        "severity_before": found.before.severity,
        **pick(found, ("joined", "left", "unread", "suppressed_before", "suppressed_after")),
        "ended": suppression_object(found.ended),
    }


def _capacity_object(changed: models.CapacityChanges) -> dict[str, Any]:
    ranks = [
        {**pick(rank, ("replica", "dp_rank", "pool", "before", "after")), "at_most": rank.is_at_most}
        for rank in changed.ranks
    ]
    return {
        "total": _pool_capacity(changed.total),
        "pools": [_pool_capacity(pool) for pool in changed.pools],
        "ranks": ranks,
        **pick(changed, ("compared", "incomparable")),
    }


def _pool_capacity(change: models.PoolCapacityChange) -> dict[str, Any]:
    sums = {"before": sum_object(change.before), "after": sum_object(change.after)}
    return {"pool": change.pool, **sums, "share": change.share}


def sum_object(held: PoolCapacity) -> dict[str, Any]:
    """Return the KV cache of a pool or a fleet."""
    sums = {"tokens": held.tokens.value, "bytes": held.bytes.value}
    return {"ranks": held.ranks, **sums, **pick(held, ("unknown", "unsized", "silent", "basis"))}


def events_json(happened: EventPeriod, fleet: str) -> bytes:
    """Return the document of what happened to a fleet of this name."""
    return write_json({"schema_version": EVENTS_VERSION, "fleet": fleet, **period_object(happened)})


def period_object(happened: EventPeriod) -> dict[str, Any]:
    """Return what happened, the first event first."""
    events = [event_object(event) for event in happened.events]
    return {"since": happened.since, "until": happened.until, "events": events}


def event_object(event: Event) -> dict[str, Any]:
    """Return one change of some replicas of a pool, or of a finding."""
    return {
        **pick(event, ("kind", "at", "after", "pools")),
        "replicas": [{"replica": key, "name": name} for key, name in event.replicas],
        "changes": [change_object(change) for change in event.changes],
        **{name: getattr(event, name) or None for name in TEXTS},
        **pick(event, ("tokens", "spread")),
        "suppressed": event.is_suppressed,
        "new_rule_set": event.is_new_rule_set,
    }


def change_object(change: SettingChange) -> dict[str, Any]:
    return {"path": change.path, "before": value_object(change.before), "after": value_object(change.after)}


def _read_event(*, suppressed: bool, new_rule_set: bool, **values: Any) -> Event:
    values |= {name: values[name] or "" for name in TEXTS}
    return Event(**values, is_suppressed=suppressed, is_new_rule_set=new_rule_set)


EVENT = object_of(
    _read_event,
    {
        **get_type_hints(Event, include_extras=True),
        "replicas": many(object_of(lambda *, replica, name: (replica, name), {"replica": str, "name": str})),
        "changes": many(type_of(SettingChange, before=type_of(SettingValue), after=type_of(SettingValue))),
        **dict.fromkeys(TEXTS, str | None),
        "suppressed": bool,
        "new_rule_set": bool,
    },
    without=("is_suppressed", "is_new_rule_set"),
)
EVENTS = object_of(
    dict,
    {
        "schema_version": Literal[1],
        "fleet": str,
        "events": many(EVENT),
        "since": datetime,
        "until": datetime,
    },
)


def read_events_json(raw: bytes) -> tuple[str, EventPeriod]:
    """Return the name of a fleet and what happened to it, without secrets; raise ValueError for another document."""
    try:
        check_size(raw)
        reader: TypeAdapter[dict[str, Any]] = TypeAdapter(EVENTS)
        read = reader.validate_json(to_json(_without_secrets(from_json(raw))), strict=True)
    except (AttributeError, LookupError, SnapshotError, TypeError, ValueError):
        raise ValueError("it answers no document of events") from None
    return read["fleet"], EventPeriod(read["events"], read["since"], read["until"])


def _without_secrets(saved: Any) -> Any:
    for event in saved["events"]:
        for change in event["changes"]:
            for side in ("before", "after"):
                ((_, change[side]),) = clean_settings({change["path"]: change[side]}).items()
    return redact_known(redact(saved))
