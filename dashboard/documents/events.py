"""The JSON document of what happened to a fleet between two times: what `GET /api/v1/events` answers.

Commands read it from the API of another dashboard.
"""

from datetime import datetime
from typing import Any, Literal, get_type_hints

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from dashboard.analysis.changes.events import Event, EventPeriod
from dashboard.documents import pick, value_object, write_json
from dashboard.documents.load import check_size
from dashboard.documents.models import many, object_of, type_of
from dashboard.documents.secrets import clean_settings
from dashboard.errors import SnapshotError
from dashboard.fleet import SettingChange, SettingValue
from vllm_fleet_provider.shared.redaction import redact, redact_known

SCHEMA_VERSION: Literal[1] = 1
TEXTS = ("before", "now", "rule", "sentence", "fingerprint")  # null where an event has none


def events_json(happened: EventPeriod, fleet: str) -> bytes:
    """Return the document of what happened to a fleet of this name."""
    return write_json({"schema_version": SCHEMA_VERSION, "fleet": fleet, **period_object(happened)})


def period_object(happened: EventPeriod) -> dict[str, Any]:
    """Return what happened, the first event first."""
    events = [_event_object(event) for event in happened.events]
    return {"since": happened.since, "until": happened.until, "events": events}


def _event_object(event: Event) -> dict[str, Any]:
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
