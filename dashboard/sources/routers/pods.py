"""Routers in pods of Kubernetes: where they answer, how they were started, and their configuration in a ConfigMap."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from dashboard.config.address import host_port
from dashboard.config.sources import RouterOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import RouterKind
from dashboard.sources.kubernetes.api import CONFIG_MAPS, INFERENCE_POOLS, PODS, SERVICES, Api
from dashboard.sources.kubernetes.pods import Pod
from dashboard.sources.routers.answers import Process
from dashboard.sources.routers.llm_d import CONFIG_FILE
from dashboard.sources.values import mapping, mappings, text, texts


class ConfigText(NamedTuple):
    """The file of a ConfigMap that a router was started with, and its source; `failure` is why it cannot be read."""

    source: str
    content: bytes
    failure: str = ""


class RouterPod(NamedTuple):
    """One pod that runs a router."""

    name: str
    address: str  # host:port
    process: Process
    config: ConfigText | None


async def find_pods(api: Api, options: RouterOptions, namespace: str, port: int) -> list[RouterPod]:
    """Return the running pods of a router, in the order of their names. Raise UnreadableError with a sentence."""
    selector = options.selector or await _selector_of(api, namespace, str(options.inference_pool))
    found = await api.list_all(PODS, namespace, selector)
    pods = []
    for one in sorted(found.objects, key=lambda each: text(mapping(each, "metadata"), "name")):
        pod = Pod(one)
        if pod.has_ended or not pod.address:
            continue
        containers = mappings(mapping(one, "spec"), "containers")
        process = Process(tuple(_arguments(containers)), dict(_environment(containers)))
        path = process.option(CONFIG_FILE) if options.kind is RouterKind.LLM_D else None
        config = await _config_of(api, namespace, one, path)
        pods.append(RouterPod(f"{pod.namespace}/{pod.name}", host_port(pod.address, port), process, config))
    if not pods:
        raise UnreadableError("schema", f"the namespace {namespace} has no running pods with {selector}")
    return pods


async def _selector_of(api: Api, namespace: str, pool: str) -> str:
    """Return the selector of the Service that an InferencePool names as its endpoint picker."""
    picker = mapping(mapping(await api.get(INFERENCE_POOLS, namespace, pool), "spec"), "endpointPickerRef")
    if text(picker, "kind") not in {"", "Service"} or not text(picker, "name"):
        raise UnreadableError("schema", f"the InferencePool {pool} names no Service as its endpointPickerRef")
    service = await api.get(SERVICES, namespace, text(picker, "name"))
    labels = texts(mapping(mapping(service, "spec"), "selector"))
    if not labels:
        raise UnreadableError("schema", f"the Service {text(picker, 'name')} has no selector; set selector")
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _arguments(containers: list[Mapping[str, Any]]) -> Iterator[str]:
    for container in containers:
        for name in ("command", "args"):
            given = container.get(name)
            yield from (each for each in given if isinstance(each, str)) if isinstance(given, list) else ()


def _environment(containers: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the variables with a written value: others are of Secrets and ConfigMaps."""
    for container in containers:
        for each in mappings(container, "env"):
            if isinstance(each.get("value"), str):
                yield text(each, "name"), text(each, "value")


async def _config_of(api: Api, namespace: str, pod: Mapping[str, Any], path: str | None) -> ConfigText | None:
    """Return the file at a path of a pod, where it is mounted from a ConfigMap."""
    if not path:
        return None
    file, spec = PurePosixPath(path), mapping(pod, "spec")
    mounts = (each for one in mappings(spec, "containers") for each in mappings(one, "volumeMounts"))
    volume = next(
        (text(each, "name") for each in mounts if text(each, "mountPath").rstrip("/") == str(file.parent)), ""
    )
    source = next(
        (mapping(each, "configMap") for each in mappings(spec, "volumes") if text(each, "name") == volume), {}
    )
    if not (name := text(source, "name")):
        return None
    where = f"ConfigMap {namespace}/{name} ({file.name})"
    try:
        data = texts(mapping(await api.get(CONFIG_MAPS, namespace, name), "data"))
    except UnreadableError as error:  # what the router answers may say enough
        return ConfigText(where, b"", error.detail)
    keys = {text(each, "path"): text(each, "key") for each in mappings(source, "items")}
    return ConfigText(where, data.get(keys.get(file.name, file.name), "").encode())
