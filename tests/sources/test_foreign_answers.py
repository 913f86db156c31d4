"""Any JSON in place of any part of an answer: a source has targets or a failure, and never another error."""

import asyncio
import copy
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.config import FileSdOptions, HttpSdOptions, KubernetesOptions, PollOptions, PrometheusOptions
from dashboard.config.sources import RouterOptions
from dashboard.errors import UnreadableError
from dashboard.sources.kubernetes.source import Kubernetes
from dashboard.sources.prometheus.source import Prometheus
from dashboard.sources.routers.answers import FactValues
from dashboard.sources.routers.kinds import KINDS, read_conf, read_stack_health, read_status, read_version
from dashboard.sources.routers.llm_d import read_config, read_state
from dashboard.sources.routers.reader import RouterReader, RouterReply, _facts_of
from dashboard.sources.source import TargetSource
from dashboard.sources.target_groups import FileSd, HttpSd
from tests.sources.kubernetes_api import (
    CONFIG_MAPS,
    NAMESPACE,
    PODS,
    POOLS,
    SERVICES,
    SLICES,
    Cluster,
    write_kubeconfig,
)  # fmt: skip
from tests.sources.polling.hostile import JSON, HostileServer, answers
from tests.sources.routers.fixture_files import fixture
from tests.sources.routers.test_router_reader import AT
from tests.strategies import damaged

LIMITS = PollOptions(probe_timeout_seconds=5)
SERIES = {"instance": "10.0.0.1:8000", "job": "vllm", "pod": "a", "block_size": "16", "engine": "0"}
DIGESTS = {"instance": "10.0.0.1:8000", "job": "vllm", "pod": "a", "engine": "0", "scheme": "2", "document": "0a"}
QUERIED = {
    "status": "success",
    "data": {
        "resultType": "vector",
        "result": [{"metric": each, "value": [1_800_000_000.5, "1799999999.5"]} for each in (SERIES, DIGESTS)],
    },
    "warnings": ["partial"],
}
GROUPS = [{"targets": ["a:1", "b"], "labels": {"pool": "chat", "__scheme__": "https"}}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, module_server: HostileServer) -> Path:
    folder = tmp_path_factory.mktemp("foreign")
    write_kubeconfig(folder / "kubeconfig", module_server.address)
    return folder


@pytest.fixture(scope="module")
def objects(module_server: HostileServer) -> Mapping[str, Any]:
    """What the API server answers, by path."""
    cluster = Cluster(module_server)
    pod = cluster.add_pod("a", "10.0.0.1", {"app": "vllm", "pod-template-hash": "7"})
    pod["metadata"]["annotations"] = {"llm-d.ai/active-ports": "8000,http"}
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "a-7", "controller": True}]
    reference = {"kind": "Pod", "name": "a"}
    endpoint = {"addresses": ["10.0.0.1"], "nodeName": "n", "targetRef": reference, "conditions": {"ready": False}}
    cluster.add_slice("chat", endpoint)
    pool = cluster.add_pool("chat", {"app": "vllm"}, 8000, 8001)
    lists = {PODS: [pod], SLICES: cluster.slices}
    pages = {path: {"metadata": {"resourceVersion": "1"}, "items": items} for path, items in lists.items()}
    return copy.deepcopy({**pages, f"{POOLS}/chat": pool})


def serve(server: HostileServer, path: str, answer: Any) -> None:
    server.routes[path] = answers(json.dumps(answer).encode(), headers=JSON)


def read(source: TargetSource) -> None:
    for listing in asyncio.run(source.read()):
        assert listing.failure or all(each.id for each in listing.targets)


unhurried = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@unhurried
@given(st.data())
@pytest.mark.parametrize(
    ("broken", "options"),
    [
        (PODS, {"selector": "app=vllm", "port": "http"}),
        (PODS, {"selector": "app=vllm", "pool_label": "app"}),
        (SLICES, {"service": "chat"}),
        (SLICES, {"service": "chat", "port": "http"}),
        (f"{POOLS}/chat", {"inference_pool": "chat"}),
    ],
)
def test_any_object_of_kubernetes(
    server: HostileServer,
    folder: Path,
    objects: Mapping[str, Any],
    broken: str,
    options: dict[str, str],
    data: st.DataObject,
) -> None:
    for path, answer in objects.items():
        serve(server, path, data.draw(damaged(answer)) if path == broken else answer)
    given_options = KubernetesOptions.model_validate({"kubeconfig": folder / "kubeconfig", **options})
    read(Kubernetes(given_options, None, LIMITS))


@unhurried
@given(st.data())
def test_any_event_of_a_watch(
    server: HostileServer, folder: Path, objects: Mapping[str, Any], data: st.DataObject
) -> None:
    serve(server, PODS, objects[PODS])
    options = KubernetesOptions.model_validate({"kubeconfig": folder / "kubeconfig", "selector": "app=vllm"})
    found = Kubernetes(options, None, LIMITS)
    read(found)
    (pod,) = objects[PODS]["items"]
    event = {"type": "MODIFIED", "object": pod}
    server.routes[PODS] = answers(json.dumps(data.draw(damaged(event))).encode())
    read(found)


@unhurried
@given(answer=damaged(QUERIED))
@pytest.mark.parametrize("direct", ["always", "missing", "never"])
def test_any_answer_of_prometheus(server: HostileServer, direct: str, answer: Any) -> None:
    serve(server, "/api/v1/query", answer)
    options = PrometheusOptions.model_validate({"url": server.address, "direct": direct, "timeout_seconds": 5})
    read(Prometheus(options, None, LIMITS))


@unhurried
@given(answer=damaged(GROUPS))
def test_any_list_of_a_url_and_any_file(server: HostileServer, folder: Path, answer: Any) -> None:
    serve(server, "/targets", answer)
    read(HttpSd(HttpSdOptions(url=f"{server.address}/targets"), None, None, LIMITS))
    for name in ("targets.json", "targets.yaml"):
        (folder / name).write_text(json.dumps(answer))
        read(FileSd(FileSdOptions.model_validate({"files": [str(folder / name)]}), None))


CONFIG = json.dumps({
    "kind": "EndpointPickerConfig",
    "plugins": [
        {
            "type": "precise-prefix-cache-producer",
            "name": "p",
            "parameters": {
                "tokenProcessorConfig": {"blockSize": 64, "hashSeed": "1"},
                "indexerConfig": {"kvBlockIndexConfig": {"inMemoryConfig": {"podCacheSize": 10}}},
                "kvEventsConfig": {"zmqEndpoint": "", "podDiscoveryConfig": {"socketPort": 5557}},
            },
        },
        {"type": "prefix-cache-scorer", "parameters": {"prefixMatchInfoProducerName": "p"}},
        {"type": "approx-prefix-cache-producer", "parameters": {"autoTune": False, "blockSizeTokens": 16}},
    ],
    "schedulingProfiles": [{"plugins": [{"pluginRef": "prefix-cache-scorer"}]}],
}).encode()  # fmt: skip


@unhurried
@given(data=st.data())
@pytest.mark.parametrize(
    ("reader", "content"),
    [
        (read_config, CONFIG),
        (read_state, fixture("llmd_plugins_state_precise.json")),
        (read_stack_health, fixture("production_stack_health_dynamic.json")),
        (read_conf, b'{"chunk_size": 256, "pre_caching_hash_algorithm": "sha256_cbor"}'),
        (read_status, fixture("lmcache_mp_status.json")),
        (read_version, fixture("lmcache_version.json")),
    ],
    ids=["read_config", "read_state", "read_stack_health", "read_conf", "read_status", "read_version"],
)
def test_any_answer_of_a_router(reader: Callable[[bytes], FactValues], content: bytes, data: st.DataObject) -> None:
    answer = json.dumps(data.draw(damaged(json.loads(content)))).encode()
    with suppress(UnreadableError):
        assert all(each.value for each in _facts_of(RouterReply("router", reader(answer)), AT))


@unhurried
@given(
    page=st.binary() | st.sampled_from([fixture(each) for each in ("llmd_metrics.txt", "mooncake_metrics.txt")]),
    data=st.data(),
)
def test_any_page_of_a_router(page: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(page)))
    broken = b"# TYPE a gauge\n" + page[:place] + data.draw(st.binary(max_size=8)) + page[place:]
    for kind in KINDS.values():
        if reader := kind.probes.get("/metrics"):
            with suppress(UnreadableError):
                reader(broken)


@unhurried
@given(data=st.data())
@pytest.mark.parametrize(
    "broken", [PODS, f"{POOLS}/llm-pool", f"{SERVICES}/llm-pool-epp", f"{CONFIG_MAPS}/llm-pool-epp"]
)
def test_any_object_of_the_pods_of_a_router(
    server: HostileServer, folder: Path, broken: str, data: st.DataObject
) -> None:
    template = json.loads(fixture("k8s_epp_deployment.json"))["spec"]["template"]
    pod = {**template, "status": {"phase": "Running", "podIP": "127.0.0.1"}}
    pod["metadata"] = {**template["metadata"], "name": "epp-0", "namespace": NAMESPACE}
    whole = {
        PODS: {"metadata": {}, "items": [pod]},
        f"{POOLS}/llm-pool": json.loads(fixture("k8s_inferencepool.json")),
        f"{SERVICES}/llm-pool-epp": json.loads(fixture("k8s_epp_service.json")),
        f"{CONFIG_MAPS}/llm-pool-epp": json.loads(fixture("k8s_epp_configmap.json")),
    }
    for path, answer in whole.items():
        serve(server, path, data.draw(damaged(answer)) if path == broken else answer)
    options = {"kind": "llm-d", "namespace": NAMESPACE, "port": server.port, "inference_pool": "llm-pool"}
    router = RouterOptions.model_validate({**options, "kubeconfig": folder / "kubeconfig"})
    assert asyncio.run(RouterReader([router], LIMITS)._read(router, AT))
