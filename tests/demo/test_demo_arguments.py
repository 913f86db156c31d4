"""Restarts of simulated replicas with other arguments."""

import json
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from dashboard.demo import changed, read_changes
from dashboard.demo.arguments import Start
from dashboard.demo.describe import Configuration, DemoReplica, Speaks
from dashboard.demo.pages import render
from dashboard.fleet import SettingValue, State
from dashboard.rules.remedy import flag_of, pasteable
from tests.demo.conftest import FLEET, answer_of, process_of

CHAT = FLEET["chat-70b-01"]


def _config(replica: DemoReplica) -> dict[str, Any]:
    return dict(render(replica.configuration, replica.speaks).config)


def _arguments(replica: DemoReplica) -> set[str]:
    """Return the arguments that the provider reports, with their sources."""
    body = answer_of(process_of(replica, frozenset({Speaks.PROVIDER})), "/inference/v1/config").body
    return {f"{each['argument']} {each['source']}" for each in json.loads(body)["fleet"]["set_arguments"]}


def _flags(configuration: Configuration) -> list[str]:
    """Return the flags of a configuration as remedies print them."""
    found = []
    for path, value in configuration.settings:
        text = json.dumps(value, separators=(",", ":"))
        snippet = pasteable(path, SettingValue(text, State.REPORTED))
        assert snippet is not None
        found += snippet.text.split()
    return found


def test_with_the_arguments_of_another_replica_of_its_pool_a_replica_reports_the_same_settings() -> None:
    configurations = {each.configuration: each for each in FLEET.values() if each.configuration.version >= "0.32"}
    compared = 0
    for one, other in permutations(configurations.values(), 2):
        if one.labels != other.labels:
            continue
        removed = [flag for path, _ in one.configuration.settings if (flag := flag_of(path))]
        image = f"image: vllm/vllm-openai:v{other.configuration.version}"
        after = changed(one, Start(_flags(other.configuration), {}, removed, image))
        assert _config(after) == _config(other)
        assert _arguments(after) == _arguments(other)
        compared += 1
    assert compared >= 8


@pytest.mark.parametrize(
    ("text", "section", "name", "value"),
    [
        ("--max-num-seqs 64", "scheduler_config", "max_num_seqs", 64),
        ("--max-num-seqs 64", "compilation_config", "max_cudagraph_capture_size", 128),
        ("--no-enable-prefix-caching", "cache_config", "enable_prefix_caching", False),
        ("--kv-offloading-size 64", "cache_config", "kv_offloading_size", 64.0),
        ("--cudagraph-capture-sizes 1 2 4", "compilation_config", "cudagraph_capture_sizes", [1, 2, 4]),
        ("--compilation-config.cudagraph_mode FULL_AND_PIECEWISE", "compilation_config", "cudagraph_mode", [2, 1]),
        ("--compilation-config '{\"mode\": 0}'", "compilation_config", "mode", 0),
        ("--hf-overrides.rope_theta 7", "model_config", "hf_overrides", {"rope_theta": 7}),
        ("--tensor-parallel-size=8", "parallel_config", "world_size", 8),
        ("--served-model-name chat", "model_config", "served_model_name", "chat"),
        ("--kv-transfer-config.kv_role kv_consumer", "kv_transfer_config", "kv_connector", "NixlConnector"),
        ("--speculative-config.num_speculative_tokens 3", "speculative_config", "num_speculative_tokens", 3),
    ],
)
def test_a_flag_sets_what_it_sets_in_vllm(text: str, section: str, name: str, value: object) -> None:
    assert _config(changed(CHAT, read_changes(text)))[section][name] == value


def test_an_option_that_is_removed_has_its_default_again() -> None:
    without = changed(CHAT, read_changes("-u --max-model-len -u --kv-events-config"))
    assert _config(without)["kv_events_config"] is None
    assert "--max-model-len command_line" not in _arguments(without)
    assert _config(changed(without, read_changes("--max-model-len 65536")))["model_config"]["max_model_len"] == 65_536


def test_variables_open_endpoints_and_are_reported_as_vllm_reads_them() -> None:
    opened = changed(CHAT, read_changes("VLLM_SERVER_DEV_MODE=1 VLLM_USE_DEEP_GEMM=0 VLLM_PLUGINS=fleet_config,other"))
    variables = json.loads(answer_of(process_of(opened), "/server_info").body)["vllm_env"]
    assert variables["VLLM_USE_DEEP_GEMM"] is False
    assert variables["VLLM_PLUGINS"] == ["fleet_config", "other"]
    assert opened.speaks == {Speaks.PROVIDER, Speaks.SERVER_INFO}
    assert changed(opened, read_changes("-u VLLM_SERVER_DEV_MODE -u VLLM_PLUGINS")).speaks == frozenset()


def test_ranks_that_share_a_hash_seed_have_the_same_block_hashes() -> None:
    def hashes(text: str) -> set[bytes]:
        ranks = [changed(FLEET[f"deepseek-v3-decode-{rank}"], read_changes(text)) for rank in range(2)]
        return {process_of(each).slots["engine_0_engine"] for each in ranks}

    assert len(hashes("--block-size 64")) == 2
    assert len(hashes("PYTHONHASHSEED=0")) == 1
    assert hashes("PYTHONHASHSEED=0") != hashes("PYTHONHASHSEED=1")
    assert len(hashes("--prefix-caching-hash-algo sha256_cbor")) == 1


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "nothing to change"),
        ("block-size 16", "no flag, NAME=VALUE or -u NAME"),
        ("--no-such-flag 1", "has no flag --no-such-flag"),
        ("--max-long-partial-prefills 2", "vLLM 0.32.0 has no flag"),
        ("--compilation-config.no_such 1", "has no setting compilation_config.no_such"),
        ("--model other", "cannot change --model"),
        ("--tensor-parallel-size none", "must be a number"),
        ("--gpu-memory-utilization 0.1", "no memory for a request"),
        ("image=vllm/vllm-openai:v0.9.1", "is no image that the demo knows"),
    ],
)
def test_a_server_that_would_not_start_has_a_reason(text: str, mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        changed(replace(CHAT, speaks=frozenset()), read_changes(text))
