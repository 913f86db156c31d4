"""The tables of the program.

Until version 1.0.0 is released the schema is edited in place: no database of an earlier one has to be kept. From then
on the tables are written out here, and each change of them is a migration.
"""

from alembic import op

from dashboard.store.history.schema import METADATA

revision, down_revision = "0001", None


def upgrade() -> None:
    """Make the tables."""
    METADATA.create_all(op.get_bind())
