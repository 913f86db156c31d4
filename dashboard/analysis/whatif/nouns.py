"""What a what-if is made of: frozen values."""

from dataclasses import dataclass
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Basis, SettingValue
from dashboard.rules.findings import Finding, Rollout
from dashboard.rules.settable import How


class Change(NamedTuple):
    """One setting of some replicas: what they tell, what they would tell, and how it is set."""

    path: str
    before: SettingValue
    after: SettingValue
    how: How


class Paste(NamedTuple):
    """What to type for one group of replicas; empty where there is nothing of the kind.

    `flags` are parts of a command line, each a flag with its value, `environment` lines of a shell, `image` a line of
    YAML, `helm` YAML. `removed` are flags to take away, `optional` those that may be taken away: what they set follows
    by itself.
    """

    flags: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    environment: str = ""
    image: str = ""
    helm: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be typed."""
        return not any((self.flags, self.removed, self.environment, self.image))


@dataclass(frozen=True, slots=True)
class Group:
    """Replicas that would change the same settings in the same way, with the letters of the cohorts they are in.

    `later` is what may be left to paste once they run another image: some of it may be that version's defaults.
    """

    replicas: tuple[str, ...]
    letters: tuple[str, ...]
    changes: tuple[Change, ...]
    paste: Paste
    later: Paste | None = None


class RankChange(NamedTuple):
    """KV cache of one DP rank in tokens, before and after; None is not known.

    What it would hold is the median of `peers` engines that are set up so already, on the same device: assumed, with
    `least` and `most` of them beside it. `reason` says where the number is from, or why there is none.
    """

    replica: str
    dp_rank: int
    before: int | None
    before_basis: Basis
    after: int | None
    after_basis: Basis
    peers: int = 0
    least: int | None = None
    most: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Capacity:
    """KV cache of a pool in tokens. `ranks` are those whose capacity may change; all others hold what they hold.

    `before` and `after` are sums over the ranks whose tokens are known at that side; `unknown_before` and
    `unknown_after` count the others. `least` and `most` bound the change over those known at both sides.
    """

    ranks: tuple[RankChange, ...] = ()
    unchanged: int = 0
    before: int = 0
    after: int = 0
    unknown_before: int = 0
    unknown_after: int = 0
    least: int = 0
    most: int = 0
    is_bound: bool = False  # the sum before holds upper bounds
    is_bound_after: bool = False  # the sum after holds those of ranks that nothing changes


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Findings that would go, come, reach other replicas than now, or be known only after the restart.

    `spread` pairs a finding before with the same one after, on more replicas; `eased` on fewer. `stay` counts
    those of the pool that stay as they are.
    """

    gone: tuple[Finding, ...] = ()
    came: tuple[Finding, ...] = ()
    spread: tuple[tuple[Finding, Finding], ...] = ()
    eased: tuple[tuple[Finding, Finding], ...] = ()
    open: tuple[Finding, ...] = ()
    stay: int = 0


class RouterChange(NamedTuple):
    """A value that all of a pool would have and its router works with: what other replicas have now, and the new one.

    `expects` names it as fleet.yaml would say it of the router, under the pool's `expects`, and does not.
    """

    expects: str
    before: SettingValue
    after: SettingValue


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would change if a pool converged to a target: a cohort, by its letter, or a baseline, by its name.

    `fleet` is the fleet as it would be as far as that can be known. `silent` are replicas that contradict the target
    nowhere but do not tell every setting that others would change; `unread` were never read. `untold` are settings in
    which the pool differs and of which the target tells nothing. `notes` are sentences on what is not known.
    `goes_back` is the rollout that some of the replicas would leave again. `router` is what the router must know
    and no rule judges. `alike` counts the replicas of the cohort now; None for a baseline.
    """

    pool: str
    target: str
    is_baseline: bool
    total: int
    groups: tuple[Group, ...]
    verdicts: Verdicts
    capacity: Capacity
    fleet: Fleet
    silent: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    goes_back: Rollout | None = None
    router: tuple[RouterChange, ...] = ()
    alike: int | None = None

    @property
    def restarts(self) -> tuple[str, ...]:
        """Return the replicas that would restart."""
        return tuple(sorted(replica for group in self.groups for replica in group.replicas))
