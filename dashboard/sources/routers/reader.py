"""Reads the routers of the options. What fails keeps its last facts, and is a sentence."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from dashboard.config import PollOptions
from dashboard.config.address import host_port
from dashboard.config.sources import RouterOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import RouterConfig, RouterFact, RouterKind
from dashboard.fleet.formatting import iso, joined, visible
from dashboard.sources.http.client import Client
from dashboard.sources.http.credentials import ApiKey, find
from dashboard.sources.http.failures import FORBIDDEN, NOT_FOUND, Endpoint, no_time
from dashboard.sources.kubernetes.access import find_access
from dashboard.sources.kubernetes.api import CONFIG_MAPS, INFERENCE_POOLS, MAX_PAGE_BYTES, PODS, SERVICES, Api
from dashboard.sources.kubernetes.pods import Pod
from dashboard.sources.routers.answers import FactValues, Process
from dashboard.sources.routers.kinds import KINDS
from dashboard.sources.routers.llm_d import CONFIG_FILE, STATE, read_config
from dashboard.sources.source import Deadline, mapping, mappings, text, texts
from vllm_fleet_provider.shared.redaction import redact
from vllm_fleet_provider.shared.spelling import canonical_text

log = logging.getLogger(__name__)

T = TypeVar("T")

NO_KEY = ApiKey(missing="none is given; set authorization of this entry of routers in fleet.yaml")
# The role in llm-d's chart allows /metrics only: the router asks the API server about each path.
NO_PATH = f"add {STATE} to the nonResourceURLs of its ClusterRole"
MAX_FILE_BYTES = 2**20
MOST_NAMES, LONGEST_TEXT = 20_000, 300  # of a list of replicas; characters of a text


class RouterReply(NamedTuple):
    """What one source of a router gave: facts, or why it cannot be read. A URL alone is the source of all its paths."""

    source: str
    found: FactValues
    failure: str = ""


class RouterReader:
    """All `routers` of the options."""

    def __init__(self, routers: Sequence[RouterOptions], limits: PollOptions) -> None:
        self._limits = limits
        self._last: dict[RouterOptions, list[RouterConfig]] = {each: [] for each in routers}

    async def read(self, at: datetime) -> tuple[RouterConfig, ...]:
        """Return what each router reports; `at` is the time (UTC). Expected failures are data; called at each poll."""
        found = await asyncio.gather(*(self._read_safely(each, at) for each in self._last))
        self._last = dict(zip(self._last, found, strict=True))
        return tuple(each for several in found for each in several)

    async def _read_safely(self, options: RouterOptions, at: datetime) -> list[RouterConfig]:
        """Read a router. An internal error is a sentence, too: it must not end the poll of the replicas."""
        try:
            return await self._read(options, at)
        except Exception as error:
            log.exception("a router was not read")
            return self._kept(options, f"internal error {type(error).__name__}; its last answers stay")

    async def _read(self, options: RouterOptions, at: datetime) -> list[RouterConfig]:
        limits = self._limits
        file = [_read_file(options.config_file)] if options.config_file else []
        most = max(limits.max_answer_bytes, MAX_PAGE_BYTES)
        async with Client(
            connections=limits.connections, max_answer_bytes=most, max_headers=limits.max_headers
        ) as client:
            deadline = Deadline(limits.replica_timeout_seconds)
            if options.url:
                reads = await self._ask(client, options, options.url, deadline)
                return [self._made(options, options.url, [*reads, *file], at)]
            if not (options.inference_pool or options.selector):
                return [self._made(options, str(options.config_file), file, at)]
            try:
                access = find_access(options)
                api, namespace = Api(client, access, deadline), options.namespace or access.namespace
                pods = await _find_pods(api, options, namespace)
            except UnreadableError as error:
                return self._kept(options, error.detail)
            port = options.port or KINDS[options.kind].port
            urls = [f"{options.scheme}://{host_port(pod.address, port)}" for pod, _ in pods]
            answers = await asyncio.gather(*(self._ask(client, options, url, deadline) for url in urls))
            return [
                self._made(options, f"{pod.namespace}/{pod.name}", [*reads, *own, *file], at)
                for (pod, own), reads in zip(pods, answers, strict=True)
            ]

    async def _ask(self, client: Client, options: RouterOptions, url: str, deadline: Deadline) -> list[RouterReply]:
        own, kind = options.authorization, KINDS[options.kind]
        reads, absent = [], []
        for path, reader in kind.probes.items():
            bare, mark, query = path.partition("?")
            endpoint = Endpoint(url, bare, f"{mark}{query}", is_replica=False)
            try:
                left = deadline.left()
            except UnreadableError:
                reads.append(RouterReply(url + bare, {}, no_time(endpoint).detail.removesuffix(".")))
                continue
            answer = await client.fetch(
                endpoint,
                min(left, self._limits.probe_timeout_seconds),
                limit=self._limits.max_answer_bytes,
                key=find(own.places()) if own else NO_KEY,
                ca_file=own.ca_file if own else None,
                is_named=options.url is None,
            )
            if answer.failure is None:
                reads.append(_parse(url + bare, f"{endpoint.where} ", reader, answer.body))
                continue
            if answer.status == NOT_FOUND and path in kind.one_of:
                absent.append(bare)
                continue
            hint = f"; {NO_PATH}" if answer.status == FORBIDDEN and bare == STATE else ""
            reads.append(RouterReply(url + bare, {}, answer.failure.detail.removesuffix(".") + hint))
        if absent and not reads:
            server = url.partition("://")[2]
            reads.append(
                RouterReply(url, {}, f"{server} has none of {joined(absent)}; check that {options.kind} is there")
            )
        return reads

    def _made(self, options: RouterOptions, name: str, reads: Iterable[RouterReply], at: datetime) -> RouterConfig:
        """Return what a router reports; a source that fails keeps its last facts."""
        last = next((each.facts for each in self._last[options] if each.name == name), ())
        facts: list[RouterFact] = []
        failures = []
        for each in reads:
            known = [fact for fact in last if fact.source.startswith(each.source)] if each.failure else []
            facts += known or _facts_of(each, at)
            if each.failure:
                kept = f"; keeping its answer of {iso(known[0].observed_at)}" if known else ""
                failures.append(visible(each.failure + kept))
        return RouterConfig(name, options.kind, options.pool_keys, tuple(facts), tuple(failures))

    def _kept(self, options: RouterOptions, failure: str) -> list[RouterConfig]:
        """Return the last answers of what cannot be read now."""
        in_kubernetes = "/".join(
            filter(None, ("kubernetes", options.namespace, options.inference_pool or options.selector))
        )
        name = options.url or in_kubernetes
        last = self._last[options] or [RouterConfig(name, options.kind, options.pool_keys)]
        return [replace(each, failures=(visible(f"{name}: {failure}"),)) for each in last]


async def _find_pods(api: Api, options: RouterOptions, namespace: str) -> list[tuple[Pod, list[RouterReply]]]:
    """Return the running pods of a router by name, with what their command lines and ConfigMaps say.

    Raise UnreadableError with a sentence.
    """
    selector = options.selector or await _selector_of(api, namespace, str(options.inference_pool))
    found = await api.list_all(PODS, namespace, selector)
    pods = []
    for one in sorted(found.objects.values(), key=lambda each: text(mapping(each, "metadata"), "name")):
        pod = Pod(one)
        if pod.has_ended or not pod.address:
            continue
        containers = mappings(mapping(one, "spec"), "containers")
        process = Process(tuple(_arguments(containers)), dict(_environment(containers)))
        source = f"pod {pod.namespace}/{pod.name} (command line)"
        replies = [_parse(source, f"{source} ", KINDS[options.kind].of_process, process)]
        path = process.option(CONFIG_FILE) if options.kind is RouterKind.LLM_D else None
        replies += await _read_config_map(api, namespace, one, path) if path else []
        pods.append((pod, replies))
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


async def _read_config_map(api: Api, namespace: str, pod: Mapping[str, Any], path: str) -> list[RouterReply]:
    """Read the file at a path of a pod; return nothing where it is not mounted from a ConfigMap."""
    file, spec = PurePosixPath(path), mapping(pod, "spec")
    mounts = (each for one in mappings(spec, "containers") for each in mappings(one, "volumeMounts"))
    volume = next(
        (text(each, "name") for each in mounts if text(each, "mountPath").rstrip("/") == str(file.parent)), ""
    )
    source = next(
        (mapping(each, "configMap") for each in mappings(spec, "volumes") if text(each, "name") == volume), {}
    )
    if not (name := text(source, "name")):
        return []
    where = f"ConfigMap {namespace}/{name} ({file.name})"
    try:
        data = texts(mapping(await api.get(CONFIG_MAPS, namespace, name), "data"))
    except UnreadableError as error:  # what the router answers may say enough
        return [RouterReply(where, {}, f"{where}: {error.detail}")]
    keys = {text(each, "path"): text(each, "key") for each in mappings(source, "items")}
    content = data.get(keys.get(file.name, file.name), "").encode()
    return [_parse(where, f"{where} ", read_config, content)]


def _read_file(path: Path) -> RouterReply:
    try:
        with path.open("rb") as file:
            return _parse(str(path), f"{path} ", read_config, file.read(MAX_FILE_BYTES))
    except OSError as error:
        return RouterReply(str(path), {}, f"{path} cannot be read: {error.strerror}")


def _parse(source: str, subject: str, reader: Callable[[T], FactValues], content: T) -> RouterReply:
    try:
        return RouterReply(source, reader(content))
    except UnreadableError as error:
        return RouterReply(source, {}, f"{subject}{error.detail}")


def _facts_of(read: RouterReply, at: datetime) -> list[RouterFact]:
    """Return facts without secrets, cut to what a page can show."""
    return [
        RouterFact(name, canonical_text(_bounded(redact(value))), read.source, at) for name, value in read.found.items()
    ]


def _bounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_bounded(each) for each in value[:MOST_NAMES]]
    return value[:LONGEST_TEXT].encode(errors="replace").decode() if isinstance(value, str) else value
