"""KV cache capacity of a fleet as rows: each DP rank, and the sums of each pool."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.engines import RequestsAtLength, requests_at
from dashboard.capacity.outliers import medians, outliers
from dashboard.capacity.sums import GIB, PoolCapacity, Sum, add_up, added
from dashboard.fleet import Basis, Engine, Replica, Setting, cohort_letters

NO_BYTES = "KV cache bytes not reported. The provider reports them; stock vLLM does not."
NO_NUMBER_OF_GPUS = "Number of GPUs not reported; only the bytes on each GPU are known."
NO_REQUESTS = "KV cache groups not reported and the model is not uniform: known at its own length only."
NOT_SERVED_AT_LENGTH = "Not served: the length is above max_model_len."
NOT_REPORTED = "Not reported."
MOST_DEVICES = 2  # kinds named for one pool
_BESIDE_THE_MODEL = re.compile(r"^(NVIDIA|AMD Instinct|AMD) |[- ](SXM|PCIe|HBM|NVL|\d+ ?GB).*$")


class Measure(StrEnum):
    """The unit of a rank's capacity."""

    TOKENS = "tokens"
    GIB = "GiB"
    REQUESTS = "requests"


@dataclass(frozen=True, slots=True)
class Rank:
    """One DP rank, measured in one unit. `device` is the kind of its devices, empty where it is not reported.

    `counts` is False for stale replicas, engines that sleep and the second address of one process: no sum has them.
    `peers` are its pool and kind of device, `median` is theirs, and `off` the share above it if it is an outlier.
    """

    replica: Replica
    letter: str
    engine: Engine
    device: str
    at: RequestsAtLength
    counts: bool
    measure: Measure
    peers: tuple[str | None, str] = (None, "")
    median: float | None = None
    off: float | None = None

    @property
    def gib(self) -> float | None:
        """The KV cache in GiB."""
        return None if self.engine.kv_cache_bytes is None else self.engine.kv_cache_bytes / GIB

    @property
    def value(self) -> float | None:
        """The tokens, GiB or requests; None where unknown."""
        if self.measure is Measure.GIB:
            return self.gib
        return self.engine.kv_cache_size_tokens if self.measure is Measure.TOKENS else self.at.requests

    @property
    def is_at_most(self) -> bool:
        """Whether the value is an upper bound. Bytes never are: the provider reports them."""
        if self.measure is Measure.GIB:
            return False
        return self.engine.basis is Basis.ASSUMED if self.measure is Measure.TOKENS else self.at.at_most

    @property
    def reason(self) -> str:
        """Why the value is unknown, as a sentence."""
        if self.measure is Measure.GIB:
            return NO_BYTES if self.engine.kv_cache_bytes_per_device is None else NO_NUMBER_OF_GPUS
        if self.measure is Measure.REQUESTS and not self.at.served:
            return NOT_SERVED_AT_LENGTH
        if self.engine.reason and self.engine.kv_cache_size_tokens is None:
            return self.engine.reason
        return NO_REQUESTS if self.measure is Measure.REQUESTS else NOT_REPORTED


def ranks_of(fleet: Fleet, length: int | None, measure: Measure = Measure.TOKENS) -> tuple[Rank, ...]:
    """Return all ranks in the order of the fleet, each compared with its peers.

    Requests have `length` tokens, or each rank's own length (None).
    """
    letters = cohort_letters(fleet.pools)
    ranks = [
        rank
        for replica in fleet.replicas
        for rank in replica_ranks(fleet, replica, letters.get(replica.id, ""), length, measure)
    ]
    peers = _peers(ranks)
    values = [rank.value if rank.counts else None for rank in ranks]
    middle = medians(peers, values)
    off = {outlier.place: outlier.share for outlier in outliers(peers, values)}
    return tuple(
        replace(rank, peers=own, median=middle.get(own), off=off.get(place))
        for place, (rank, own) in enumerate(zip(ranks, peers, strict=True))
    )


def replica_ranks(
    fleet: Fleet, replica: Replica, letter: str, length: int | None = None, measure: Measure = Measure.TOKENS
) -> list[Rank]:
    """Return the ranks of one replica, compared with no other."""
    document = fleet.documents.get(replica.document or "")
    settings = document.settings if document else {}
    devices = _devices(replica)
    is_first = replica.fresh and not replica.is_second_address
    return [
        Rank(replica, letter, each, devices.get(each.dp_rank, ""), at, is_first and each.sleep_level is None, measure)
        for each in replica.engines
        for at in [_at(replica, each, settings, length)]
    ]


def _peers(ranks: Sequence[Rank]) -> list[tuple[str | None, str]]:
    """Return the pool and the kind of devices of each rank: its pool's only kind where its own is not reported."""
    kinds: dict[str | None, set[str]] = defaultdict(set)
    for rank in ranks:
        kinds[rank.replica.pool].add(rank.device)
    only = {pool: min(found - {""}, default="") if len(found - {""}) == 1 else "" for pool, found in kinds.items()}
    return [(rank.replica.pool, rank.device or only[rank.replica.pool]) for rank in ranks]


def count_without_ranks(fleet: Fleet, pool: str | None = None) -> int:
    """Count the replicas of a pool, or of all (None), without a rank that counts: not fresh, or without engines."""
    first = [each for each in fleet.replicas if not each.is_second_address and pool in {None, each.pool}]
    return sum(not (replica.fresh and replica.engines) for replica in first)


def _at(replica: Replica, engine: Engine, settings: Mapping[str, Setting], length: int | None) -> RequestsAtLength:
    if length is None:
        return RequestsAtLength(engine.max_concurrency, served=True, at_most=engine.basis is Basis.ASSUMED)
    return requests_at(engine, replica.kv_cache_groups, settings, length)


def _devices(replica: Replica) -> Mapping[int, str]:
    """Return per DP rank the name that most of its devices have."""
    names: dict[int, Counter[str]] = {}
    for device in replica.devices:
        names.setdefault(device.dp_rank, Counter())[device.name] += 1
    return {rank: min(found, key=lambda name: (-found[name], name)) for rank, found in names.items()}


def pools_of(fleet: Fleet, ranks: Iterable[Rank], length: int | None) -> tuple[PoolCapacity, ...]:
    """Return the sums of the pools with ranks that count; requests of a common `length` are added up from `ranks`."""
    found = [held for pool in fleet.pools if (held := fleet.capacity[pool.name]).ranks]
    if length is None:
        return tuple(found)
    members: dict[str | None, list[Rank]] = defaultdict(list)
    for rank in ranks:
        if rank.counts:
            members[rank.replica.pool].append(rank)
    return tuple(_at_length(held, members[held.name]) for held in found)


def _at_length(held: PoolCapacity, ranks: Sequence[Rank]) -> PoolCapacity:
    requests = add_up((added(rank.replica, rank.engine, rank.at.requests), rank.at.at_most) for rank in ranks)
    return held._replace(requests=requests, not_served=sum(not rank.at.served for rank in ranks))


def sum_of(held: PoolCapacity, measure: Measure) -> Sum:
    """Return the sum of a pool in a unit."""
    return {Measure.TOKENS: held.tokens, Measure.GIB: held.gib, Measure.REQUESTS: held.requests}[measure]


def device_words(replicas: Iterable[Replica]) -> str:
    """Return the devices of replicas' engines, the most frequent first: `H100 ×4`; empty where none are reported."""
    kinds = Counter(kind for replica in replicas for kind in _engine_devices(replica))
    names = [f"{short_device(name)} ×{number}" for (name, number), _ in kinds.most_common(MOST_DEVICES)]
    return ", ".join(names) + (", …" if len(kinds) > MOST_DEVICES else "")


def short_device(name: str) -> str:
    """Return a device name without vendor, socket and memory: `H100` of `NVIDIA H100 80GB HBM3`."""
    return _BESIDE_THE_MODEL.sub("", name).strip() or name


def _engine_devices(replica: Replica) -> list[tuple[str, int]]:
    counts = Counter((device.dp_rank, device.name) for device in replica.devices)
    return [(name, number) for (_, name), number in counts.items()]
