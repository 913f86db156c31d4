"""Stand-ins for vLLM's objects, built from captures: engine processes, their workers, the API server."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import make_dataclass
from functools import cache
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import httpx2
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from pydantic.dataclasses import dataclass as pydantic_dataclass

from tests.captured import INFERENCE_CONFIG, MODELS, SERVER_INFO, Capture, capture
from tests.provider.vllm_modules import Dtype, MambaAttentionBackendEnum, metrics_modules, modules
from tests.provider_answers import lookahead
from vllm_fleet_provider.plugin import endpoint, register
from vllm_fleet_provider.shared.paths import OBJECTS

CONFIG = "/inference/v1/config"
CPU = {"rank": 0, "name": "cpu", "total_memory_bytes": 25276510208, "compute_capability": None, "num_compute_units": 1}
OF_ITS_MODEL = {"./llama": "llama", "./gemma3": "gemma3", "./qwen3": "qwen3_xxhash"}
SERVING = {"VLLM_PLUGINS": "fleet_config"}


def thing(name: str, /, **attributes: Any) -> Any:
    """An object of a separate class, so that its attributes can be deleted or made to raise."""
    return type(name, (SimpleNamespace,), {})(**attributes)


def broken(owner: Any, name: str) -> None:
    """Make reading an attribute raise an unexpected error with a secret in its message."""

    def read(_: Any) -> Any:
        raise RuntimeError("SESAME")

    setattr(type(owner), name, property(read))


def put(owner: Any, path: str, value: Any) -> None:
    """Set the attribute at a path below an object."""
    above, _, name = path.rpartition(".")
    setattr(attrgetter(above)(owner) if above else owner, name, value)


def vllm_config_of(server: Capture) -> Any:
    """The captured `VllmConfig` of a server as pydantic dataclasses, like vLLM's."""
    config = _section("VllmConfig", server.json(SERVER_INFO)["vllm_config"], "")
    is_async, stages = config.scheduler_config.async_scheduling, config.parallel_config.pipeline_parallel_size
    config.max_concurrent_batches = stages + 1 if is_async else stages
    if server.version == "0.33.0":
        config.num_hash_lookahead_tokens = lookahead(server)
    model, groups = config.model_config, captured_groups(server)
    model.get_total_num_kv_heads = lambda: groups[0].get("num_kv_heads", 0)
    model.get_head_size = lambda: groups[0].get("head_size", 0)
    model.get_total_num_hidden_layers = lambda: sum(len(group["layer_names"]) for group in groups)
    return config


def kv_cache_config_of(server: Capture) -> Any:
    """The `KVCacheConfig` of one engine: one allocation, in which every layer has its offset."""
    groups, blocks = captured_groups(server), blocks_of(server)
    size = blocks * max(group["page_size_bytes"] * len(group["layer_names"]) for group in groups)
    return thing(
        "KVCacheConfig",
        num_blocks=blocks,
        kv_cache_groups=[
            thing("KVCacheGroupSpec", layer_names=group["layer_names"], kv_cache_spec=_spec(group)) for group in groups
        ],
        kv_cache_tensors=[thing("KVCacheTensor", size=size, block_stride=64, host_resident=False) for _ in range(2)],
        hash_block_size=groups[0]["block_size"],
        cache_hit_alignment_tokens=groups[0]["block_size"],
    )


def captured_groups(server: Capture) -> list[dict[str, Any]]:
    """The captured KV cache groups of a server, or those of another capture of its model."""
    asked = server if INFERENCE_CONFIG in server.answers else capture(OF_ITS_MODEL[server.launch["command"][2]])
    return list(asked.json(INFERENCE_CONFIG)["kv_cache"]["groups"])


def captured_devices(server: Capture) -> list[dict[str, Any]]:
    """The captured devices of a server."""
    return server.json(INFERENCE_CONFIG)["devices"] if INFERENCE_CONFIG in server.answers else [CPU]


def blocks_of(server: Capture) -> int:
    """The blocks of one engine: /server_info reports the sum of all engines."""
    config = server.json(SERVER_INFO)["vllm_config"]
    return int(config["cache_config"]["num_gpu_blocks"]) // int(config["parallel_config"]["data_parallel_size"])


class EngineProcess:
    """A process that runs one engine: its modules, its environment, its `EngineCore`, started as vLLM starts it."""

    def __init__(
        self, server: Capture, rank: int = 0, *, environ: Mapping[str, str] | None = None, algorithm: str | None = None
    ) -> None:
        self.environ = {**SERVING, **(environ or {})}
        self.modules = modules(server)
        self.config = vllm_config_of(server)
        self.config.cache_config.num_gpu_blocks = blocks_of(server)
        if algorithm:
            self.config.cache_config.prefix_caching_hash_algo = algorithm
        workers = [_worker(device) for device in captured_devices(server)]
        self.core = self.modules["vllm.v1.engine.core"].EngineCore()
        self.core.vllm_config = self.config
        self.core.engine_index = rank
        self.core.scheduler = thing("Scheduler", kv_cache_config=kv_cache_config_of(server))
        self.core.model_executor = thing("Executor", collective_rpc=lambda read: [self._at(w, read) for w in workers])
        self.core.request_block_hasher = None
        self.core.available_gpu_memory_for_kv_cache = 2**31
        self.asked = 0
        with self.inside():
            register()
            self.begin_hashing()

    def begin_hashing(self, *, for_connector: bool = False) -> None:
        """Do what `EngineCore.__init__` does if prefix caching is on or a KV connector needs hashes."""
        self.core.request_block_hasher = None
        if self.config.cache_config.enable_prefix_caching or for_connector:
            function = self.modules["vllm.v1.engine.core"].get_hash_fn_by_name(
                self.config.cache_config.prefix_caching_hash_algo
            )
            self.modules["vllm.v1.core.kv_cache_utils"].init_none_hash(function)
            self.core.request_block_hasher = lambda _request: []

    @property
    def kv_cache_config(self) -> Any:
        """The `KVCacheConfig` of the scheduler."""
        return self.core.scheduler.kv_cache_config

    def call(self, method: str) -> str:
        """Run a utility method of the engine, inside its process."""
        self.asked += 1
        with self.inside():
            return str(getattr(self.core, method)())

    def description(self) -> dict[str, Any]:
        """The description of the engine, parsed as strict JSON."""
        return dict(strictly(self.call("fleet_config")))

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Run in this process: its modules, its environment."""
        before = {name: sys.modules.get(name) for name in self.modules}
        outer = {name: os.environ.get(name) for name in ("PYTHONHASHSEED", "VLLM_PLUGINS")}
        sys.modules.update(self.modules)
        _set(os.environ, {name: self.environ.get(name) for name in outer})
        try:
            yield
        finally:
            _set(sys.modules, before)
            _set(os.environ, outer)

    def _at(self, worker: Any, read: Any) -> Any:
        """Run a function that an engine sends to a worker, in the worker's process."""
        self.modules["vllm.platforms"].current_platform.device = worker.captured
        self.modules["vllm.distributed.parallel_state"].tensor_rank = worker.rank  # type: ignore[attr-defined]
        return read(worker)


class ApiServer:
    """vLLM's API server in front of engines: an application with the plugin, and one event loop."""

    def __init__(self, server: Capture, engines: Sequence[EngineProcess], client: Any = None) -> None:
        self.engines = list(engines)
        self.registry = CollectorRegistry()
        self.reader = type("MultiProcessCollector", (MultiProcessCollector,), {})
        self.modules = {**modules(server), **metrics_modules(self.registry, self.reader)}
        self.config = vllm_config_of(server)
        self.client = client or thing("AsyncLLM", engine_core=EngineClient(self.engines), vllm_config=self.config)
        self.tokenizer = thing(
            "Tokenizer", chat_template="{{ messages }}", get_chat_template=lambda given, tools: tools or given
        )
        self.client.renderer = thing("Renderer", tokenizer=self.tokenizer)
        cards = server.json(MODELS)["data"]
        self.state = thing(
            "State",
            vllm_config=self.config,
            engine_client=self.client,
            args=thing(
                "Namespace",
                chat_template=None,
                chat_template_content_format="auto",
                tool_call_parser=None,
                enable_auto_tool_choice=False,
                structured_outputs_config=thing("StructuredOutputsConfig", reasoning_parser=""),
            ),
            openai_serving_models=thing(
                "OpenAIServingModels",
                base_model_paths=[thing("BaseModelPath", name=card["id"]) for card in cards if not card["parent"]],
                lora_requests={},
            ),
        )
        self.argv = server.launch["command"]
        self.app = FastAPI()
        self.plugin = endpoint()
        self.plugin.attach_router(self.app)
        self.runner = asyncio.Runner()

    def start(self, *, engine: bool = True) -> None:
        """Run the plugin's part of the server's start; `engine`: whether this server has one."""
        self.runner.run(self._start(self.client if engine else None))

    def get(self, query: str = "", path: str = CONFIG, **headers: str) -> httpx2.Response:
        """One GET, headers named with underscores."""
        return self.runner.run(self._get(path + query, headers))

    def json(self, query: str = "") -> dict[str, Any]:
        """The answer to one GET, parsed as strict JSON."""
        answer = self.get(query)
        assert answer.status_code == 200, answer.text
        return dict(strictly(answer.text))

    def scrape(self) -> str:
        """One GET of /metrics, as prometheus_fastapi_instrumentator answers it in a thread."""

        def scraped() -> str:
            registry = self.registry
            if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
                registry = CollectorRegistry()
                self.reader(registry)
            return generate_latest(registry).decode()

        return self.runner.run(asyncio.to_thread(scraped))

    def load(self, name: str, path: str) -> None:
        """Load a LoRA adapter, as POST /v1/load_lora_adapter does."""
        self.state.openai_serving_models.lora_requests[name] = thing("LoRARequest", lora_name=name, lora_path=path)

    async def _start(self, client: Any) -> None:
        before = {name: sys.modules.get(name) for name in self.modules}
        argv, sys.argv = sys.argv, self.argv
        sys.modules.update(self.modules)
        try:
            await self.plugin.init_state(client, self.state, self.state.args)
        finally:
            sys.argv = argv
            _set(sys.modules, before)

    async def _get(self, url: str, headers: Mapping[str, str]) -> httpx2.Response:
        transport = httpx2.ASGITransport(self.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://vllm") as client:
            return await client.get(url, headers={name.replace("_", "-"): text for name, text in headers.items()})


class EngineClient:
    """The API server's client of its engines in vLLM 0.32.0; None is an engine whose process has no provider."""

    def __init__(self, engines: Sequence[EngineProcess | None]) -> None:
        self.engines = engines

    @property
    def core_engines(self) -> list[bytes]:
        """The identity of each engine: its DP rank."""
        return [rank.to_bytes(2, "little") for rank in range(len(self.engines))]

    async def _call_utility_async(self, method: str, *, engine: bytes) -> str:
        asked = self.engines[int.from_bytes(engine, "little")]
        if asked is None:
            raise RuntimeError(f"Call to {method} method failed: 'DPEngineCoreProc' has no attribute '{method}'")
        return asked.call(method)

    async def call_utility_all_async(self, method: str) -> list[str]:
        """Ask all engines: one failure is the failure of all."""
        return [await self._call_utility_async(method, engine=engine) for engine in self.core_engines]


def strictly(text: str) -> Any:
    """Parse JSON as a strict reader does: without NaN and Infinity."""

    def refuse(word: str) -> Any:
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def _section(name: str, settings: Mapping[str, Any], path: str) -> Any:
    values = {key: _value(item, f"{path}.{key}".lstrip(".")) for key, item in settings.items()}
    return _class(name, tuple(values))(**values)


@cache
def _class(name: str, fields: tuple[str, ...]) -> Any:
    return pydantic_dataclass(make_dataclass(name, [(field, Any) for field in fields]))


def _value(value: Any, path: str) -> Any:
    if isinstance(value, str) and value.startswith("torch."):
        return Dtype(value)
    is_section = isinstance(value, dict) and value and path not in OBJECTS
    return _section(path.replace(".", "_"), value, path) if is_section else value


def _spec(group: Mapping[str, Any]) -> Any:
    fields = {key: item for key, item in group.items() if key not in {"group_id", "layer_names", "spec_type"}}
    if "dtype" in fields:
        fields["dtype"] = Dtype(f"torch.{fields['dtype']}")
    if "dtypes" in fields:
        fields["dtypes"] = tuple(Dtype(f"torch.{one}") for one in fields["dtypes"])
        fields["mamba_type"] = MambaAttentionBackendEnum.MAMBA2
    return thing(group["spec_type"], **fields)


def _worker(device: Mapping[str, Any]) -> Any:
    return thing("Worker", rank=device["rank"], device=thing("device", index=None), captured=device)


def _set(mapping: Any, values: Mapping[str, Any]) -> None:
    """Set the values, and remove those that are None."""
    for name, value in values.items():
        if value is None:
            mapping.pop(name, None)
        else:
            mapping[name] = value
