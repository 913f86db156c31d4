"""What the benchmarks measure and print: processor time, memory, a served dashboard, and the table of figures."""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.serving import free_port, started, wait_until_healthy

ROUNDS = 5


class Row(NamedTuple):
    """A measured figure and its budget, in one unit."""

    name: str
    measured: float
    budget: float


def print_table(rows: Iterable[Row], unit: str = "") -> int:
    """Print each figure with its budget and its share of it. Returns 1 if a budget is exceeded, else 0."""
    known = list(rows)
    print(f"{unit:<64}{'measured':>10}{'budget':>8}{'share':>8}")
    for name, measured, budget in known:
        print(f"{name:<64}{measured:>10.3f}{budget:>8.2f}{measured / budget:>8.0%}")
    return int(any(row.measured > row.budget for row in known))


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def best(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the minimum processor time of several rounds: what disturbs a measurement only ever adds to it."""
    return min(processor_seconds(work) for _ in range(rounds))


def peak_bytes() -> int:
    """Return the most memory of this process until now."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def process_status(pid: int) -> dict[str, str]:
    """Return the fields of /proc/PID/status."""
    return dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())


def process_megabytes(pid: int, field: str = "VmRSS") -> float:
    """Return the memory of a process: now, or with `VmHWM` the most."""
    return int(process_status(pid)[field].split()[0]) * 1024 / 1e6


@contextmanager
def served(options: Mapping[str, Any], listed: Sequence[Mapping[str, Any]] = ()) -> Iterator[tuple[str, int]]:
    """Serve a dashboard with these options in a process of its own, on `listed` targets in the shape of file_sd.

    Yields its URL after the first poll, and its process id.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        (folder / "targets.json").write_text(json.dumps(list(listed)))
        files = {"file_sd": [{"files": ["targets.json"]}]} if listed else {}
        config = folder / "fleet.yaml"
        config.write_text(json.dumps({"data_folder": str(folder / "data"), **files, **options}))
        command = [sys.executable, "-m", "dashboard", "serve", "--config", str(config), "--port", str(port)]
        with started(command) as process:
            wait_until_healthy(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}", process.pid
