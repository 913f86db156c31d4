"""Targets from the API server of Kubernetes: an emulator on loopback, whose queries are asserted."""

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.config import KubernetesOptions, Options, PollOptions
from dashboard.demo import default_fleet, in_thread
from dashboard.demo.describe import Behaviour
from dashboard.fleet import Credentials, Target
from dashboard.sources.discovery import discover_once
from dashboard.sources.kubernetes import api
from dashboard.sources.kubernetes.api import PAGE
from dashboard.sources.kubernetes.pods import Pod, make_pod_targets
from dashboard.sources.kubernetes.source import Kubernetes
from dashboard.sources.source import Listing
from tests.serving import ROOT
from tests.sources.kubernetes_api import NAMESPACE, PODS, POOLS, TOKEN, Cluster, write_kubeconfig
from tests.sources.polling.hostile import BAD_ANSWERS, CERTIFICATE, HostileServer, answers, silent

VLLM = {"app": "vllm"}
SCHEMA = ROOT / "tests" / "deploy" / "schemas" / "inferencepool.json"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def cluster(server: HostileServer, tmp_path: Path) -> Cluster:
    write_kubeconfig(tmp_path / "kubeconfig", server.address)
    return Cluster(server)


def source(kubeconfig: Path, **more: Any) -> Kubernetes:
    options = KubernetesOptions.model_validate({"kubeconfig": kubeconfig, **more})
    return Kubernetes(options, Credentials("REPLICAS"), PollOptions(probe_timeout_seconds=5))


def read(found: Kubernetes) -> Listing:
    (listing,) = asyncio.run(found.read())
    return listing


def the(listing: Listing) -> Target:
    assert listing.failure is None
    (target,) = listing.targets
    return target


def test_pods_with_the_labels_are_targets_with_where_they_run_who_owns_them_and_their_images(
    cluster: Cluster, kubeconfig: Path
) -> None:
    labels = {**VLLM, "pod-template-hash": "7d9", "llm-d.ai/engine-type": "vllm", "model": "chat", "team": "a"}
    pod = cluster.add_pod("chat-7d9-x", "10.0.0.1", labels)
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "chat-7d9", "controller": True}]
    cluster.add_pod("other", "10.0.0.2", {"app": "other"})
    chosen = source(kubeconfig, selector="app=vllm", pool_label="model", keep_labels=["team", "none"])
    target = the(read(chosen))

    assert (target.id, target.credentials) == ("http://10.0.0.1:8000", Credentials("REPLICAS"))
    assert target.labels == {
        "namespace": NAMESPACE,
        "name": "chat-7d9-x",
        "pod": "chat-7d9-x",
        "node": "gpu-1",
        "owner": "Deployment/chat",
        "image_vllm": "sha256:4f2a",
        "llm-d.ai/engine-type": "vllm",
        "pool": "chat",
        "team": "a",
    }
    assert cluster.queries() == [{"labelSelector": "app=vllm", "limit": str(PAGE)}]
    assert cluster.server.asked[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_an_inference_pool_gives_labels_ports_and_pool_with_roles_apart(cluster: Cluster, kubeconfig: Path) -> None:
    pool = cluster.add_pool("chat", VLLM, 8000, 8001)
    jsonschema.validate(pool, json.loads(SCHEMA.read_text()))
    cluster.add_pod("a", "10.0.0.1", VLLM)
    cluster.add_pod("b", "fd00::2", VLLM)["metadata"]["annotations"] = {"llm-d.ai/active-ports": "8001"}
    cluster.add_pod("c", "10.0.0.3", {**VLLM, "llm-d.ai/role": "decode"})
    listing = read(source(kubeconfig, inference_pool="chat", role_ports={"decode": "8200"}))

    assert [(each.id, each.labels["name"], each.labels["pool"]) for each in listing.targets] == [
        ("http://10.0.0.1:8000", "a:8000", "chat"),
        ("http://10.0.0.1:8001", "a:8001", "chat"),
        ("http://[fd00::2]:8001", "b", "chat"),
        ("http://10.0.0.3:8200", "c", "chat/decode"),
    ]
    assert cluster.queries()[0]["labelSelector"] == "app=vllm"


def test_the_endpoints_of_a_service_are_targets_once_with_their_pods(cluster: Cluster, kubeconfig: Path) -> None:
    pod = {"kind": "Pod", "name": "chat-a"}
    cluster.add_service("chat", None)
    cluster.add_slice("chat", {"addresses": ["10.0.0.1"], "nodeName": "gpu-1", "targetRef": pod, "conditions": {}})
    cluster.add_slice("chat", {"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"], "conditions": {"ready": False}})
    cluster.add_slice("other", {"addresses": ["10.0.0.3"]})
    cluster.add_slice("chat", {"addresses": ["a.example.com"]})["addressType"] = "FQDN"
    cluster.add_slice("chat", {"addresses": ["fd00::4"]}, {"addresses": []}, {"addresses": [7]})
    listing = read(source(kubeconfig, service="chat", labels={"pool": "chat"}))

    assert listing.name == "kubernetes/services/chat"
    common = {"namespace": NAMESPACE, "pool": "chat"}
    assert {each.id: each.labels for each in listing.targets} == {
        "http://10.0.0.1:8000": {**common, "name": "chat-a", "pod": "chat-a", "node": "gpu-1"},
        "http://10.0.0.2:8000": {**common, "not_ready": "NotReady"},
        "http://[fd00::4]:8000": common,
    }
    by_name = read(source(kubeconfig, service="chat", port="grpc")).targets
    assert [each.id for each in by_name][:1] == ["http://10.0.0.1:8001"]
    assert [each.id for each in read(source(kubeconfig, service="chat", port="9000")).targets][:1] == [
        "http://10.0.0.1:9000"
    ]
    assert read(source(kubeconfig, service="chat", port="none")).targets == ()


def test_a_port_has_a_number_or_the_name_that_a_container_gives_it(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_pod("a", "10.0.0.1", VLLM)["spec"]["initContainers"] = [
        {"name": "proxy", "ports": [{"name": "proxy", "containerPort": 8100}]}
    ]
    assert the(read(source(kubeconfig, selector="app=vllm", port="proxy"))).id == "http://10.0.0.1:8100"
    assert the(read(source(kubeconfig, selector="app=vllm", port="9000"))).id == "http://10.0.0.1:9000"
    failed = the(read(source(kubeconfig, selector="app=vllm", port="grpc")))
    assert failed.failure
    assert failed.failure.detail == "No container of the pod has a port grpc; correct port."


def test_a_pod_has_eight_ports_at_most_and_says_so(cluster: Cluster, kubeconfig: Path) -> None:
    many = ",".join(map(str, range(8000, 48_000)))
    cluster.add_pod("a", "10.0.0.1", VLLM)["metadata"]["annotations"] = {"llm-d.ai/active-ports": many}
    cluster.add_pod("b", "10.0.0.2", VLLM)["metadata"]["annotations"] = {"llm-d.ai/active-ports": "8000, 8000,8000"}
    failed, *others = read(source(kubeconfig, selector="app=vllm")).targets

    assert failed.failure
    assert failed.failure.detail == "The pod lists 40,000 ports in llm-d.ai/active-ports; the first 8 are polled."
    assert [each.id for each in others] == [
        *(f"http://10.0.0.1:{8000 + number}" for number in range(8)),
        "http://10.0.0.2:8000",
    ]


def test_the_limit_of_targets_counts_targets(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_service("chat", None)
    addresses = [{"addresses": [f"10.0.{number // 256}.{number % 256}"]} for number in range(501)]
    for _ in range(100):
        cluster.add_slice("chat", *addresses)
    failure = read(source(kubeconfig, service="chat")).failure or ""
    assert failure == "kubernetes/services/chat: more than 50,000 targets; narrow selector"


def test_pages_without_end_are_a_sentence(cluster: Cluster, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "MOST_PAGES", 5)
    cluster.server.routes[PODS] = answers(b'{"metadata": {"continue": "more"}, "items": []}')
    failure = read(source(kubeconfig, selector="app=vllm")).failure or ""

    assert failure.endswith("answers with more than 5 pages of pods")
    assert len(cluster.queries()) == 5


def test_a_pod_that_is_not_ready_is_listed_with_its_reason_and_one_that_ended_is_not(
    cluster: Cluster, kubeconfig: Path
) -> None:
    waiting = [{"name": "vllm", "imageID": "", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    unready = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
    cluster.add_pod("pulls", "", VLLM, phase="Pending", conditions=unready, containerStatuses=waiting)
    cluster.add_pod("loads", "10.0.0.2", VLLM, conditions=unready)
    cluster.add_pod("leaves", "10.0.0.3", VLLM)["metadata"]["deletionTimestamp"] = "2026-11-24T12:00:00Z"
    cluster.add_pod("done", "10.0.0.4", VLLM, phase="Succeeded")
    listing = read(source(kubeconfig, selector="app=vllm"))

    assert {each.labels["pod"]: each.labels.get("not_ready") for each in listing.targets} == {
        "pulls": "Pending: ImagePullBackOff",
        "loads": "ContainersNotReady",
        "leaves": "Terminating",
    }
    pulls = listing.targets[-1]
    assert (pulls.id, pulls.failure and pulls.failure.detail) == (
        f"{NAMESPACE}/pulls",
        "The pod has no address: Pending: ImagePullBackOff.",
    )


def test_pods_are_read_page_by_page_and_again_when_the_pages_expire(cluster: Cluster, kubeconfig: Path) -> None:
    for number in range(2 * PAGE + 1):
        cluster.add_pod(f"p{number}", f"10.0.{number // 250}.{number % 250}", VLLM)
    cluster.expired.append(str(PAGE))
    listing = read(source(kubeconfig, selector="app=vllm"))

    assert len(listing.targets) == 2 * PAGE + 1
    assert [each.get("continue") for each in cluster.queries()] == [None, str(PAGE), None, str(PAGE), str(2 * PAGE)]


def test_pages_that_always_expire_are_a_sentence(cluster: Cluster, kubeconfig: Path) -> None:
    for number in range(PAGE + 1):
        cluster.add_pod(f"p{number}", "10.0.0.1", VLLM)
    cluster.expired += [str(PAGE)] * 9
    failure = read(source(kubeconfig, selector="app=vllm")).failure
    assert failure == "kubernetes/pods/app=vllm: the list of pods changes faster than it can be read"


def test_a_refusal_names_the_verb_the_resource_and_the_rule_and_keeps_the_targets(
    cluster: Cluster, kubeconfig: Path
) -> None:
    cluster.add_pod("a", "10.0.0.1", VLLM)
    cluster.add_pool("chat", VLLM, 8000)
    found = source(kubeconfig, inference_pool="chat", namespaces=[NAMESPACE])
    read(found)
    cluster.server.routes[f"{POOLS}/chat"] = answers(b"{}", 403)
    listing = read(found)

    assert listing.failure == (
        "kubernetes/llm-d/inferencepools/chat: may not get inferencepools in the namespace llm-d; add to the rules of "
        'its Role: {apiGroups: ["inference.networking.k8s.io"], resources: [inferencepools], verbs: [get, list, watch]}'
        "; keeping its last targets (1), marked stale"
    )
    assert [each.stale for each in listing.targets] == [True]


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (200, b'{"kind":"PodList"}', "answers with no list of pods"),
        (200, b"[]", "answers with JSON that is not of Kubernetes' API"),
        (404, b"{}", "the namespace llm-d has no pods"),
        (401, b"{}", "refuses the given API key for /api/v1/namespaces/llm-d/pods (status 401)"),
    ],
)
def test_another_answer_is_a_sentence(
    cluster: Cluster, kubeconfig: Path, status: int, body: bytes, sentence: str
) -> None:
    cluster.server.routes[PODS] = answers(body, status)
    assert sentence in (read(source(kubeconfig, selector="app=vllm")).failure or "")


@pytest.mark.parametrize("name", [each for each in BAD_ANSWERS if each != "nothing"])  # a watch without changes
def test_a_bad_answer_keeps_the_targets_as_stale(cluster: Cluster, kubeconfig: Path, name: str) -> None:
    cluster.add_pod("a", "10.0.0.1", VLLM)
    options = KubernetesOptions(kubeconfig=kubeconfig, selector="app=vllm")
    found = Kubernetes(options, None, PollOptions(probe_timeout_seconds=1, replica_timeout_seconds=1))
    read(found)
    cluster.server.routes[PODS] = BAD_ANSWERS[name][0]
    listing = read(found)

    assert [each.stale for each in listing.targets] == [True]
    assert listing.failure
    assert listing.failure.endswith("; keeping its last targets (1), marked stale")


def pods_of(listing: Listing) -> list[str]:
    assert listing.failure is None
    return [each.labels["pod"] for each in listing.targets]


def test_a_later_read_asks_only_what_changed_since_the_last_one(cluster: Cluster, kubeconfig: Path) -> None:
    for name in ("a", "b", "c"):
        cluster.add_pod(name, "10.0.0.1" if name == "a" else "10.0.0.2", VLLM)
    found = source(kubeconfig, selector="app=vllm", port_annotation="ports")
    assert pods_of(read(found)) == ["a", "b"]
    cluster.changed("b", "DELETED")
    cluster.add_pod("d", "10.0.0.4", VLLM)
    cluster.pods["a"]["metadata"]["annotations"] = {"ports": "9000"}
    cluster.changed("a")
    listing = read(found)
    read(found)

    assert pods_of(listing) == ["a", "c", "d"]
    assert listing.targets[0].id == "http://10.0.0.1:9000"
    assert [each.get("resourceVersion") for each in cluster.queries()] == [None, "3", "6"]
    assert cluster.queries()[1] == {
        "labelSelector": "app=vllm",
        "watch": "1",
        "resourceVersion": "3",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "1",
    }


def test_a_pod_that_was_deleted_and_made_again_is_there(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_pod("a", "10.0.0.1", VLLM)
    found = source(kubeconfig, selector="app=vllm")
    read(found)
    cluster.changed("a", "DELETED")
    cluster.add_pod("a", "10.0.0.2", VLLM)
    assert [each.id for each in read(found).targets] == ["http://10.0.0.2:8000"]


@pytest.mark.parametrize("how", ["forgotten", "gone", "forbidden", "cut off", "stalls"])
def test_a_watch_that_fails_is_a_list_at_once(cluster: Cluster, kubeconfig: Path, how: str) -> None:
    cluster.add_pod("a", "10.0.0.1", VLLM)
    found = source(kubeconfig, selector="app=vllm")
    read(found)
    cluster.changed("a", "DELETED")
    cluster.add_pod("b", "10.0.0.1", VLLM)
    broken = {
        "gone": answers(b"{}", 410),
        "forbidden": answers(b"{}", 403),
        "cut off": answers(b'{"type":"ADDED","obj'),
        "stalls": silent,
    }
    cluster.broken_watch = broken.get(how)
    cluster.oldest = 9 if how == "forgotten" else 0

    assert pods_of(read(found)) == ["b"]
    assert ["watch" in each for each in cluster.queries()] == [False, True, False]


def test_other_labels_of_an_inference_pool_are_listed_anew(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_pod("a", "10.0.0.1", VLLM)
    cluster.add_pod("b", "10.0.0.2", {"app": "other"})
    cluster.add_pool("chat", VLLM, 8000)
    found = source(kubeconfig, inference_pool="chat")
    assert pods_of(read(found)) == ["a"]
    cluster.add_pool("chat", {"app": "other"}, 8000)
    assert pods_of(read(found)) == ["b"]


def test_an_inference_pool_without_labels_and_one_that_is_missing_are_sentences(
    cluster: Cluster, kubeconfig: Path
) -> None:
    cluster.add_pool("chat", {}, 8000)
    found = read(source(kubeconfig, inference_pool="chat")).failure or ""
    assert found.endswith("the InferencePool has no selector.matchLabels and targetPorts")
    missing = read(source(kubeconfig, inference_pool="none")).failure or ""
    assert missing.endswith("the namespace llm-d has no inferencepools/none")


@given(JSON, JSON, JSON)
def test_any_pod_gives_targets_or_none(metadata: Any, spec: Any, status: Any) -> None:
    pod = Pod({"metadata": metadata, "spec": spec, "status": {"podIP": "10.0.0.1", "conditions": status}})
    (target,) = make_pod_targets(pod, KubernetesOptions(selector="a"), None, [])
    assert target.id == "http://10.0.0.1:8000"


def test_certificates_in_a_kubeconfig_are_used(tmp_path: Path) -> None:
    data = b64encode(CERTIFICATE.read_bytes()).decode()
    with HostileServer(tls=True) as server:
        user = f"{{token: {TOKEN}, client-certificate-data: {data}}}"
        more = f", certificate-authority-data: {data}"
        file = write_kubeconfig(tmp_path / "k", server.address, user=user, cluster=more)
        cluster = Cluster(server)
        cluster.add_pod("a", "10.0.0.1", VLLM)
        assert the(read(source(file, selector="app=vllm"))).labels["pod"] == "a"


def test_a_pod_that_is_created_restarted_and_deleted_is_seen_as_such_by_the_next_poll(
    cluster: Cluster, kubeconfig: Path
) -> None:
    replicas = [each for each in default_fleet() if each.behaviour is Behaviour.NORMAL][:2]
    with in_thread(replicas) as demo:
        chosen = {"selector": "app=vllm", "kubeconfig": kubeconfig, "port": str(demo.port)}
        options = Options.model_validate({"kubernetes": [chosen]})

        def poll() -> Fleet:
            return service.poll_once(options, discover_once(options))

        cluster.add_pod("first", replicas[0].address, VLLM)
        assert [each.labels["pod"] for each in poll().replicas] == ["first"]
        cluster.add_pod("second", replicas[1].address, VLLM)
        before = poll()
        demo.restart(replicas[1].address, ["--block-size", "128"])
        after = poll()
        cluster.changed("second", "DELETED")
        last = poll()

    sizes = [
        [each.engines[0].block_size for each in sorted(fleet.replicas, key=lambda one: one.labels["pod"])]
        for fleet in (before, after, last)
    ]
    assert sizes == [[16, 16], [16, 128], [16]]
