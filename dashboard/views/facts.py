"""Facts that a replica can report, whether it does, and what would reveal them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Basis, FailureKind, Replica, ReplicaState, Source
from dashboard.fleet.formatting import FEW, SOME, count, end_cut, shortlist
from dashboard.rules.findings import OutcomeKind

PROVIDER = "install or load the provider"
CREDENTIALS = "set a valid API key"
LONGEST_NAME = 60
LONGEST_REASON = 200  # characters of one
INEXACT = (Basis.ASSUMED, Basis.UNKNOWN)


class Fact(NamedTuple):
    """Something that a replica can report: whether it does, and what would reveal it."""

    name: str
    is_known: Callable[[Replica], bool]
    reveal: str


FACTS = (
    Fact("version", lambda each: each.version is not None, "check the probe /version"),
    Fact("start time", lambda each: each.started_at is not None, "check the probe /metrics"),
    Fact("full configuration", lambda each: bool({Source.PROVIDER, Source.SERVER_INFO} & {*each.sources}), PROVIDER),
    Fact("KV cache blocks", lambda each: any(one.num_gpu_blocks is not None for one in each.engines), PROVIDER),
    Fact("KV cache groups", lambda each: bool(each.kv_cache_groups), PROVIDER),
    Fact("block hashes", lambda each: any(one.fingerprint is not None for one in each.engines), PROVIDER),
    Fact("devices", lambda each: bool(each.devices), PROVIDER),
    Fact("memory by part", lambda each: any(one.memory is not None for one in each.devices), PROVIDER),
    Fact("arguments", lambda each: each.set_arguments is not None, PROVIDER),
)


def unknown_hint(fleet: Fleet) -> str:
    """Return what would answer what is unknown, and on which replicas; empty where nothing else helps.

    A replica without the provider counts only where something is unknown that it would report: a capacity, or what a
    rule needs in its pool.
    """
    read = [each for each in fleet.replicas if each.state is not ReplicaState.DOWN]
    locked = [each for each in fleet.replicas if is_locked(each)]
    pools = _incomplete_pools(fleet)
    lacking = [
        each
        for each in read
        if each not in locked and _lacks_provider(each) and (each.pool in pools or not _has_exact_capacity(each))
    ]
    steps = [f"{CREDENTIALS} for {_names(locked, fleet)} (401)"] if locked else []
    steps += [f"{PROVIDER} on {_names(lacking, fleet)}"] if lacking else []
    return f"To answer what is unknown: {'; '.join(steps)}." if steps else ""


def is_locked(replica: Replica) -> bool:
    """Return whether a path of a replica needs an API key that is not configured."""
    return any(each.failure is not None and each.failure.kind is FailureKind.UNAUTHORIZED for each in replica.probes)


def _lacks_provider(replica: Replica) -> bool:
    """Return whether a replica could load the provider: Rust's frontend cannot. Copied settings are the provider's."""
    is_rust = replica.failure is not None and replica.failure.kind is FailureKind.FRONTEND
    return not is_rust and Source.PROVIDER not in replica.sources


def _has_exact_capacity(replica: Replica) -> bool:
    return bool(replica.engines) and all(each.basis not in INEXACT for each in replica.engines)


def _incomplete_pools(fleet: Fleet) -> frozenset[str | None]:
    """Return the pools in which a rule lacks more than what unreachable replicas would report."""
    lacking = (each for each in fleet.inspection.outcomes if each.kind is OutcomeKind.SKIPPED or each.silent)
    return frozenset(pool for each in lacking for pool in each.pools)


def _names(replicas: Sequence[Replica], fleet: Fleet) -> str:
    if len(replicas) == len(fleet.replicas) > 1:
        return f"all {count(len(replicas), 'replica')}"
    return shortlist((end_cut(each.name, LONGEST_NAME) for each in replicas), FEW)


def no_list_read(unread_lists: Sequence[str]) -> str:
    """Return that there are no targets because no target list could be read, and why."""
    return f"no target list could be read ({list_reasons(unread_lists)})"


def list_reasons(unread_lists: Sequence[str]) -> str:
    return shortlist((end_cut(each.rstrip("."), LONGEST_REASON) for each in unread_lists), SOME)
