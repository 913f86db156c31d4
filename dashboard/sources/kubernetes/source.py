"""Pods of a namespace: by labels, of an InferencePool or of a Service. A failure keeps the last targets as stale.

The first poll lists them. Each later one asks what changed since, by a watch that ends at once: a watch that stays open
would need its own task, and would tell between polls what only a poll uses.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

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
    Api,
    Resource,
)
from dashboard.sources.kubernetes.pods import MOST_PORTS, OF_SERVICE, Pod, make_pod_targets, make_slice_targets
from dashboard.sources.source import MAX_TARGETS, Deadline, Listing, keep_targets, mapping, mappings, port, text, texts


class ListQuery(NamedTuple):
    """What is listed; `ports` are those of an InferencePool."""

    resource: Resource
    namespace: str
    selector: str
    ports: tuple[str, ...] = ()


class Kubernetes:
    """One `kubernetes` entry of the options."""

    kind = "kubernetes"

    def __init__(self, options: KubernetesOptions, credentials: Credentials | None, limits: PollOptions) -> None:
        """Ask nothing yet. `credentials` are for the replicas."""
        self._options = options
        self._credentials = credentials
        self._limits = limits
        named = {"inferencepools": options.inference_pool, "services": options.service, "pods": options.selector}
        chosen = next(f"{kind}/{name}" for kind, name in named.items() if name)
        self.name = "/".join(filter(None, ("kubernetes", options.namespace, chosen)))
        self._listing = Listing(self.name, ())
        # Of the last list: the query, its version, empty where it failed, and the targets by the name of their object.
        self._query: ListQuery | None = None
        self._version = ""
        self._targets: Mapping[str, tuple[Target, ...]] = {}

    async def read(self) -> list[Listing]:
        limits = self._limits
        async with Client(connections=1, max_answer_bytes=MAX_PAGE_BYTES, max_headers=limits.max_headers) as client:
            try:
                access = find_access(self._options)
                api = Api(client, access, Deadline(limits.replica_timeout_seconds))
                targets = await self._find(api, self._options.namespace or access.namespace)
                self._listing = Listing(self.name, tuple(targets))
            except UnreadableError as error:
                self._listing = keep_targets(self._listing, error.detail)
        return [self._listing]

    async def _find(self, api: Api, namespace: str) -> list[Target]:
        query = await self._make_query(api, namespace)
        version, self._version = self._version, ""
        changes, targets = None, dict[str, tuple[Target, ...]]()
        if version and query == self._query:
            with suppress(UnreadableError):  # a list is the way out, also where a Role has no `watch`
                changes = await api.watch(*query[:3], version)
                targets = {name: each for name, each in self._targets.items() if name not in changes.gone}
        changes = changes or await api.list_all(*query[:3])
        for one in changes.objects:
            targets[text(mapping(one, "metadata"), "name")] = tuple(self._make(one, query))
        if sum(map(len, targets.values())) > MAX_TARGETS:
            raise UnreadableError("schema", f"more than {MAX_TARGETS:,} targets; narrow selector")
        self._query, self._version, self._targets = query, changes.version, targets
        found = [each for name in sorted(targets) for each in targets[name]]
        # While a Service changes, an endpoint can be in two slices: the first one counts.
        return list({each.id: each for each in reversed(found)}.values())[::-1]

    async def _make_query(self, api: Api, namespace: str) -> ListQuery:
        options = self._options
        if options.service:
            return ListQuery(ENDPOINT_SLICES, namespace, f"{OF_SERVICE}={options.service}")
        if options.inference_pool:
            return ListQuery(
                PODS, namespace, *_chosen_by(await api.get(INFERENCE_POOLS, namespace, options.inference_pool))
            )
        return ListQuery(PODS, namespace, options.selector or "")

    def _make(self, one: Mapping[str, Any], query: ListQuery) -> Iterator[Target]:
        if query.resource is ENDPOINT_SLICES:
            return make_slice_targets(one, self._options, self._credentials)
        return make_pod_targets(Pod(one), self._options, self._credentials, query.ports)


def _chosen_by(pool: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the label selector and the ports of an InferencePool (inference.networking.k8s.io/v1)."""
    match pool.get("spec"):
        case {"selector": {"matchLabels": dict(labels)}, "targetPorts": list()} if all(texts(labels).values()):
            numbers = (port(each, "number") for each in mappings(mapping(pool, "spec"), "targetPorts")[:MOST_PORTS])
            if labels and (ports := tuple(filter(None, numbers))):
                return ",".join(f"{name}={value}" for name, value in labels.items()), ports
    raise UnreadableError("schema", "the InferencePool has no selector.matchLabels and targetPorts")
