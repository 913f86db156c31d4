"""The order of pools by urgency, and the versions of a pool."""

from collections.abc import Iterable, Mapping

from dashboard.analysis.assembly import Fleet
from dashboard.compare import SharingVerdict, Verdict
from dashboard.fleet import Pool, Replica, ReplicaState
from dashboard.report.pools.sharing import is_needed
from dashboard.rules.findings import Tally

MOST_VERSIONS = 2  # versions that are named; of more, the lowest and the highest


def ordered(fleet: Fleet, sentences: Mapping[str, SharingVerdict], found: Mapping[str, Tally]) -> list[Pool]:
    """Sort pools by urgency: findings, prefixes not shared, number of cohorts, replicas down, size."""
    domains = fleet.inspection.domains
    down = {replica.pool for replica in fleet.replicas if replica.state is ReplicaState.DOWN}

    def urgency(pool: Pool) -> tuple[object, ...]:
        tally = found[pool.name]
        agrees = sentences[pool.name].verdict is not Verdict.DIFFERS or not is_needed(domains.get(pool.name))
        wrong = (-tally.critical, -tally.warning, agrees, -max(len(pool.cohorts), 1), pool.name not in down)
        return (*wrong, -len(pool.replicas), pool.name)

    return sorted(fleet.pools, key=urgency)


def versions_text(members: Iterable[Replica]) -> str:
    """Write the versions of some replicas, the lowest first: `0.31.0 → 0.32.0`; empty if none is known."""
    versions = sorted({replica.version for replica in members if replica.version}, key=_version_key)
    return " → ".join(versions if len(versions) <= MOST_VERSIONS else [versions[0], "…", versions[-1]])


def _version_key(version: str) -> list[tuple[bool, int, str]]:
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in version.split(".")]
