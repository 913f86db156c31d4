"""The commands of docs/quickstart.md, run as they are there, in a copy of the clone and on an emulated API server."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from dashboard.demo import DemoServer, default_fleet, in_thread
from dashboard.demo.describe import Behaviour
from dashboard.sources.kubernetes.program import VERSIONS
from tests.docs_pages import code_blocks, docs_page
from tests.serving import ROOT, free_port, started, wait_for, wait_until_healthy
from tests.sources.kubernetes_api import NAMESPACE, PODS, Cluster, write_kubeconfig
from tests.sources.polling.hostile import HostileServer, answers

PAGE = docs_page("quickstart")
STEPS = [code_blocks(each, "sh") for each in re.split(r"^## \d\. ", PAGE, flags=re.MULTILINE)[1:]]
COMMANDS = [command for (command, *_) in STEPS]
UNREACHABLE = PAGE.partition("\n## Pods that are not reachable\n")[2]
FLEET = [each for each in default_fleet() if each.behaviour is Behaviour.NORMAL][:4]
LEFT_OUT = shutil.ignore_patterns(
    ".*", "tests", "__pycache__", "*.egg-info", "dist", "build", "test-results", "fleet.yaml"
)
VLLM = {"app": "vllm"}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a copy of the clone, with the environment of these tests in place of what step 1 downloads."""
    copy = shutil.copytree(ROOT, tmp_path / "clone", ignore=LEFT_OUT)
    shutil.copytree(ROOT / ".streamlit", copy / ".streamlit")
    (copy / ".venv").symlink_to(ROOT / ".venv")
    os.utime(copy / "requirements.txt", (0, 0))  # older than that environment
    return copy


@pytest.fixture
def demo() -> Iterator[DemoServer]:
    with in_thread(FLEET) as server:
        yield server


@pytest.fixture
def cluster(server: HostileServer, tmp_path: Path, demo: DemoServer) -> Cluster:
    """Return a cluster with three pods; the kubeconfig is where kubectl has it."""
    (tmp_path / ".kube").mkdir()
    write_kubeconfig(tmp_path / ".kube" / "config", server.address)
    cluster = Cluster(server)
    for number in range(3):
        add(cluster, demo, number)
    return cluster


def add(cluster: Cluster, demo: DemoServer, number: int) -> None:
    """Create a pod; the port of simulated replicas is not 8000."""
    pod = cluster.add_pod(f"chat-{number}", FLEET[number].address, VLLM)
    pod["metadata"]["annotations"] = {"llm-d.ai/active-ports": str(demo.port)}
    cluster.changed(f"chat-{number}")


def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("FLEET_", "KUBE", "MAKE"))}
    return {**kept, "HOME": str(tmp_path), "COLUMNS": "120"}


def run(clone: Path, *commands: str) -> subprocess.CompletedProcess[str]:
    """Run commands one after the other in one shell, until one fails."""
    shell = ["bash", "-ec", "\n".join(commands)]
    return subprocess.run(shell, cwd=clone, env=environment(clone.parent), capture_output=True, text=True, check=False)


def test_there_are_five_steps_with_one_command_each() -> None:
    assert [len(each) for each in STEPS[:4]] == [1] * 4
    assert len(STEPS) == 5
    assert COMMANDS[-1] == "make run\n"
    assert not re.search(r"docker|podman|image|registry", "".join(COMMANDS))


@pytest.mark.long
def test_the_five_commands_lead_from_a_clone_to_a_watched_namespace(
    cluster: Cluster, clone: Path, demo: DemoServer
) -> None:
    done = run(clone, *COMMANDS[:4])
    (shown,) = code_blocks(PAGE, "text")
    assert done.returncode == 0, done.stderr
    assert "Installed in .venv." in done.stdout
    assert shown in "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    more = {"PORT": str(port), "FLEET_POLL__INTERVAL_SECONDS": "1"}
    command = ["env", "-i", *(f"{name}={text}" for name, text in {**environment(clone.parent), **more}.items())]
    with started([*command, "bash", "-ec", f"{COMMANDS[1]}\nexec {COMMANDS[4]}"], cwd=clone, stdout=subprocess.DEVNULL):
        wait_until_healthy(url)
        assert pods(url) == {"chat-0", "chat-1", "chat-2"}
        add(cluster, demo, 3)
        cluster.changed("chat-0", "DELETED")
        wait_for(lambda: pods(url) == {"chat-1", "chat-2", "chat-3"})


def pods(url: str) -> set[str]:
    return {each["labels"]["pod"] for each in httpx2.get(f"{url}/api/v1/fleet", trust_env=False).json()["replicas"]}


@pytest.mark.long
def test_what_the_page_says_of_a_failure_is_what_one_sees(cluster: Cluster, clone: Path) -> None:
    causes = re.findall(r"^\| `([^`]*?)(?: \.\.\.|\.\.\.)?` \|", PAGE, flags=re.MULTILINE)

    def seen(user: str = "{token: t0ken}") -> str:
        write_kubeconfig(clone.parent / ".kube" / "config", cluster.server.address, user=user)
        done = run(clone, *COMMANDS[:4])
        assert done.returncode
        return " ".join(done.stderr.split())

    cluster.server.routes[PODS] = answers(b"{}", 403)
    texts = [seen(), seen(json.dumps({"exec": {"apiVersion": VERSIONS[0], "command": "aws"}}))]
    cluster.server.routes[PODS] = answers(b"{}", 401)
    texts.append(seen())
    Cluster(cluster.server)  # without pods
    texts.append(seen())

    assert len(causes) > len(texts)
    assert [cause in text for cause, text in zip(causes, texts, strict=False)] == [True] * 4, texts


@pytest.mark.long
def test_pods_that_are_not_reachable_are_read_through_kubectl_proxy(
    cluster: Cluster, clone: Path, tmp_path: Path
) -> None:
    for number in range(3):
        cluster.server.replica(f"{PODS[1:]}/chat-{number}:8000/proxy")
    for path, found in DISCOVERY.items():
        cluster.server.routes[path] = answers(json.dumps(found).encode(), headers=("Content-Type: application/json",))
    port = str(free_port())
    forward, listed = (each.replace("8001", port) for each in code_blocks(UNREACHABLE, "sh"))
    command = ["env", "-i", *(f"{name}={text}" for name, text in environment(tmp_path).items())]
    with started([*command, "bash", "-ec", f"exec {forward}"], cwd=clone, stdout=subprocess.PIPE) as proxy:
        assert proxy.stdout
        assert proxy.stdout.readline().startswith("Starting to serve on 127.0.0.1:")
        done = run(clone, listed, COMMANDS[3])

    assert done.returncode == 0, done.stderr
    assert "3 up, 0 partial, 0 down" in done.stdout
    assert {f"chat-{number}" for number in range(3)} <= set(done.stdout.split())
    assert f"/api/v1/namespaces/{NAMESPACE}/pods/chat-0:8000/proxy/metrics" in {
        each.path for each in cluster.server.asked
    }


# What kubectl asks before it lists pods.
DISCOVERY = {
    "/api": {"kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "v1",
        "resources": [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get", "list", "watch"]}],
    },
}
