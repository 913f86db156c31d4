"""On how many replicas of its pools a finding is: unknown of what was recorded before."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0006", "0005"


def upgrade() -> None:
    """Add the columns."""
    for name in ("replicas", "total"):
        op.add_column("finding_span", sa.Column(name, sa.Integer))
