"""Spans, bodies, polls and watches."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0001", None

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "meta", sa.Column("key", sa.String(40), primary_key=True), sa.Column("value", sa.Text, nullable=False)
    )
    op.create_table(
        "body",
        sa.Column("id", ID, primary_key=True),
        sa.Column("sha", sa.LargeBinary(32), nullable=False, unique=True),
        sa.Column("base", ID, sa.ForeignKey("body.id"), index=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "replica",
        sa.Column("id", ID, primary_key=True),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("pod", sa.Text, nullable=False),
        sa.Column("first_seen", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("address", "pod"),
    )
    _create_spans(
        "replica_span",
        sa.Column("replica_id", ID, sa.ForeignKey("replica.id"), nullable=False, index=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("pool", sa.Text),
        sa.Column("version", sa.Text),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("reason", sa.String(20)),
        sa.Column("document", sa.String(20), index=True),
        _body("process"),
        _body("answers"),
        sa.Column("fresh", sa.Boolean, nullable=False),
        sa.Column("observed_at", sa.BigInteger),
        sa.Column("times", sa.Text, nullable=False),
    )
    _create_spans("document_span", sa.Column("document", sa.String(20), nullable=False, index=True), _body("body"))
    _create_spans("fleet_span", _body("body"))
    _create_spans(
        "finding_span",
        sa.Column("fingerprint", sa.String(20), nullable=False, index=True),
        sa.Column("rule", sa.String(20), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("severity", sa.String(10), nullable=False),
        sa.Column("suppressed", sa.Boolean, nullable=False),
        sa.Column("ruleset", sa.Integer, nullable=False),
        sa.Column("findings", sa.Integer, nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
    )
    op.create_table(
        "poll",
        sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("due", sa.BigInteger, nullable=False),
        sa.Column("answered", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
    )
    op.create_table(
        "watch",
        sa.Column("id", ID, primary_key=True),
        sa.Column("from_at", sa.BigInteger, nullable=False),
        sa.Column("to_at", sa.BigInteger, nullable=False),
        sa.Column("due", sa.BigInteger, nullable=False),
    )


def _create_spans(name: str, *columns: sa.Column[object]) -> None:
    op.create_table(
        name,
        sa.Column("id", ID, primary_key=True),
        sa.Column("from_at", sa.BigInteger, nullable=False),
        sa.Column("to_at", sa.BigInteger),
        sa.Column("last_seen", sa.BigInteger),
        *columns,
    )
    op.create_index(f"{name}_times", name, ["from_at", "to_at"])


def _body(name: str) -> sa.Column[object]:
    return sa.Column(name, ID, sa.ForeignKey("body.id"), nullable=False, index=True)
