"""What replicas tell, word for word, as the evidence of a finding that speaks of what it means."""

from collections.abc import Iterable

from dashboard.rules.findings import Evidence
from dashboard.rules.subject import PoolSubject


def as_told(pool: PoolSubject, paths: Iterable[str]) -> tuple[Evidence, ...]:
    """Return every value of these settings, and which replicas tell it."""
    return tuple(Evidence(path, *told, ids) for path in paths for told, ids in pool.values(path).items())
