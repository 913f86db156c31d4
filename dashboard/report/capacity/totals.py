"""KV cache capacity added up for a glance: tokens, bytes and devices, with the weakest basis of what was added."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from dashboard.fleet import Basis, Device, Replica

MOST_DEVICES = 2  # kinds named for one pool
CPU = "cpu"  # what vLLM's CPU platform calls its device
_BESIDE_THE_MODEL = re.compile(r"^(NVIDIA|AMD Instinct|AMD) |[- ](SXM|PCIe|HBM|NVL|\d+ ?GB).*$")
_WEAKNESS = (Basis.REPORTED, Basis.DERIVED, Basis.ASSUMED)


class Total(NamedTuple):
    """Sums over engines, None when no engine tells. `unknown` counts engines without tokens.

    `noun` is what one of `devices` is called. `whole` says whether bytes and devices are known of all; else their
    sums are what there is at least.
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
    """Add up the engines of the fresh replicas, each process once; what others last said no longer serves requests."""
    fresh = [replica for replica in replicas if replica.fresh and not replica.is_second_address]
    engines = [engine for replica in fresh for engine in replica.engines]
    known = [engine for engine in engines if engine.kv_cache_size_tokens is not None]
    sizes = [engine.kv_cache_bytes for engine in engines if engine.kv_cache_bytes is not None]
    bases = {engine.basis for engine in known}
    return Total(
        tokens=sum(each.kv_cache_size_tokens or 0 for one in fresh for each in one.adding_engines) if known else None,
        bytes=sum(sizes) if sizes else None,
        devices=sum(len(replica.devices) for replica in fresh),
        engines=len(engines),
        unknown=len(engines) - len(known),
        basis=max(bases, key=_weakness, default=Basis.UNKNOWN),
        whole=len(sizes) == len(engines) and all(replica.devices for replica in fresh),
        noun=device_noun(device for replica in fresh for device in replica.devices),
    )


def device_words(replicas: Iterable[Replica]) -> str:
    """Name the devices of a pool's engines, most first: `H100 ×4`; empty when no reply tells them."""
    kinds = Counter(kind for replica in replicas for kind in _engine_devices(replica))
    names = [f"{short_device(name)} ×{number}" for (name, number), _ in kinds.most_common(MOST_DEVICES)]
    return ", ".join(names) + (", …" if len(kinds) > MOST_DEVICES else "")


def device_noun(devices: Iterable[Device]) -> str:
    """Call devices by what they are: `GPU`, or `device` where one of them is a CPU (vLLM names it `cpu`)."""
    return "device" if any(device.name.lower() == CPU for device in devices) else "GPU"


def short_device(name: str) -> str:
    """Leave out vendor, socket and memory: `NVIDIA H100 80GB HBM3` is `H100`."""
    return _BESIDE_THE_MODEL.sub("", name).strip() or name


def _engine_devices(replica: Replica) -> list[tuple[str, int]]:
    counts = Counter((device.dp_rank, device.name) for device in replica.devices)
    return [(name, number) for (_, name), number in counts.items()]


def _weakness(basis: Basis) -> int:
    return _WEAKNESS.index(basis) if basis in _WEAKNESS else -1
