"""Rules on prefill and decode: whatever replicas tell, they judge it, and where nothing is wrong they are silent."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.fleet import Document, Replica
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.disaggregation.roles import is_local, partners
from dashboard.rules.domain import Declared
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Family, Inspection, OutcomeKind
from dashboard.rules.policy import Policy
from dashboard.rules.registry import Rule
from tests import builders
from tests.rules.case import built
from tests.rules.subjects import pool, whole

DISAGGREGATION = tuple(each for each in ALL_RULES if each.family is Family.DISAGGREGATION)

HOSTILE: list[Any] = [
    *(None, 0, -1, 2**64, 0.5, True, False, "", "16", "auto", "*", "<script>", "\x00\u202e", "x" * 5000),
    *([], {}, [None], [[]], ["NixlConnector"], [{"kv_connector": 1}], {"a": {"b": []}}),
]
EXTRA = "kv_transfer_config.kv_connector_extra_config"
PATHS = [
    *(f"model_config.{name}" for name in ("model", "dtype", "revision", "quantization", "max_model_len")),
    *(f"cache_config.{name}" for name in ("block_size", "cache_dtype", "kv_cache_layout", "enable_prefix_caching")),
    *(f"parallel_config.{name}_size" for name in ("tensor_parallel", "decode_context_parallel", "pipeline_parallel")),
    *(f"speculative_config.{name}" for name in ("method", "model", "kv_cache_dtype")),
    *("attention_config.backend", "env.VLLM_ATTENTION_BACKEND", "env.VLLM_KV_CACHE_LAYOUT"),
    "scheduler_config.disable_hybrid_kv_cache_manager",
    *(f"kv_transfer_config.{name}" for name in ("kv_connector", "kv_role", "kv_load_failure_policy")),
    *(f"kv_transfer_config.{name}" for name in ("kv_buffer_device", "enable_permute_local_kv")),
    *(f"{EXTRA}.{name}" for name in ("connectors", "enforce_handshake_compat", "secondary_tiers")),
    *("ec_transfer_config.ec_role", "ec_transfer_config.ec_connector"),
]
SIDE_CHANNEL = "env.VLLM_NIXL_SIDE_CHANNEL_HOST"
USUAL = {"kv_transfer_config.kv_connector": "NixlConnector", f"{EXTRA}.x": 1, "speculative_config.method": "eagle"}


def inspected(fleet: list[dict[str, Any]], rules: tuple[Rule, ...] = DISAGGREGATION) -> Inspection:
    return judged(*built(fleet), rules)


def judged(replicas: list[Replica], documents: list[Document], rules: tuple[Rule, ...] = DISAGGREGATION) -> Inspection:
    known = {each.id: each for each in documents}
    return inspect_fleet(rules, builders.compared(replicas, known), replicas, known, Policy(), builders.NOW)


def pair(prefill: dict[str, Any], decode: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [
        {"pool": "m/prefill", "role": "prefill", "replicas": 2, "settings": prefill, **more},
        {"pool": "m/decode", "role": "decode", "replicas": 3, "settings": decode, **more},
    ]


@pytest.mark.no_cover
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_a_strange_value_raises_in_no_rule(value: Any) -> None:
    for path in PATHS:
        for usual in ({}, USUAL):
            fleet = pair({**usual, path: value}, usual, identity={SIDE_CHANNEL: value}, labels={"role": "<b>"})
            outcomes = inspected(fleet).outcomes
            broken = [(path, each.rule, each.reason) for each in outcomes if each.kind is OutcomeKind.ERROR]
            assert not broken


@pytest.mark.no_cover
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_strange_values_everywhere_that_are_the_same_on_both_sides_are_no_difference(value: Any) -> None:
    settings = dict.fromkeys(PATHS, value)
    found = inspected(pair(settings, settings)).findings

    assert {each.rule for each in found} <= {"PD-10", "PD-15"}


@pytest.mark.parametrize(
    "changed",
    [
        {"parallel_config.tensor_parallel_size": 8, "parallel_config.data_parallel_size": 1},
        {"scheduler_config.max_num_seqs": 8, "scheduler_config.max_num_batched_tokens": 16_384},
        {"cache_config.enable_prefix_caching": False, "cache_config.gpu_memory_utilization": 0.8},
        {"model_config.enforce_eager": True, "compilation_config.cudagraph_mode": "NONE"},
        {"parallel_config.enable_expert_parallel": True, "kv_transfer_config.kv_role": "kv_producer"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_prefill_and_decode_are_expected_to_differ_in_is_no_finding(changed: dict[str, Any]) -> None:
    usual = {
        **builders.CONFIG,
        "kv_transfer_config.kv_connector": "NixlConnector",
        "kv_transfer_config.kv_role": "kv_consumer",
        "parallel_config.tensor_parallel_size": 4,
        "cache_config.block_size": 16,
        EXTRA: {},
    }

    assert not inspected(pair({**usual, "kv_transfer_config.kv_role": "kv_producer", **changed}, usual)).findings


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "0.0.0.0", "::1", "[::]")),
        *((host, False) for host in ("10.0.0.1", "pod-3.decode", "", "2001:db8::1", "localhost.example", "\x00")),
    ],
)
def test_addresses_that_mean_the_machine_itself(*, host: str, expected: bool) -> None:
    assert is_local(host) is expected


def test_addresses_of_one_machine_are_one_host() -> None:
    settings = {"kv_transfer_config.kv_connector": "NixlConnector"}
    replicas, documents = built(pair(settings, settings, identity={SIDE_CHANNEL: "localhost"}))
    local = [replace(each, id=f"http://127.0.0.{number}:8000") for number, each in enumerate(replicas, 1)]

    assert "PD-17" in {each.rule for each in judged(replicas, documents).findings}
    assert "PD-17" not in {each.rule for each in judged(local, documents).findings}


def test_pools_that_share_a_name_are_partners_in_any_order() -> None:
    apart = Declared(disaggregated=True)
    pools = [
        pool({"served": [served]}, name=name, declared=apart)
        for name, served in (("a/prefill", "m"), ("b/decode", "n"), ("a/decode", "n"), ("other/decode", "o"))
    ]
    for ordered in (pools, pools[::-1]):
        groups = partners(whole(*ordered))
        assert {frozenset(each.name for each in group) for group in groups} == {
            frozenset({"a/prefill", "a/decode", "b/decode"}),
            frozenset({"other/decode"}),
        }


@pytest.mark.parametrize("rule", ["PD-10", "PD-17"])
def test_what_is_said_in_two_forms_is_to_be_pasted_once(rule: str) -> None:
    producer = {"kv_transfer_config.kv_connector": "NixlConnector", "kv_transfer_config.kv_role": "kv_producer"}
    consumer = {**producer, "kv_transfer_config.kv_role": "kv_consumer"}
    fleet = pair(producer, consumer, identity={SIDE_CHANNEL: "localhost"}, served=["m"])
    fleet.append({"pool": "m", "served": ["m"], "settings": {}})
    (finding,) = [each for each in inspected(fleet).findings if each.rule == rule]

    assert len(finding.remedy.snippets) == 2
    assert finding.remedy.any_of


def test_replicas_of_unknown_role_are_told_why_it_matters_here() -> None:
    role = {"kv_transfer_config.kv_connector": "NixlConnector", "kv_transfer_config.kv_role": "kv_producer"}
    fleet = [{"pool": "m/prefill", "role": "prefill", "settings": role}, {"pool": "m", "settings": {}}]
    (finding,) = inspected(fleet).findings

    assert finding.rule == "PD-10"
    assert "as if they were interchangeable" in finding.why
