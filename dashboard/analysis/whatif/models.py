"""The types of a what-if."""

from dataclasses import dataclass
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Basis, SettingValue
from dashboard.rules.apply_method import ApplyMethod
from dashboard.rules.findings import Finding, Rollout


class PlannedChange(NamedTuple):
    """A setting of some replicas before and after, and how it is changed."""

    path: str
    before: SettingValue
    after: SettingValue
    how: ApplyMethod


class Paste(NamedTuple):
    """What to paste for one group of replicas.

    `flags` are flags with their values, `environment` lines of a shell, `image` a line of YAML, `helm` YAML. `removed`
    are flags to remove, `optional` flags may be removed: vLLM derives their settings.
    """

    flags: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    environment: str = ""
    image: str = ""
    helm: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to paste."""
        return not any((self.flags, self.removed, self.environment, self.image))


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Replicas with the same changes, with the letters of their cohorts.

    `later` may remain to be pasted once they run another image.
    """

    replicas: tuple[str, ...]
    letters: tuple[str, ...]
    changes: tuple[PlannedChange, ...]
    paste: Paste
    later: Paste | None = None


class RankForecast(NamedTuple):
    """KV cache of one DP rank in tokens, before and after; None is unknown.

    `after` is the median of `peers` identical engines on the same device: assumed, between `least` and `most`.
    """

    replica: str
    dp_rank: int
    before: int | None
    before_basis: Basis
    reason: str
    after: int | None = None
    after_basis: Basis = Basis.UNKNOWN
    peers: int = 0
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class CapacityForecast:
    """KV cache of a pool in tokens. `ranks` are those that may change, `unchanged` counts the others.

    `before` and `after` are sums over known ranks; `unknown_before` and `unknown_after` count the others. `least` and
    `most` bound the change of ranks that are known on both sides.
    """

    ranks: tuple[RankForecast, ...] = ()
    unchanged: int = 0
    before: int = 0
    after: int = 0
    unknown_before: int = 0
    unknown_after: int = 0
    least: int = 0
    most: int = 0
    is_bound: bool = False  # the sum before contains upper bounds
    is_bound_after: bool = False  # the sum after contains upper bounds of unchanged ranks


@dataclass(frozen=True, slots=True)
class FindingForecast:
    """Findings that would be fixed, new, on more replicas (`spread`), on fewer (`reduced`), or unknown.

    `spread` and `reduced` are findings as they would be; `unchanged` counts the other findings of the pool.
    """

    fixed: tuple[Finding, ...] = ()
    new: tuple[Finding, ...] = ()
    spread: tuple[Finding, ...] = ()
    reduced: tuple[Finding, ...] = ()
    unknown: tuple[Finding, ...] = ()
    unchanged: int = 0


class RouterChange(NamedTuple):
    """A new common value of a pool that its router depends on.

    `expects` is the option of fleet.yaml, under the pool's `expects`, that would declare it and is not set.
    """

    expects: str
    before: SettingValue
    after: SettingValue


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would change if a pool converged to a target: a cohort, by its letter, or a baseline, by its name.

    `fleet` is the fleet afterwards, as far as it can be known. `silent` replicas do not contradict the target but do
    not report every setting that others change; `unread` were never read. `unreported` settings differ in the pool and
    are not reported by the target. `notes` are sentences on what is unknown. `reverted` is a rollout that would be
    reverted. `router` is what the router must know and no rule reports. `matching` counts the replicas of the cohort
    now; None for a baseline.
    """

    pool: str
    target: str
    is_baseline: bool
    total: int
    groups: tuple[ChangeGroup, ...]
    findings: FindingForecast
    capacity: CapacityForecast
    fleet: Fleet
    silent: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    unreported: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reverted: Rollout | None = None
    router: tuple[RouterChange, ...] = ()
    matching: int | None = None

    @property
    def restarts(self) -> tuple[str, ...]:
        """Return the replicas that would restart."""
        return tuple(sorted(replica for group in self.groups for replica in group.replicas))
