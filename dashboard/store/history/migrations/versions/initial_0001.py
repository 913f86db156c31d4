"""The tables of 1.0.0, frozen: databases with them exist.

As long as no later schema is, these are the tables of the program. Whoever changes one writes those of 1.0.0 out here,
and adds a migration: see `tests/store/history/test_frozen_schema.py`.
"""

from alembic import op

from dashboard.store.history.schema import METADATA

revision, down_revision = "0001", None


def upgrade() -> None:
    METADATA.create_all(op.get_bind())
