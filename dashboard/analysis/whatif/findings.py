"""Findings before and after the restart: fixed, new, or unknown; and what the router must know."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.comparison import finding_changes
from dashboard.compare.encoding import lookup_value
from dashboard.compare.hashes import count_equal_hashes_as_one
from dashboard.compare.holders import Holders
from dashboard.fleet import Replica, SettingValue
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.domain import Router, SeedPolicy
from dashboard.rules.findings import Finding
from dashboard.rules.routing.blocks import BLOCK_SIZE, tokens_of_block
from dashboard.rules.routing.hash_seed import SEED_POLICY
from dashboard.rules.routing.hashes import HASH_ALGORITHM
from dashboard.rules.selection import caching
from dashboard.rules.subject import FINGERPRINT, PoolSubject

ADAPTERS = "adapters"
# Prefixes of evidence paths: what a running engine measured or loaded is lost with its process.
MEASURED = ("engines.", "kv_cache_groups", ADAPTERS)
# Evidence that a restart does not change.
STAYING = ("devices", "replicas.")
ROUTE = "/"  # prefix of a route that answered: follows from settings, where these are reported


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


def forecast_findings(before: Fleet, after: Fleet, pool: str, restarted: Collection[str]) -> FindingForecast:
    """Compare the findings of a fleet before and after some replicas of a pool restarted.

    A finding is fixed only if all its evidence is known afterwards, else it is unknown. Suppressed ones are left out.
    """
    lookup = _Lookup(before, after, frozenset(restarted))
    changes = finding_changes(before, after)
    lost = [each.finding for each in changes.no_longer_found if not each.is_suppressed]
    new = [each.finding for each in changes.new if not each.is_suppressed]
    both = [
        (each.before, each.after)
        for each in changes.persisting
        if not each.is_suppressed_before and not each.is_suppressed_after
    ]
    restated = list(_restated(lost, new))
    same_before, same_after = ({side[place].id for side in restated} for place in (0, 1))
    lost = [each for each in lost if each.id not in same_before]
    unknown = {each.id for each in lost if lookup.is_unknown(each)}
    spread = [other for one, other in both if not set(other.replicas) <= set(one.replicas)]
    reduced = [(one, other) for one, other in (*both, *restated) if lookup.is_reduced(one, other)]
    moved = {each.id for each in (*spread, *(one for one, _ in reduced))}
    return FindingForecast(
        fixed=tuple(each for each in lost if each.id not in unknown),
        new=tuple(each for each in new if each.id not in same_after),
        spread=tuple(spread),
        reduced=tuple(other for _, other in reduced),
        unknown=tuple(each for each in lost if each.id in unknown),
        unchanged=sum(pool in one.pools and one.id not in moved for one, _ in (*both, *restated)),
    )


def _restated(lost: Iterable[Finding], new: Iterable[Finding]) -> Iterator[tuple[Finding, Finding]]:
    """Yield pairs of one finding with different ids: less is known, on the same replicas or some of them."""
    left = list(new)
    for one in lost:
        same = (each for each in left if _is_restated(one, each))
        if (other := next(same, None)) is not None:
            left.remove(other)
            yield one, other


def _is_restated(one: Finding, other: Finding) -> bool:
    rows = [{(each.path, each.value) for each in side.evidence if not each.is_reference} for side in (one, other)]
    is_same_rule = (one.rule, one.subject) == (other.rule, other.subject)
    return is_same_rule and set(other.replicas) <= set(one.replicas) and not rows[0].isdisjoint(rows[1])


class _Lookup:
    """The replicas that restart, before and after."""

    def __init__(self, before: Fleet, after: Fleet, restarted: frozenset[str]) -> None:
        self._before = {each.id: each for each in before.replicas if each.id in restarted}
        self._after = {each.id: each for each in after.replicas if each.id in restarted}
        self._documents = after.documents

    def is_unknown(self, finding: Finding) -> bool:
        return any(self._is_lost(replica, rows) for replica, rows in self._rows(finding).items())

    def is_reduced(self, one: Finding, other: Finding) -> bool:
        """Return whether a finding is known to be fixed on some of its replicas."""
        rows = self._rows(one)
        left = set(one.replicas) - set(other.replicas)
        return bool(left) and not any(self._is_lost(each, rows[each]) for each in left & rows.keys())

    def _rows(self, finding: Finding) -> Mapping[str, list[str]]:
        """Return the evidence of a finding per replica that restarts; fingerprints only if the rule needs them."""
        needs = BY_ID[finding.rule].needs
        rows: dict[str, list[str]] = defaultdict(list)
        for each in finding.evidence:
            if each.path != FINGERPRINT or FINGERPRINT in needs:
                for replica in self._before.keys() & each.replicas:
                    rows[replica].append(each.path)
        return rows

    def _is_lost(self, replica: str, paths: list[str]) -> bool:
        contradicted = {each.path for each in self._before[replica].contradictions}
        if not contradicted.isdisjoint(paths):
            return True
        routes = [path for path in paths if path.startswith(ROUTE)]
        others = [path for path in paths if not path.startswith(ROUTE)]
        return any(not self._is_known(self._after[replica], path) for path in others) or (bool(routes) and not others)

    def _is_known(self, replica: Replica, path: str) -> bool:
        if path == FINGERPRINT or path.startswith(MEASURED):
            return path.startswith(MEASURED[0]) and not self._is_changed(replica)
        is_kept = path.startswith(STAYING) or path in replica.identity
        return is_kept or lookup_value(self._documents[str(replica.document)].settings, path) is not None

    def _is_changed(self, replica: Replica) -> bool:
        """Return whether the KV cache of a replica may change."""
        before = self._before[replica.id].engines
        tokens = [engine.kv_cache_size_tokens for engine in replica.engines]
        return tokens != [engine.kv_cache_size_tokens for engine in before] or any(
            one.basis is not other.basis for one, other in zip(before, replica.engines, strict=True)
        )


# Settings that some routers depend on (RT-02, RT-05, RT-06), and the names of their expectations.
NEEDED = (
    (BLOCK_SIZE, "block_size", {Router.PREFIX_HASH, Router.KV_EVENTS, Router.APPROXIMATE}),
    (HASH_ALGORITHM, "hash_algorithm", {Router.PREFIX_HASH}),
    (SEED_POLICY, "seed_policy", {Router.PREFIX_HASH}),
)


def router_changes(before: Fleet, after: Fleet, pool: str) -> tuple[RouterChange, ...]:
    """Return the values that become common to the pool and that its router depends on.

    Values that fleet.yaml declares of the router are left out: rules compare the pool with them.
    """
    if after is before:
        return ()
    now, then = _caching(before, pool), _caching(after, pool)
    changes = []
    for path, expects, routers in NEEDED:
        is_declared = getattr(then.domain.expects, expects) is not None
        if then.domain.router not in routers or is_declared or then.is_ignored(path):
            continue
        if (wanted := _only_value(_values(then, path))) is None:
            continue
        values = _values(now, path, wanted)
        usual = next((value for value in values if value != wanted), None)
        if usual is not None and 2 * len(values.get(wanted, ())) <= sum(map(len, values.values())):
            changes.append(RouterChange(expects, usual, wanted))
    return tuple(changes)


def _caching(fleet: Fleet, name: str) -> PoolSubject:
    """Return a pool as rules see it, without replicas that cache no prefixes."""
    pool = next(each for each in fleet.pools if each.name == name)
    members = tuple(each for each in fleet.replicas if each.pool == name)
    domain = fleet.inspection.domains[name]
    return caching(PoolSubject(pool, domain, members, fleet.documents, tuple(fleet.ignored)))


def _values(pool: PoolSubject, path: str, first: SettingValue | None = None) -> Holders:
    """Return the replicas of each value, most first; values with equal hashes count as one: as `first` if reported."""
    if path == BLOCK_SIZE:
        return pool.values(path, tokens_of_block)
    return count_equal_hashes_as_one(pool.values(path), pool.fingerprints(), first)


def _only_value(values: Holders) -> SettingValue | None:
    """Return the one value that all have; None also for random seeds, which rules report."""
    if len(values) != 1:
        return None
    (value,) = values
    return None if json.loads(value.value) == SeedPolicy.RANDOM else value
