"""The JSON document of what happened to a fleet between two times: what `GET /api/v1/events` answers.

docs/events.schema.json is made of this module. Commands read it from the API of another dashboard.
"""

from typing import Any

from pydantic_core import from_json, to_json

from dashboard.analysis.changes.events import Event, EventPeriod
from dashboard.documents.contract import ADDED, Contract, JsonKey, WithExtraKeys
from dashboard.documents.findings import ReplicaName, or_null
from dashboard.documents.load import check_nodes
from dashboard.store.packing import clean_settings
from vllm_fleet_provider.shared.redaction import redact, redact_known

SCHEMA_VERSION = 1
TEXTS = {
    "before": "state, severity or rule set",
    "now": "the same afterwards; of a finding its severity",
    "rule": "",
    "sentence": "",
    "fingerprint": "of the finding",
}


def events_json(happened: EventPeriod, fleet: str) -> bytes:
    """Return the document of what happened to a fleet of this name."""
    return EVENTS.dump(WithExtraKeys(happened, {"fleet": fleet}))


def read_events_json(raw: bytes) -> tuple[str, EventPeriod]:
    """Return the name of a fleet and what happened to it, without secrets; raise ValueError for another document."""
    check_nodes(raw)
    try:
        happened, added = EVENTS.load(to_json(_without_secrets(from_json(raw))))
    except (AttributeError, LookupError, TypeError, ValueError):
        raise ValueError("it answers no document of events") from None
    return added["fleet"], happened


def _without_secrets(saved: Any) -> Any:
    for event in saved["events"]:
        for change in event["changes"]:
            for side in ("before", "after"):
                ((_, change[side]),) = clean_settings({change["path"]: change[side]}).items()
    return redact_known(redact(saved))


def _read_event(values: dict[str, Any]) -> Event:
    texts = {name: values[name] or "" for name in TEXTS}
    return Event(
        values["kind"],
        values["at"],
        values["after"],
        values["pools"],
        values["replicas"],
        values["changes"],
        tokens=values["tokens"],
        spread=values["spread"],
        is_suppressed=values["suppressed"],
        is_new_rule_set=values["new_rule_set"],
        **texts,
    )


CONTRACT = Contract()
CONTRACT.object(
    Event,
    JsonKey("kind", doc="`gap`: no poll was recorded"),
    JsonKey("at", doc="the poll that first saw it, of a gap the first one later"),
    JsonKey("after", doc="the last poll before; null: no longer recorded"),
    "pools",
    JsonKey("replicas", tuple[ReplicaName, ...], lambda each: tuple(ReplicaName(*pair) for pair in each.replicas)),
    "changes",
    *(JsonKey(name, str | None, or_null(name), doc) for name, doc in TEXTS.items()),
    JsonKey("tokens", doc="of the KV cache of these replicas, before and afterwards"),
    JsonKey("spread", doc="replicas of the finding before and now"),
    JsonKey("suppressed", of="is_suppressed"),
    JsonKey("new_rule_set", of="is_new_rule_set", doc="evaluated by another rule set than before"),
    read=_read_event,
)
PARTS = ("since", "until", JsonKey("events", doc="the first one first"))
EVENTS = Contract(CONTRACT).object(
    EventPeriod,
    JsonKey("schema_version", int, lambda _: SCHEMA_VERSION),
    JsonKey("fleet", str, ADDED),
    *PARTS,
    name="EventsDocument",
    is_read=True,
)
CONTRACT.object(EventPeriod, *PARTS, name="Happened")
