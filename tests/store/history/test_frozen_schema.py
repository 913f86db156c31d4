"""The schema of 1.0.0 is that of databases which exist: it never changes."""

from pathlib import Path

from sqlalchemy.dialects import registry
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement

from dashboard.store.history.schema import METADATA

FROZEN = Path(__file__).with_name("schema_0001.sql")


def written(name: str) -> str:
    """Return the statements that make the tables, in the dialect with this name."""
    dialect, made = registry.load(name)(), []
    for table in METADATA.sorted_tables:
        indexes = sorted(table.indexes, key=lambda each: str(each.name))
        elements: list[DDLElement] = [CreateTable(table), *map(CreateIndex, indexes)]
        made += [str(each.compile(dialect=dialect)) for each in elements]
    lines = ";\n".join(each.strip() for each in made).splitlines()
    return "\n".join([f"-- {name}", *map(str.rstrip, lines)]) + ";\n"


def test_the_tables_of_the_first_migration_are_those_that_were_released() -> None:
    tables = "\n".join(map(written, ("sqlite", "postgresql")))

    assert tables == FROZEN.read_text(), "write the frozen tables out in initial_0001.py, and add a migration"
