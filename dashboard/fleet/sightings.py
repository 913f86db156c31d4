"""Since when something is there, as the history recorded it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple


class Sighting(NamedTuple):
    """The polls at which something was recorded first, and since which it is there without a pause.

    `absent_at` is the last poll before `since`: it came in between. None: nobody looked before, or not with this rule.
    """

    first_seen: datetime
    since: datetime
    absent_at: datetime | None = None

    def is_new_since(self, time: datetime) -> bool:
        """Return whether it came at a time or later: it was looked for before, and was not there."""
        return self.absent_at is not None and self.since >= time


@dataclass(frozen=True, slots=True)
class Sightings:
    """The sightings of what a fleet has; empty without a history."""

    findings: Mapping[str, Sighting] = field(default_factory=dict)  # by fingerprint
    replicas: Mapping[str, Sighting] = field(default_factory=dict)  # by id
    cohorts: Mapping[tuple[str, str], Sighting] = field(default_factory=dict)  # by pool and document
    differences: Mapping[tuple[str, str], Sighting] = field(default_factory=dict)  # by pool and path


NO_SIGHTINGS = Sightings()
