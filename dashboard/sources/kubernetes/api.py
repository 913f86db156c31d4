"""Requests to the API server (https://kubernetes.io/docs/reference/using-api/api-concepts/), within limits."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from pydantic_core import from_json

from dashboard.errors import UnreadableError
from dashboard.sources.groups import MAX_TARGETS
from dashboard.sources.http.client import Client
from dashboard.sources.http.failures import FORBIDDEN, NOT_FOUND, Asked
from dashboard.sources.kubernetes.access import Access
from dashboard.vllm.reading import json_fault, node_count

PAGE = 250  # objects; kubectl takes 500. A pod has 5 to 20 KB
MAX_PAGE_BYTES = 32 * 2**20
MAX_NODES = 1_000_000  # of JSON; a pod has about 500
GONE = 410  # the list changed too much since its first page
LISTS = 3  # tries of one list whose pages expire


class Resource(NamedTuple):
    """A kind of objects, as RBAC names it."""

    group: str  # empty for the core
    version: str
    plural: str

    def path(self, namespace: str) -> str:
        """Return the path of the objects of a namespace."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}"


PODS = Resource("", "v1", "pods")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices")
INFERENCE_POOLS = Resource("inference.networking.k8s.io", "v1", "inferencepools")


class ExpiredError(Exception):
    """The next page of a list is no longer there."""


class Api:
    """The API server, for one read."""

    def __init__(self, client: Client, access: Access, ends_at: float) -> None:
        """Ask until `ends_at`, a time of the client's clock."""
        self._client = client
        self._access = access
        self._ends_at = ends_at

    async def get(self, resource: Resource, namespace: str, name: str) -> Mapping[str, Any]:
        """Return one object. Raise UnreadableError with a sentence."""
        return await self._ask(resource, namespace, f"/{name}", {}, "get")

    async def list_all(self, resource: Resource, namespace: str, selector: str) -> list[Mapping[str, Any]]:
        """Return the objects with these labels, page by page. Raise UnreadableError with a sentence."""
        for _ in range(LISTS):
            found: list[Mapping[str, Any]] = []
            try:
                async for each in self._pages(resource, namespace, selector):
                    found += each
                    if len(found) > MAX_TARGETS:
                        raise UnreadableError("schema", f"more than {MAX_TARGETS:,} {resource.plural}; narrow selector")
            except ExpiredError:
                continue
            return found
        raise UnreadableError("status", f"the list of {resource.plural} changes faster than it can be read")

    async def _pages(self, resource: Resource, namespace: str, selector: str) -> AsyncIterator[list[Mapping[str, Any]]]:
        query = {"labelSelector": selector, "limit": str(PAGE)}
        while True:
            page = await self._ask(resource, namespace, "", query, "list")
            items, meta = page.get("items"), page.get("metadata")
            if not isinstance(items, list):
                raise UnreadableError("schema", f"answers with no list of {resource.plural}")
            yield [each for each in items if isinstance(each, dict)]
            token = meta.get("continue") if isinstance(meta, dict) else None
            if not isinstance(token, str) or not token:
                return
            query["continue"] = token

    async def _ask(
        self, resource: Resource, namespace: str, end: str, query: Mapping[str, str], verb: str
    ) -> Mapping[str, Any]:
        answer = await self._client.fetch(
            Asked(
                self._access.server,
                resource.path(namespace) + end,
                f"?{urlencode(query)}" if query else "",
                is_replica=False,
            ),
            max(self._ends_at - self._client.time(), 0.0),
            limit=MAX_PAGE_BYTES,
            key=self._access.key,
            trust=self._access.trust,
        )
        if answer.status == GONE and query:
            raise ExpiredError
        if answer.status == FORBIDDEN:
            raise UnreadableError("unauthorized", _forbidden(resource, namespace, verb))
        if answer.status == NOT_FOUND:
            raise UnreadableError("status", f"the namespace {namespace} has no {resource.plural}{end}")
        if answer.failure:
            raise UnreadableError(answer.failure.kind, answer.failure.detail)
        if node_count(answer.body, MAX_NODES) > MAX_NODES:
            raise UnreadableError("too_large", f"answers with more than {MAX_NODES:,} JSON nodes")
        try:
            found = from_json(answer.body, allow_inf_nan=False)
        except ValueError as error:
            raise UnreadableError("decode", f"answers with something that {json_fault(error)}") from None
        if not isinstance(found, dict):
            raise UnreadableError("schema", "answers with JSON that is not of Kubernetes' API")
        return found


def _forbidden(resource: Resource, namespace: str, verb: str) -> str:
    rule = f'{{apiGroups: ["{resource.group}"], resources: [{resource.plural}], verbs: [get, list, watch]}}'
    return f"may not {verb} {resource.plural} in the namespace {namespace}; add to the rules of its Role: {rule}"
