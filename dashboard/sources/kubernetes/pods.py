"""Pods as targets: their addresses and labels, and why one is not ready."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dashboard.config import MAX_LABEL_CHARACTERS, KubernetesOptions
from dashboard.config.address import host_port
from dashboard.fleet import Credentials, Failure, FailureKind, Target, TargetAccess
from dashboard.fleet.formatting import visible
from dashboard.sources.source import make_target, mapping, mappings, port, text, texts

DEFAULT_PORT = "8000"  # of vLLM
MOST_PORTS = 8  # of a pod: those of an InferencePool (its CRD), one for each DP rank
ROLE, ENGINE_TYPE = "llm-d.ai/role", "llm-d.ai/engine-type"  # labels that llm-d sets
APART = ("prefill", "decode")  # roles whose replicas are not interchangeable
WORKER_SET = "leaderworkerset.sigs.k8s.io/name"  # label of a LeaderWorkerSet's pods
ENDED = ("Succeeded", "Failed")  # phases of pods that never run again


class Pod:
    """One pod of the API (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/).

    Parts of another type are read as missing.
    """

    def __init__(self, value: Mapping[str, Any]) -> None:
        self._meta = mapping(value, "metadata")
        self._spec = mapping(value, "spec")
        self._status = status = mapping(value, "status")
        self._containers = (*mappings(status, "initContainerStatuses"), *mappings(status, "containerStatuses"))
        self.name = text(self._meta, "name")
        self.namespace = text(self._meta, "namespace")
        self.labels = texts(mapping(self._meta, "labels"))
        self.annotations = texts(mapping(self._meta, "annotations"))
        self.address = text(self._status, "podIP")
        self.addresses = frozenset({self.address, *(text(each, "ip") for each in mappings(status, "podIPs"))} - {""})
        self.has_ended = text(self._status, "phase") in ENDED

    def reason(self) -> str:
        """Return why it is not ready; empty for a pod that is."""
        if self._meta.get("deletionTimestamp"):
            return "Terminating"
        ready = next((each for each in mappings(self._status, "conditions") if each.get("type") == "Ready"), {})
        if ready.get("status") == "True":
            return ""
        states = (mapping(each, "state") for each in self._containers)
        waiting = (text(mapping(each, "waiting"), "reason") for each in states)
        reasons = (*waiting, text(ready, "reason"), text(self._status, "reason"))
        said = next((each for each in reasons if each and each != "PodInitializing"), "NotReady")
        phase = text(self._status, "phase")
        return said if phase in {"", "Running"} else f"{phase}: {said}"

    def port(self, written: str) -> str | None:
        """Return the number of a port; a name is that of a container's port. None where no container has it."""
        if written.isdecimal():
            return written
        ports = self._ports()
        return next((port(each, "containerPort") for each in ports if text(each, "name") == written), None)

    def declares(self, number: str) -> bool:
        return any(port(each, "containerPort") == number for each in self._ports())

    def _ports(self) -> list[Mapping[str, Any]]:
        containers = (*mappings(self._spec, "containers"), *mappings(self._spec, "initContainers"))
        return [each for container in containers for each in mappings(container, "ports")]

    def traits(self) -> dict[str, str]:
        """Return the labels of a target that every pod has: where it runs, who owns it, which images it runs."""
        images = {
            f"image_{text(each, 'name')}": text(each, "imageID").rpartition("@")[2]
            for each in self._containers
            if "running" in mapping(each, "state")
        }
        traits = {
            "namespace": self.namespace,
            "pod": self.name,
            "node": text(self._spec, "nodeName"),
            "owner": self._owner(),
            "not_ready": self.reason(),
            **images,
        }
        return {name: text for name, text in traits.items() if text}

    def _owner(self) -> str:
        """Return kind and name of the controller; a ReplicaSet of a Deployment has its name and a hash."""
        if name := self.labels.get(WORKER_SET):
            return f"LeaderWorkerSet/{name}"
        owners = mappings(self._meta, "ownerReferences")
        owner = next((each for each in owners if each.get("controller") is True), {})
        kind, name = text(owner, "kind"), text(owner, "name")
        pod_hash = self.labels.get("pod-template-hash")
        if kind == "ReplicaSet" and pod_hash and name.endswith(f"-{pod_hash}"):
            return f"Deployment/{name.removesuffix(f'-{pod_hash}')}"
        return f"{kind}/{name}" if kind and name else ""


def make_pod_targets(
    pod: Pod, options: KubernetesOptions, credentials: Credentials | None, ports: Sequence[str]
) -> Iterator[Target]:
    """Yield a target for each port of a pod, none of one that has ended; without an address it is a failed one.

    `ports` are the default.
    """
    if pod.has_ended:
        return
    role = pod.labels.get(ROLE, "")
    labels = make_pod_labels(pod, options)
    if not pod.address:
        failure = Failure(FailureKind.TARGET, f"The pod has no address: {visible(pod.reason() or 'NotReady')}.")
        yield Target(f"{pod.namespace}/{pod.name}", {**labels, "name": pod.name}, credentials, failure=failure)
        return
    active = pod.annotations.get(options.port_annotation, "")
    chosen = [options.role_ports[role]] if role in options.role_ports else map(str.strip, active.split(","))
    several = [each for each in dict.fromkeys(chosen) if each] or (
        [options.port] if options.port else ports or [DEFAULT_PORT]
    )
    if len(several) > MOST_PORTS:
        lists = f"The pod lists {len(several):,} ports in {options.port_annotation}; the first {MOST_PORTS} are polled."
        failure, several = Failure(FailureKind.TARGET, lists), several[:MOST_PORTS]
        yield Target(f"{pod.namespace}/{pod.name}", {**labels, "name": pod.name}, credentials, failure=failure)
    for written in several:
        number = pod.port(written)
        named = {**labels, "name": pod.name if len(several) == 1 else f"{pod.name}:{written}"}
        if number is None:
            failure = Failure(
                FailureKind.TARGET, f"No container of the pod has a port {visible(written)}; correct port."
            )
            yield Target(f"{pod.namespace}/{pod.name}:{written}", named, credentials, failure=failure)
        else:
            target = make_target(f"{options.scheme}://{host_port(pod.address, number)}", named, credentials)
            is_own = pod.declares(number) or written in {options.port, options.role_ports.get(role)}
            yield replace(target, access=TargetAccess.ALLOWED if is_own else TargetAccess.NAMED)


def make_pod_labels(pod: Pod, options: KubernetesOptions) -> dict[str, str]:
    """Return the labels of the targets of a pod, without their name."""
    kept = {name: pod.labels[name] for name in (ROLE, ENGINE_TYPE, *options.keep_labels) if name in pod.labels}
    own = {name: text[:MAX_LABEL_CHARACTERS] for name, text in {**pod.traits(), **kept}.items()}
    return {**options.labels, **own, **_pool(pod, options)}


def _pool(pod: Pod, options: KubernetesOptions) -> dict[str, str]:
    """Return the label of the pool; prefill and decode replicas of one InferencePool are two."""
    role = pod.labels.get(ROLE, "")
    if options.pool_label:
        name = pod.labels.get(options.pool_label, "")
    elif options.inference_pool:
        name = f"{options.inference_pool}/{role}" if role in APART else options.inference_pool
    else:
        name = ""
    return {"pool": name} if name else {}


OF_SERVICE = "kubernetes.io/service-name"  # label of the EndpointSlices of a Service
FULL_NAMES = "FQDN"  # address type that Kubernetes itself never makes


class PodLabels(NamedTuple):
    """The labels that a pod gives to the endpoints with one of its addresses."""

    addresses: frozenset[str]
    labels: Mapping[str, str]


def make_slice_targets(
    one: Mapping[str, Any],
    options: KubernetesOptions,
    credentials: Credentials | None,
    pods: Mapping[tuple[str, str], PodLabels],
) -> Iterator[Target]:
    """Yield a target for each endpoint of an EndpointSlice that has the port; without an own one its first.

    An endpoint has the labels of the pod in `pods`, by namespace and name, that it refers to.
    """
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
        known = pods.get((namespace, pod))
        if address:
            of_pod = known.labels if known and address in known.addresses else {}  # of another pod since, or a lie
            labels = {**options.labels, **{name: said for name, said in own.items() if said}, **of_pod}
            yield make_target(f"{options.scheme}://{host_port(address, number)}", labels, credentials)


def _port(one: Mapping[str, Any], written: str | None) -> str | None:
    """Return the number of a port of an EndpointSlice by its name; a number is as it is written."""
    if written and written.isdecimal():
        return written
    ports = mappings(one, "ports")
    return next((port(each, "port") for each in ports if written is None or text(each, "name") == written), None)
