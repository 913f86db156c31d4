"""The resources for Kubernetes: built by kubectl, validated against the API's schemas, and true to the product."""

import json
import re
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import kubernetes_validate
import pytest
import yaml

from dashboard.access.gate import address_mistake
from dashboard.config import load_options
from dashboard.config.access import AccessRole
from dashboard.web.server import routes
from tests.deploy.image import PORT, link_image, running
from tests.docs_pages import docs_page
from tests.serving import ROOT
from tests.sources.kubernetes_api import Cluster, write_kubeconfig
from tests.sources.polling.hostile import HostileServer
from tests.sources.prometheus_server import prometheus, wait_for_result

FOLDER = ROOT / "deploy" / "kubernetes"
SCHEMAS = Path(__file__).parent / "schemas"  # of resources that are no part of Kubernetes
VERSIONS = ("1.30", "1.37")  # the oldest that clouds still offered in 2026, and the newest
TOKEN = "fleet_of_prometheus"
SECRETS = {"OIDC_SECRET": "secret", "SESSION_KEYS": "0" * 64}  # what the ConfigMap names, by envFrom
OPTIONAL = {"clusterrole.yaml", "ingress.yaml", "servicemonitor.yaml", "prometheusrule.yaml"}


def built(folder: Path) -> list[dict[str, Any]]:
    """Build the resources as `kubectl apply -k` does."""
    program = shutil.which("kubectl")
    assert program, "kubectl is missing: tests/tools/install installs it"
    done = subprocess.run([program, "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture(scope="module")
def resources() -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in built(FOLDER)}


@pytest.fixture(scope="module")
def pod(resources: dict[str, dict[str, Any]]) -> dict[str, Any]:
    spec = resources["Deployment"]["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


@pytest.mark.parametrize("version", VERSIONS)
def test_every_resource_is_valid_for_its_version_of_kubernetes(
    resources: dict[str, dict[str, Any]], version: str
) -> None:
    optional = [
        each
        for name in ("ingress", "clusterrole")
        for each in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())
    ]
    for each in (*resources.values(), *optional):
        kubernetes_validate.validate(each, version, strict=True)


def test_every_file_is_a_resource_or_an_optional_one() -> None:
    lines = (FOLDER / "kustomization.yaml").read_text()
    listed = set(re.findall(r"^  - (\S+\.yaml)$", lines, re.MULTILINE))
    commented = set(re.findall(r"^  # - (\S+\.yaml)", lines, re.MULTILINE))

    assert commented == OPTIONAL
    assert listed | commented | {"kustomization.yaml", "fleet.yaml"} == {each.name for each in FOLDER.iterdir()}


def test_optional_resources_can_be_added(tmp_path: Path) -> None:
    copy = shutil.copytree(FOLDER, tmp_path / "kubernetes")
    file = copy / "kustomization.yaml"
    file.write_text(re.sub(r"^  # - (\S+\.yaml).*$", r"  - \1", file.read_text(), flags=re.MULTILINE))

    kinds = {each["kind"]: each for each in built(copy)}
    assert {"ClusterRole", "Ingress", "ServiceMonitor", "PrometheusRule"} < kinds.keys()
    binding, account = kinds["ClusterRoleBinding"], kinds["ServiceAccount"]
    assert binding["roleRef"]["name"] == kinds["ClusterRole"]["metadata"]["name"]
    (subject,) = binding["subjects"]
    assert (subject["kind"], subject["name"]) == ("ServiceAccount", account["metadata"]["name"])
    assert subject["namespace"]  # kustomize cannot know it with `kubectl apply -n`


def test_the_options_in_the_config_map_load_without_a_mistake(
    resources: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "fleet.yaml").write_text(resources["ConfigMap"]["data"]["fleet.yaml"])
    options = load_options(tmp_path / "fleet.yaml")

    assert options.has_target_sources
    assert options.access.allow_anonymous is AccessRole.VIEWER
    assert address_mistake(options.access, "0.0.0.0") == ""


@pytest.mark.long
def test_the_deployment_with_sign_in_answers_its_probes_and_the_service_monitor_scrapes_it(
    resources: dict[str, dict[str, Any]], pod: dict[str, Any], tmp_path: Path
) -> None:
    """The API server is an emulator, found by a kubeconfig in place of the account of the pod."""
    (container,) = pod["containers"]
    assert not {"command", "args", "env"} & container.keys()  # all as the image has it
    root = tmp_path / "root"
    for mount in container["volumeMounts"]:
        folder = Path(f"{root}{mount['mountPath']}")
        folder.mkdir(parents=True)
        (volume,) = (each for each in pod["volumes"] if each["name"] == mount["name"])
        if "configMap" in volume:
            assert volume["configMap"]["name"] == resources["ConfigMap"]["metadata"]["name"]
            (folder / "fleet.yaml").write_text(with_sign_in(resources["ConfigMap"]["data"]["fleet.yaml"]))
    link_image(root)
    with HostileServer() as api:
        Cluster(api).add_pod("chat-0", "127.0.0.9", {"app": "vllm"})
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.address)
        with running(root, {**SECRETS, "KUBECONFIG": str(kubeconfig)}) as url:
            for each in (container["livenessProbe"], container["readinessProbe"]):
                asked = {"headers": {"Host": "10.1.2.3:8501"}, "timeout": each["timeoutSeconds"], "trust_env": False}
                assert httpx2.get(url + each["httpGet"]["path"], **asked).is_success
            assert httpx2.get(f"{url}/metrics", trust_env=False).status_code == 401
            with prometheus(tmp_path, [], jobs=[scrape_job(resources, url)]) as server:
                wait_for_result(server, "up == 1", bool)
                wait_for_result(server, "sum(vllm_fleet_replicas) == 1", bool)


def with_sign_in(text: str) -> str:
    """Return the options with mode oidc and the token, which are comments."""
    text = re.sub(r"^  # (?= *(?:-|\w+:))", "  ", text, flags=re.MULTILINE)
    lines = text.replace("sha256: ...", f"sha256: {sha256(TOKEN.encode()).hexdigest()}").splitlines()
    return "\n".join(line for line in lines if "allow_anonymous" not in line)


def scrape_job(resources: dict[str, dict[str, Any]], url: str) -> dict[str, Any]:
    """Return the job that the Prometheus Operator writes, each second: its target is the pod behind the Service."""
    monitor = yaml.safe_load((FOLDER / "servicemonitor.yaml").read_text())["spec"]
    service, (container,) = resources["Service"], resources["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,), (port,) = monitor["endpoints"], service["spec"]["ports"]
    assert endpoint["port"] == port["name"]
    assert {"name": port["targetPort"], "containerPort": PORT} in container["ports"]
    named = endpoint["authorization"]["credentials"]
    created = re.findall(r"secret generic -n llm-d (\S+) --from-literal=(\w+)=", docs_page("deployment"))
    assert created == [(named["name"], named["key"])]
    return {
        "job_name": "serviceMonitor/vllm-fleet-dashboard",
        "metrics_path": endpoint["path"],
        "authorization": {"type": endpoint["authorization"]["type"], "credentials": TOKEN},
        "static_configs": [{"targets": [url.removeprefix("http://")]}],
    }


def test_the_sign_in_of_the_config_map_can_be_switched_on(resources: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(with_sign_in(resources["ConfigMap"]["data"]["fleet.yaml"]))
    access = load_options(tmp_path / "fleet.yaml").access

    assert (access.mode, access.oidc is not None, [each.name for each in access.tokens]) == (
        "oidc",
        True,
        ["prometheus"],
    )


def test_the_probes_are_routes_of_the_server(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    known = {route.path for route in routes()}

    assert {container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "readiness")} == {"/livez", "/readyz"}
    assert {"/livez", "/readyz", "/metrics"} <= known


def test_the_pod_is_restricted_and_writes_to_its_volumes_only(pod: dict[str, Any]) -> None:
    """As the Pod Security Standard `restricted` wants it."""
    (container,) = pod["containers"]
    own = container["securityContext"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert {each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")} == {
        "/var/lib/fleet",
        "/tmp",  # noqa: S108  in the container
    }


def test_the_account_of_the_pod_may_read_what_the_source_reads_and_nothing_else(
    resources: dict[str, dict[str, Any]], pod: dict[str, Any]
) -> None:
    account, role, binding = (resources[kind] for kind in ("ServiceAccount", "Role", "RoleBinding"))
    (subject,) = binding["subjects"]

    assert pod["serviceAccountName"] == account["metadata"]["name"] == subject["name"]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", role["metadata"]["name"])
    assert [(*rule["apiGroups"], *rule["resources"], *rule["verbs"]) for rule in role["rules"]] == [
        ("", "pods", "get", "list", "watch"),
        ("inference.networking.k8s.io", "inferencepools", "get", "list", "watch"),
        ("discovery.k8s.io", "endpointslices", "get", "list", "watch"),
        ("", "services", "get"),
    ]


def test_the_rule_for_routers_can_be_added(tmp_path: Path) -> None:
    copy = shutil.copytree(FOLDER, tmp_path / "kubernetes")
    file = copy / "role.yaml"
    file.write_text(re.sub(r"^  # ( *(?:- )?\w+: \[.*\])$", r"  \1", file.read_text(), flags=re.MULTILINE))
    role = next(each for each in built(copy) if each["kind"] == "Role")

    assert role["rules"][-1] == {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}


@pytest.mark.parametrize(("name", "field"), [("servicemonitor", "endpoints"), ("prometheusrule", "groups")])
def test_a_resource_of_the_operator_has_only_its_fields(name: str, field: str) -> None:
    resource = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())

    jsonschema.validate(resource, schema)
    resource["spec"][field[:-1]] = resource["spec"].pop(field)
    with pytest.raises(jsonschema.ValidationError, match=field[:-1]):
        jsonschema.validate(resource, schema)


def test_service_and_policy_select_the_pod_and_its_port(resources: dict[str, dict[str, Any]]) -> None:
    labels = resources["Deployment"]["spec"]["template"]["metadata"]["labels"]

    assert resources["Service"]["spec"]["selector"] == labels
    assert resources["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    ((allowed,),) = (each["ports"] for each in resources["NetworkPolicy"]["spec"]["ingress"])
    assert allowed == {"port": PORT, "protocol": "TCP"}
