"""Several namespaces of Kubernetes, and all; and the labels that pods give to the endpoints of their Service."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from dashboard.config import KubernetesOptions, Options, PollOptions
from dashboard.fleet import Target
from dashboard.sources.discovery import Discovery
from dashboard.sources.kubernetes.source import Kubernetes
from dashboard.sources.source import Listing
from tests.serving import ROOT
from tests.sources.kubernetes_api import ALL_PODS, NAMESPACE, PODS, SERVICES, SLICES, Cluster, write_kubeconfig
from tests.sources.polling.hostile import HostileServer, answers, silent

VLLM = {"app": "vllm"}
ROLE = ROOT / "deploy" / "kubernetes" / "role.yaml"
CLUSTER_ROLE = ROOT / "deploy" / "kubernetes" / "clusterrole.yaml"


@pytest.fixture
def cluster(server: HostileServer, tmp_path: Path) -> Cluster:
    write_kubeconfig(tmp_path / "kubeconfig", server.address)
    return Cluster(server)


def source(kubeconfig: Path, *namespaces: str, seconds: float = 20, **more: Any) -> Kubernetes:
    options = {"kubeconfig": kubeconfig, "namespaces": namespaces, **more}
    limits = PollOptions(probe_timeout_seconds=1, replica_timeout_seconds=seconds)
    return Kubernetes(KubernetesOptions.model_validate(options), None, limits)


def read(found: Kubernetes) -> dict[str, Listing]:
    return {each.name: each for each in asyncio.run(found.read())}


def ids(listing: Listing) -> list[str]:
    return [each.id for each in listing.targets]


def path_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def test_each_namespace_is_listed_once_and_then_watched(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_pod("p1", "10.0.0.1", VLLM, namespace="a")
    cluster.add_pod("p2", "10.0.0.2", VLLM, namespace="b")
    cluster.add_pod("p3", "10.0.0.3", VLLM, namespace="c")
    found = source(kubeconfig, "a", "b", "a", selector="app=vllm")
    assert {name: ids(each) for name, each in read(found).items()} == {
        "kubernetes/a/pods/app=vllm": ["http://10.0.0.1:8000"],
        "kubernetes/b/pods/app=vllm": ["http://10.0.0.2:8000"],
    }
    cluster.changed("p2", "DELETED")
    cluster.add_pod("p4", "10.0.0.4", VLLM, namespace="b")
    assert [ids(each) for each in read(found).values()] == [["http://10.0.0.1:8000"], ["http://10.0.0.4:8000"]]
    assert [["watch" in each for each in cluster.queries(path_of(name))] for name in ("a", "b", "c")] == [
        [False, True],
        [False, True],
        [],
    ]


@pytest.mark.parametrize("problem", ["forbidden", "silent"])
def test_a_namespace_that_cannot_be_read_costs_only_itself(cluster: Cluster, kubeconfig: Path, problem: str) -> None:
    cluster.add_pod("p1", "10.0.0.1", VLLM, namespace="a")
    cluster.add_pod("p2", "10.0.0.2", VLLM, namespace="b")
    found = source(kubeconfig, "a", "b", selector="app=vllm", seconds=4)
    read(found)
    cluster.server.routes[path_of("a")] = answers(b"{}", 403) if problem == "forbidden" else silent
    cluster.changed("p2", "DELETED")
    cluster.add_pod("p3", "10.0.0.3", VLLM, namespace="b")
    first, second = read(found).values()

    assert (ids(second), second.failure) == (["http://10.0.0.3:8000"], None)
    assert [(each.id, each.stale) for each in first.targets] == [("http://10.0.0.1:8000", True)]
    assert first.failure
    if problem == "forbidden":
        assert first.failure == (
            "kubernetes/a/pods/app=vllm: may not list pods in the namespace a; add to the rules of its Role: "
            '{apiGroups: [""], resources: [pods], verbs: [get, list, watch]}; '
            "keeping its last targets (1), marked stale"
        )


def test_all_namespaces_are_one_list_and_one_watch_on_the_path_of_the_cluster(
    cluster: Cluster, kubeconfig: Path
) -> None:
    cluster.add_pod("p1", "10.0.0.1", VLLM, namespace="a")
    twin = cluster.add_pod("p2", "10.0.0.2", VLLM, namespace="b")
    twin["metadata"]["name"] = "p1"  # one name in two namespaces
    cluster.add_pod("p3", "10.0.0.3", {"app": "other"}, namespace="b")
    found = source(kubeconfig, "*", selector="app=vllm")
    (first,) = read(found).values()
    cluster.changed("p2", "DELETED")
    (second,) = read(found).values()

    assert first.name == "kubernetes/*/pods/app=vllm"
    assert [(each.id, each.labels["namespace"]) for each in first.targets] == [
        ("http://10.0.0.1:8000", "a"),
        ("http://10.0.0.2:8000", "b"),
    ]
    assert ids(second) == ["http://10.0.0.1:8000"]
    assert ["watch" in each for each in cluster.queries(ALL_PODS)] == [False, True]
    assert {urlsplit(each.path).path for each in cluster.server.asked} == {ALL_PODS}


def test_a_role_is_not_enough_for_all_namespaces_and_the_sentence_has_the_rule_of_the_cluster_role(
    cluster: Cluster, kubeconfig: Path
) -> None:
    cluster.server.routes[ALL_PODS] = answers(b"{}", 403)
    (listing,) = read(source(kubeconfig, "*", selector="app=vllm")).values()
    assert listing.failure == (
        "kubernetes/*/pods/app=vllm: may not list pods in all namespaces; add to the rules of its ClusterRole: "
        '{apiGroups: [""], resources: [pods], verbs: [get, list, watch]}'
    )


def test_a_kubeconfig_that_cannot_be_read_is_a_sentence_of_every_namespace(tmp_path: Path) -> None:
    listings = read(source(tmp_path / "none", "a", "b", selector="app=vllm"))
    assert [each.failure for each in listings.values()] == [
        f"{name}: {tmp_path / 'none'}: No such file or directory" for name in listings
    ]
    assert len(listings) == 2


# Pods of a Service


def endpoint(pod: str, address: str, **more: Any) -> Mapping[str, Any]:
    return {"addresses": [address], "targetRef": {"kind": "Pod", "name": pod}, **more}


def of_service(cluster: Cluster) -> None:
    """Add a Service with the pods `a`, which listens on two addresses, and `b`, which is not ready."""
    cluster.add_service("chat", VLLM)
    labels = {**VLLM, "pod-template-hash": "7d9", "llm-d.ai/role": "decode", "model": "chat-70b", "team": "x"}
    pod = cluster.add_pod("a", "10.0.0.1", labels, podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}])
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "chat-7d9", "controller": True}]
    unready = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
    cluster.add_pod("b", "10.0.0.2", VLLM, conditions=unready)
    cluster.add_pod("other", "10.0.0.9", {"app": "other"})


def labels_of(targets: tuple[Target, ...]) -> dict[str, dict[str, str]]:
    return {each.id: dict(each.labels) for each in targets}


def test_endpoints_have_the_labels_of_the_pods_that_they_refer_to(cluster: Cluster, kubeconfig: Path) -> None:
    of_service(cluster)
    cluster.add_slice("chat", endpoint("a", "10.0.0.1"), endpoint("b", "10.0.0.2", conditions={"ready": False}))
    cluster.add_slice("chat", endpoint("a", "fd00::1"))
    found = source(kubeconfig, service="chat", pool_label="model", keep_labels=["team"], labels={"cluster": "eu"})
    (listing,) = read(found).values()

    common = {"cluster": "eu", "namespace": NAMESPACE, "node": "gpu-1", "image_vllm": "sha256:4f2a"}
    labels = {
        **common,
        "name": "a",
        "pod": "a",
        "owner": "Deployment/chat",
        "llm-d.ai/role": "decode",
        "pool": "chat-70b",
        "team": "x",
    }
    assert labels_of(listing.targets) == {
        "http://10.0.0.1:8000": labels,
        "http://10.0.0.2:8000": {**common, "name": "b", "pod": "b", "not_ready": "ContainersNotReady"},
        "http://[fd00::1]:8000": labels,
    }


def test_an_endpoint_that_lies_about_its_pod_has_no_labels_of_it(cluster: Cluster, kubeconfig: Path) -> None:
    of_service(cluster)
    foreign = {"kind": "Node", "name": "a"}
    cluster.add_slice(
        "chat",
        endpoint("a", "10.6.6.6"),
        endpoint("other", "10.0.0.9"),
        {"addresses": ["10.0.0.1"], "targetRef": foreign},
    )
    (listing,) = read(source(kubeconfig, service="chat", keep_labels=["team"])).values()

    assert labels_of(listing.targets) == {
        "http://10.6.6.6:8000": {"namespace": NAMESPACE, "name": "a", "pod": "a"},
        "http://10.0.0.9:8000": {"namespace": NAMESPACE, "name": "other", "pod": "other"},
        "http://10.0.0.1:8000": {"namespace": NAMESPACE},
    }


def test_a_pod_that_changes_gives_new_labels_and_targets_stay_the_same_objects_otherwise(
    cluster: Cluster, kubeconfig: Path
) -> None:
    of_service(cluster)
    cluster.add_slice("chat", endpoint("a", "10.0.0.1"))
    found = source(kubeconfig, service="chat", keep_labels=["team"])
    (first,), (second,) = read(found).values(), read(found).values()
    cluster.pods["a"]["metadata"]["labels"]["team"] = "y"
    cluster.changed("a")
    (third,) = read(found).values()

    assert first.targets[0] is second.targets[0]
    assert [each.targets[0].labels["team"] for each in (first, third)] == ["x", "y"]
    assert ["watch" in each for each in cluster.queries()] == [False, True, True]


@pytest.mark.parametrize("path", [f"{SERVICES}/chat", PODS])
def test_endpoints_whose_pods_may_not_be_read_have_no_labels_of_them(
    cluster: Cluster, kubeconfig: Path, path: str
) -> None:
    of_service(cluster)
    cluster.add_slice("chat", endpoint("a", "10.0.0.1"))
    cluster.server.routes[path] = answers(b"{}", 403)
    (listing,) = read(source(kubeconfig, service="chat", keep_labels=["team"])).values()

    assert listing.failure is None
    assert labels_of(listing.targets) == {"http://10.0.0.1:8000": {"namespace": NAMESPACE, "name": "a", "pod": "a"}}


def test_a_service_that_is_not_there_is_a_sentence_and_one_without_selector_has_no_pods(
    cluster: Cluster, kubeconfig: Path
) -> None:
    (missing,) = read(source(kubeconfig, service="none")).values()
    assert missing.failure == "kubernetes/services/none: the namespace llm-d has no services/none"
    of_service(cluster)
    cluster.add_service("chat", None)
    cluster.add_slice("chat", endpoint("a", "10.0.0.1"))
    (listing,) = read(source(kubeconfig, service="chat")).values()
    assert "owner" not in listing.targets[0].labels
    assert cluster.queries() == []


def test_other_sources_name_the_service_without_a_key_to_its_addresses(cluster: Cluster, kubeconfig: Path) -> None:
    of_service(cluster)
    cluster.add_slice("chat", endpoint("a", "10.0.0.1"))
    options = Options.model_validate({"kubernetes": [{"service": "chat", "kubeconfig": kubeconfig}]})
    (target,) = asyncio.run(Discovery(options).discover()).targets
    assert target.access.name == "NAMED"


# What the roles in deploy/ allow


def rules(file: Path) -> set[tuple[str, str, str]]:
    """Return group, resource and verb of each rule."""
    role = next(each for each in yaml.safe_load_all(file.read_text()) if each["kind"] in {"Role", "ClusterRole"})
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(cluster: Cluster) -> set[tuple[str, str, str]]:
    """Return group, resource and verb of each request, as RBAC sees it."""
    seen = set()
    for each in cluster.server.asked:
        path, _, query = each.path.partition("?")
        parts = path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        rest = rest[2:] if rest[0] == "namespaces" else rest
        seen.add((group, rest[0], "get" if len(rest) > 1 else "watch" if "watch=1" in query else "list"))
    return seen


def test_the_cluster_role_allows_what_all_namespaces_need(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_pod("p1", "10.0.0.1", VLLM)
    found = source(kubeconfig, "*", selector="app=vllm")
    read(found)
    read(found)
    assert asked(cluster) == {("", "pods", "list"), ("", "pods", "watch")}
    assert asked(cluster) <= rules(CLUSTER_ROLE)


def test_the_role_allows_what_a_service_and_an_inference_pool_need(cluster: Cluster, kubeconfig: Path) -> None:
    of_service(cluster)
    cluster.add_slice("chat", endpoint("a", "10.0.0.1"))
    cluster.add_pool("chat", VLLM, 8000)
    for found in (source(kubeconfig, service="chat"), source(kubeconfig, inference_pool="chat")):
        assert [each.failure for each in (*read(found).values(), *read(found).values())] == [None, None]
    assert {SLICES, PODS, f"{SERVICES}/chat"} <= {each.path.partition("?")[0] for each in cluster.server.asked}
    assert asked(cluster) <= rules(ROLE)
