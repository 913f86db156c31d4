"""The JSON document of what changed between two fleets: what `diff --format json` prints.

docs/changes.schema.json is made of this module. No clock: the same fleets give the same bytes.
"""

from dashboard import __version__
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import models as changes
from dashboard.analysis.changes.events import Happened
from dashboard.analysis.documents.contract import ADDED, Contract, Extended, Key, Time
from dashboard.analysis.documents.findings import or_null
from dashboard.render import events_json
from dashboard.rules.catalogue import RULE_SET
from dashboard.rules.findings import OutcomeKind, Severity, Suppression
from dashboard.views.changes_text import headline, lead, warnings

SCHEMA_VERSION = 1
OF_A_FINDING = ("id", "rule", "severity", "subject", "pools", "replicas", "sentence")


def changes_json(changed: changes.Changes, happened: Happened | None = None, *, indent: int | None = None) -> bytes:
    """Return the document of what changed, and of what happened in between."""
    return CHANGES.dump(Extended(changed, {"between": happened}), indent=indent)


CONTRACT = Contract(events_json.CONTRACT)
CONTRACT.object(
    Fleet,
    Key("fleet", of="name"),
    Key("snapshot", doc="id of the frozen snapshot; null: not frozen"),
    Key("past", doc="the time in the history; null: a snapshot, or not frozen"),
    Key("data_as_of", Time | None, "polled_at"),
    "coverage",
    name="Side",
)
CONTRACT.object(
    changes.ReplicaSide,
    Key("replica", of="replica.id", doc="scheme://host:port"),
    *(Key(name, of=f"replica.{name}") for name in ("name", "pool", "state", "version", "started_at")),
    Key("cohort", str | None, or_null("letter")),
    name="SeenReplica",
)
CONTRACT.object(changes.ReplicaPair, "before", "after", Key("restarted", doc="null: a side lacks the start time"))
CONTRACT.object(
    changes.ReplicaChanges,
    "added removed changed",
    Key("stayed", int, lambda each: len(each.both), "replicas of both sides"),
    Key("start_unknown", doc="replicas that may have restarted: a side lacks the start time"),
)
CONTRACT.object(
    changes.CohortCount, Key("cohort", str | None, or_null("letter"), "null: never read"), Key("count", of="number")
)
POOLS = (
    Key("pool_before", str | None, lambda each: each.pools[0]),
    Key("pool_after", str | None, lambda each: each.pools[1]),
)
CONTRACT.object(
    changes.SettingGroup,
    *POOLS,
    "changes replicas",
    Key("of_before", int, lambda each: each.pool_sizes[0], "replicas of the pool before"),
    Key("of_after", int, lambda each: each.pool_sizes[1], "replicas of the pool after"),
    "cohorts_before cohorts_after restarted",
    "start_unknown",
)
CONTRACT.object(changes.OneSidedSettings, *POOLS, "paths", "replicas", "why")
CONTRACT.object(
    changes.SettingChanges,
    "groups",
    "no_longer_reported newly_reported",
    Key("ignored", doc="paths that changed, ignored by fleet.yaml of a side"),
    "compared unread_before unread_after",
)
CONTRACT.object(
    changes.OneSidedFinding,
    *(Key(name, of=f"finding.{name}") for name in OF_A_FINDING),
    Key("suppressed", of="is_suppressed"),
    Key("other_side", doc="whether the other side evaluated it; `not evaluated` is not fixed"),
    Key("absent", doc="its replicas that the other side does not have"),
    Key("unread", doc="its replicas that the other side could not read"),
    Key("silent", doc="its replicas that do not report there what it is about"),
    Key("outcome", OutcomeKind | None, doc="outcome of the rule there; null: not run on the same pool"),
    Key("reason", str | None, or_null("reason")),
)
CONTRACT.object(Suppression, "owner", "reason", "until")
CONTRACT.object(
    changes.PersistingFinding,
    *(Key(name, of=f"after.{name}") for name in OF_A_FINDING),
    Key("severity_before", Severity, "before.severity"),
    "joined left",
    Key("unread", doc="of these, those that the other side could not read"),
    Key("suppressed_before", doc="its replicas that are suppressed"),
    "suppressed_after ended",
)
CONTRACT.object(
    changes.FindingChanges,
    "new no_longer_found changed",
    Key("same", int, lambda each: len(each.persisting) - len(each.changed), "unchanged, suppressed ones too"),
)
CONTRACT.object(
    changes.PoolCapacity,
    "pool before after",
    Key("share", doc="-0.18: 18 % fewer tokens; null: the sums are not comparable"),
)
CONTRACT.object(changes.RankChange, "replica dp_rank pool before after", Key("at_most", of="is_at_most"))
CHANGES = CONTRACT.object(
    changes.Changes,
    Key("schema_version", int, lambda _: SCHEMA_VERSION),
    Key("program_version", str, lambda _: __version__),
    Key("rule_set", int, lambda _: RULE_SET),
    "before after",
    Key("changed", bool, lambda each: not each.is_empty),
    Key("headline", str, headline),
    Key("lead", str, lead),
    Key("warnings", tuple[str, ...], lambda each: tuple(warnings(each))),
    "options_differ",
    Key("names", dict[str, str], lambda each: dict(sorted(each.names.items())), "of the replicas, by id"),
    "replicas settings findings capacity",
    Key("between", Happened | None, ADDED, "also what changed back; null: no history, or another fleet"),
    name="ChangesDocument",
)
