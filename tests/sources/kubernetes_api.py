"""The API server of a cluster as far as lists and watches need it, on loopback.

kmock (PyPI) has no label selectors, no bookmarks and no 410: little of it would be left.

Each behaviour names its place in https://kubernetes.io/docs/reference/using-api/api-concepts/.
"""

import copy
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.sources.polling.hostile import Exchange, HostileServer

NAMESPACE = "llm-d"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ALL_PODS = "/api/v1/pods"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
POOLS = f"/apis/inference.networking.k8s.io/v1/namespaces/{NAMESPACE}/inferencepools"
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
TOKEN = "t0ken"


class Cluster:
    """The pods of all namespaces, and the InferencePools, EndpointSlices, Services and ConfigMaps of NAMESPACE.

    `expired` continue tokens are answered with 410. A change is an event with the next version; a watch sends those
    since its version and ends. Versions below `oldest` are forgotten; `broken_watch` answers instead of the events.
    Other tokens than `tokens`, where there are some, get 401.
    """

    def __init__(self, server: HostileServer) -> None:
        self.server = server
        self.pods: dict[str, dict[str, Any]] = {}
        self.pools: dict[str, dict[str, Any]] = {}
        self.expired: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.oldest = 0
        self.tokens: set[str] = set()
        self.broken_watch: Callable[[Exchange], Awaitable[None]] | None = None
        server.asked.clear()
        self.slices: list[dict[str, Any]] = []
        server.routes[PODS] = server.routes[ALL_PODS] = self._list_pods
        server.routes[SLICES] = self._list_slices

    def add_pool(self, name: str, labels: Mapping[str, str], *ports: int) -> dict[str, Any]:
        """Create an InferencePool."""
        spec = {
            "selector": {"matchLabels": dict(labels)},
            "targetPorts": [{"number": each} for each in ports],
            "endpointPickerRef": {"name": f"{name}-epp", "port": {"number": 9002}},
        }
        kind = {"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool"}
        self.pools[name] = {**kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
        return self.add(f"{POOLS}/{name}", self.pools[name])

    def add(self, path: str, one: dict[str, Any]) -> dict[str, Any]:
        """Answer a path with one object, as it is at that time."""

        async def get(exchange: Exchange) -> None:
            await exchange.reply(json.dumps(one).encode())

        self.server.routes[path] = get
        return one

    def add_service(self, name: str, selector: Mapping[str, str] | None) -> dict[str, Any]:
        """Create a Service."""
        return self.add(
            f"{SERVICES}/{name}", {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"selector": selector}}
        )

    def add_config_map(self, name: str, data: Mapping[str, str]) -> dict[str, Any]:
        """Create a ConfigMap."""
        return self.add(
            f"{CONFIG_MAPS}/{name}", {"metadata": {"name": name, "namespace": NAMESPACE}, "data": dict(data)}
        )

    def add_pod(
        self, name: str, address: str, labels: Mapping[str, str], *, namespace: str = NAMESPACE, **status: Any
    ) -> dict[str, Any]:
        """Create a pod that is ready; `status` replaces parts of its status. No other pod has its name."""
        self.server.routes[f"/api/v1/namespaces/{namespace}/pods"] = self._list_pods
        self.pods[name] = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": namespace, "labels": dict(labels), "annotations": {}},
            "spec": {
                "nodeName": "gpu-1",
                "containers": [{"name": "vllm", "ports": [{"name": "http", "containerPort": 8000}]}],
            },
            "status": {
                "phase": "Running",
                "podIP": address,
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [
                    {"name": "vllm", "imageID": "docker.io/vllm@sha256:4f2a", "state": {"running": {}}},
                ],
                **status,
            },
        }
        self.changed(name)
        return self.pods[name]

    def changed(self, name: str, kind: str = "MODIFIED") -> None:
        """Tell watches that a pod is as it is now, or was deleted."""
        pod = self.pods.pop(name) if kind == "DELETED" else self.pods[name]
        pod["metadata"]["resourceVersion"] = str(len(self.events) + 1)
        self.events.append({"type": kind, "object": copy.deepcopy(pod)})

    def add_slice(self, service: str, *endpoints: Mapping[str, Any]) -> dict[str, Any]:
        """Create an EndpointSlice of a Service."""
        meta = {
            "name": f"{service}-{len(self.slices)}",
            "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": service},
        }
        ports = [{"name": "http", "port": 8000}, {"name": "grpc", "port": 8001}]
        self.slices.append({"metadata": meta, "addressType": "IPv4", "endpoints": [*endpoints], "ports": ports})
        return self.slices[-1]

    def queries(self, path: str = PODS) -> list[dict[str, str]]:
        """Return the queries of the lists of pods, in order."""
        asked = (urlsplit(each.path) for each in self.server.asked)
        return [{name: text for name, (text,) in parse_qs(each.query).items()} for each in asked if each.path == path]

    async def _list_pods(self, exchange: Exchange) -> None:
        await self._list(exchange, list(self.pods.values()))

    async def _list_slices(self, exchange: Exchange) -> None:
        await self._list(exchange, self.slices)

    async def _list(self, exchange: Exchange, every: Sequence[Mapping[str, Any]]) -> None:
        """Answer in chunks ("Retrieving large results sets in chunks"), with labels that are equal (`a=b,c=d`)."""
        if self.tokens and exchange.asked.headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            await exchange.reply(b'{"kind":"Status","code":401,"reason":"Unauthorized"}', 401)
            return
        query = {name: text for name, (text,) in parse_qs(urlsplit(exchange.asked.path).query).items()}
        wanted = dict(each.split("=", 1) for each in query.get("labelSelector", "").split(",") if each)

        def is_chosen(one: Mapping[str, Any]) -> bool:
            return is_in(one, exchange) and wanted.items() <= one["metadata"]["labels"].items()

        if "watch" in query:
            since = [] if every is self.slices else self.events[int(query["resourceVersion"]) :]
            chosen = [each for each in since if is_chosen(each["object"])]
            await self._watch(exchange, int(query["resourceVersion"]), chosen)
            return
        if query.get("continue") in self.expired:
            self.expired.remove(query["continue"])
            await exchange.reply(b'{"kind":"Status","code":410,"reason":"Expired"}', 410)
            return
        found = list(filter(is_chosen, every))
        start, size = int(query.get("continue", 0)), int(query["limit"])
        rest = str(start + size) if start + size < len(found) else ""
        page = {
            "kind": "List",
            "apiVersion": "v1",
            "metadata": {"continue": rest, "resourceVersion": str(len(self.events))},
            "items": found[start : start + size],
        }
        await exchange.reply(json.dumps(page).encode())

    async def _watch(self, exchange: Exchange, version: int, since: Sequence[Mapping[str, Any]]) -> None:
        """Send events ("Efficient detection of changes"), and a bookmark ("Watch bookmarks"); 410 as an event, too."""
        events = [
            *since,
            {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(len(self.events))}}},
        ]
        if version < self.oldest:
            events = [{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}]
        if self.broken_watch:
            await self.broken_watch(exchange)
        else:
            await exchange.reply(b"".join(json.dumps(each).encode() + b"\n" for each in events))


def is_in(one: Mapping[str, Any], exchange: Exchange) -> bool:
    """Return whether an object is in the namespace of a path, if it has one."""
    _, _, rest = exchange.asked.path.partition("/namespaces/")
    return not rest or one["metadata"]["namespace"] == rest.partition("/")[0]


def write_kubeconfig(path: Path, server: str, *, user: str = f"{{token: {TOKEN}}}", cluster: str = "") -> Path:
    """Write a kubeconfig with one context; `cluster` is more of its cluster, in YAML's flow style."""
    path.write_text(f"""
apiVersion: v1
kind: Config
current-context: test
contexts: [{{name: test, context: {{cluster: local, user: reader, namespace: {NAMESPACE}}}}}]
clusters: [{{name: local, cluster: {{server: "{server}"{cluster}}}}}]
users: [{{name: reader, user: {user}}}]
""")
    return path
