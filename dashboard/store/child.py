"""A process with limited memory and time, for documents from elsewhere.

Run as a program, it opens a snapshot to see whether that works.
"""

import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import dashboard
from dashboard.errors import SnapshotError

MEMORY_BYTES = 600_000_000  # 1,000 replicas take 350 MB, of which 130 are the program
SECONDS = 60  # of processor time; 1,000 replicas take 4
WALL_SECONDS = 180.0
ROOT = Path(dashboard.__file__).parents[1]
# Threads and arenas of libraries would count as memory without being used.
FRUGAL = {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}


def run_limited(module: str, sent: bytes, *, memory_bytes: int = MEMORY_BYTES) -> bytes:
    """Run a module that calls `limit` first, with `sent` as its input; return its output.

    Raise SnapshotError for another exit, and beyond the limits.
    """
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


if __name__ == "__main__":
    limit()
    from dashboard.store.packing import opened_clean

    with suppress(SnapshotError):  # the caller opens it again and reports the error
        opened_clean(sys.stdin.buffer.read())
