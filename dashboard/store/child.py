"""A process of its own, with limited memory and seconds, for documents that somebody else wrote."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import dashboard
from dashboard.errors import SnapshotError

MEMORY_BYTES = 600_000_000  # 1,000 replicas take 350 MB, of which 130 are the program
SECONDS = 60  # of processor time; 1,000 replicas take 4
WALL_SECONDS = 180.0
ROOT = Path(dashboard.__file__).parents[1]
# Threads and arenas of their own would count as memory that nobody uses.
FRUGAL = {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}


def run_limited(module: str, sent: bytes, *, memory_bytes: int = MEMORY_BYTES) -> bytes:
    """Run a module that calls `limit` first, with `sent` as its input; return its output.

    Raise SnapshotError where it ends otherwise, or takes more than it may.
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
            "save one pool at a time, with poll --format json --full --pool NAME."
        ) from None
    except OSError as error:
        raise SnapshotError(f"No process could be started to read it: {error.strerror}; try again.") from None
    return done.stdout


def limit() -> None:
    """Limit the memory and the processor time of this process, as `run_limited` asks; no file of its memory is left."""
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
