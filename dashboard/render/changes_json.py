"""The JSON document of what changed between two fleets: what `diff --format json` prints.

docs/changes.schema.json is made of this module. No clock: the same fleets give the same bytes.
"""

from dashboard import __version__
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import models as changes
from dashboard.analysis.changes.events import EventPeriod
from dashboard.documents.contract import ADDED, Contract, JsonKey, Time, WithExtraKeys
from dashboard.documents.findings import or_null
from dashboard.render import events_json
from dashboard.rules.catalogue import RULE_SET
from dashboard.rules.findings import OutcomeKind, Severity, Suppression
from dashboard.views.changes_text import headline, lead, warnings

SCHEMA_VERSION = 1
OF_A_FINDING = ("id", "rule", "severity", "subject", "pools", "replicas", "sentence")


def changes_json(changed: changes.Changes, happened: EventPeriod | None = None, *, indent: int | None = None) -> bytes:
    """Return the document of what changed, and of what happened in between."""
    return CHANGES.dump(WithExtraKeys(changed, {"between": happened}), indent=indent)


CONTRACT = Contract(events_json.CONTRACT)
CONTRACT.object(
    Fleet,
    JsonKey("fleet", of="name"),
    JsonKey("snapshot", doc="id of the frozen snapshot; null: not frozen"),
    JsonKey("past", doc="the time in the history; null: a snapshot, or not frozen"),
    JsonKey("data_as_of", Time | None, "polled_at"),
    "coverage",
    name="Side",
)
CONTRACT.object(
    changes.ReplicaSide,
    JsonKey("replica", of="replica.id", doc="scheme://host:port"),
    *(JsonKey(name, of=f"replica.{name}") for name in ("name", "pool", "state", "version", "started_at")),
    JsonKey("cohort", str | None, or_null("letter")),
    name="SeenReplica",
)
CONTRACT.object(changes.ReplicaPair, "before", "after", JsonKey("restarted", doc="null: a side lacks the start time"))
CONTRACT.object(
    changes.ReplicaChanges,
    "added removed changed",
    JsonKey("stayed", int, lambda each: len(each.both), "replicas of both sides"),
    JsonKey("start_unknown", doc="replicas that may have restarted: a side lacks the start time"),
)
CONTRACT.object(
    changes.CohortCount,
    JsonKey("cohort", str | None, or_null("letter"), "null: never read"),
    JsonKey("count", of="number"),
)
POOLS = (
    JsonKey("pool_before", str | None, lambda each: each.pools[0]),
    JsonKey("pool_after", str | None, lambda each: each.pools[1]),
)
CONTRACT.object(
    changes.SettingGroup,
    *POOLS,
    "changes replicas",
    JsonKey("of_before", int, lambda each: each.pool_sizes[0], "replicas of the pool before"),
    JsonKey("of_after", int, lambda each: each.pool_sizes[1], "replicas of the pool after"),
    "cohorts_before cohorts_after restarted",
    "start_unknown",
)
CONTRACT.object(changes.OneSidedSettings, *POOLS, "paths", "replicas", "why")
CONTRACT.object(
    changes.SettingChanges,
    "groups",
    "no_longer_reported newly_reported",
    JsonKey("ignored", doc="paths that changed, ignored by fleet.yaml of a side"),
    "compared unread_before unread_after",
)
CONTRACT.object(
    changes.OneSidedFinding,
    *(JsonKey(name, of=f"finding.{name}") for name in OF_A_FINDING),
    JsonKey("suppressed", of="is_suppressed"),
    JsonKey("other_side", doc="whether the other side evaluated it; `not evaluated` is not fixed"),
    JsonKey("absent", doc="its replicas that the other side does not have"),
    JsonKey("unread", doc="its replicas that the other side could not read"),
    JsonKey("silent", doc="its replicas that do not report there what it is about"),
    JsonKey("outcome", OutcomeKind | None, doc="outcome of the rule there; null: not run on the same pool"),
    JsonKey("reason", str | None, or_null("reason")),
)
CONTRACT.object(Suppression, "owner", "reason", "until")
CONTRACT.object(
    changes.PersistingFinding,
    *(JsonKey(name, of=f"after.{name}") for name in OF_A_FINDING),
    JsonKey("severity_before", Severity, "before.severity"),
    "joined left",
    JsonKey("unread", doc="of these, those that the other side could not read"),
    JsonKey("suppressed_before", doc="its replicas that are suppressed"),
    "suppressed_after ended",
)
CONTRACT.object(
    changes.FindingChanges,
    "new no_longer_found changed",
    JsonKey("same", int, lambda each: len(each.persisting) - len(each.changed), "unchanged, suppressed ones too"),
)
CONTRACT.object(
    changes.PoolCapacityChange,
    "pool before after",
    JsonKey("share", doc="-0.18: 18 % fewer tokens; null: the sums are not comparable"),
    name="PoolCapacity",
)
CONTRACT.object(changes.RankChange, "replica dp_rank pool before after", JsonKey("at_most", of="is_at_most"))
CHANGES = CONTRACT.object(
    changes.Changes,
    JsonKey("schema_version", int, lambda _: SCHEMA_VERSION),
    JsonKey("program_version", str, lambda _: __version__),
    JsonKey("rule_set", int, lambda _: RULE_SET),
    "before after",
    JsonKey("changed", bool, lambda each: not each.is_empty),
    JsonKey("headline", str, headline),
    JsonKey("lead", str, lead),
    JsonKey("warnings", tuple[str, ...], lambda each: tuple(warnings(each))),
    "options_differ",
    JsonKey("names", dict[str, str], lambda each: dict(sorted(each.names.items())), "of the replicas, by id"),
    "replicas settings findings capacity",
    JsonKey("between", EventPeriod | None, ADDED, "also what changed back; null: no history, or another fleet"),
    name="ChangesDocument",
)
