"""Live servers started with flags, a file and variables: the origin of values, and what workers measured."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.dashboard_runs import options, poll, run
from tests.live.servers import CONFIG, Kind, Server, running
from vllm_fleet_provider.switch import NAME

pytestmark = [pytest.mark.vllm, pytest.mark.vllm_each]
FLAGS = ("--gpu-mem", "0.92", "-tp", "1", "--no-async-scheduling", "-O2", "--block_size=32")
IN_FILE = {
    "max-num-seqs": 16,
    "enable-prefix-caching": False,
    "compilation-config": {"pass_config": {"fuse_norm_quant": False}},
}
FUSED = "compilation_config.pass_config.fuse_norm_quant"
SECRET = "sk-live-argument-4711"
ORIGINS = {
    "cache_config.gpu_memory_utilization": "set by --gpu-memory-utilization",  # also equal to the default of 0.32
    "parallel_config.tensor_parallel_size": "set by -tp",  # equal to the default
    "scheduler_config.async_scheduling": "set by --no-async-scheduling",
    "cache_config.block_size": "set by --block-size",
    "scheduler_config.max_num_seqs": "set by --max-num-seqs (config file)",
    FUSED: "set by --compilation-config.pass_config.fuse_norm_quant (config file)",
    "env.VLLM_CPU_KVCACHE_SPACE": "set by VLLM_CPU_KVCACHE_SPACE (environment)",
    "model_config.max_model_len": "set by --max-model-len",
    "parallel_config.pipeline_parallel_size": "default",
    "scheduler_config.policy": "default",
}


@pytest.fixture(scope="module", params=[1, 2], ids=["one-api-server", "two-api-servers"])
def server(request: pytest.FixtureRequest, venv: Path, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("vllm")
    file = folder / "vllm.yaml"
    file.write_text(yaml.safe_dump(IN_FILE))
    more = ("--api-server-count", "2") if request.param == 2 else ()
    kind = Kind(
        "arguments",
        "llama",
        (*FLAGS, "--config", str(file), *more, "--api-key", SECRET),
        {"VLLM_CPU_KVCACHE_SPACE": "1"},
        (NAME,),
    )
    with running([kind], venv, folder, (site,)) as servers:
        yield servers[0]


@pytest.fixture(scope="module")
def config(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    file = options([server], folder)
    (folder / "key").write_text(SECRET)
    file.write_text(json.dumps({**json.loads(file.read_text()), "credentials": {"token_file": str(folder / "key")}}))
    return file


def test_each_value_is_set_default_or_derived_as_the_server_was_started(config: Path) -> None:
    found = {}
    for path in ORIGINS:
        (value,) = json.loads(run("settings", config, path, "--format", "json").stdout)["values"]
        (found[path],) = value["origins"]

    assert found == ORIGINS


def test_arguments_are_names_only(server: Server) -> None:
    answer = server.get(CONFIG, Authorization=f"Bearer {SECRET}").text
    names = {each["argument"] for each in json.loads(answer)["fleet"]["set_arguments"]}

    assert {"--api-key", "--config", "--gpu-memory-utilization"} <= names
    assert SECRET not in answer


def test_a_cpu_worker_reports_the_memory_that_it_requested_and_why_the_rest_is_unknown(config: Path) -> None:
    (replica,) = poll(config)["devices"]

    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < replica["memory"]["requested_bytes"] <= machine
    assert replica["memory"]["weights_bytes"] is None
    assert replica["memory"]["reason"]
