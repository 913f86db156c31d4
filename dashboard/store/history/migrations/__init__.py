"""Alembic's migrations of the history, one module for each schema."""
