"""The types of what changed between two fleets. `before` and `after` are the sides; either may be the older one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.sums import PoolCapacity
from dashboard.fleet import Basis, Replica, SettingChange, State
from dashboard.fleet.grouping import grouped
from dashboard.rules.findings import Finding, OutcomeKind, Severity, Suppression

Pools = tuple[str | None, str | None]  # of a replica before and after; None: in no pool
REPLICA_FIELDS = ("state", "version", "pool", "name")  # fields of a replica that are compared


class PoolCapacityChange(NamedTuple):
    """KV cache of a pool on each side; `pool` is None for replicas without a pool, and for the total.

    `same_ranks`: the tokens of exactly the same ranks are known on both sides.
    """

    pool: str | None
    before: PoolCapacity
    after: PoolCapacity
    same_ranks: bool

    @property
    def share(self) -> float | None:
        """Return the relative change of the tokens, -0.18 for 18% less; None where the sums cannot be compared.

        They can if all or the same ranks are known, and both sums are upper bounds or neither is.
        """
        sides = (self.before, self.after)
        before, after = (side.tokens.value for side in sides)
        same = self.same_ranks or not any(side.unknown or side.silent for side in sides)
        bounds = {side.basis is Basis.ASSUMED for side in sides}
        return None if not same or len(bounds) > 1 or not before or after is None else after / before - 1


class RankChange(NamedTuple):
    """A DP rank whose tokens changed by more than the tolerance."""

    replica: str
    dp_rank: int
    pool: str | None
    before: int
    after: int
    is_at_most: bool

    @property
    def share(self) -> float:
        """Return the relative change: -0.18 for 18% less; infinite where it was 0."""
        return self.after / self.before - 1 if self.before else float("inf")


@dataclass(frozen=True, slots=True)
class CapacityChanges:
    """KV cache by pool and in total, and the ranks whose tokens changed by more than the tolerance.

    `compared` ranks are known on both sides; of `incomparable` ones only one side is an upper bound.
    """

    total: PoolCapacityChange
    pools: tuple[PoolCapacityChange, ...] = ()
    ranks: tuple[RankChange, ...] = ()
    compared: int = 0
    incomparable: int = 0


class OtherSideStatus(StrEnum):
    """Why the other side does not have a finding."""

    EVALUATED = "evaluated"  # the rule found nothing on its replicas
    NOT_EVALUATED = "not evaluated"  # replicas or settings were not read, or the rule did not run
    NOT_THERE = "not there"  # it has none of its replicas


@dataclass(frozen=True, slots=True)
class OneSidedFinding:
    """A finding that only one side has, with its replicas on the other side.

    There they are `absent`, `unread`, or `silent`: read, but without the settings of the finding. `outcome` is that of
    the rule there, with its `reason`; None where it was not run on this pool.
    """

    finding: Finding
    is_suppressed: bool
    other_side: OtherSideStatus
    absent: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    outcome: OutcomeKind | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PersistingFinding:
    """A finding of both sides: the same rule, pools and values, if it has some.

    `suppressed_*` are its replicas that are suppressed. `joined` and `left` are replicas that it has on one side only;
    those `unread` could not be read on the other. `ended` is a suppression that expired in between.
    """

    before: Finding
    after: Finding
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    suppressed_before: tuple[str, ...] = ()
    suppressed_after: tuple[str, ...] = ()
    is_suppressed_before: bool = False
    is_suppressed_after: bool = False
    ended: Suppression | None = None

    @property
    def has_other_severity(self) -> bool:
        return self.before.severity is not self.after.severity

    @property
    def has_other_suppression(self) -> bool:
        """Return whether its suppression changed, as a whole or on some replicas."""
        before = (self.is_suppressed_before, self.suppressed_before)
        return before != (self.is_suppressed_after, self.suppressed_after)

    @property
    def spread(self) -> tuple[str, ...]:
        """Return the replicas that did not have it before; none while it is suppressed."""
        return () if self.is_suppressed_after else tuple(each for each in self.joined if each not in self.unread)

    @property
    def is_changed(self) -> bool:
        return bool(self.joined or self.left or self.ended or self.has_other_severity or self.has_other_suppression)


@dataclass(frozen=True, slots=True)
class FindingChanges:
    """Findings by their id, including suppressed ones; the worst first."""

    new: tuple[OneSidedFinding, ...] = ()
    no_longer_found: tuple[OneSidedFinding, ...] = ()
    persisting: tuple[PersistingFinding, ...] = ()

    @property
    def unsuppressed(self) -> tuple[OneSidedFinding, ...]:
        return tuple(each for each in self.new if not each.is_suppressed)

    @property
    def fixed(self) -> tuple[OneSidedFinding, ...]:
        return tuple(each for each in self.no_longer_found if each.other_side is not OtherSideStatus.NOT_EVALUATED)

    @property
    def not_evaluated(self) -> tuple[OneSidedFinding, ...]:
        return tuple(each for each in self.no_longer_found if each.other_side is OtherSideStatus.NOT_EVALUATED)

    @property
    def spread(self) -> tuple[PersistingFinding, ...]:
        """Return the critical findings and warnings on more replicas than before."""
        return tuple(each for each in self.persisting if each.spread and each.after.severity is not Severity.INFO)

    @property
    def changed(self) -> tuple[PersistingFinding, ...]:
        return tuple(each for each in self.persisting if each.is_changed)


class ReplicaPair(NamedTuple):
    """A replica of both sides."""

    before: Replica
    after: Replica

    @property
    def restarted(self) -> bool | None:
        """Return whether it restarted; None where a side lacks the start time."""
        before, after = self.before.started_at, self.after.started_at
        return None if before is None or after is None else before != after

    def differs_in(self, name: str) -> bool:
        """Return whether a field of the replica changed; not if it is a version that one side does not report."""
        before, after = (getattr(replica, name) for replica in self)
        return before != after and (name != "version" or bool(before and after))

    @property
    def is_changed(self) -> bool:
        return bool(self.restarted) or any(map(self.differs_in, REPLICA_FIELDS))


@dataclass(frozen=True, slots=True)
class ReplicaChanges:
    """Replicas that only one side has, and those that both have. A process behind two addresses counts once.

    `letters_before` and `letters_after` are those of cohorts, by replica id; one that was never read has none.
    """

    added: tuple[Replica, ...]
    removed: tuple[Replica, ...]
    both: tuple[ReplicaPair, ...]
    letters_before: Mapping[str, str]
    letters_after: Mapping[str, str]

    @property
    def changed(self) -> tuple[ReplicaPair, ...]:
        return tuple(each for each in self.both if each.is_changed)

    @property
    def start_unknown(self) -> tuple[str, ...]:
        """Return the replicas that may have restarted: a side lacks the start time."""
        return tuple(each.after.id for each in self.both if each.restarted is None)

    @property
    def restarted(self) -> tuple[ReplicaPair, ...]:
        """Return the replicas that are known to have restarted."""
        return tuple(each for each in self.both if each.restarted)


@dataclass(frozen=True, slots=True)
class SettingGroup:
    """Replicas of one pool with the same changes: most often, one restart.

    `pool_sizes` are the replicas of the pool on each side; `restarted` counts those known to have restarted. The
    cohorts are numbers of replicas by letter, which is empty where they were never read.
    """

    pools: Pools
    changes: tuple[SettingChange, ...]
    replicas: tuple[str, ...]
    pool_sizes: tuple[int, int]
    cohorts_before: Mapping[str, int]
    cohorts_after: Mapping[str, int]
    restarted: int
    start_unknown: int


class OneSidedSettings(NamedTuple):
    """Settings that only one side reports of some replicas, and why the other has no value."""

    pools: Pools
    paths: tuple[str, ...]
    replicas: tuple[str, ...]
    why: State


@dataclass(frozen=True, slots=True)
class SettingChanges:
    """Settings of the replicas that were read on both sides. `ignored` paths changed, but fleet.yaml ignores them.

    `unread_before` and `unread_after` were not compared, because that side could not read them.
    """

    groups: tuple[SettingGroup, ...] = ()
    no_longer_reported: tuple[OneSidedSettings, ...] = ()
    newly_reported: tuple[OneSidedSettings, ...] = ()
    ignored: tuple[str, ...] = ()
    compared: int = 0
    unread_before: tuple[str, ...] = ()
    unread_after: tuple[str, ...] = ()

    @property
    def replicas(self) -> frozenset[str]:
        return frozenset(replica for group in self.groups for replica in group.replicas)

    @property
    def by_replica(self) -> Mapping[str, tuple[SettingChange, ...]]:
        groups = grouped((replica, group.changes) for group in self.groups for replica in group.replicas)
        return {replica: tuple(chain.from_iterable(changes)) for replica, changes in groups.items()}


@dataclass(frozen=True, slots=True)
class Changes:
    """All that changed from one fleet to another. `names` is by replica id, the newer name first."""

    before: Fleet
    after: Fleet
    replicas: ReplicaChanges
    settings: SettingChanges
    findings: FindingChanges
    capacity: CapacityChanges
    names: Mapping[str, str]

    @property
    def options_differ(self) -> bool:
        """Return whether rules or ignored paths of fleet.yaml differ, which changes findings."""
        before, after = ((replace(fleet.policy, file=""), fleet.ignored) for fleet in (self.before, self.after))
        return before != after

    @property
    def after_is_older(self) -> bool:
        before, after = self.before.polled_at, self.after.polled_at
        return before is not None and after is not None and after < before

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed. Unread replicas are not known to be equal."""
        replicas, settings, found = self.replicas, self.settings, self.findings
        return not (
            (replicas.added or replicas.removed or replicas.changed)
            or (settings.groups or settings.no_longer_reported or settings.newly_reported)
            or (found.new or found.no_longer_found or found.changed)
            or self.capacity.ranks
        )
