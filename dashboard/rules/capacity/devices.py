"""CP-07, CP-12 and CP-14: devices that differ, memory of a device that no block uses, engines that sleep."""

import json
from collections import defaultdict
from collections.abc import Iterator

from dashboard.compare.holders import group_by_value
from dashboard.fleet import Replica, SettingValue, Source, State
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import value
from dashboard.rules.capacity.kv_cache import BLOCKS_OVERRIDE, DEVICE, GIB, MEMORY, PROCESSES
from dashboard.rules.connector_options import native
from dashboard.rules.differences import majority, split
from dashboard.rules.findings import Confidence, Draft, Evidence, Remedy, Snippet, UnevaluatedReplicas
from dashboard.rules.registry import rule
from dashboard.rules.sentences import write
from dashboard.rules.subject import PoolSubject, setting_value

POOL_LENGTH = 100  # characters of a pool's name to paste
USED, AVAILABLE = "engines.kv_cache_bytes_per_device", "engines.kv_cache_available_bytes"
MAX_BYTES = 2**63  # a larger number is no size
LEVEL = "engines.sleep_level"
NO_METRICS = "/metrics was read on no replica."
WAKE_UP = Remedy(
    "Wake these engines up before they get requests (`POST /wake_up` in development mode), or take the replicas out of "
    "the router."
)


@rule("CP-07", needs=("devices",))
def devices_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool run on different device types."""
    types = group_by_value({each.id: _device_type(each) for each in pool.members if each.devices})
    if len(types) <= 1:
        return
    other = json.dumps(f"{pool.name[:POOL_LENGTH]}-other", ensure_ascii=False)
    fix = Remedy(
        "Use one pool per device type: set the label `pool` on the targets in fleet.yaml.",
        (Snippet("yaml", f"labels:\n  pool: {other}"),),
    )
    yield split(DEVICE, types, majority(types), write("Devices differ: "), fix, noun="type")


def _device_type(replica: Replica) -> SettingValue:
    """Return the device types of a replica; the id of a finding depends on this spelling."""
    names = sorted({device.name for device in replica.devices})
    return SettingValue(json.dumps(names[0] if len(names) == 1 else names, ensure_ascii=False), State.REPORTED)


@rule("CP-12", needs=("engines",), least=1)
def kv_cache_memory_stranded(pool: PoolSubject, *, share: float = 0.05) -> Iterator[Draft]:
    """Memory is reserved for the KV cache on a device, but no block uses it.

    An engine measures the available memory on its first device at start; the provider reports it. Else
    `--kv-cache-memory-bytes` counts. Its blocks use memory on each device; `share` of the available memory may be
    unused.
    """
    for (source, available, used), ids in _stranded(pool, share).items():
        replicas = tuple(sorted(ids))
        unused = value(f"{(available - used) / GIB:,.1f} GiB")
        yield Draft(
            replicas,
            write(unused, f" of {available / GIB:,.1f} GiB for the KV cache is unused on a device."),
            (
                Evidence(USED, json.dumps(used), State.REPORTED, replicas),
                Evidence(source, json.dumps(available), State.REPORTED, replicas, is_reference=True),
            ),
            Remedy(
                "Free the same memory on all devices: end other processes on the smallest one and restart.",
                (Snippet("shell", PROCESSES),),
            ),
            Confidence.DERIVED,
        )


def _stranded(pool: PoolSubject, share: float) -> dict[tuple[str, int, int], set[str]]:
    """Return by (source of the available bytes, available, used) the replicas with such an engine."""
    found: dict[tuple[str, int, int], set[str]] = defaultdict(set)
    configured = pool.of_documents(lambda settings: (native(settings, MEMORY), native(settings, BLOCKS_OVERRIDE)))
    for member, engine in pool.engines():
        size, override = configured[member.id]
        source, available = MEMORY, size
        if engine.kv_cache_available_bytes:
            source, available = AVAILABLE, engine.kv_cache_available_bytes
        used = engine.kv_cache_bytes_per_device
        if not isinstance(available, int) or available > MAX_BYTES or not used or override is not None:
            continue
        if available - used > share * available:
            found[source, available, used].add(member.id)
    return found


@rule("CP-14")
def engine_sleeps(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """Engines are asleep.

    Level 0 pauses the scheduler, level 1 offloads the weights to host memory, level 2 discards them. At levels 1 and 2
    the KV cache is discarded, too.
    """
    silent = tuple(each.id for each in pool.members if Source.METRICS not in each.sources or each.same_digest_as)
    if silent:
        yield UnevaluatedReplicas(silent, NO_METRICS if len(silent) == len(pool.members) else "")
    asleep: dict[int, list[str]] = defaultdict(list)
    for replica, engine in pool.engines():
        if engine.sleep_level is not None:
            asleep[engine.sleep_level].append(replica.id)
    for level, replicas in sorted(asleep.items()):
        names = tuple(dict.fromkeys(replicas))
        yield Draft(
            names,
            write(
                count(len(replicas), "engine"),
                f" {'is' if len(replicas) == 1 else 'are'} asleep, level ",
                value(str(level)),
                ".",
            ),
            (Evidence(LEVEL, *setting_value(level), names),),
            WAKE_UP,
        )
