"""KV cache capacity of a pool, of a fleet or of some replicas: the only module that adds up tokens of DP ranks.

Everything that shows a sum reads it here, or adds up the column of ranks that `adds` of the frame `engines`.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from dashboard.fleet import Basis, Replica

GIB = 2**30
CPU = "cpu"  # what vLLM's CPU platform calls its device
_WEAKNESS = (Basis.UNKNOWN, Basis.REPORTED, Basis.DERIVED, Basis.ASSUMED)


class Sum(NamedTuple):
    """A sum over the `known` ranks; None where none is known. `at_most`: one of them is an upper bound."""

    value: float | None
    known: int
    at_most: bool


NO_SUM = Sum(None, 0, at_most=False)


class PoolCapacity(NamedTuple):
    """KV cache of the fresh replicas of a pool or a fleet, each process once, without ranks that sleep.

    `requests` have each rank's own length; of a common length, `not_served` ranks take none. `basis` is the weakest of
    the tokens. `naive` is the naive estimate of the ranks that report their tokens, `naive_of` the tokens they report.
    `reasons` are why numbers are assumed or unknown, the most frequent first. `noun` is the word for one device.
    `whole`: bytes and devices are known of all ranks; else they are lower bounds. `silent` replicas are stale or
    report no ranks.
    """

    name: str
    ranks: int
    tokens: Sum
    requests: Sum
    bytes: Sum
    not_served: int
    basis: Basis
    naive: int | None
    naive_of: int | None
    reasons: tuple[str, ...]
    devices: int
    noun: str
    whole: bool
    silent: int = 0

    @property
    def gib(self) -> Sum:
        return self.bytes._replace(value=None if self.bytes.value is None else self.bytes.value / GIB)

    @property
    def unknown(self) -> int:
        """The number of ranks without tokens."""
        return self.ranks - self.tokens.known

    @property
    def unsized(self) -> int:
        """The number of ranks without bytes."""
        return self.ranks - self.bytes.known


def capacity_of(replicas: Iterable[Replica], name: str = "") -> PoolCapacity:
    """Add up the ranks of some replicas. Stale ones, second addresses and ranks that sleep add nothing.

    A sum is that of the ranks whose number is known. Of ranks that report one sum together the first adds it.
    """
    first = [replica for replica in replicas if not replica.is_second_address]
    counted = [replica for replica in first if replica.fresh]
    ranks = [(replica, engine) for replica in counted for engine in replica.engines if engine.sleep_level is None]
    tokens: list[tuple[float | None, bool]] = []
    requests: list[tuple[float | None, bool]] = []
    for replica, engine in ranks:
        is_bound = engine.basis is Basis.ASSUMED
        is_in_another = engine.shares_sum and engine not in replica.adding_engines
        for values, value in ((tokens, engine.kv_cache_size_tokens), (requests, engine.max_concurrency)):
            values.append((0 if is_in_another and value is not None else value, is_bound))
    exact = (engine for _, engine in ranks if engine.basis in {Basis.REPORTED, Basis.DERIVED})
    reporting = [each for each in exact if None not in (each.naive_tokens, each.kv_cache_size_tokens)]
    reasons = Counter(engine.reason for _, engine in ranks if engine.reason)
    size = _add_up((engine.kv_cache_bytes, False) for _, engine in ranks)  # the provider reports them: no upper bounds
    bases = {engine.basis for _, engine in ranks if engine.kv_cache_size_tokens is not None}
    return PoolCapacity(
        name=name,
        ranks=len(ranks),
        tokens=_add_up(tokens),
        requests=_add_up(requests),
        bytes=size,
        not_served=0,
        basis=max(bases, key=_WEAKNESS.index, default=Basis.UNKNOWN),
        naive=sum(engine.naive_tokens or 0 for engine in reporting) if reporting else None,
        naive_of=sum(engine.kv_cache_size_tokens or 0 for engine in reporting) if reporting else None,
        reasons=tuple(reason for reason, _ in reasons.most_common()),
        devices=sum(len(replica.devices) for replica in counted),
        noun=device_noun(device.name for replica in counted for device in replica.devices),
        whole=size.known == len(ranks) and all(replica.devices for replica in counted),
        silent=sum(not (replica.fresh and replica.engines) for replica in first),
    )


def _add_up(values: Iterable[tuple[float | None, bool]]) -> Sum:
    """Add up known values, each with whether it is an upper bound."""
    known = [(value, at_most) for value, at_most in values if value is not None]
    if not known:
        return NO_SUM
    return Sum(sum(value for value, _ in known), len(known), at_most=any(at_most for _, at_most in known))


def device_noun(names: Iterable[str]) -> str:
    """Return the word for devices with these names: `GPU`, or `device` where one is a CPU (vLLM's name: `cpu`)."""
    return "device" if any(name.lower() == CPU for name in names) else "GPU"
