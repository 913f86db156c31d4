"""Requests to the API server (https://kubernetes.io/docs/reference/using-api/api-concepts/), within limits."""

import math
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from dashboard.config.sources import ALL_NAMESPACES
from dashboard.errors import UnreadableError
from dashboard.sources.http.client import Answer, Client
from dashboard.sources.http.failures import FORBIDDEN, NOT_FOUND, UNAUTHORIZED, Endpoint
from dashboard.sources.kubernetes.access import Access
from dashboard.sources.kubernetes.program import Login
from dashboard.sources.source import MAX_TARGETS, Deadline, mapping, mappings, text
from dashboard.vllm.reading import parse_json

PAGE = 250  # objects; kubectl takes 500. A pod has 5 to 20 KB
MAX_PAGE_BYTES = 32 * 2**20
MAX_NODES = 1_000_000  # of JSON; a pod has about 500
GONE = 410  # the version of the list is no longer known
EXPIRED = "expired"  # kind of the error where the next page of a list, or what changed since it, is no longer there
WATCH_SECONDS = 1  # the least that the API server takes; what changed since a version is sent at once
WATCH_GRACE_SECONDS = 2.0  # for a watch to end after them
MOST_PAGES = 1_000  # of a list: five times those of MAX_TARGETS pods; bounds a server that always has another one
LISTS = 3  # tries of one list whose pages expire


class Resource(NamedTuple):
    """A kind of objects, as RBAC names it."""

    group: str  # empty for the core
    version: str
    plural: str

    def path(self, namespace: str) -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}{'' if namespace == ALL_NAMESPACES else f'/namespaces/{namespace}'}/{self.plural}"


PODS = Resource("", "v1", "pods")
SERVICES = Resource("", "v1", "services")
CONFIG_MAPS = Resource("", "v1", "configmaps")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices")
INFERENCE_POOLS = Resource("inference.networking.k8s.io", "v1", "inferencepools")
WATCHED = (PODS, ENDPOINT_SLICES, INFERENCE_POOLS)  # of the others single objects are read


ObjectKey = tuple[str, str]  # namespace and name


class ListChanges(NamedTuple):
    """Objects of a list by key, with their version; `gone` were deleted since the version before."""

    objects: Mapping[ObjectKey, Mapping[str, Any]]
    version: str
    gone: frozenset[ObjectKey] = frozenset()


class Api:
    """The API server, for one read."""

    def __init__(self, client: Client, access: Access, deadline: Deadline) -> None:
        self._client = client
        self._access = access
        self._deadline = deadline
        self._renewed: Login | None = None

    async def get(self, resource: Resource, namespace: str, name: str) -> Mapping[str, Any]:
        """Return one object. Raise UnreadableError with a sentence."""
        return _object(parse_json(await self._ask(resource, namespace, f"/{name}", {}, "get"), MAX_NODES))

    async def list_all(self, resource: Resource, namespace: str, selector: str) -> ListChanges:
        """Return the objects with these labels, read page by page. Raise UnreadableError with a sentence."""
        for _ in range(LISTS):
            found: list[Mapping[str, Any]] = []
            version = ""
            try:
                async for version_of_page, page in self._pages(resource, namespace, selector):
                    version = version or version_of_page  # the same on all pages
                    found += page
            except UnreadableError as error:
                if error.kind == EXPIRED:
                    continue
                raise
            return ListChanges({_key(each): each for each in found}, version)
        raise UnreadableError("status", f"the list of {resource.plural} changes faster than it can be read")

    async def watch(self, resource: Resource, namespace: str, selector: str, version: str) -> ListChanges:
        """Return what changed since a version ("Efficient detection of changes"), and wait for no more.

        Raise UnreadableError, also for a version that is no longer known: a list is the way out.
        """
        query = {
            "labelSelector": selector,
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        body = await self._ask(resource, namespace, "", query, "watch", WATCH_SECONDS + WATCH_GRACE_SECONDS)
        objects: dict[ObjectKey, Mapping[str, Any]] = {}
        gone: set[ObjectKey] = set()
        for event in map(_object, parse_json(b"[%s]" % b",".join(body.splitlines()), MAX_NODES)):  # one on each line
            kind, one = text(event, "type"), mapping(event, "object")
            if kind == "ERROR":
                raise UnreadableError(EXPIRED, "ends the watch with an error")  # with 410 or not
            key, version = _key(one), text(mapping(one, "metadata"), "resourceVersion") or version
            if kind == "DELETED":
                gone.add(key)
                objects.pop(key, None)
            elif kind != "BOOKMARK":  # it has a version only
                objects[key] = one
                gone.discard(key)
        return ListChanges(objects, version, frozenset(gone))

    async def _pages(
        self, resource: Resource, namespace: str, selector: str
    ) -> AsyncIterator[tuple[str, list[Mapping[str, Any]]]]:
        query = {"labelSelector": selector, "limit": str(PAGE)}
        number = 0
        for _ in range(MOST_PAGES):
            page = _object(parse_json(await self._ask(resource, namespace, "", query, "list"), MAX_NODES))
            if not isinstance(page.get("items"), list):
                raise UnreadableError("schema", f"answers with no list of {resource.plural}")
            objects, meta = mappings(page, "items"), mapping(page, "metadata")
            if (number := number + len(objects)) > MAX_TARGETS:
                raise UnreadableError("schema", f"more than {MAX_TARGETS:,} {resource.plural}; narrow selector")
            yield text(meta, "resourceVersion"), objects
            if not (token := text(meta, "continue")):
                return
            query["continue"] = token
        raise UnreadableError("schema", f"answers with more than {MOST_PAGES:,} pages of {resource.plural}")

    async def _ask(  # the parts of a request
        self,
        resource: Resource,
        namespace: str,
        end: str,
        query: Mapping[str, str],
        verb: str,
        seconds: float = math.inf,
    ) -> bytes:
        path, line = resource.path(namespace) + end, f"?{urlencode(query)}" if query else ""
        endpoint = Endpoint(self._access.server, path, line, is_replica=False)
        answer, login = await self._fetch(endpoint, seconds)
        if answer.status == UNAUTHORIZED and self._access.program and login is not self._renewed:  # once in a read
            answer, self._renewed = await self._fetch(endpoint, seconds, refused=login)
        if answer.status == GONE and query:
            raise UnreadableError(EXPIRED, f"the list of {resource.plural} expired")
        if answer.status == FORBIDDEN:
            raise UnreadableError("unauthorized", _forbidden(resource, namespace, verb))
        if answer.status == NOT_FOUND:
            owner = "the cluster" if namespace == ALL_NAMESPACES else f"the namespace {namespace}"
            raise UnreadableError("status", f"{owner} has no {resource.plural}{end}")
        if answer.failure:
            raise UnreadableError(answer.failure.kind, answer.failure.detail)
        return answer.body

    async def _fetch(self, endpoint: Endpoint, seconds: float, refused: Login | None = None) -> tuple[Answer, Login]:
        """Return an answer, and the login that it was asked with: of the program, where there is one, a new one."""
        access = self._access
        login = await access.program.log_in(self._deadline.left(), refused) if access.program else access.login
        left = min(self._deadline.left(), seconds)
        answer = await self._client.fetch(endpoint, left, limit=MAX_PAGE_BYTES, key=login.key, trust=login.trust)
        return answer, login


def _object(found: Any) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise UnreadableError("schema", "answers with JSON that is not of Kubernetes' API")
    return found


def _forbidden(resource: Resource, namespace: str, verb: str) -> str:
    verbs = "get, list, watch" if resource in WATCHED else verb
    rule = f'{{apiGroups: ["{resource.group}"], resources: [{resource.plural}], verbs: [{verbs}]}}'
    if namespace == ALL_NAMESPACES:
        return f"may not {verb} {resource.plural} in all namespaces; add to the rules of its ClusterRole: {rule}"
    return f"may not {verb} {resource.plural} in the namespace {namespace}; add to the rules of its Role: {rule}"


def _key(one: Mapping[str, Any]) -> ObjectKey:
    meta = mapping(one, "metadata")
    return text(meta, "namespace"), text(meta, "name")
