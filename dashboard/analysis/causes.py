"""The types of the fix plan: causes of findings, and what ends them. `analysis/plan.py` makes them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from dashboard.analysis.patch import ChangeGroup
from dashboard.fleet import Replica
from dashboard.rules.findings import Finding, Severity


class Gain(NamedTuple):
    """What a fix brings a pool: how many fewer replicas are known not to share prefixes, and KV-cache tokens.

    `least` and `most` are their change on DP ranks that are known on both sides; `unknown_ranks` are not.
    """

    sharing: int = 0
    least: int = 0
    most: int = 0
    unknown_ranks: int = 0


@dataclass(frozen=True, slots=True)
class Fix:
    """One way to end a cause: what to set where, and what the what-if predicts.

    `groups` are replicas with equal changes. `fixed` and `new` are findings; those `open` are known only after the
    restart. `gains` are by pool.
    """

    groups: tuple[ChangeGroup, ...]
    fixed: tuple[Finding, ...]
    new: tuple[Finding, ...] = ()
    open: tuple[Finding, ...] = ()
    gains: Mapping[str, Gain] = field(default_factory=dict)

    @property
    def replicas(self) -> tuple[str, ...]:
        """The replicas to restart."""
        return tuple(sorted(each for group in self.groups for each in group.replicas))

    def gained_in(self, pool: str) -> Gain:
        """Return what is gained in a pool; with an empty name in all of them."""
        gains = [each for name, each in self.gains.items() if pool in ("", name)]
        return Gain(*map(sum, zip(*gains, strict=True)))


@dataclass(frozen=True)
class Cause:
    """Findings with one remedy, the worst first.

    `key` names what changes: paths of settings with `+` between, or the id of the rule whose remedy is another action.
    Several `fixes` contradict each other: one of them is to be chosen, the recommended one is the first. Without any
    the effect is not predicted.
    """

    key: str
    findings: tuple[Finding, ...]
    fixes: tuple[Fix, ...] = ()

    @property
    def severity(self) -> Severity:
        return self.findings[0].severity

    @cached_property
    def replicas(self) -> tuple[str, ...]:
        """The replicas of the recommended fix, or those that an action is about."""
        if self.fixes:
            return self.fixes[0].replicas
        return tuple(sorted({each for finding in self.findings for each in finding.replicas}))

    @cached_property
    def restarts(self) -> frozenset[str]:
        """The replicas that the recommended fix restarts, or of an action those whose remedy says to."""
        if self.fixes:
            return frozenset(self.replicas)
        return frozenset(each for own in self.findings if own.remedy.is_restart for each in own.replicas)


@dataclass(frozen=True, slots=True)
class Plan:
    """The causes of all active findings, in the order in which to end them.

    `members` are the replicas of the `pool` that it is limited to; None for that of the fleet.
    """

    causes: tuple[Cause, ...] = ()
    members: frozenset[str] | None = None
    pool: str = ""

    def causes_of(self, finding: str) -> tuple[Cause, ...]:
        """Return the causes that end the finding with this id."""
        return tuple(each for each in self.causes if any(own.id == finding for own in each.findings))

    def of_pool(self, pool: str, replicas: Iterable[Replica]) -> "Plan":
        """Return the causes with findings in a pool, whole; `replicas` are those of the fleet."""
        causes = (each for each in self.causes if any(pool in own.pools for own in each.findings))
        return Plan(tuple(causes), frozenset(each.id for each in replicas if each.pool == pool), pool)

    def own(self, replicas: frozenset[str]) -> frozenset[str]:
        """Return those of some replicas that are of the pool that the plan is limited to."""
        return replicas if self.members is None else replicas & self.members

    @property
    def restarts(self) -> frozenset[str]:
        """The replicas to restart, also of other pools."""
        return frozenset(each for cause in self.causes for each in cause.restarts)
