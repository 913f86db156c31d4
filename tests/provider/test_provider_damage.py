"""If an attribute of an engine is missing, raises or has another type, it is listed and the rest is reported."""

import logging
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.captured import capture
from tests.provider.engines import EngineProcess, broken, strictly, thing
from vllm_fleet_provider.answer import GatheredAnswers, answer
from vllm_fleet_provider.shared.inference_config import InferenceConfigReply

# Copied and derived fields, and the field whose reason explains why they are null.
SAME = {
    "fleet.engines.groups": "kv_cache.groups",
    "fleet.engines.devices": "devices",
    "kv_cache.num_gpu_blocks": "fleet.engines.num_gpu_blocks",
    "fleet.prefix_hashing.engines_agree": "fleet.engines.fingerprint",
    "lora": "lora.enabled",
    "speculative_decoding": "speculative_decoding.enabled",
    "fleet.kv_transfer.compatibility": "fleet.kv_transfer.connector",
    "fleet.data_parallel_rank": "fleet.engines.data_parallel_rank",
    "parallelism.data_parallel_rank": "fleet.engines.data_parallel_rank",
}
OF_A_KIND = re.compile(
    r"(kv_cache|fleet\.engines)\.groups\.(?!block_size|page_size|layer_names)"
)  # optional for some kinds
REASONS = {"fleet.engines.fingerprint.reason", "fleet.engines.devices.memory.reason"}


UNREAD_SECTIONS = ("compilation", "device", "kernel", "load", "observability", "structured_outputs", "profiler")
FEATURES = ("lora", "speculative", "kv_events", "kv_transfer", "model", "cache", "parallel", "scheduler", "attention")


def recursive() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def deep() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(5000):
        found = {"below": found}
    return found


OTHER_TYPES: dict[str, Callable[[], Any]] = {
    "text": lambda: "16",
    "number": lambda: 16,
    "zero": lambda: 0,
    "negative": lambda: -1,
    "huge": lambda: 10**5000,
    "truth": lambda: True,
    "none": lambda: None,
    "nan": lambda: math.nan,
    "infinity": lambda: math.inf,
    "bytes": lambda: b"\xff\x00",
    "not unicode": lambda: "\ud800",
    "long text": lambda: "x" * 12_000,
    "anything": MagicMock,
    "nothing": object,
    "itself": recursive,
    "deep": deep,
    "function": lambda: lambda: 1,
}


@pytest.fixture(autouse=True)
def no_log(caplog: pytest.LogCaptureFixture) -> None:
    """Formatting thousands of tracebacks would take most of the time."""
    caplog.set_level(logging.CRITICAL, "vllm.plugins.fleet_config")


@cache
def process() -> EngineProcess:
    """An engine with every feature enabled, and few other settings: it is described thousands of times."""
    found = EngineProcess(capture("llama_spec"))
    config = found.config
    for section in UNREAD_SECTIONS:
        setattr(config, f"{section}_config", None)
    environment = vars(found.modules["vllm.envs"])
    for name in [each for each in environment if each.startswith("VLLM_")][5:]:
        del environment[name]
    config.lora_config = thing("LoRAConfig", max_lora_rank=16, max_loras=2, max_cpu_loras=4, lora_dtype="bfloat16")
    config.kv_events_config = thing(
        "KVEventsConfig", enable_kv_cache_events=True, publisher="zmq", endpoint="tcp://*:5557", topic="kv"
    )
    config.kv_transfer_config = thing("KVTransferConfig", kv_connector="Nixl", kv_role="kv_both", engine_id="e1")
    return found


def places(found: EngineProcess) -> dict[str, tuple[Any, str]]:
    """Every attribute that the provider may read: object and name by path."""
    config, held = found.config, found.kv_cache_config
    owners = {
        "core": found.core,
        "executor": found.core.model_executor,
        "scheduler": found.core.scheduler,
        "kv_cache_config": held,
        "group": held.kv_cache_groups[0],
        "spec": held.kv_cache_groups[0].kv_cache_spec,
        "tensor": held.kv_cache_tensors[0],
        "config": config,
        **{name: getattr(config, f"{name}_config") for name in FEATURES},
    }
    return {
        f"{above}.{name}": (owner, name) for above, owner in owners.items() for name in vars(owner) if name[0] != "_"
    }


PLACES = sorted(places(process()))


@contextmanager
def damaged(owner: Any, name: str, damage: Callable[[Any, str], None]) -> Iterator[None]:
    """Damage an attribute, and restore it."""
    kept = getattr(owner, name)
    damage(owner, name)
    try:
        yield
    finally:
        if isinstance(getattr(type(owner), name, None), property):
            delattr(type(owner), name)
        setattr(owner, name, kept)


def answered(found: EngineProcess) -> dict[str, Any]:
    """The full answer of a server with this one engine."""
    vars(found.core).pop("_fleet_config", None)
    gathered = GatheredAnswers((found.description(),), ["m"], {}, {})
    body = answer(gathered, [], gathered.ranks[0], full=True).body
    InferenceConfigReply.model_validate_json(body, strict=True)
    return dict(strictly(body.decode()))


@cache
def undamaged() -> dict[str, Any]:
    return dict(fields(answered(process())))


def fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of an answer by its path without list indexes, except settings, environment and `unavailable`."""
    if path in {"fleet.settings", "fleet.environment", "fleet.unavailable"}:
        return
    if isinstance(value, dict):
        for name, item in value.items():
            yield from fields(item, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from fields(value[0], path)
    else:
        yield path, value


def is_listed(path: str, answer: dict[str, Any]) -> bool:
    paths = [path, *(path.replace(same, original) for same, original in SAME.items() if path.startswith(same))]
    named = [re.sub(r"\[\d+\]", "", one["field"]) for one in answer["fleet"]["unavailable"]]
    return any(f"{one}.".startswith(f"{name}.") or f"{name}.".startswith(f"{one}.") for name in named for one in paths)


def test_an_engine_with_every_feature_reports_every_field() -> None:
    assert answered(process())["fleet"]["unavailable"] == [
        {"field": "scheduler.max_num_partial_prefills", "reason": "this vLLM does not have it"}
    ]


@pytest.mark.parametrize("damage", [delattr, broken])
def test_an_unreadable_attribute_is_null_and_listed_and_the_rest_is_reported(damage: Any) -> None:
    for place in PLACES:
        owner, name = places(process())[place]
        with damaged(owner, name, damage):
            full = answered(process())
        left = dict(fields(full))
        for path, value in undamaged().items():
            if left.get(path) != value and path not in REASONS and not OF_A_KIND.match(path):
                assert left.get(path) in (None, []) or path == "fleet.data_parallel_rank", f"{place}: {path}"
                assert is_listed(path, full), f"{place}: {path}"
        assert "SESAME" not in str(full)


@cache
def places_with_effect() -> list[str]:
    """The attributes that the provider reads by name: without them the answer changes."""
    found = []
    for place in PLACES:
        owner, name = places(process())[place]
        with damaged(owner, name, delattr):
            changed = dict(fields(answered(process()))) != undamaged()
        found += [place] * changed
    return found


@pytest.mark.few(4)
@pytest.mark.no_cover
@pytest.mark.parametrize("kind", OTHER_TYPES)
def test_values_of_other_types_never_give_an_invalid_answer(kind: str) -> None:
    for place in places_with_effect():
        owner, name = places(process())[place]
        with damaged(owner, name, lambda owner, name: setattr(owner, name, OTHER_TYPES[kind]())):
            assert answered(process())["fleet"]["engines"], place
