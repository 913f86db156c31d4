"""A process with limited memory and time, for documents from elsewhere."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import BoundedSemaphore, Lock

import dashboard
from dashboard.errors import SnapshotError

MEMORY_BYTES = 600_000_000  # 1,000 replicas take 350 MB, of which 130 are the program
SECONDS = 60  # of processor time; 1,000 replicas take 4
WALL_SECONDS = 180.0
CONTAINER_SHARE = 2  # a container's memory is divided by it: the server keeps the rest
MOST_WAITING = 3  # each keeps the files of an import in memory, up to 64 MiB
WAIT_SECONDS = 300.0
BUSY = "Another import is being read; try again in a minute."
_TURN, _PLACES = Lock(), BoundedSemaphore(1 + MOST_WAITING)
ROOT = Path(dashboard.__file__).parents[1]
# Threads and arenas of libraries would count as memory without being used.
FRUGAL = {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}


def run_limited(
    module: str,
    sent: Callable[[], bytes],
    *,
    wait: Callable[[], None] = lambda: None,
) -> bytes:
    """Run a module that calls `limit` first, with what `sent` returns as its input; return its output.

    One runs at a time, with at most half of the container's memory; `wait` is called where another one runs. Raise
    SnapshotError for another exit, beyond the limits, and where too many wait.
    """
    container = container_memory()
    memory = MEMORY_BYTES if container is None else min(MEMORY_BYTES, container // CONTAINER_SHARE)
    with _turn(wait):
        return _run(module, sent(), memory)


@contextmanager
def _turn(wait: Callable[[], None]) -> Iterator[None]:
    if not _PLACES.acquire(blocking=False):
        raise SnapshotError(BUSY)
    try:
        if not _TURN.acquire(blocking=False):
            wait()
            if not _TURN.acquire(timeout=WAIT_SECONDS):
                raise SnapshotError(BUSY)
        try:
            yield
        finally:
            _TURN.release()
    finally:
        _PLACES.release()


def container_memory(own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the lowest memory limit of this process's control groups in bytes; None without one (cgroups(7))."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return None
    limits: list[int] = []
    for _, controller, path in (line for line in lines if len(line) == len(("hierarchy", "controllers", "path"))):
        if controller not in {"", "memory"}:
            continue
        name = "memory.limit_in_bytes" if controller else "memory.max"
        # In a container the path may be that of the host: then the limit is at the root.
        group = Path(path.lstrip("/"))
        for each in (group, *group.parents):
            with suppress(OSError, ValueError):  # no such group, or `max`
                limits.append(int((root / controller / each / name).read_text()))
    return min(limits, default=None)


def _run(module: str, sent: bytes, memory_bytes: int) -> bytes:
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", module, str(memory_bytes)]
    environment = {**os.environ, **FRUGAL, "PYTHONPATH": paths}
    try:
        done = subprocess.run(  # noqa: S603  our own
            command, input=sent, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
            timeout=WALL_SECONDS, check=True,
        )  # fmt: skip
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        raise SnapshotError(
            f"Reading it takes more than {memory_bytes // 10**6:,} MB of memory or {SECONDS} s; "
            "save one pool at a time: poll --format json --full --pool NAME."
        ) from None
    except OSError as error:
        raise SnapshotError(f"The process to read it cannot be started: {error.strerror}; try again.") from None
    return done.stdout


def limit() -> None:
    """Limit memory and processor time of this process as `run_limited` asks, without core dumps."""
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
