"""What the operator decides about rules: domains of pools, changed rules, suppressions, baselines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from dashboard.fleet import Baseline
from dashboard.rules.domain import Declared
from dashboard.rules.findings import Severity, Suppression


@dataclass(frozen=True, slots=True)
class RuleChange:
    """What fleet.yaml changes of one rule; None leaves it."""

    enabled: bool = True
    severity: Severity | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """All of it. `pools` is by name or glob, in the order of fleet.yaml; a rule's change by its id.

    `file` is what the operator calls fleet.yaml.
    """

    pools: Mapping[str, Declared] = field(default_factory=dict)
    rules: Mapping[str, RuleChange] = field(default_factory=dict)
    suppressions: tuple[Suppression, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    file: str = "fleet.yaml"

    def declared(self, pool: str) -> Declared:
        """Return what is said of a pool: under its own name, else under the first glob that matches it."""
        if pool in self.pools:
            return self.pools[pool]
        return next((told for glob, told in self.pools.items() if fnmatchcase(pool, glob)), Declared())

    def baseline(self, pool: str) -> Baseline | None:
        """Return what a pool should look like: by its own name, else by the first glob that matches it."""
        named = (each for each in self.baselines if each.pool == pool)
        matching = (each for each in self.baselines if fnmatchcase(pool, each.pool))
        return next(named, None) or next(matching, None)
