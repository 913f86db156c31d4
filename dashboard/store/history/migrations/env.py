"""What Alembic runs: the migrations, on the connection that it is given."""

from alembic import context

from dashboard.store.history.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA, transactional_ddl=True)
context.run_migrations()
