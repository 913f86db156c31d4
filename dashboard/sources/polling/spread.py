"""When the requests of a poll begin: not all at once."""

import platform
from collections.abc import Collection, Sequence
from hashlib import blake2b

from dashboard.config import PollOptions

# Later polls begin with each replica at its own time, within this part of the interval (and of the limit of a poll).
SPREAD = 0.25
MAX_SPREAD_SECONDS = 10.0
STEP_SECONDS = 0.1  # replicas within it begin together: fewer wake-ups of the event loop


def delays_of(names: Sequence[str], known: Collection[str], limits: PollOptions) -> list[float]:
    """Return the seconds from the start of a poll to the first request of each replica.

    At once: the first of the `known` replicas, and those that were never asked. Together all would meet the network
    and this process as one burst.
    """
    spread = min(SPREAD * min(limits.interval_seconds, limits.poll_timeout_seconds), MAX_SPREAD_SECONDS)
    phases = {name: phase_of(name) for name in names if name in known}
    first = min(phases.values(), default=0.0)
    return [(phases.get(name, first) - first) * spread // STEP_SECONDS * STEP_SECONDS for name in names]


def phase_of(name: str) -> float:
    """Return a number from 0 to 1: always the same for a replica, and another on another machine.

    So several dashboards do not ask a replica at the same time; Prometheus spreads its scrapes in this way.
    """
    digest = blake2b(f"{platform.node()} {name}".encode(), digest_size=4).digest()
    return int.from_bytes(digest) / 2**32
