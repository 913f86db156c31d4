"""Pods of a cluster on the pages, while they come, restart and go. The API server is an emulator."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard import service
from dashboard.config import Options
from dashboard.demo import default_fleet, in_thread
from dashboard.demo.describe import Behaviour
from tests.page_runner import html, visit
from tests.serving import wait_for
from tests.sources.kubernetes_api import Cluster, write_kubeconfig
from tests.sources.polling.hostile import HostileServer

MOST_POLLS = 3  # two intervals, and the poll that was in flight
VLLM = {"app": "vllm"}
FIRST, SECOND = [each for each in default_fleet() if each.behaviour is Behaviour.NORMAL][:2]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with HostileServer() as server:
        write_kubeconfig(tmp_path / "kubeconfig", server.address)
        yield Cluster(server)


def sizes() -> dict[str, int | None]:
    """Return the block size of each pod."""
    replicas = service.current().replicas
    return {each.labels["pod"]: each.engines[0].block_size if each.engines else None for each in replicas}


def polls_until(is_seen: Callable[[], bool]) -> int:
    """Return how many polls ended until something is seen."""
    before = service.progress().polls
    wait_for(is_seen)
    return service.progress().polls - before


def test_a_pod_is_on_the_pages_within_two_intervals_when_it_is_created_restarted_and_deleted(
    cluster: Cluster, tmp_path: Path
) -> None:
    with in_thread([FIRST, SECOND]) as demo:
        entry: dict[str, Any] = {"kubeconfig": str(tmp_path / "kubeconfig"), "inference_pool": "chat"}
        cluster.add_pool("chat", VLLM, demo.port)
        cluster.add_pod("chat-a", FIRST.address, VLLM)
        folder = tmp_path / "data"
        options = {"poll": {"interval_seconds": 1}, "kubernetes": [entry], "data_folder": folder}
        service.start(Options.model_validate(options))
        wait_for(lambda: sizes() == {"chat-a": 16})

        cluster.add_pod("chat-b", SECOND.address, VLLM)
        assert polls_until(lambda: sizes() == {"chat-a": 16, "chat-b": 16}) <= MOST_POLLS
        demo.restart(SECOND.address, ["--block-size", "128"])
        assert polls_until(lambda: sizes() == {"chat-a": 16, "chat-b": 128}) <= MOST_POLLS
        assert "block_size" in html(visit("compare", pool="chat"))
        status = html(visit("status"))
        assert "kubernetes/inferencepools/chat" in status
        assert SECOND.address in status
        cluster.changed("chat-b", "DELETED")
        assert polls_until(lambda: sizes() == {"chat-a": 16}) <= MOST_POLLS
        assert SECOND.address not in html(visit("status"))
