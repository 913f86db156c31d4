"""EndpointSlices as targets: the addresses of a Service, with their pods.

https://kubernetes.io/docs/reference/kubernetes-api/service-resources/endpoint-slice-v1/
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dashboard.config import KubernetesOptions
from dashboard.config.address import host_port
from dashboard.fleet import Credentials, Target
from dashboard.sources.groups import make_target
from dashboard.sources.values import mapping, mappings, port, text

OF_SERVICE = "kubernetes.io/service-name"  # label of the EndpointSlices of a Service
FULL_NAMES = "FQDN"  # address type that Kubernetes itself never makes


def make_slice_targets(
    one: Mapping[str, Any], options: KubernetesOptions, credentials: Credentials | None
) -> Iterator[Target]:
    """Yield a target for each endpoint of an EndpointSlice that has the port; without an own one its first."""
    number = _port(one, options.port)
    if number is None or text(one, "addressType") == FULL_NAMES:
        return
    namespace = text(mapping(one, "metadata"), "namespace")
    for endpoint in mappings(one, "endpoints"):
        found = endpoint.get("addresses")
        # All addresses of one endpoint are the same; consumers take the first.
        address = found[0] if isinstance(found, list) and found and isinstance(found[0], str) else ""
        reference = mapping(endpoint, "targetRef")
        is_ready = mapping(endpoint, "conditions").get("ready") is not False  # missing: unknown, to be read as ready
        pod = text(reference, "name") if text(reference, "kind") == "Pod" else ""
        own = {
            "namespace": namespace,
            "name": pod,
            "pod": pod,
            "node": text(endpoint, "nodeName"),
            "not_ready": "" if is_ready else "NotReady",
        }
        if address:
            labels = {**options.labels, **{name: said for name, said in own.items() if said}}
            yield make_target(f"{options.scheme}://{host_port(address, number)}", labels, credentials)


def _port(one: Mapping[str, Any], written: str | None) -> str | None:
    """Return the number of a port of an EndpointSlice by its name; a number is as it is written."""
    if written and written.isdecimal():
        return written
    ports = mappings(one, "ports")
    return next((port(each, "port") for each in ports if written is None or text(each, "name") == written), None)
