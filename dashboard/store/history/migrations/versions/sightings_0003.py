"""Sightings of what spans record, and spans of cohorts and differences."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0003", "0002"

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
SIGHTING = ("first_seen", "since", "absent_at")


def upgrade() -> None:
    """Add columns and tables. A span that was recorded before is the beginning of its stay, as far as is known."""
    for table, key in (("replica_span", "replica_id"), ("finding_span", "fingerprint")):
        for name in SIGHTING:
            op.add_column(table, sa.Column(name, sa.BigInteger))
        spans = sa.table(table, *(sa.column(name) for name in (key, "from_at", *SIGHTING)))
        earlier = spans.alias()
        first = sa.select(sa.func.min(earlier.c.from_at)).where(earlier.c[key] == spans.c[key]).scalar_subquery()
        op.execute(spans.update().values(first_seen=first, since=spans.c.from_at))
    op.drop_column("replica", "first_seen")
    _create_spans(
        "cohort_span",
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("document", sa.String(20), nullable=False),
        sa.Column("replicas", sa.Integer, nullable=False),
        sa.Column("version", sa.Text),
    )
    _create_spans(
        "difference_span", sa.Column("pool", sa.Text, nullable=False), sa.Column("path", sa.Text, nullable=False)
    )


def _create_spans(name: str, *columns: sa.Column[object]) -> None:
    op.create_table(
        name,
        sa.Column("id", ID, primary_key=True),
        sa.Column("from_at", sa.BigInteger, nullable=False),
        sa.Column("to_at", sa.BigInteger),
        sa.Column("last_seen", sa.BigInteger),
        *columns,
        *(sa.Column(each, sa.BigInteger) for each in SIGHTING),
    )
    op.create_index(f"{name}_times", name, ["from_at", "to_at"])
    op.create_index(f"ix_{name}_pool", name, ["pool"])
