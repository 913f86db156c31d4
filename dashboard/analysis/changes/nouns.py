"""What changes between two fleets is made of: frozen values. `before` and `after` are the sides, whatever their age."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from dashboard.analysis.changes.capacity_nouns import CapacityChanges
from dashboard.analysis.changes.finding_nouns import FindingChanges
from dashboard.fleet import Coverage, ReplicaState, SettingValue, State

Pools = tuple[str | None, str | None]  # where replicas were and are; None: in no pool


class Side(NamedTuple):
    """One of the two fleets: its name, when its poll ended, the id of its snapshot, how much of it was read."""

    fleet: str
    polled_at: datetime | None
    snapshot: str | None
    coverage: Coverage


class Seen(NamedTuple):
    """A replica as one side saw it. `letter` is its cohort's, empty where it was never read."""

    id: str
    name: str
    pool: str | None
    state: ReplicaState
    version: str | None
    started_at: datetime | None
    letter: str


class Stayed(NamedTuple):
    """A replica that both sides have."""

    before: Seen
    after: Seen

    @property
    def restarted(self) -> bool | None:
        """Return whether it is another process than before; None where a side does not tell when it started."""
        if self.before.started_at is None or self.after.started_at is None:
            return None
        return self.before.started_at != self.after.started_at

    @property
    def has_other_version(self) -> bool:
        """Tell whether both versions are told, and differ."""
        before, after = self.before.version, self.after.version
        return bool(before and after) and before != after

    @property
    def has_other_state(self) -> bool:
        """Tell whether it is up, partial or down where it was not."""
        return self.before.state is not self.after.state

    @property
    def has_other_pool(self) -> bool:
        """Tell whether it was put into another pool."""
        return self.before.pool != self.after.pool

    @property
    def has_other_name(self) -> bool:
        """Tell whether it is called something else."""
        return self.before.name != self.after.name

    @property
    def is_changed(self) -> bool:
        """Tell whether anything of this kind changed; its settings stand elsewhere."""
        return bool(
            self.restarted
            or self.has_other_version
            or self.has_other_state
            or self.has_other_pool
            or self.has_other_name
        )


@dataclass(frozen=True, slots=True)
class ReplicaChanges:
    """Replicas that only one side has, and those that both have. A process behind two addresses counts once."""

    came: tuple[Seen, ...] = ()
    went: tuple[Seen, ...] = ()
    both: tuple[Stayed, ...] = ()

    @property
    def changed(self) -> tuple[Stayed, ...]:
        """Return those of both sides that changed."""
        return tuple(each for each in self.both if each.is_changed)

    @property
    def start_untold(self) -> tuple[str, ...]:
        """Return the replicas of which nobody knows whether they restarted."""
        return tuple(each.after.id for each in self.both if each.restarted is None)

    @property
    def restarted(self) -> tuple[Stayed, ...]:
        """Return the replicas that are known to have restarted."""
        return tuple(each for each in self.both if each.restarted)


class ValueChange(NamedTuple):
    """A setting that both sides tell, with another value."""

    path: str
    before: SettingValue
    after: SettingValue


class Share(NamedTuple):
    """How many of some replicas stand in one cohort; the letter is empty where they were never read."""

    letter: str
    number: int


@dataclass(frozen=True, slots=True)
class SettingGroup:
    """Replicas of one pool in which the same settings changed in the same way: most often, one restart.

    `pool_sizes` are the replicas of the pool on each side; `restarted` counts those known to have restarted.
    """

    pools: Pools
    changes: tuple[ValueChange, ...]
    replicas: tuple[str, ...]
    pool_sizes: tuple[int, int]
    cohorts_before: tuple[Share, ...]
    cohorts_after: tuple[Share, ...]
    restarted: int
    start_untold: int


class OneSidedSettings(NamedTuple):
    """Settings that only one side tells of some replicas, and why the other has no value: no change is known."""

    pools: Pools
    paths: tuple[str, ...]
    replicas: tuple[str, ...]
    why: State


@dataclass(frozen=True, slots=True)
class SettingChanges:
    """Settings of the replicas that both sides have and could read. `ignored` paths changed, and do not matter.

    `unread_before` and `unread_after` are replicas that were not compared, by the side that could not read them.
    """

    groups: tuple[SettingGroup, ...] = ()
    no_longer_told: tuple[OneSidedSettings, ...] = ()
    now_told: tuple[OneSidedSettings, ...] = ()
    ignored: tuple[str, ...] = ()
    compared: int = 0
    unread_before: tuple[str, ...] = ()
    unread_after: tuple[str, ...] = ()

    @property
    def replicas(self) -> frozenset[str]:
        """Return the replicas of which any setting changed."""
        return frozenset(replica for group in self.groups for replica in group.replicas)

    @property
    def by_replica(self) -> Mapping[str, tuple[ValueChange, ...]]:
        """Return what changed in each replica."""
        told: dict[str, list[ValueChange]] = {}
        for group in self.groups:
            for replica in group.replicas:
                told.setdefault(replica, []).extend(group.changes)
        return {replica: tuple(changes) for replica, changes in told.items()}


@dataclass(frozen=True, slots=True)
class Changes:
    """All that changed from one fleet to another. `names` is by replica id, that of `after` first.

    `options_differ`: what fleet.yaml says of rules or ignored paths is not the same, so findings may change by it.
    """

    before: Side
    after: Side
    replicas: ReplicaChanges
    settings: SettingChanges
    findings: FindingChanges
    capacity: CapacityChanges
    names: Mapping[str, str]
    options_differ: bool

    @property
    def after_is_older(self) -> bool:
        """Tell whether the sides stand the wrong way round in time."""
        before, after = self.before.polled_at, self.after.polled_at
        return before is not None and after is not None and after < before

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing changed. What could not be read on both sides is not known to be the same."""
        replicas, settings, found = self.replicas, self.settings, self.findings
        return not (
            (replicas.came or replicas.went or replicas.changed)
            or (settings.groups or settings.no_longer_told or settings.now_told)
            or (found.new or found.gone or found.changed)
            or self.capacity.ranks
        )
