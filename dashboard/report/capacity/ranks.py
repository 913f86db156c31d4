"""Every DP rank of the fleet with what Capacity says of it: its value, whether it counts, who its peers are."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.lengths import AtLength, requests_at
from dashboard.capacity.outliers import Outlier, outliers
from dashboard.fleet import Basis, Engine, Replica, Setting, cohort_letters

GIB = 2**30
NO_BYTES = "No reply tells its bytes or its KV cache groups. A stock vLLM tells neither; the provider tells both."
NO_NUMBER_OF_GPUS = "Its bytes on each GPU are known, but no reply tells on how many GPUs it runs."
NO_REQUESTS = "Its KV cache groups are not known and it is no uniform model, so only its own length can be told."
NOT_SERVED = "Not served: the length is above its own max_model_len."
NOT_TOLD = "No reply tells it."


class Measure(StrEnum):
    """What the page shows of each rank."""

    TOKENS = "tokens"
    GIB = "GiB"
    REQUESTS = "requests"


class Rank(NamedTuple):
    """One DP rank. `kind` names its devices, empty when no reply does.

    `counts` is False for what was last read too long ago, and for the second address of one process.
    """

    replica: Replica
    letter: str
    engine: Engine
    kind: str
    at: AtLength
    counts: bool


def ranks_of(fleet: Fleet, length: int | None) -> tuple[Rank, ...]:
    """Return all ranks in the order of the fleet; requests at `length` tokens, or at each rank's own length if None."""
    letters = cohort_letters(fleet.pools)
    ranks: list[Rank] = []
    for replica in fleet.replicas:
        document = fleet.documents.get(replica.document or "")
        settings = document.settings if document else {}
        kinds = _kinds(replica)
        counts = replica.fresh and not replica.is_second_address
        letter = letters.get(replica.id, "")
        for engine in replica.engines:
            at = _at(replica, engine, settings, length)
            ranks.append(Rank(replica, letter, engine, kinds.get(engine.dp_rank, ""), at, counts))
    return tuple(ranks)


def value(rank: Rank, measure: Measure) -> float | None:
    """Return a rank's tokens, GiB or requests; None when it is not known."""
    if measure is Measure.GIB:
        held = rank.engine.kv_cache_bytes
        return None if held is None else held / GIB
    return rank.engine.kv_cache_size_tokens if measure is Measure.TOKENS else rank.at.requests


def is_at_most(rank: Rank, measure: Measure) -> bool:
    """Say whether a rank's value is an upper bound. Bytes never are: vLLM tells them, or its groups do."""
    if measure is Measure.GIB:
        return False
    return rank.engine.basis is Basis.ASSUMED if measure is Measure.TOKENS else rank.at.at_most


def why_unknown(rank: Rank, measure: Measure) -> str:
    """Say in a sentence why a rank has no value."""
    if measure is Measure.GIB:
        return NO_BYTES if rank.engine.kv_cache_bytes_per_device is None else NO_NUMBER_OF_GPUS
    if measure is Measure.REQUESTS and not rank.at.served:
        return NOT_SERVED
    if rank.engine.reason and rank.engine.kv_cache_size_tokens is None:
        return rank.engine.reason
    return NO_REQUESTS if measure is Measure.REQUESTS else NOT_TOLD


def outliers_of(ranks: Sequence[Rank], measure: Measure) -> Mapping[int, Outlier]:
    """Return the ranks that hold much less or more than their peers, by place: one pool, one kind of device."""
    values = [value(rank, measure) if rank.counts else None for rank in ranks]
    return {outlier.place: outlier for outlier in outliers(peers(ranks), values)}


def peers(ranks: Sequence[Rank]) -> list[tuple[str | None, str]]:
    """Return, per rank, its pool and the kind of its devices: who may be compared with whom.

    Where a pool's replies name one kind only, a rank whose devices no reply tells is taken to have it.
    """
    told: dict[str | None, set[str]] = {}
    for rank in ranks:
        told.setdefault(rank.replica.pool, set()).add(rank.kind)
    only = {pool: kinds - {""} for pool, kinds in told.items()}
    usual = {pool: min(kinds) if len(kinds) == 1 else "" for pool, kinds in only.items()}
    return [(rank.replica.pool, rank.kind or usual[rank.replica.pool]) for rank in ranks]


def counted_once(ranks: Iterable[Rank]) -> tuple[Rank, ...]:
    """Leave out what does not count."""
    return tuple(rank for rank in ranks if rank.counts)


def silent_replicas(fleet: Fleet) -> int:
    """Count the replicas of which no rank counts: they do not answer, or no reply tells their engines."""
    first = [replica for replica in fleet.replicas if not replica.is_second_address]
    return sum(not (replica.fresh and replica.engines) for replica in first)


def _at(replica: Replica, engine: Engine, settings: Mapping[str, Setting], length: int | None) -> AtLength:
    if length is None:
        return AtLength(engine.max_concurrency, served=True, at_most=engine.basis is Basis.ASSUMED)
    return requests_at(engine, replica.kv_cache_groups, settings, length)


def _kinds(replica: Replica) -> Mapping[int, str]:
    """Return per DP rank the name that most of its devices have."""
    names: dict[int, Counter[str]] = {}
    for device in replica.devices:
        names.setdefault(device.dp_rank, Counter())[device.name] += 1
    return {rank: min(found, key=lambda name: (-found[name], name)) for rank, found in names.items()}
