"""Pinned moments that open as the bytes that were frozen, their raw answers, and the files that were imported.

The tables of 0002 are made again: no version wrote to them.
"""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0005", "0004"

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables."""
    for name in ("pin_replica", "pin_document", "pin"):
        op.drop_table(name)
    op.create_table(
        "pin",
        sa.Column("key", sa.String(32), primary_key=True),
        _body("body"),
        sa.Column("is_whole", sa.Boolean, nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("metadata", sa.Text),
    )
    op.create_table("pin_document", _pin(), _position("position"), _body("body"))
    op.create_table("pin_replica", _pin(), _position("position"), _body("process"), _body("answers"))
    path = sa.Column("path", sa.String(200), primary_key=True)
    op.create_table("pin_answer", _pin(), _position("replica"), path, _position("place"), _body("body"))
    op.create_table("snapshot_file", sa.Column("key", sa.String(32), primary_key=True))


def _pin() -> sa.Column[object]:
    return sa.Column("pin", sa.String(32), sa.ForeignKey("pin.key"), primary_key=True)


def _position(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)


def _body(name: str) -> sa.Column[object]:
    return sa.Column(name, ID, sa.ForeignKey("body.id"), nullable=False, index=True)
