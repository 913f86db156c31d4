"""The description of a simulated fleet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeAlias

Value: TypeAlias = bool | int | float | str | tuple[int | str, ...] | None


class Speaks(StrEnum):
    """Configuration endpoints that a replica may answer in addition to the open ones."""

    SERVER_INFO = "/server_info"
    INFERENCE_CONFIG = "/inference/v1/config"
    CONFIG = "/v1/config"
    PLUGIN = "/plugins/llm-d-server-introspection"
    PROVIDER = "our provider"  # at both paths of the configuration API, for each engine


class Behaviour(StrEnum):
    """How a replica answers."""

    NORMAL = "normal"
    DOWN = "down"  # nothing listens at its address
    SLOW = "slow"  # the head at once, then one byte a second
    HTML = "html"  # a page for people on every path
    HALF = "half"  # half of each body, well framed


@dataclass(frozen=True, slots=True)
class Gpu:
    """An accelerator as CUDA names it; memory in bytes."""

    name: str
    total_memory_bytes: int
    compute_capability: tuple[int, int]
    compute_units: int


@dataclass(frozen=True, slots=True)
class Model:
    """The properties of a model that determine its memory. Weights are bytes over all devices.

    Every `full_every`-th layer has full attention (1: all), the others attend to `sliding_window` tokens.
    With `mla` a layer caches one latent head of `head_size`, the same on each device.
    """

    path: str
    layers: int
    kv_heads: int
    head_size: int
    dense_bytes: int
    expert_bytes: int = 0
    mla: bool = False
    sliding_window: int | None = None
    full_every: int = 1
    quantization: str | None = None


@dataclass(frozen=True, slots=True)
class Configuration:
    """The common configuration of replicas. `settings` are paths of `VllmConfig`, such as `cache_config.block_size`.

    `environment` are variables (name, text), without those that only open an endpoint.
    `ranks_per_server` is the number of data-parallel engines behind one address.
    """

    served_name: str
    model: Model
    gpu: Gpu
    version: str = "0.32.0"
    tensor_parallel_size: int = 1
    data_parallel_size: int = 1
    ranks_per_server: int = 1
    kv_role: Literal["kv_producer", "kv_consumer"] | None = None
    kv_events: bool = False
    settings: tuple[tuple[str, Value], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


class Prefixes(NamedTuple):
    """A `share` of all requests: each begins with one of `number` prefixes that a router keeps on one engine."""

    share: float
    number: int
    tokens: int
    own_tokens: int  # of a prompt, after the prefix


class Workload(NamedTuple):
    """The requests of a pool of `engines`, and its router. The prefixes in most use are first.

    A router by prefix hash computes those of an algorithm (None: of any with a fixed root) and a block size.
    """

    per_minute: float = 0.0  # requests, to one engine
    prefixes: tuple[Prefixes, ...] = ()
    output_tokens: int = 1
    seconds_per_output_token: float = 0.0
    prefill_tokens_per_second: float = 1.0
    engines: int = 1
    router: Literal["prefix-hash", "approximate", "none"] = "none"
    hash_algorithm: str | None = None
    block_size: int = 16


NO_REQUESTS = Workload()


@dataclass(frozen=True, slots=True)
class DemoReplica:
    """One address of the fleet. `dp_rank` is the rank of its first engine, `uptime_seconds` its age at the start.

    `before` is its configuration before that, if it had another one.
    """

    address: str
    name: str
    configuration: Configuration
    labels: Mapping[str, str] = field(default_factory=dict)
    speaks: frozenset[Speaks] = frozenset()
    behaviour: Behaviour = Behaviour.NORMAL
    api_key: str | None = None
    dp_rank: int = 0
    uptime_seconds: float = 86_400.0
    memory_taken_bytes: int = 0  # by another process, on each of its devices
    workload: Workload = NO_REQUESTS
    before: Configuration | None = None
    seed: int = 0

    def draw(self, what: str, below: int) -> int:
        """Return a number in [0, `below`), determined by seed, address and `what`."""
        digest = sha256(f"{self.seed} {self.address} {what}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % below


def targets(fleet: Sequence[DemoReplica], port: int) -> list[dict[str, Any]]:
    """Return the fleet in Prometheus' `file_sd` format, one entry per replica."""
    return [
        {"targets": [f"{replica.address}:{port}"], "labels": {"name": replica.name, **replica.labels}}
        for replica in fleet
    ]
