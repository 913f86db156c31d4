"""Announced alerts, and notifications that wait."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0004", "0003"

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "alert", *_key(is_primary=True), sa.Column("state", sa.String(10), nullable=False), _text("content")
    )
    op.create_table(
        "notification",
        sa.Column("id", ID, primary_key=True),
        sa.Column("receiver", sa.Text, nullable=False, index=True),
        *_key(is_primary=False),
        sa.Column("message", sa.String(20), index=True),
        _text("content"),
    )
    op.create_table(
        "notified",
        sa.Column("receiver", sa.Text, primary_key=True),
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
    )


def _key(*, is_primary: bool) -> list[sa.Column[object]]:
    kinds = {"rule": sa.String(20), "pool": sa.Text(), "severity": sa.String(10)}
    return [sa.Column(name, kind, primary_key=is_primary, nullable=False) for name, kind in kinds.items()]


def _text(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.Text, nullable=False)
