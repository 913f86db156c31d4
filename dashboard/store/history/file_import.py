"""The import of snapshot files into the history, in the background: pages and polls go on meanwhile."""

import logging
import threading
import time
from collections.abc import Callable, Iterator

from dashboard.errors import SnapshotError
from dashboard.fleet.formatting import count

log = logging.getLogger(__name__)

FIRST_SECONDS = 5.0  # after the start: the first page comes before, and the first poll makes the history
RETRY_SECONDS = 60.0  # after the history could not be used
STOP_SECONDS = 5.0  # the longest wait for the thread at shutdown; the import goes on at the next start


class FileImport:
    """A thread that imports files until none is left. It uses half of one core at most."""

    def __init__(self, import_files: Callable[[], Iterator[str]]) -> None:
        """Start nothing yet. `import_files` is that of `Snapshots`."""
        self._import_files = import_files
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="snapshot-import", daemon=True)

    def start(self) -> None:
        """Begin to import after a few seconds."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the snapshot that is being imported."""
        self._stopped.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        pause, before = FIRST_SECONDS, ""
        while not self._stopped.wait(pause):
            try:
                self._import()
            except SnapshotError as error:
                if str(error) != before:
                    log.info("snapshots of earlier versions are not imported yet: %s", error)
                pause, before = RETRY_SECONDS, str(error)
            except Exception:
                log.exception("snapshots of earlier versions were not imported; they open from their files")
                return
            else:
                return

    def _import(self) -> None:
        imported = 0
        used = time.thread_time()
        for problem in self._import_files():
            if problem:
                log.warning("a snapshot was not imported into the history; its file stays as it is: %s", problem)
            else:
                imported += 1
            if self._stopped.wait(time.thread_time() - used):
                break
            used = time.thread_time()
        if imported:
            log.info("%s imported into the history; the files stay as they are", count(imported, "snapshot"))
