"""KV cache capacity of a fleet as rows: each DP rank, sums of each pool, and totals with the weakest basis."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.engines import RequestsAtLength, requests_at
from dashboard.capacity.formula import KEEPS_ALL
from dashboard.capacity.outliers import medians, outliers
from dashboard.fleet import Basis, Device, Engine, Replica, Setting, cohort_letters

GIB = 2**30
NO_BYTES = "KV cache bytes not reported. The provider reports them; stock vLLM does not."
NO_NUMBER_OF_GPUS = "Number of GPUs not reported; only the bytes on each GPU are known."
NO_REQUESTS = "KV cache groups not reported and the model is not uniform: known at its own length only."
NOT_SERVED_AT_LENGTH = "Not served: the length is above max_model_len."
NOT_REPORTED = "Not reported."
MOST_DEVICES = 2  # kinds named for one pool
CPU = "cpu"  # what vLLM's CPU platform calls its device
_BESIDE_THE_MODEL = re.compile(r"^(NVIDIA|AMD Instinct|AMD) |[- ](SXM|PCIe|HBM|NVL|\d+ ?GB).*$")
_WEAKNESS = (Basis.REPORTED, Basis.DERIVED, Basis.ASSUMED)


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


class Sum(NamedTuple):
    """A sum over the `known` ranks; None where none is known. `at_most`: one of them is an upper bound."""

    value: float | None
    known: int
    at_most: bool


class PoolCapacity(NamedTuple):
    """One pool. `naive` is the naive estimate of the ranks that report their tokens, `naive_of` the tokens they report.

    `window` is (KV cache groups that do not keep every token, all groups) of the first of them. `reasons` are why
    numbers are assumed or unknown, the most frequent first.
    """

    name: str
    ranks: int
    tokens: Sum
    requests: Sum
    gib: Sum
    not_served: int
    basis: Basis
    naive: int | None
    naive_of: int | None
    window: tuple[int, int]
    reasons: tuple[str, ...]

    def sum_of(self, measure: Measure) -> Sum:
        """Return the sum in a unit."""
        return {Measure.TOKENS: self.tokens, Measure.GIB: self.gib, Measure.REQUESTS: self.requests}[measure]


def pools_of(ranks: Iterable[Rank]) -> tuple[PoolCapacity, ...]:
    """Return the sums of every pool, in the order of the ranks; ranks without a pool are left out."""
    members: dict[str, list[Rank]] = defaultdict(list)
    for rank in ranks:
        if rank.counts and rank.replica.pool is not None:
            members[rank.replica.pool].append(rank)
    return tuple(_pool(name, pool) for name, pool in members.items())


def _pool(name: str, ranks: Sequence[Rank]) -> PoolCapacity:
    engines = [rank.engine for rank in ranks]
    reporting = [rank for rank in ranks if _reports_both(rank.engine)]
    reasons = Counter(engine.reason for engine in engines if engine.reason)
    size = _sum((engine.kv_cache_bytes, False) for engine in engines)
    return PoolCapacity(
        name=name,
        ranks=len(ranks),
        tokens=_sum(
            (_added(rank, rank.engine.kv_cache_size_tokens), rank.engine.basis is Basis.ASSUMED) for rank in ranks
        ),
        requests=_sum((_added(rank, rank.at.requests), rank.at.at_most) for rank in ranks),
        gib=size._replace(value=None if size.value is None else size.value / GIB),
        not_served=sum(not rank.at.served for rank in ranks),
        basis=_weakest_basis(engines),
        naive=sum(rank.engine.naive_tokens or 0 for rank in reporting) if reporting else None,
        naive_of=sum(rank.engine.kv_cache_size_tokens or 0 for rank in reporting) if reporting else None,
        window=_window(reporting),
        reasons=tuple(reason for reason, _ in reasons.most_common()),
    )


def _added(rank: Rank, held: float | None) -> float | None:
    """Return what a rank adds to its pool: of ranks that report one sum, the first adds it."""
    is_counted = rank.engine.shares_sum and rank.engine.dp_rank != rank.replica.engines[0].dp_rank
    return 0 if is_counted and held is not None else held


def _sum(values: Iterable[tuple[float | None, bool]]) -> Sum:
    known = [(value, at_most) for value, at_most in values if value is not None]
    if not known:
        return Sum(None, 0, at_most=False)
    return Sum(sum(value for value, _ in known), len(known), at_most=any(at_most for _, at_most in known))


def _reports_both(engine: Engine) -> bool:
    is_exact = engine.basis in {Basis.REPORTED, Basis.DERIVED}
    return is_exact and engine.naive_tokens is not None and engine.kv_cache_size_tokens is not None


def _window(ranks: Sequence[Rank]) -> tuple[int, int]:
    for rank in ranks:
        groups = [group for group in rank.replica.kv_cache_groups if group.dp_rank == rank.engine.dp_rank]
        if groups:
            return sum(group.spec_type not in KEEPS_ALL for group in groups), len(groups)
    return 0, 0


def _weakest_basis(engines: Iterable[Engine]) -> Basis:
    bases = {engine.basis for engine in engines if engine.kv_cache_size_tokens is not None}
    return max(bases, key=_WEAKNESS.index, default=Basis.UNKNOWN)


class Total(NamedTuple):
    """Sums over engines; None where no engine reports. `unknown` counts engines without tokens.

    `noun` is the word for one device. `whole`: bytes and devices are known of all engines; else they are lower bounds.
    """

    tokens: int | None
    bytes: int | None
    devices: int
    engines: int
    unknown: int
    basis: Basis
    whole: bool
    noun: str


def total(replicas: Iterable[Replica]) -> Total:
    """Add up the engines of the fresh replicas, each process once."""
    fresh = [replica for replica in replicas if replica.fresh and not replica.is_second_address]
    engines = [engine for replica in fresh for engine in replica.engines if engine.sleep_level is None]
    known = [engine for engine in engines if engine.kv_cache_size_tokens is not None]
    sizes = [engine.kv_cache_bytes for engine in engines if engine.kv_cache_bytes is not None]
    return Total(
        tokens=sum(each.kv_cache_size_tokens or 0 for one in fresh for each in one.adding_engines) if known else None,
        bytes=sum(sizes) if sizes else None,
        devices=sum(len(replica.devices) for replica in fresh),
        engines=len(engines),
        unknown=len(engines) - len(known),
        basis=_weakest_basis(engines),
        whole=len(sizes) == len(engines) and all(replica.devices for replica in fresh),
        noun=device_noun(device for replica in fresh for device in replica.devices),
    )


def device_words(replicas: Iterable[Replica]) -> str:
    """Return the devices of replicas' engines, the most frequent first: `H100 ×4`; empty where none are reported."""
    kinds = Counter(kind for replica in replicas for kind in _engine_devices(replica))
    names = [f"{short_device(name)} ×{number}" for (name, number), _ in kinds.most_common(MOST_DEVICES)]
    return ", ".join(names) + (", …" if len(kinds) > MOST_DEVICES else "")


def device_noun(devices: Iterable[Device]) -> str:
    """Return the word for these devices: `GPU`, or `device` where one of them is a CPU (vLLM's name: `cpu`)."""
    return "device" if any(device.name.lower() == CPU for device in devices) else "GPU"


def short_device(name: str) -> str:
    """Return a device name without vendor, socket and memory: `H100` of `NVIDIA H100 80GB HBM3`."""
    return _BESIDE_THE_MODEL.sub("", name).strip() or name


def _engine_devices(replica: Replica) -> list[tuple[str, int]]:
    counts = Counter((device.dp_rank, device.name) for device in replica.devices)
    return [(name, number) for (_, name), number in counts.items()]
