"""Two DP engines of which only the head's process has the provider."""

from pathlib import Path

import pytest

from tests.live.dashboard_runs import options, poll
from tests.live.servers import CONFIG, Kind, headless, running
from tests.serving import free_port
from vllm_fleet_provider.switch import NAME

pytestmark = [pytest.mark.vllm, pytest.mark.vllm_033]
TOKENS = 1_048_576  # of one engine
SIMULATED = {"VLLM_CPU_SIM_MULTI_NUMA": "1"}  # of one memory node


def test_the_engine_without_the_provider_is_listed_without_its_numbers(venv: Path, site: Path, tmp_path: Path) -> None:
    common = (
        *("--data-parallel-size", "2", "--data-parallel-size-local", "1"),
        *("--data-parallel-address", "127.0.0.1", "--data-parallel-rpc-port", str(free_port())),
    )
    node = Kind("node", "llama", (*common, "--data-parallel-start-rank", "1"), SIMULATED)
    head = Kind("head", "llama", common, SIMULATED, (NAME,))
    with headless(node, venv, tmp_path), running([head], venv, tmp_path, [site]) as (server,):
        fleet = server.json(CONFIG)["fleet"]
        engines = poll(options([server], tmp_path))["engines"]

    assert [each["kv_cache_size_tokens"] for each in fleet["engines"]] == [TOKENS, None]
    assert "engine 1 could not be asked" in str(fleet["unavailable"])
    assert [(each["kv_cache_size_tokens"], each["basis"]) for each in engines] == [
        (TOKENS, "reported"),
        (TOKENS, "assumed"),
    ]
