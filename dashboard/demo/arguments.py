"""The arguments of a simulated server: what a restart with other flags, variables or another image changes."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dashboard.demo.describe import Configuration, DemoReplica, Speaks, Value
from dashboard.demo.memory import capacities
from dashboard.demo.provider import PLUGIN_NAMES
from dashboard.demo.vllm_config import TEMPLATES, server_info
from dashboard.vllm.value_origin import declaration, settings_of_flags

MODEL, SERVED_NAME = "model_config.model", "model_config.served_model_name"
TENSOR_SIZE, DATA_SIZE = "parallel_config.tensor_parallel_size", "parallel_config.data_parallel_size"
KV_ROLE, KV_EVENTS = "kv_transfer_config.kv_role", "kv_events_config.enable_kv_cache_events"
# Settings that have a field of `Configuration`.
FIELDS = {
    SERVED_NAME: "served_name",
    TENSOR_SIZE: "tensor_parallel_size",
    DATA_SIZE: "data_parallel_size",
    KV_ROLE: "kv_role",
    KV_EVENTS: "kv_events",
}
# The command line takes names, a configuration reports numbers (vllm/config/compilation.py).
GRAPH_MODES: Mapping[str, Value] = {
    "NONE": 0,
    "PIECEWISE": 1,
    "FULL": 2,
    "FULL_DECODE_ONLY": (2, 0),
    "FULL_AND_PIECEWISE": (2, 1),
}
GRAPH_MODE = "compilation_config.cudagraph_mode"
DEV_MODE, PLUGINS = "VLLM_SERVER_DEV_MODE", "VLLM_PLUGINS"
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
IMAGE = re.compile(r"(?:image: *)?(?:[\w./-]+:)?v?(\d+\.\d+\.\d+\S*)")


class Start(NamedTuple):
    """What a restart changes. `flags` are words of a command line; None in `environment` unsets a variable.

    `image` is vLLM's, such as `vllm/vllm-openai:v0.32.1`; empty: the same.
    """

    flags: Sequence[str] = ()
    environment: Mapping[str, str | None] = {}
    removed: Sequence[str] = ()  # flags
    image: str = ""


def read_changes(text: str) -> Start:
    """Read what follows `env` in a shell: `-u NAME` and `NAME=VALUE`, then flags. Raises ValueError.

    `-u --FLAG` removes a flag, `image=IMAGE` changes the image.
    """
    words = shlex.split(text)
    environment: dict[str, str | None] = {}
    removed: list[str] = []
    while words and not words[0].startswith("--"):
        word = words.pop(0)
        if word == "-u" and words:
            name = words.pop(0)
            if name.startswith("--"):
                removed.append(name)
            else:
                environment[name] = None
        elif match := ASSIGNMENT.fullmatch(word):
            environment[match[1]] = match[2]
        else:
            raise ValueError(f"{word!r} is no flag, NAME=VALUE or -u NAME")
    image = environment.pop("image", "") or ""
    if not (words or environment or removed or image):
        raise ValueError("nothing to change")
    return Start(words, environment, removed, image)


def changed(replica: DemoReplica, changes: Start) -> DemoReplica:
    """Return a replica with changed arguments; ValueError where vLLM would not start, or the demo lacks the setting."""
    configuration = replica.configuration
    if changes.image:
        configuration = replace(configuration, version=_version(changes.image))
    for flag in changes.removed:
        configuration = _without(configuration, _paths(flag, configuration.version))
    for flag, words in _given(changes.flags):
        for path, value in _settings(flag, words, configuration.version):
            configuration = _with(configuration, path, value)
    variables = dict(configuration.environment)
    for name, text in changes.environment.items():
        variables.pop(name, None)
        if text is not None:
            variables[name] = text
    configuration = replace(configuration, environment=tuple(sorted(variables.items())))
    speaks = _speaks(replica.speaks, changes.environment)
    replica = replace(replica, configuration=configuration, speaks=speaks)
    _check_memory(replica)
    return replica


def _check_memory(replica: DemoReplica) -> None:
    config = server_info(replica.configuration)["vllm_config"]
    if config["cache_config"]["block_size"] < 1:
        raise ValueError("block_size must be at least 1")
    for engine in capacities(replica, config):
        if engine.max_concurrency < 1:
            raise ValueError("vLLM would not start: no memory for a request of max_model_len tokens")


def _version(image: str) -> str:
    match = IMAGE.fullmatch(image)
    if match is None or ".".join(match[1].split(".")[:2]) not in TEMPLATES:
        raise ValueError(f"{image!r} is no image that the demo knows: {', '.join(TEMPLATES)}")
    return match[1]


def _given(words: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each flag with its values."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            found.append((flag, [value] if equals else []))
        elif found:
            found[-1][1].append(word)
        else:
            raise ValueError(f"{word!r} is no flag")
    return iter(found)


def _paths(flag: str, version: str) -> list[str]:
    """Return the settings of a flag; `--no-` names the same as the flag without."""
    name, *keys = flag.split(".")
    flags = settings_of_flags(version)
    if name not in flags and name.startswith("--no-"):
        name = f"--{name.removeprefix('--no-')}"
    if name not in flags:
        raise ValueError(f"vLLM {version} has no flag {flag}")
    return [".".join((path, *keys)) for path in flags[name]]


def _settings(flag: str, words: list[str], version: str) -> Iterator[tuple[str, Value]]:
    """Yield what a flag with its values sets; an object sets each of its keys."""
    for path in _paths(flag, version):
        if not words:
            yield path, not flag.startswith("--no-")
            continue
        declared = declaration(path, version)
        kind = declared.type if declared else ""
        values = [_parsed(word, kind) for word in words]
        is_list = kind.startswith("list") and not isinstance(values[0], list)
        yield from _leaves(path, values if is_list or len(values) > 1 else values[0])


def _parsed(word: str, kind: str) -> Any:
    if kind in {"str", "str | None"}:
        return word
    try:
        value = json.loads(word)
    except ValueError:
        return word
    return float(value) if type(value) is int and kind.startswith("float") else value


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Value]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(f"{path}.{name}", each)
    elif path == GRAPH_MODE and isinstance(value, str):
        yield path, GRAPH_MODES.get(value, value)
    else:
        yield path, tuple(value) if isinstance(value, list) else value


def _with(configuration: Configuration, path: str, value: Value) -> Configuration:
    if path == MODEL and value != configuration.model.path:
        raise ValueError("the demo cannot change --model")
    if path not in FIELDS:
        settings = dict(configuration.settings)
        settings[path] = value
        return replace(configuration, settings=tuple(settings.items()))
    if path in {TENSOR_SIZE, DATA_SIZE} and (type(value) is not int or value < 1):
        raise ValueError(f"{path.rpartition('.')[2]} must be a number from 1")
    if path == SERVED_NAME:
        value = value[0] if isinstance(value, tuple) else str(value)
    is_local = configuration.ranks_per_server == configuration.data_parallel_size
    changes: dict[str, Any] = {FIELDS[path]: value}
    if path == DATA_SIZE and is_local:
        changes["ranks_per_server"] = value
    return replace(configuration, **changes)


def _without(configuration: Configuration, paths: list[str]) -> Configuration:
    """Return a configuration in which nothing sets these paths or a key of them."""

    def is_removed(path: str) -> bool:
        return any(path == each or path.startswith(f"{each}.") for each in paths)

    for path, default in ((TENSOR_SIZE, 1), (DATA_SIZE, 1), (SERVED_NAME, configuration.model.path)):
        if is_removed(path):
            configuration = _with(configuration, path, default)
    if is_removed(KV_ROLE):
        configuration = replace(configuration, kv_role=None)
    if is_removed(KV_EVENTS):
        configuration = replace(configuration, kv_events=False)
    left = tuple((path, value) for path, value in configuration.settings if not is_removed(path))
    return replace(configuration, settings=left)


def _speaks(speaks: frozenset[Speaks], environment: Mapping[str, str | None]) -> frozenset[Speaks]:
    """Return the endpoints that the variables open."""
    if DEV_MODE in environment:
        speaks -= {Speaks.SERVER_INFO}
        if environment[DEV_MODE] in {"1", "true", "True"}:
            speaks |= {Speaks.SERVER_INFO}
    if PLUGINS in environment:
        names = (environment[PLUGINS] or "").split(",")
        speaks -= {Speaks.PROVIDER, Speaks.PLUGIN}
        if PLUGIN_NAMES[-1] in names:
            speaks |= {Speaks.PROVIDER}
        if Speaks.PLUGIN.rpartition("/")[2] in names:
            speaks |= {Speaks.PLUGIN}
    return speaks
