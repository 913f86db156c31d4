"""The public Python API: poll a fleet, load a saved one, compare two. Its dataframes are `fleet.frames`."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.models import Changes
from dashboard.config import EVERY_POLL, NO_TRAFFIC, TRAFFIC_OFF, TargetOptions, load_options
from dashboard.config.address import replica_id
from dashboard.documents.load import MAX_BYTES, read_snapshot
from dashboard.errors import OptionsError, SnapshotError
from dashboard.fleet.times import LONGEST_TRAFFIC
from dashboard.sources.discovery import discover_once
from dashboard.sources.http.credentials import key_warnings
from dashboard.sources.importing import unwrapped
from vllm_fleet_provider.shared.redaction import also_redact

Result = TypeVar("Result")


def poll_fleet(
    targets: Iterable[str] = (), *, config: Path | str | None = None, traffic_seconds: float | None = None
) -> Fleet:
    """Poll every replica once, as `python -m dashboard poll` does.

    `targets` are addresses such as `http://10.0.0.1:8000`; without them those of the options are polled. `config` is
    the options file, by default FLEET_CONFIG or ./fleet.yaml. With `traffic_seconds` every replica is polled twice with
    that time in between, and the fleet has the traffic of it. Raise OptionsError for wrong options or addresses, and
    where there is no target. A replica that does not answer is no error: it is `down` in `frames.replicas`.
    """
    if isinstance(targets, str):
        raise OptionsError(f"targets: expected a list of addresses; write [{targets!r}]")
    targets = tuple(targets)
    if not all(isinstance(target, str) for target in targets):
        raise TypeError("targets: expected addresses as strings, such as 'http://10.0.0.1:8000'")
    if traffic_seconds is not None and not 1 <= traffic_seconds <= LONGEST_TRAFFIC.total_seconds():
        raise OptionsError("traffic_seconds: expected 1 to 86,400")
    options = load_options(None if config is None else Path(config))
    if traffic_seconds is not None and not options.traffic.enabled:
        raise OptionsError(f"traffic_seconds: {TRAFFIC_OFF}")
    also_redact(options.redact.names, options.redact.patterns)
    try:
        given = tuple(TargetOptions(url=replica_id(target)) for target in targets)
    except ValueError as error:
        raise OptionsError(f"targets: {error}") from None
    if given:
        options = options.with_targets(given)
    wait = None if traffic_seconds is None else partial(time.sleep, traffic_seconds)
    found = _in_thread(lambda: discover_once(options, EVERY_POLL if wait else NO_TRAFFIC))
    if not found.has_replicas:
        reasons = found.failures or (f"No targets: name addresses, or list them in {options.file}.",)
        raise OptionsError(*reasons)
    return _in_thread(lambda: service.poll_once(options, found, key_warnings(found.targets), wait=wait))


def load_fleet(file: Path | str) -> Fleet:
    """Load what `python -m dashboard poll --format json --full` wrote, or an exported snapshot.

    Its rules are evaluated again. Raise SnapshotError for a file that is unreadable or has no fleet.
    """
    try:
        return read_snapshot(unwrapped(Path(file).read_bytes(), MAX_BYTES))
    except OSError as error:
        raise SnapshotError(f"{file}: {error.strerror}") from None
    except SnapshotError as error:
        raise SnapshotError(f"{file}: {error}") from None


def compare_fleets(before: Fleet, after: Fleet) -> Changes:
    """Return what changed between two fleets: replicas, settings, KV cache, findings."""
    if not all(isinstance(fleet, Fleet) for fleet in (before, after)):
        raise TypeError("before, after: expected two fleets; load a saved one with load_fleet(file)")
    return changes_between(before, after)


def _in_thread(work: Callable[[], Result]) -> Result:
    """Run what has an event loop of its own, also in a notebook, whose own loop is running."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(work).result()
