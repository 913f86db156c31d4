"""Pods of a namespace: by labels, of an InferencePool or of a Service. A failure keeps the last targets, marked stale."""

from collections.abc import Mapping
from typing import Any

from dashboard.config import KubernetesOptions, PollOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials, Target
from dashboard.sources.http.client import Client
from dashboard.sources.kubernetes.access import find_access
from dashboard.sources.kubernetes.api import ENDPOINT_SLICES, INFERENCE_POOLS, MAX_PAGE_BYTES, PODS, Api
from dashboard.sources.kubernetes.pods import Pod, make_targets
from dashboard.sources.kubernetes.slices import OF_SERVICE, make_slice_targets
from dashboard.sources.source import Listing, keep_targets

MOST_PORTS = 8  # of an InferencePool (its CRD)


class Kubernetes:
    """One `kubernetes` entry of the options. Pods are listed at each poll."""

    kind = "kubernetes"

    def __init__(self, options: KubernetesOptions, credentials: Credentials | None, limits: PollOptions) -> None:
        """Ask nothing yet. `credentials` are for the replicas."""
        self._options = options
        self._credentials = credentials
        self._limits = limits
        named = {"inferencepools": options.inference_pool, "services": options.service, "pods": options.selector}
        chosen = next(f"{kind}/{name}" for kind, name in named.items() if name)
        self._name = "/".join(filter(None, ("kubernetes", options.namespace, chosen)))
        self._listing = Listing(self._name, ())

    async def read(self) -> list[Listing]:
        """Return one listing."""
        limits = self._limits
        async with Client(connections=1, max_answer_bytes=MAX_PAGE_BYTES, max_headers=limits.max_headers) as client:
            try:
                access = find_access(self._options.kubeconfig, self._options.context)
                api = Api(client, access, client.time() + limits.replica_timeout_seconds)
                targets = await self._find(api, self._options.namespace or access.namespace)
                self._listing = Listing(self._name, tuple(targets))
            except UnreadableError as error:
                self._listing = keep_targets(self._listing, error.detail)
        return [self._listing]

    async def close(self) -> None:
        """Do nothing: no connection stays open."""

    async def _find(self, api: Api, namespace: str) -> list[Target]:
        if self._options.service:
            slices = await api.list_all(ENDPOINT_SLICES, namespace, f"{OF_SERVICE}={self._options.service}")
            # While a Service changes, an endpoint can be in two slices.
            found = [each for one in slices for each in make_slice_targets(one, self._options, self._credentials)]
            return list({each.id: each for each in reversed(found)}.values())[::-1]
        selector, ports = self._options.selector or "", list[str]()
        if self._options.inference_pool:
            selector, ports = _chosen_by(await api.get(INFERENCE_POOLS, namespace, self._options.inference_pool))
        pods = map(Pod, await api.list_all(PODS, namespace, selector))
        return [
            each
            for pod in sorted(pods, key=lambda each: each.name)
            if not pod.has_ended
            for each in make_targets(pod, self._options, self._credentials, ports)
        ]


def _chosen_by(pool: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the label selector and the ports of an InferencePool (inference.networking.k8s.io/v1)."""
    match pool.get("spec"):
        case {"selector": {"matchLabels": dict(labels)}, "targetPorts": list(ports)} if labels:
            numbers = [each.get("number") for each in ports[:MOST_PORTS] if isinstance(each, dict)]
            return ",".join(f"{name}={text}" for name, text in labels.items()), [str(each) for each in numbers]
    raise UnreadableError("schema", "the InferencePool has no selector.matchLabels and targetPorts")
