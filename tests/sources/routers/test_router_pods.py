"""Routers in pods of Kubernetes: an emulated API server, and a router at the address of each pod."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.config import PollOptions
from dashboard.config.sources import RouterOptions
from dashboard.fleet import FactName, RouterConfig
from dashboard.sources.routers.reader import RouterReader
from tests.sources.kubernetes_api import (
    CONFIG_MAPS,
    NAMESPACE,
    PODS,
    POOLS,
    SERVICES,
    Cluster,
    write_kubeconfig,
)
from tests.sources.polling.hostile import BAD_ANSWERS, HostileServer, answers
from tests.sources.routers.fixture_files import fixture

AT = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
LATER = AT + timedelta(minutes=5)
EPP = {"llm-d-router-gateway": "llm-pool-epp"}
CONFIG_MAP = "ConfigMap llm-d/llm-pool-epp (default-plugins.yaml)"
COMMAND = "pod llm-d/epp-0 (command line)"
CHOSEN = {"inference_pool": "llm-pool"}
WHERE = "kubernetes/llm-d/llm-pool"


@pytest.fixture
def cluster(server: HostileServer, tmp_path: Path) -> Cluster:
    """Return the objects of llm-d's chart, with two router pods of which one has ended, and the router itself."""
    write_kubeconfig(tmp_path / "kubeconfig", server.address)
    cluster = Cluster(server)
    cluster.add(f"{POOLS}/llm-pool", json.loads(fixture("k8s_inferencepool.json")))
    cluster.add(f"{SERVICES}/llm-pool-epp", json.loads(fixture("k8s_epp_service.json")))
    cluster.add(f"{CONFIG_MAPS}/llm-pool-epp", json.loads(fixture("k8s_epp_configmap.json")))
    template = json.loads(fixture("k8s_epp_deployment.json"))["spec"]["template"]
    cluster.add_pod("epp-0", "127.0.0.1", template["metadata"]["labels"])["spec"] = template["spec"]
    cluster.add_pod("epp-old", "127.0.0.9", EPP, phase="Failed")
    cluster.add_pod("epp-new", "", EPP, phase="Pending")
    cluster.add_pod("chat-0", "127.0.0.2", {"llm-d.ai/inference-serving": "true"})
    server.routes["/debug/plugins/state"] = answers(fixture("llmd_plugins_state_precise.json"))
    server.routes["/metrics"] = answers(fixture("llmd_metrics.txt"))
    return cluster


def reader(cluster: Cluster, kubeconfig: Path, **options: Any) -> RouterReader:
    common = {"kind": "llm-d", "namespace": NAMESPACE, "port": cluster.server.port, "kubeconfig": kubeconfig}
    limits = PollOptions(probe_timeout_seconds=1, replica_timeout_seconds=2)
    return RouterReader([RouterOptions.model_validate({**common, **options})], limits)


def read(routers: RouterReader, at: datetime = AT) -> RouterConfig:
    (router,) = asyncio.run(routers.read(at))
    return router


def facts(router: RouterConfig, source: str) -> dict[FactName, Any]:
    return {each.name: json.loads(each.value) for each in router.facts if each.source == source}


def spec(cluster: Cluster) -> dict[str, Any]:
    """Return the container of the router."""
    (container,) = cluster.pods["epp-0"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def test_an_inference_pool_leads_to_the_pods_of_its_router_and_to_their_configuration(
    cluster: Cluster, kubeconfig: Path
) -> None:
    found = read(reader(cluster, kubeconfig, **CHOSEN, pools=["chat"]))

    assert (found.name, found.pools, found.failures) == ("llm-d/epp-0", ("chat",), ())
    assert facts(found, CONFIG_MAP) == {
        FactName.ROUTING: "kv-events",
        FactName.BLOCK_SIZE: 64,
        FactName.OWN_KEYS: True,
        FactName.KEY_ALGORITHM: "cbor-fnv",
        FactName.KEY_SEED: "",
        FactName.EVENT_PORT: 5557,
        FactName.PODS_PER_KEY: 10,
    }
    url = cluster.server.address
    assert {each.source for each in found.facts} == {f"{url}/debug/plugins/state", f"{url}/metrics", CONFIG_MAP}
    assert cluster.queries()[0]["labelSelector"] == "llm-d-router-gateway=llm-pool-epp"


def test_a_selector_finds_every_pod_of_a_router_without_pool_and_service(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_pod("a-epp", "127.0.0.1", EPP)
    routers = reader(cluster, kubeconfig, selector="llm-d-router-gateway=llm-pool-epp")
    found = asyncio.run(routers.read(AT))

    assert [(each.name, each.failures) for each in found] == [("llm-d/a-epp", ()), ("llm-d/epp-0", ())]
    assert [CONFIG_MAP in {fact.source for fact in each.facts} for each in found] == [False, True]
    assert not [each for each in cluster.server.asked if each.path.startswith((POOLS, SERVICES))]


def test_the_port_is_that_of_the_program_unless_it_is_set(cluster: Cluster, kubeconfig: Path) -> None:
    found = read(reader(cluster, kubeconfig, **CHOSEN, port=None))
    assert found.failures[0].startswith("127.0.0.1:9090 ")


def test_a_configuration_in_the_command_line_is_read(cluster: Cluster, kubeconfig: Path) -> None:
    spec(cluster)["args"] = ["--config-text", fixture("epp_config_default_producer.yaml").decode()]
    found = read(reader(cluster, kubeconfig, **CHOSEN))

    assert facts(found, COMMAND) == {FactName.ROUTING: "approximate", FactName.LEAST_BLOCK_SIZE: 64}
    assert facts(found, CONFIG_MAP) == {}
    assert found.failures == ()


def test_a_broken_configuration_in_the_command_line_is_a_sentence(cluster: Cluster, kubeconfig: Path) -> None:
    spec(cluster)["args"] = ["--config-text=[", 7]
    assert read(reader(cluster, kubeconfig, **CHOSEN)).failures == (
        f"{COMMAND} line 1: not YAML: did not find expected node content",
    )


def test_a_volume_can_give_a_key_of_a_config_map_another_name(cluster: Cluster, kubeconfig: Path) -> None:
    (volume,) = cluster.pods["epp-0"]["spec"]["volumes"]
    volume["configMap"]["items"] = [{"key": "own.yaml", "path": "default-plugins.yaml"}]
    data = {"own.yaml": fixture("epp_config_old_gie.yaml").decode(), "default-plugins.yaml": "a: b"}
    cluster.add_config_map("llm-pool-epp", data)
    found = read(reader(cluster, kubeconfig, **CHOSEN))

    assert facts(found, CONFIG_MAP)[FactName.BLOCKS_PER_REPLICA] == 31_250


def test_a_config_map_without_that_file_is_a_sentence(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_config_map("llm-pool-epp", {"other.yaml": "kind: EndpointPickerConfig"})
    found = read(reader(cluster, kubeconfig, **CHOSEN))
    assert found.failures == (f"{CONFIG_MAP} has no EndpointPickerConfig",)


@pytest.mark.parametrize(
    "changes",
    [
        {"args": []},
        {"args": None},
        {"volumeMounts": []},
        {"volumeMounts": [{"name": "other", "mountPath": "/config"}]},
    ],
)
def test_without_flag_or_volume_there_is_no_configuration_to_read(
    cluster: Cluster, kubeconfig: Path, changes: Mapping[str, Any]
) -> None:
    spec(cluster).update(changes)
    found = read(reader(cluster, kubeconfig, **CHOSEN))

    assert (facts(found, CONFIG_MAP), found.failures) == ({}, ())
    assert not [each for each in cluster.server.asked if each.path.startswith(CONFIG_MAPS)]


def test_a_missing_rule_for_config_maps_leaves_what_the_router_answers(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.server.routes[f"{CONFIG_MAPS}/llm-pool-epp"] = answers(b"{}", 403)
    found = read(reader(cluster, kubeconfig, **CHOSEN))

    assert facts(found, f"{cluster.server.address}/debug/plugins/state")[FactName.BLOCK_SIZE] == 64
    assert found.failures == (
        (
            f"{CONFIG_MAP}: may not get configmaps in the namespace llm-d; add to the rules of its Role: "
            '{apiGroups: [""], resources: [configmaps], verbs: [get]}'
        ),
    )


@pytest.mark.parametrize(
    ("path", "verb", "group", "resource", "verbs"),
    [
        (f"{POOLS}/llm-pool", "get", "inference.networking.k8s.io", "inferencepools", "get, list, watch"),
        (f"{SERVICES}/llm-pool-epp", "get", "", "services", "get"),
        (PODS, "list", "", "pods", "get, list, watch"),
    ],
)
def test_a_missing_rule_is_named_with_verb_and_resource(
    cluster: Cluster, kubeconfig: Path, path: str, verb: str, group: str, resource: str, verbs: str
) -> None:
    cluster.server.routes[path] = answers(b"{}", 403)
    found = read(reader(cluster, kubeconfig, **CHOSEN))

    assert (found.name, found.facts) == (WHERE, ())
    assert found.failures == (
        (
            f"{WHERE}: may not {verb} {resource} in the namespace llm-d; add to the rules of its Role: "
            f'{{apiGroups: ["{group}"], resources: [{resource}], verbs: [{verbs}]}}'
        ),
    )


@pytest.mark.parametrize(
    ("picker", "sentence"),
    [
        ({}, "the InferencePool llm-pool names no Service as its endpointPickerRef"),
        ({"kind": "Lambda", "name": "a"}, "the InferencePool llm-pool names no Service as its endpointPickerRef"),
        ({"name": "bare"}, "the Service bare has no selector; set selector"),
        ({"name": "gone"}, "the namespace llm-d has no services/gone"),
        ({"name": "idle"}, "the namespace llm-d has no running pods with app=idle"),
    ],
)
def test_a_pool_that_leads_to_no_pod_is_a_sentence(
    cluster: Cluster, kubeconfig: Path, picker: Mapping[str, str], sentence: str
) -> None:
    cluster.add_pool("llm-pool", {}, 8000)["spec"]["endpointPickerRef"] = picker
    cluster.add_service("bare", None)
    cluster.add_service("idle", {"app": "idle"})
    assert read(reader(cluster, kubeconfig, **CHOSEN)).failures == (f"{WHERE}: {sentence}",)


@pytest.mark.few(6)
@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_an_api_server_that_fails_keeps_the_last_facts(cluster: Cluster, kubeconfig: Path, name: str) -> None:
    routers = reader(cluster, kubeconfig, **CHOSEN)
    before = read(routers)
    cluster.server.routes[PODS] = BAD_ANSWERS[name][0]
    (again, last) = (read(routers, LATER), read(routers, LATER))

    assert again.name == last.name == "llm-d/epp-0"
    assert again.facts == last.facts == before.facts
    assert {each.observed_at for each in last.facts} == {AT}
    assert all(each.failures[0].startswith(f"{WHERE}: ") and len(each.failures[0]) < 400 for each in (again, last))


def test_an_api_server_that_is_gone_and_a_missing_kubeconfig_are_sentences(
    cluster: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    routers = reader(cluster, kubeconfig, **CHOSEN)
    before = read(routers)
    write_kubeconfig(kubeconfig, "http://127.0.0.1:9")
    gone = read(routers, LATER)
    assert (gone.facts, gone.failures) == (before.facts, (f"{WHERE}: 127.0.0.1:9 refused the connection.",))

    never = read(reader(cluster, tmp_path / "none", **CHOSEN))
    assert never.failures == (f"{WHERE}: {tmp_path / 'none'}: No such file or directory",)


def test_a_pod_that_is_silent_leaves_the_facts_of_its_command_line(cluster: Cluster, kubeconfig: Path) -> None:
    for path in ("/debug/plugins/state", "/metrics"):
        cluster.server.routes[path] = BAD_ANSWERS["silent"][0]
    found = read(reader(cluster, kubeconfig, **CHOSEN))

    assert {each.source for each in found.facts} == {CONFIG_MAP}
    assert len(found.failures) == 2


def test_a_new_pod_is_a_new_router_and_one_that_is_gone_is_left_out(cluster: Cluster, kubeconfig: Path) -> None:
    routers = reader(cluster, kubeconfig, **CHOSEN)
    read(routers)
    cluster.pods["epp-1"] = cluster.pods.pop("epp-0")
    cluster.pods["epp-1"]["metadata"]["name"] = "epp-1"
    found = read(routers, LATER)

    assert found.name == "llm-d/epp-1"
    assert {each.observed_at for each in found.facts} == {LATER}


def test_production_stack_is_read_from_its_arguments(cluster: Cluster, kubeconfig: Path) -> None:
    labels = {"app.kubernetes.io/component": "router"}
    arguments = ["--routing-logic", "prefixaware", "--config-file", "/config/default-plugins.yaml"]
    pod = cluster.add_pod("router-0", "127.0.0.1", labels)
    pod["spec"] = {**cluster.pods["epp-0"]["spec"], "containers": [{**spec(cluster), "args": arguments}]}
    cluster.server.routes["/metrics"] = answers(fixture("production_stack_metrics.txt"))
    cluster.server.routes["/health"] = answers(fixture("production_stack_health.json"))
    chosen = {"kind": "production-stack", "selector": "app.kubernetes.io/component=router"}
    found = read(reader(cluster, kubeconfig, **chosen))

    assert facts(found, "pod llm-d/router-0 (command line)") == {FactName.ROUTING: "approximate"}
    assert facts(found, f"{cluster.server.address}/metrics")[FactName.READY] == 1
    assert (facts(found, CONFIG_MAP), found.failures) == ({}, ())  # its file is no EndpointPickerConfig


def test_the_environment_of_dynamo_is_read_without_values_of_secrets(cluster: Cluster, kubeconfig: Path) -> None:
    pod = cluster.add_pod("frontend-0", "127.0.0.1", {"app": "dynamo"})
    (container,) = pod["spec"]["containers"]
    secret = {"secretKeyRef": {"name": "dynamo", "key": "size"}}
    container["command"] = ["python3", "-m", "dynamo.frontend"]
    container["env"] = [
        {"name": "DYN_ROUTER_MODE", "value": "kv"},
        {"name": "DYN_KV_CACHE_BLOCK_SIZE", "valueFrom": secret},
    ]
    cluster.server.routes["/metrics"] = answers(fixture("dynamo_metrics.txt"))
    found = read(reader(cluster, kubeconfig, kind="dynamo", selector="app=dynamo"))

    expected = {FactName.ROUTING: "kv-events", FactName.OWN_KEYS: False}
    assert facts(found, "pod llm-d/frontend-0 (command line)") == expected
    assert facts(found, f"{cluster.server.address}/metrics") == {FactName.BLOCK_SIZE: 16}
