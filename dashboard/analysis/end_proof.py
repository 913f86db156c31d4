"""Whether a poll proves that a finding ended: what it could not see may still be there."""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from dashboard.analysis.assembly import Fleet
from dashboard.rules.findings import OutcomeKind


class EndProof:
    """What a poll proves about the end of findings that it does not have; worked out where it is asked."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def covers(self, rule: str, pools: Iterable[str], replicas: Iterable[str]) -> bool:
        """Return whether a finding of a rule, in some pools and on some replicas, ended.

        It is not known where the rule raised an error, a replica was not read lately, or is missing while a source of
        targets cannot be read; and not where most replicas of a pool, with which these were compared, were not read.
        """
        if self._has_read_nothing or rule in self._failed_rules or not self._lost_pools.isdisjoint(pools):
            return False
        return all(self._is_fresh.get(each, not self._fleet.discovery_errors) for each in replicas)

    @cached_property
    def _is_fresh(self) -> dict[str, bool]:
        return {each.id: each.fresh for each in self._fleet.replicas}

    @cached_property
    def _has_read_nothing(self) -> bool:
        return not any(self._is_fresh.values()) and bool(self._is_fresh or self._fleet.discovery_errors)

    @cached_property
    def _failed_rules(self) -> set[str]:
        return {each.rule for each in self._fleet.inspection.outcomes if each.kind is OutcomeKind.ERROR}

    @cached_property
    def _lost_pools(self) -> set[str | None]:
        balance = Counter[str | None]()
        for each in self._fleet.replicas:
            balance[each.pool] += 1 if each.fresh else -1
        return {pool for pool, number in balance.items() if number < 0}
