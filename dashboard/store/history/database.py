"""Opening the history: the lock of its only writer, the schema, the fleet. SQLite or PostgreSQL."""

import errno
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from tempfile import mkstemp
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from dashboard.errors import HistoryError
from dashboard.fleet.formatting import end_cut, one_line
from dashboard.store.history.schema import HEAD, meta
from dashboard.store.writing import PRIVATE, PRIVATE_FOLDER

FILE = "history.db"  # in data_folder
MIGRATIONS = Path(__file__).with_name("migrations")
BUSY_SECONDS = 1.0  # the longest wait for another process that writes: polling waits as long
MAINTENANCE_SECONDS = 10.0  # the same where nobody waits longer than for a recorded poll: saving, pruning
CONNECT_SECONDS = 3  # the longest wait for a PostgreSQL that is gone
STATEMENT_MILLISECONDS = 10_000
# Both ends of a connection notice within 14 seconds that the other machine is gone (default: 2 hours); until then its
# lock is held, or a poll waits. Parameters of libpq (PostgreSQL 34.1.2) and of the server (20.3.2).
KEEPALIVES = {"idle": 5, "interval": 3, "count": 3}
USER_TIMEOUT_MILLISECONDS = 14_000
WRITE_AHEAD = "PRAGMA journal_mode=WAL"
LOCK_NUMBER = 8_517_233  # of PostgreSQL's advisory lock, one for each database
FLEET = "fleet"  # the key of the fleet's name
WRONG_URL = (
    "The URL of the history is not that of a SQLite file or PostgreSQL; write sqlite:///history.db or "
    "postgresql://host/name, for --history also http://host:8501 of a dashboard."
)
NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

Connect = Callable[[], sqlite3.Connection]


class OtherWriterError(HistoryError):
    """Another process holds the lock of the only writer."""


class DamagedRowsError(HistoryError):
    """Rows are not those that were written."""


class NoHistoryError(HistoryError):
    """Nothing was recorded yet."""


class Database:
    """The database of a history. Each method raises HistoryError with a sentence where it cannot be opened."""

    def __init__(self, url: str | URL) -> None:
        """Open nothing yet."""
        try:
            self._url = make_url(url)
        except ArgumentError:
            raise HistoryError(WRONG_URL) from None
        backend = self._url.get_backend_name()
        if backend not in {"sqlite", "postgresql"} or (backend == "sqlite" and not self._url.database):
            raise HistoryError(WRONG_URL)
        # None: several instances of the dashboard share it, one polls and records, the others show that.
        self.file = Path(str(self._url.database)).resolve() if backend == "sqlite" else None

    @property
    def place(self) -> str:
        """Return the file's name, or the database, without a password."""
        return self.file.name if self.file else f"{self._url.database} at {self._url.host or 'localhost'}"

    def files(self) -> list[tuple[int, int]]:
        """Return device and inode of a SQLite file and of its lock; others were deleted or replaced meanwhile."""
        if self.file is None:
            return []
        found = (each.stat() for each in (self.file, self._lock_file) if each.exists())
        return [(each.st_dev, each.st_ino) for each in found]

    @contextmanager
    def written_by(self, fleet: str) -> Iterator[Connection]:
        """Hold the lock of the only writer, on the schema of this version."""
        with self.reported(), self._locked_file(), self._connected(self._connect_file) as connection:
            self._lock_database(connection)
            self._migrate(connection)
            self._claim(connection, fleet)
            yield connection

    @contextmanager
    def maintained(self, *, creates: bool = False) -> Iterator[Connection]:
        """Open an existing database for writing next to the writer of the history; `creates` makes a missing one."""
        if not creates:
            self._need_file()
        with self.reported(), self._connected(self._connect_file) as connection:
            if self.file is not None:
                connection.connection.driver_connection.execute(  # type: ignore[union-attr]
                    f"PRAGMA busy_timeout = {MAINTENANCE_SECONDS * 1000:.0f}"
                )
            if creates and self._version(connection) is None:
                self._migrate(connection)
            self._check_version(connection)
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open an existing history for reading next to its writer."""
        self._need_file()
        with self.reported(), self.undamaged(), self._connected(self._connect_read_only) as connection:
            self._check_version(connection)
            yield connection

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Turn an error of the database or the disk into a HistoryError."""
        try:
            yield
        except DBAPIError as error:
            raise HistoryError(f"The history {self.place} cannot be used: {_first_line(error.orig)}.") from None
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise HistoryError(f"The history {self.place} cannot be used: {_first_line(error)}.") from None
        except ModuleNotFoundError:
            raise HistoryError(
                "A history in PostgreSQL needs psycopg: pip install -r requirements-postgres.txt."
            ) from None
        except OSError as error:
            action = "; make its folder writable, or set history.enabled: false" if error.errno in NOT_WRITABLE else ""
            raise HistoryError(f"The history {self.place} cannot be used: {error.strerror}{action}.") from None

    @contextmanager
    def undamaged(self) -> Iterator[None]:
        """Turn what a damaged row causes, such as a text in place of a number, into a HistoryError."""
        try:
            yield
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            raise DamagedRowsError(
                f"The history {self.place} has damaged rows ({type(error).__name__}); restore a copy of it."
            ) from error

    def _engine(self, connect: Connect) -> Engine:
        """Return an engine without a pool; transactions of SQLite begin as SQLAlchemy's do."""
        if self.file is None:
            server = {"statement_timeout": STATEMENT_MILLISECONDS, "tcp_user_timeout": USER_TIMEOUT_MILLISECONDS}
            server |= {f"tcp_keepalives_{name}": value for name, value in KEEPALIVES.items()}
            settings = {
                "connect_timeout": CONNECT_SECONDS,
                "tcp_user_timeout": USER_TIMEOUT_MILLISECONDS,
                **{f"keepalives_{name}": value for name, value in KEEPALIVES.items()},
                "options": " ".join(f"-c {name}={value}" for name, value in server.items()),
            }
            engine = create_engine(
                self._url.set(drivername="postgresql+psycopg"), poolclass=NullPool, connect_args=settings
            )
            if connect == self._connect_file:  # one writes at a time, as in SQLite: two may add the same body
                lock = f"SELECT pg_advisory_xact_lock({LOCK_NUMBER + 1})"
                event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(lock))
            return engine
        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
        begin = "BEGIN IMMEDIATE" if connect == self._connect_file else "BEGIN"
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        return engine

    @contextmanager
    def _connected(self, connect: Connect) -> Iterator[Connection]:
        engine = self._engine(connect)
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()

    def _connect_file(self) -> sqlite3.Connection:
        """Connect to the file, a private one where it is new. A commit survives the end of the process."""
        file = Path(str(self.file))
        file.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        if not file.exists():
            _create(file)
        if (error := _obstacle(file)) is not None:
            raise OSError(error, os.strerror(error))
        connection = self._connect(f"file:{quote(str(file))}")
        connection.execute(WRITE_AHEAD)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")
        return connection

    def _connect_read_only(self) -> sqlite3.Connection:
        """Connect for reading. SQLite needs to write next to the file, except where nobody writes to it."""
        file = Path(str(self.file))
        is_written = file.with_name(f"{file.name}-wal").exists() or os.access(file.parent, os.W_OK, effective_ids=True)
        return self._connect(f"file:{quote(str(file))}?mode=ro{'' if is_written else '&immutable=1'}")

    @staticmethod
    def _connect(uri: str) -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)

    def _need_file(self) -> None:
        if self.file is not None and not self.file.exists():
            raise self._no_history()

    def _no_history(self) -> NoHistoryError:
        sentence = f"There is no history {self.place}: a dashboard records it while it polls."
        if self.file is not None and not self.file.parent.exists():
            sentence += f" Its folder {self.file.parent} does not exist."
        return NoHistoryError(sentence)

    @property
    def _lock_file(self) -> Path:
        return Path(f"{self.file}.lock")

    @contextmanager
    def _locked_file(self) -> Iterator[None]:
        """Hold a lock beside a SQLite file; the system frees that of a killed process."""
        if self.file is None:
            yield
            return
        self.file.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        descriptor = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise self._other_writer() from None
        finally:
            os.close(descriptor)

    def _lock_database(self, connection: Connection) -> None:
        """Lock PostgreSQL for this session. It ends with the connection."""
        if self.file is not None:
            return
        with connection.begin():
            if not connection.scalar(text("SELECT pg_try_advisory_lock(:number)"), {"number": LOCK_NUMBER}):
                raise self._other_writer()

    def _other_writer(self) -> OtherWriterError:
        return OtherWriterError(
            f"Another process records the history {self.place}; end it, or choose another history.url."
        )

    def _version(self, connection: Connection) -> str | None:
        """Return the schema, None for an empty database; raise HistoryError for a newer one, and another program's."""
        with connection.begin():
            tables = inspect(connection).get_table_names()
            found = None
            if "alembic_version" in tables:
                found = connection.scalar(text("SELECT version_num FROM alembic_version"))
        if found is None and tables:
            raise HistoryError(f"{self.place} is the database of another program; choose another one in history.url.")
        if found is not None and found > HEAD:
            raise HistoryError(
                f"The history {self.place} has schema {end_cut(str(found), 20)}, newer than {HEAD} of this version; "
                "start the newer version, or choose another history.url."
            )
        return found

    def _check_version(self, connection: Connection) -> None:
        if (found := self._version(connection)) is None:
            raise self._no_history()
        if found != HEAD:
            raise HistoryError(
                f"The history {self.place} has schema {found}, older than {HEAD}: a dashboard migrates it."
            )

    def _migrate(self, connection: Connection) -> None:
        """Bring the schema to that of this version. A SQLite file is copied first, beside it."""
        if (found := self._version(connection)) == HEAD:
            return
        if found is not None and self.file is not None:
            backup = self.file.with_name(f"{self.file.name}.before-{HEAD}")
            os.close(os.open(backup, os.O_RDWR | os.O_CREAT | os.O_TRUNC, PRIVATE))
            with sqlite3.connect(backup) as copy:
                connection.connection.driver_connection.backup(copy)  # type: ignore[union-attr]
            copy.close()
        # Imported here: it takes as long as all of SQLAlchemy, and is needed once for each version.
        command, config = (import_module(f"alembic.{name}") for name in ("command", "config"))
        settings = config.Config()
        settings.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        with connection.begin():
            settings.attributes["connection"] = connection
            command.upgrade(settings, HEAD)

    def _claim(self, connection: Connection, fleet: str) -> None:
        """Name the fleet in a new history; raise HistoryError for that of another fleet."""
        with connection.begin():
            known = connection.scalar(select(meta.c.value).where(meta.c.key == FLEET))
            if known is None:
                connection.execute(meta.insert().values(key=FLEET, value=fleet))
        if known is not None:
            self.check_fleet(str(known), fleet)

    def check_fleet(self, known: str, fleet: str) -> None:
        """Raise HistoryError where the fleet of the history is another one."""
        if known != fleet:
            raise HistoryError(
                f"The history {self.place} is that of the fleet “{end_cut(one_line(known), 40)}”, not of "
                f"“{end_cut(one_line(fleet), 40)}”; choose another history.url, or the former name."
            )


def file_database(folder: Path) -> Database:
    """Return the database of a folder, where the options name none."""
    return Database(URL.create("sqlite", database=str(folder / FILE)))


def _create(file: Path) -> None:
    """Make an empty database that only its owner reads; one that another process or thread made meanwhile stays.

    It appears whole, with its journal mode: SQLite does not wait to change that while another connection is open. And
    no descriptor of the file itself is closed here: that ends all locks of this process on it, those of SQLite too
    (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """
    descriptor, name = mkstemp(prefix=f"{file.name}.", dir=file.parent)
    os.close(descriptor)
    try:
        with closing(sqlite3.connect(name)) as connection:
            connection.execute(WRITE_AHEAD)
        with suppress(FileExistsError):
            os.link(name, file)
    finally:
        Path(name).unlink()


def _obstacle(file: Path) -> int | None:
    """Return the number of the error that would prevent writing a file; None: nothing does."""
    if file.is_dir():
        return errno.EISDIR
    return None if os.access(file, os.R_OK | os.W_OK, effective_ids=True) else errno.EACCES


def _first_line(error: object) -> str:
    """Return the first line of a driver's error without its final stop."""
    return end_cut(one_line(str(error).partition("\n")[0]).rstrip(". "), 200)
