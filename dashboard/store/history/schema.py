"""The tables of the history and of snapshots. A migration in `migrations/versions` makes them.

A span is a state that lasts from the poll at `from_at` until before the poll at `to_at`, null while it lasts.
`last_seen` is the last poll that confirmed it: the change came between `last_seen` and `to_at`. Of a span that lasts it
is null: it is the end of the last watch. Spans that follow each other are one stay: their `since` is its beginning.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

from dashboard.fleet.times import EPOCH, MICROSECOND
from dashboard.fleet.traffic import COUNTERS, GAUGES

HEAD = "0001"  # the last migration
MOST_PARAMETERS = 500  # of one statement; SQLite before 3.32 takes 999
METADATA = MetaData()
T = TypeVar("T")
ID = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers only INTEGER keys by itself


class MomentType(TypeDecorator[datetime]):
    """A time (UTC) as microseconds since 1970: exact, ordered and small on every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> int | None:  # noqa: ARG002
        """Return the number of a time."""
        return None if value is None else (value - EPOCH) // MICROSECOND

    def process_result_value(self, value: int | None, dialect: Any) -> datetime | None:  # noqa: ARG002
        """Return the time of a number."""
        return None if value is None else EPOCH + value * MICROSECOND


def _numbered(name: str, *columns: Column[Any] | UniqueConstraint) -> Table:
    """Return a table whose rows have a number of their own."""
    return Table(name, METADATA, Column("id", ID, primary_key=True), *columns)


def _span(name: str, *columns: Column[Any]) -> Table:
    """Return a table of spans; the index finds those of one time."""
    table = _numbered(
        name,
        Column("from_at", MomentType, nullable=False),
        Column("to_at", MomentType),
        Column("last_seen", MomentType),
        *columns,
    )
    Index(f"{name}_times", table.c.from_at, table.c.to_at)
    return table


def _sighted(name: str, *columns: Column[Any]) -> Table:
    """Return a table of spans with the sighting of each: see `Sighting`."""
    sighted = (Column(each, MomentType, nullable=False) for each in ("first_seen", "since"))
    return _span(name, *columns, *sighted, Column("absent_at", MomentType))


def _body(name: str) -> Column[Any]:
    return Column(name, ID, ForeignKey("body.id"), nullable=False, index=True)


# `fleet`: the name of the fleet whose history this is.
meta = Table("meta", METADATA, Column("key", String(40), primary_key=True), Column("value", Text, nullable=False))

# JSON that spans share, compressed; `sha` is the SHA-256 of the JSON. `base` is the similar body that its compression
# refers to, which has none.
body = _numbered(
    "body",
    Column("sha", LargeBinary(32), nullable=False, unique=True),
    Column("base", ID, ForeignKey("body.id"), index=True),
    Column("content", LargeBinary, nullable=False),
)

# An address, and the pod behind it where known: with a reused address another pod is another replica.
replica = _numbered(
    "replica",
    Column("address", Text, nullable=False),
    Column("pod", Text, nullable=False),
    UniqueConstraint("address", "pod"),
)

# `process` is what a start of the process decides, `answers` is everything else: mostly that of other replicas, too.
# `times` are those of the answers at `from_at`; `observed_at` is the last of them. From `limited_at` on the replica had
# changes that are not recorded: too many on that day.
replica_span = _sighted(
    "replica_span",
    Column("replica_id", ID, ForeignKey("replica.id"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("pool", Text),
    Column("version", Text),
    Column("started_at", MomentType),
    Column("state", String(10), nullable=False),
    Column("reason", String(20)),
    Column("document", String(20), index=True),
    _body("process"),
    _body("answers"),
    Column("fresh", Boolean, nullable=False),
    Column("observed_at", MomentType),
    Column("times", Text, nullable=False),
    Column("limited_at", MomentType),
)

document_span = _span("document_span", Column("document", String(20), nullable=False, index=True), _body("body"))

# What belongs to no replica: options in force, notes, sources of targets that cannot be read, rule set.
fleet_span = _span("fleet_span", _body("body"))

# `fingerprint` is that of rule, pools and setting paths. `sentence` and the number `findings` are those at `from_at`.
# It is on `replicas` of the `total` of its pools; null: in a rollout, where that changes all the time.
finding_span = _sighted(
    "finding_span",
    Column("fingerprint", String(20), nullable=False, index=True),
    Column("rule", String(20), nullable=False),
    Column("subject", Text, nullable=False),
    Column("severity", String(10), nullable=False),
    Column("suppressed", Boolean, nullable=False),
    Column("ruleset", Integer, nullable=False),
    Column("findings", Integer, nullable=False),
    Column("sentence", Text, nullable=False),
    Column("replicas", Integer),
    Column("total", Integer),
)

# `document` is the most complete one of a cohort, `letter` its letter, `replicas` counts its members.
cohort_span = _sighted(
    "cohort_span",
    Column("pool", Text, nullable=False, index=True),
    Column("document", String(20), nullable=False),
    Column("letter", String(10), nullable=False),
    Column("replicas", Integer, nullable=False),
    Column("version", Text),
)

difference_span = _sighted(
    "difference_span", Column("pool", Text, nullable=False, index=True), Column("path", Text, nullable=False)
)

# Each recorded poll proves that the dashboard looked. After `due` without another poll there is a gap.
poll = Table(
    "poll",
    METADATA,
    Column("at", MomentType, primary_key=True, autoincrement=False),
    Column("due", MomentType, nullable=False),
    Column("answered", Integer, nullable=False),
    Column("total", Integer, nullable=False),
)

# Polls without a gap between them, from the first to the last; kept longer than polls.
watch = _numbered(
    "watch",
    Column("from_at", MomentType, nullable=False),
    Column("to_at", MomentType, nullable=False),
    Column("due", MomentType, nullable=False),
)

# What the replicas of a pool with one document counted together in five minutes, later in an hour: see `Traffic`.
# Several rows of one time add up.
traffic = _numbered(
    "traffic",
    Column("from_at", MomentType, nullable=False, index=True),
    Column("to_at", MomentType, nullable=False),
    Column("pool", Text, nullable=False),
    Column("document", String(20), nullable=False),
    Column("seconds", Float, nullable=False),
    *(Column(name, Float) for name in (*COUNTERS, *GAUGES)),
)
Index("traffic_pools", traffic.c.pool, traffic.c.from_at)

# A snapshot is kept for ever. `key` is its id, the hash of its JSON; `content` is that JSON, compressed, and `sha` the
# SHA-256 of `content`. `metadata` is its name, notes and counts as JSON.
snapshot = Table(
    "snapshot",
    METADATA,
    Column("key", String(32), primary_key=True),
    Column("sha", LargeBinary(32), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("metadata", LargeBinary, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

# The raw answers of a saved poll, secrets removed: the history keeps none. A row has those of some replicas, from the
# one at position `replica` in the fleet until that of the next row: JSON by path and position, compressed.
snapshot_answers = Table(
    "snapshot_answers",
    METADATA,
    Column("snapshot", String(32), ForeignKey("snapshot.key"), primary_key=True),
    Column("replica", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)


def _alert_key(*, is_primary: bool) -> list[Column[Any]]:
    kinds = {"rule": String(20), "pool": Text(), "severity": String(10)}
    return [Column(name, kind, primary_key=is_primary, nullable=False) for name, kind in kinds.items()]


# The alerts that fire, for webhooks, as JSON.
alert = Table(
    "alert",
    METADATA,
    *_alert_key(is_primary=True),
    Column("content", Text, nullable=False),
)

# An alert that a receiver is to get, or its end. Those with one `message` are sent together; null: in no message yet.
notification = _numbered(
    "notification",
    Column("receiver", Text, nullable=False, index=True),
    *_alert_key(is_primary=False),
    Column("message", String(20), index=True),
    Column("is_end", Boolean, nullable=False),
    Column("content", Text, nullable=False),
)

# When a receiver accepted its last message on a pool; with an empty pool, since when the receiver is known.
notified = Table(
    "notified",
    METADATA,
    Column("receiver", Text, primary_key=True),
    Column("pool", Text, primary_key=True),
    Column("at", MomentType, nullable=False),
)

# What visitors did, and who signed in. `details` names the object, as JSON: the id of a snapshot, a rule, a file.
audit = _numbered(
    "audit",
    Column("at", MomentType, nullable=False, index=True),
    Column("action", String(40), nullable=False),
    Column("result", String(10), nullable=False),
    Column("reason", Text, nullable=False),
    Column("visitor", Text, nullable=False),
    Column("role", String(10), nullable=False),
    Column("means", String(10), nullable=False),
    Column("client", Text, nullable=False),
    Column("details", Text, nullable=False),
)

# Somebody who signed in: see `SignIn`. `groups` is JSON. The key of the cookie's signature is not in the database.
session = Table(
    "session",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("means", String(10), nullable=False),
    Column("groups", Text, nullable=False),
    Column("token", String(64), nullable=False),
    *(Column(name, MomentType, nullable=False) for name in ("created_at", "active_at")),
    Column("ends_at", MomentType, nullable=False, index=True),
    Column("refreshed_at", MomentType, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
)

SPANS = (replica_span, document_span, fleet_span, finding_span, cohort_span, difference_span)
# What identifies a sighted thing.
KEYS: Mapping[Table, tuple[str, ...]] = {
    replica_span: ("replica_id",),
    finding_span: ("fingerprint",),
    cohort_span: ("pool", "document"),
    difference_span: ("pool", "path"),
}
# The columns that refer to a body, each with its table; the base of a body is one of them, under another name.
BODY_REFERENCES = (
    (replica_span, "process"),
    (replica_span, "answers"),
    (document_span, "body"),
    (fleet_span, "body"),
    (body.alias("derived"), "base"),
)


def chunks(items: Collection[T], each: int = 1) -> Iterator[list[T]]:
    """Yield the items in lists that fit in one statement; `each` is the number of parameters of one."""
    every, most = list(items), MOST_PARAMETERS // each
    for first in range(0, len(every), most):
        yield every[first : first + most]
