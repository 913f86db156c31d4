"""Stand-ins for the modules of vLLM 0.32.0 that the provider imports, one set per process."""

import enum
import hashlib
import os
import pickle
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry

from tests.captured import SERVER_INFO, VERSION, Capture


class Dtype:
    """torch.dtype, whose name is its text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


Dtype.__module__, Dtype.__name__ = "torch", "dtype"


class MambaAttentionBackendEnum(enum.Enum):
    """Backends by the path of their class (vllm/v1/attention/backends/registry.py)."""

    MAMBA2 = "vllm.v1.attention.backends.mamba2_attn.Mamba2AttentionBackend"


def modules(server: Capture) -> dict[str, ModuleType]:
    """The modules of one process, by name."""
    return {
        "vllm": module("vllm", __version__=server.json(VERSION)["version"]),
        "vllm.envs": module("vllm.envs", environment_variables={}, **server.json(SERVER_INFO).get("vllm_env", {})),
        "vllm.config": module("vllm.config"),
        "vllm.config.utils": module("vllm.config.utils", normalize_value=lambda value: value),
        "vllm.platforms": module("vllm.platforms", current_platform=_Platform()),
        "vllm.distributed": (state := _parallel_state())[0],
        "vllm.distributed.parallel_state": state[1],
        "vllm.v1.core.kv_cache_utils": _kv_cache_utils(),
        "vllm.v1.engine.core": module(
            "vllm.v1.engine.core",
            EngineCore=type("EngineCore", (SimpleNamespace,), {}),
            get_hash_fn_by_name=HASH_FUNCTIONS.__getitem__,
        ),
        "vllm.renderers.chat_utils": module("vllm.renderers.chat_utils", load_chat_template=lambda given: given),
        "vllm.renderers.hf": module("vllm.renderers.hf", resolve_chat_template=_resolve_chat_template),
    }


def metrics_modules(registry: CollectorRegistry, reader: type) -> dict[str, ModuleType]:
    """The modules of the Prometheus client of one API server, with its own registry and reader of files."""
    return {
        "prometheus_client": module("prometheus_client", REGISTRY=registry, __path__=prometheus_client.__path__),
        "prometheus_client.multiprocess": module("prometheus_client.multiprocess", MultiProcessCollector=reader),
    }


def module(name: str, **attributes: Any) -> ModuleType:
    """A module of that name."""
    made = ModuleType(name)
    vars(made).update(attributes)
    return made


def sha256(value: Any) -> bytes:
    """As vllm/utils/hashing.py has it."""
    return hashlib.sha256(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)).digest()


def sha256_cbor(value: Any) -> bytes:
    """A serialization other than pickle's, without the CBOR package."""
    return hashlib.sha256(repr(value).encode()).digest()


def xxhash(value: Any) -> bytes:
    """Sixteen bytes of a function other than SHA-256, without the xxhash package."""
    return hashlib.blake2b(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL), digest_size=16).digest()


HASH_FUNCTIONS: dict[str, Callable[[Any], bytes]] = {"sha256": sha256, "sha256_cbor": sha256_cbor, "xxhash": xxhash}


def _kv_cache_utils() -> ModuleType:
    """vllm/v1/core/kv_cache_utils.py: the root of the hashes is a global of the process that is set at its start."""
    utils = module("vllm.v1.core.kv_cache_utils", DEFAULT_NONE_HASH_SEED="vllm-none-hash")

    def init_none_hash(function: Callable[[Any], bytes]) -> None:
        seed = os.getenv("PYTHONHASHSEED")
        if seed is None:
            seed = os.urandom(32).hex() if function is xxhash else "vllm-none-hash"
        vars(utils)["NONE_HASH"] = function(seed)

    def hash_block_tokens(function: Callable[[Any], bytes], parent: Any, tokens: Sequence[int], extra: Any) -> bytes:
        return function((parent or vars(utils)["NONE_HASH"], tuple(tokens), extra))

    vars(utils).update(init_none_hash=init_none_hash, hash_block_tokens=hash_block_tokens)
    return utils


def _parallel_state() -> tuple[ModuleType, ModuleType]:
    state = module("vllm.distributed.parallel_state", tensor_rank=0)
    vars(state).update(
        get_tp_group=lambda: SimpleNamespace(rank_in_group=vars(state)["tensor_rank"]),
        get_pp_group=lambda: SimpleNamespace(rank_in_group=0),
    )
    return module("vllm.distributed", parallel_state=state), state


class _Platform:
    """vLLM's platform, with the device of one process."""

    device: dict[str, Any]

    def get_device_capability(self, _index: int) -> Any:
        capability = self.device["compute_capability"]
        return capability and SimpleNamespace(**capability)

    def get_device_name(self, _index: int) -> str:
        return str(self.device["name"])

    def get_device_total_memory(self, _index: int) -> int:
        return int(self.device["total_memory_bytes"])

    def num_compute_units(self, _index: int) -> int:
        return int(self.device["num_compute_units"])


def _resolve_chat_template(tokenizer: Any, given: str | None, tools: None, *, model_config: Any) -> str | None:
    assert model_config is not None
    return str(tokenizer.chat_template if given is None else tokenizer.get_chat_template(given, tools=tools))
