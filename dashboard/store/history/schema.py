"""The tables of the history and of snapshots. A migration in `migrations/versions` makes them.

A span is a state that lasts from the poll at `from_at` until before the poll at `to_at`, null while it lasts.
`last_seen` is the last poll that confirmed it: the change came between `last_seen` and `to_at`. Of a span that lasts it
is null: it is the end of the last watch. Spans that follow each other are one stay: their `since` is its beginning.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa

from dashboard.fleet.times import EPOCH, MICROSECOND
from dashboard.fleet.traffic import COUNTERS, GAUGES

HEAD = "0001"  # the last migration
MOST_PARAMETERS = 500  # of one statement; SQLite before 3.32 takes 999
METADATA = sa.MetaData()
T = TypeVar("T")
ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers only INTEGER keys by itself


class MomentType(sa.TypeDecorator[datetime]):
    """A time (UTC) as microseconds since 1970: exact, ordered and small on every database."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> int | None:  # noqa: ARG002
        return None if value is None else (value - EPOCH) // MICROSECOND

    def process_result_value(self, value: int | None, dialect: Any) -> datetime | None:  # noqa: ARG002
        return None if value is None else EPOCH + value * MICROSECOND


def _numbered(name: str, *columns: sa.Column[Any] | sa.UniqueConstraint) -> sa.Table:
    """Return a table whose rows have a number of their own."""
    return sa.Table(name, METADATA, sa.Column("id", ID, primary_key=True), *columns)


def _span(name: str, *columns: sa.Column[Any]) -> sa.Table:
    """Return a table of spans; the index finds those of one time."""
    table = _numbered(
        name,
        sa.Column("from_at", MomentType, nullable=False),
        sa.Column("to_at", MomentType),
        sa.Column("last_seen", MomentType),
        *columns,
    )
    sa.Index(f"{name}_times", table.c.from_at, table.c.to_at)
    return table


def _sighted(name: str, *columns: sa.Column[Any]) -> sa.Table:
    """Return a table of spans with the sighting of each: see `Sighting`."""
    sighted = (sa.Column(each, MomentType, nullable=False) for each in ("first_seen", "since"))
    return _span(name, *columns, *sighted, sa.Column("absent_at", MomentType))


def _body(name: str) -> sa.Column[Any]:
    return sa.Column(name, ID, sa.ForeignKey("body.id"), nullable=False, index=True)


# `fleet`: the name of the fleet whose history this is.
meta = sa.Table(
    "meta", METADATA, sa.Column("key", sa.String(40), primary_key=True), sa.Column("value", sa.Text, nullable=False)
)

# JSON that spans share, compressed; `sha` is the SHA-256 of the JSON. `base` is the similar body that its compression
# refers to, which has none.
body = _numbered(
    "body",
    sa.Column("sha", sa.LargeBinary(32), nullable=False, unique=True),
    sa.Column("base", ID, sa.ForeignKey("body.id"), index=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
)

# An address, and the pod behind it where known: with a reused address another pod is another replica.
replica = _numbered(
    "replica",
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("pod", sa.Text, nullable=False),
    sa.UniqueConstraint("address", "pod"),
)

# `process` is what a start of the process decides, `answers` is everything else: mostly that of other replicas, too.
# `times` are those of the answers at `from_at`; `observed_at` is the last of them. From `limited_at` on the replica had
# changes that are not recorded: too many on that day.
replica_span = _sighted(
    "replica_span",
    sa.Column("replica_id", ID, sa.ForeignKey("replica.id"), nullable=False, index=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("pool", sa.Text),
    sa.Column("version", sa.Text),
    sa.Column("started_at", MomentType),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("reason", sa.String(20)),
    sa.Column("document", sa.String(20), index=True),
    _body("process"),
    _body("answers"),
    sa.Column("fresh", sa.Boolean, nullable=False),
    sa.Column("observed_at", MomentType),
    sa.Column("times", sa.Text, nullable=False),
    sa.Column("limited_at", MomentType),
)

document_span = _span("document_span", sa.Column("document", sa.String(20), nullable=False, index=True), _body("body"))

# What belongs to no replica: options in force, notes, sources of targets that cannot be read, rule set.
fleet_span = _span("fleet_span", _body("body"))

# `fingerprint` is that of rule, pools and setting paths. `sentence` and the number `findings` are those at `from_at`.
# It is on `replicas` of the `total` of its pools; null: in a rollout, where that changes all the time.
finding_span = _sighted(
    "finding_span",
    sa.Column("fingerprint", sa.String(20), nullable=False, index=True),
    sa.Column("rule", sa.String(20), nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("severity", sa.String(10), nullable=False),
    sa.Column("suppressed", sa.Boolean, nullable=False),
    sa.Column("ruleset", sa.Integer, nullable=False),
    sa.Column("findings", sa.Integer, nullable=False),
    sa.Column("sentence", sa.Text, nullable=False),
    sa.Column("replicas", sa.Integer),
    sa.Column("total", sa.Integer),
)

# `document` is the most complete one of a cohort, `letter` its letter, `replicas` counts its members.
cohort_span = _sighted(
    "cohort_span",
    sa.Column("pool", sa.Text, nullable=False, index=True),
    sa.Column("document", sa.String(20), nullable=False),
    sa.Column("letter", sa.String(10), nullable=False),
    sa.Column("replicas", sa.Integer, nullable=False),
    sa.Column("version", sa.Text),
)

difference_span = _sighted(
    "difference_span",
    sa.Column("pool", sa.Text, nullable=False, index=True),
    sa.Column("path", sa.Text, nullable=False),
)

# Each recorded poll proves that the dashboard looked. After `due` without another poll there is a gap.
poll = sa.Table(
    "poll",
    METADATA,
    sa.Column("at", MomentType, primary_key=True, autoincrement=False),
    sa.Column("due", MomentType, nullable=False),
    sa.Column("answered", sa.Integer, nullable=False),
    sa.Column("total", sa.Integer, nullable=False),
)

# Polls without a gap between them, from the first to the last; kept longer than polls.
watch = _numbered(
    "watch",
    sa.Column("from_at", MomentType, nullable=False),
    sa.Column("to_at", MomentType, nullable=False),
    sa.Column("due", MomentType, nullable=False),
)

# What the replicas of a pool with one document counted together in five minutes, later in an hour: see `Traffic`.
# Several rows of one time add up.
traffic = _numbered(
    "traffic",
    sa.Column("from_at", MomentType, nullable=False, index=True),
    sa.Column("to_at", MomentType, nullable=False),
    sa.Column("pool", sa.Text, nullable=False),
    sa.Column("document", sa.String(20), nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    *(sa.Column(name, sa.Float) for name in (*COUNTERS, *GAUGES)),
)
sa.Index("traffic_pools", traffic.c.pool, traffic.c.from_at)

# A snapshot is kept for ever. `key` is its id, the hash of its JSON; `content` is that JSON, compressed, and `sha` the
# SHA-256 of `content`. `metadata` is its name, notes and counts as JSON.
snapshot = sa.Table(
    "snapshot",
    METADATA,
    sa.Column("key", sa.String(32), primary_key=True),
    sa.Column("sha", sa.LargeBinary(32), nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("metadata", sa.LargeBinary, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)

# The raw answers of a saved poll, secrets removed: the history keeps none. A row has those of some replicas, from the
# one at position `replica` in the fleet until that of the next row: JSON by path and position, compressed.
snapshot_answers = sa.Table(
    "snapshot_answers",
    METADATA,
    sa.Column("snapshot", sa.String(32), sa.ForeignKey("snapshot.key"), primary_key=True),
    sa.Column("replica", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)


def _alert_key(*, is_primary: bool) -> list[sa.Column[Any]]:
    kinds = {"rule": sa.String(20), "pool": sa.Text(), "severity": sa.String(10)}
    return [sa.Column(name, kind, primary_key=is_primary, nullable=False) for name, kind in kinds.items()]


# The alerts that fire, for webhooks, as JSON.
alert = sa.Table(
    "alert",
    METADATA,
    *_alert_key(is_primary=True),
    sa.Column("content", sa.Text, nullable=False),
)

# An alert that a receiver is to get, or its end. Those with one `message` are sent together; null: in no message yet.
notification = _numbered(
    "notification",
    sa.Column("receiver", sa.Text, nullable=False, index=True),
    *_alert_key(is_primary=False),
    sa.Column("message", sa.String(20), index=True),
    sa.Column("is_end", sa.Boolean, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
)

# When a receiver accepted its last message on a pool; with an empty pool, since when the receiver is known.
notified = sa.Table(
    "notified",
    METADATA,
    sa.Column("receiver", sa.Text, primary_key=True),
    sa.Column("pool", sa.Text, primary_key=True),
    sa.Column("at", MomentType, nullable=False),
)

# What visitors did, and who signed in. `details` names the object, as JSON: the id of a snapshot, a rule, a file.
audit = _numbered(
    "audit",
    sa.Column("at", MomentType, nullable=False, index=True),
    sa.Column("action", sa.String(40), nullable=False),
    sa.Column("result", sa.String(10), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("visitor", sa.Text, nullable=False),
    sa.Column("role", sa.String(10), nullable=False),
    sa.Column("means", sa.String(10), nullable=False),
    sa.Column("client", sa.Text, nullable=False),
    sa.Column("details", sa.Text, nullable=False),
)

# Somebody who signed in: see `SignIn`. `groups` is JSON. The key of the cookie's signature is not in the database.
session = sa.Table(
    "session",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("means", sa.String(10), nullable=False),
    sa.Column("groups", sa.Text, nullable=False),
    sa.Column("token", sa.String(64), nullable=False),
    *(sa.Column(name, MomentType, nullable=False) for name in ("created_at", "active_at")),
    sa.Column("ends_at", MomentType, nullable=False, index=True),
    sa.Column("refreshed_at", MomentType, nullable=False),
    sa.Column("sealed", sa.LargeBinary, nullable=False),
)

SPANS = (replica_span, document_span, fleet_span, finding_span, cohort_span, difference_span)
# What identifies a sighted thing.
KEYS: Mapping[sa.Table, tuple[str, ...]] = {
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
