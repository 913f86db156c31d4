"""LoRA adapters on a live server: loaded at the start, and loaded and unloaded later."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dashboard.vllm.metrics import parse_metrics
from tests.live.adapters import write_adapter
from tests.live.servers import ANSWER_SECONDS, CONFIG, Kind, Server, running
from vllm_fleet_provider.shared.digests import digest_adapters
from vllm_fleet_provider.switch import NAME

pytestmark = pytest.mark.vllm
LORA = ("--enable-lora", "--max-loras", "2", "--max-lora-rank", "16")
RUNTIME = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_adapter(tmp_path_factory.mktemp("lora") / "adapter")


@pytest.fixture(scope="module")
def server(venv: Path, site: Path, adapter: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    kind = Kind("llama_lora", "llama", (*LORA, "--lora-modules", f"first={adapter}"), RUNTIME, (NAME,))
    with running([kind], venv, tmp_path_factory.mktemp("vllm"), (site,)) as (found,):
        yield found


def test_an_adapter_that_is_loaded_and_unloaded_is_reported_and_changes_the_etag(server: Server, adapter: Path) -> None:
    first = {"name": "first", "path": str(adapter)}
    before = server.get(CONFIG)
    assert before.json()["fleet"]["adapters"] == [first]

    _post(server, "load_lora_adapter", {"lora_name": "second", "lora_path": str(adapter)})
    between = server.get(CONFIG, **{"If-None-Match": before.headers["etag"]})
    assert between.status_code == 200
    assert between.json()["fleet"]["adapters"] == [first, {"name": "second", "path": str(adapter)}]

    _post(server, "unload_lora_adapter", {"lora_name": "second"})
    after = server.get(CONFIG, **{"If-None-Match": before.headers["etag"]})
    assert after.status_code == 304


def test_metrics_have_the_digest_of_the_loaded_adapters(server: Server, adapter: Path) -> None:
    first, second = ("first", str(adapter)), ("second", str(adapter))
    before = exported_adapters(server)
    _post(server, "load_lora_adapter", {"lora_name": "second", "lora_path": str(adapter)})
    between = exported_adapters(server)
    _post(server, "unload_lora_adapter", {"lora_name": "second"})

    assert (before, between) == (digest_adapters([first]), digest_adapters([first, second]))
    assert exported_adapters(server) == before


def test_the_limits_are_those_of_the_command(server: Server) -> None:
    assert server.json(CONFIG)["lora"] == {
        "enabled": True,
        "max_lora_rank": 16,
        "max_loras": 2,
        "max_cpu_loras": 2,
        "lora_dtype": "bfloat16",
    }


def exported_adapters(server: Server) -> str | None:
    (digests,) = parse_metrics(server.get("/metrics").content).digests
    return digests.adapters


def _post(server: Server, name: str, body: dict[str, Any]) -> None:
    response = httpx2.post(f"{server.url}/v1/{name}", json=body, timeout=ANSWER_SECONDS, trust_env=False)
    assert response.status_code == 200, response.text
