"""Pods of namespaces: by labels, of an InferencePool or of a Service. A failure keeps the last targets as stale.

The first poll lists them. Each later one asks what changed since, by a watch that ends at once: a watch that stays open
would need its own task, and would tell between polls what only a poll uses.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

from dashboard.config import KubernetesOptions, PollOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials, Target
from dashboard.sources.http.client import Client
from dashboard.sources.kubernetes.access import find_access
from dashboard.sources.kubernetes.api import (
    ENDPOINT_SLICES,
    INFERENCE_POOLS,
    MAX_PAGE_BYTES,
    PODS,
    SERVICES,
    Api,
    ObjectKey,
    Resource,
)
from dashboard.sources.kubernetes.pods import (
    MOST_PORTS,
    OF_SERVICE,
    Pod,
    PodLabels,
    make_pod_labels,
    make_pod_targets,
    make_slice_targets,
)
from dashboard.sources.source import MAX_TARGETS, Deadline, Listing, keep_targets, mapping, mappings, port, texts

T = TypeVar("T")


class ListQuery(NamedTuple):
    """What is listed; `ports` are those of an InferencePool."""

    resource: Resource
    namespace: str
    selector: str
    ports: tuple[str, ...] = ()


class WatchedList(Generic[T]):
    """Objects of one query, and what was made of each; the same mapping while nothing changes."""

    def __init__(self) -> None:
        self._query: ListQuery | None = None
        self._version = ""  # empty where the last read failed
        self._made: Mapping[ObjectKey, T] = {}

    async def read(self, api: Api, query: ListQuery, make: Callable[[Mapping[str, Any]], T]) -> Mapping[ObjectKey, T]:
        """Return what is made of each object by its key. Raise UnreadableError with a sentence."""
        version, self._version = self._version, ""
        changes, made = None, dict[ObjectKey, T]()
        if version and query == self._query:
            with suppress(UnreadableError):  # a list is the way out, also where a Role has no `watch`
                changes = await api.watch(*query[:3], version)
                made = {key: each for key, each in self._made.items() if key not in changes.gone}
        changes = changes or await api.list_all(*query[:3])
        made |= {key: make(one) for key, one in changes.objects.items()}
        if changes.objects or made.keys() != self._made.keys() or query != self._query:
            self._made = made
        self._query, self._version = query, changes.version
        return self._made


class NamespaceTargets:
    """The targets of one namespace, or of all."""

    def __init__(self, options: KubernetesOptions, credentials: Credentials | None, namespace: str | None) -> None:
        """Ask nothing yet; without a namespace it is that of the account or the context."""
        self._options = options
        self._credentials = credentials
        self._namespace = namespace
        named = {"inferencepools": options.inference_pool, "services": options.service, "pods": options.selector}
        chosen = next(f"{kind}/{name}" for kind, name in named.items() if name)
        self.name = "/".join(filter(None, ("kubernetes", namespace, chosen)))
        self.listing = Listing(self.name, ())
        self._pods = WatchedList[tuple[Target, ...]]()
        self._slices = WatchedList[Mapping[str, Any]]()
        self._pods_of_slices = WatchedList[PodLabels]()
        self._last: tuple[object, object, list[Target]] = (None, None, [])  # of a Service: what the targets are made of

    async def read(self, api: Api, default: str) -> None:
        """Update the listing; `default` is the namespace of the account or the context."""
        try:
            self.listing = Listing(self.name, tuple(await self._find(api, self._namespace or default)))
        except UnreadableError as error:
            self.fail(error)

    def fail(self, error: UnreadableError) -> None:
        """Keep the last targets as stale."""
        self.listing = keep_targets(self.listing, error.detail)

    async def _find(self, api: Api, namespace: str) -> list[Target]:
        options, credentials = self._options, self._credentials
        if options.service:
            targets = await self._find_endpoints(api, namespace, options.service)
        else:
            query = ListQuery(PODS, namespace, options.selector or "")
            if options.inference_pool:
                pool = await api.get(INFERENCE_POOLS, namespace, options.inference_pool)
                query = ListQuery(PODS, namespace, *_chosen_by(pool))
            found = await self._pods.read(
                api, query, lambda one: tuple(make_pod_targets(Pod(one), options, credentials, query.ports))
            )
            targets = [each for key in sorted(found) for each in found[key]]
        if len(targets) > MAX_TARGETS:
            raise UnreadableError("schema", f"more than {MAX_TARGETS:,} targets; narrow selector")
        # While a Service changes, an endpoint can be in two slices: the first one counts.
        return list({each.id: each for each in reversed(targets)}.values())[::-1]

    async def _find_endpoints(self, api: Api, namespace: str, service: str) -> list[Target]:
        options, credentials = self._options, self._credentials
        query = ListQuery(ENDPOINT_SLICES, namespace, f"{OF_SERVICE}={service}")
        slices = await self._slices.read(api, query, lambda one: one)
        pods: Mapping[ObjectKey, PodLabels] = {}
        try:
            spec = mapping(await api.get(SERVICES, namespace, service), "spec")
            if selector := _as_selector(texts(mapping(spec, "selector"))):  # without one others write the slices
                query = ListQuery(PODS, namespace, selector)
                pods = await self._pods_of_slices.read(api, query, lambda one: _labels_of(Pod(one), options))
        except UnreadableError as error:
            if error.kind != "unauthorized":  # a Role may have EndpointSlices only: targets without labels of pods
                raise
        if self._last[0] is not slices or self._last[1] is not pods:
            made = (make_slice_targets(slices[key], options, credentials, pods) for key in sorted(slices))
            self._last = slices, pods, [each for several in made for each in several]
        return self._last[2]


class Kubernetes:
    """One `kubernetes` entry of the options."""

    kind = "kubernetes"

    def __init__(self, options: KubernetesOptions, credentials: Credentials | None, limits: PollOptions) -> None:
        """Ask nothing yet. `credentials` are for the replicas."""
        self._options = options
        self._limits = limits
        namespaces = dict.fromkeys(options.namespaces or (None,))
        self._parts = [NamespaceTargets(options, credentials, each) for each in namespaces]
        self.name = self._parts[0].name

    async def read(self) -> list[Listing]:
        limits = self._limits
        async with Client(
            connections=limits.connections, max_answer_bytes=MAX_PAGE_BYTES, max_headers=limits.max_headers
        ) as client:
            try:
                access = find_access(self._options)
            except UnreadableError as error:
                for each in self._parts:
                    each.fail(error)
            else:
                api = Api(client, access, Deadline(limits.replica_timeout_seconds))
                await asyncio.gather(*(each.read(api, access.namespace) for each in self._parts))
        return [each.listing for each in self._parts]


def _chosen_by(pool: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the label selector and the ports of an InferencePool (inference.networking.k8s.io/v1)."""
    match pool.get("spec"):
        case {"selector": {"matchLabels": dict(labels)}, "targetPorts": list()} if all(texts(labels).values()):
            numbers = (port(each, "number") for each in mappings(mapping(pool, "spec"), "targetPorts")[:MOST_PORTS])
            if labels and (ports := tuple(filter(None, numbers))):
                return _as_selector(labels), ports
    raise UnreadableError("schema", "the InferencePool has no selector.matchLabels and targetPorts")


def _as_selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _labels_of(pod: Pod, options: KubernetesOptions) -> PodLabels:
    return PodLabels(pod.addresses, make_pod_labels(pod, options))
