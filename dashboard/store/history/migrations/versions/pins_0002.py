"""Pinned moments."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "pin",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False, index=True),
        _body("body"),
        sa.Column("metadata", sa.Text, nullable=False),
    )
    op.create_table("pin_document", _pin(), sa.Column("document", sa.String(20), primary_key=True), _body("body"))
    op.create_table(
        "pin_replica",
        _pin(),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("document", sa.String(20)),
        _body("process"),
        _body("answers"),
        sa.Column("observed_at", sa.BigInteger),
        sa.Column("times", sa.Text, nullable=False),
    )


def _pin() -> sa.Column[object]:
    return sa.Column("pin", sa.String(32), sa.ForeignKey("pin.key"), primary_key=True)


def _body(name: str) -> sa.Column[object]:
    return sa.Column(name, ID, sa.ForeignKey("body.id"), nullable=False, index=True)
