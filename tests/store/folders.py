"""A small fleet to freeze, snapshots with damaged rows, and a disk that is full."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.store.history.database import file_database
from dashboard.store.snapshots import Snapshots
from tests import builders


def a_fleet(**more: Any) -> Fleet:
    document = builders.document()
    return builders.fleet(
        [builders.replica(document=document), builders.down()], [document], **{"name": "prod", **more}
    )


def configured_store(folder: Path, name: str) -> Snapshots:
    """Write the options of a fleet; return its snapshots."""
    (folder / "fleet.yaml").write_text(f"name: {name}\n")
    return Snapshots(folder / "data")


def damage(store: Snapshots, key: str, **columns: Any) -> None:
    """Overwrite columns of a stored snapshot."""
    execute(store.folder, f"UPDATE snapshot SET {', '.join(f'{name} = ?' for name in columns)} WHERE key = ?",  # noqa: S608
            (*columns.values(), key))  # fmt: skip


def column(store: Snapshots, key: str, name: str) -> Any:
    """Return a column of a stored snapshot."""
    with file_database(store.folder).read() as connection:
        return connection.exec_driver_sql(f"SELECT {name} FROM snapshot WHERE key = ?", (key,)).scalar_one()  # noqa: S608


def execute(folder: Path, statement: str, values: tuple[Any, ...] = ()) -> None:
    """Change rows of the database in a folder."""
    with file_database(folder).maintained() as connection, connection.begin():
        connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
        connection.exec_driver_sql(statement, values)


def raw_of(fleet: Fleet, position: int) -> dict[str, bytes]:
    """Return the raw answers of a replica."""
    return {each.path: each.raw for each in fleet.replicas[position].probes if each.raw}


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """Limit the size of files; pytest must not write meanwhile."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
