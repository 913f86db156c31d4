"""No rule fails on hostile settings."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.domain import Expectations, PoolDeclaration, Router, SeedPolicy, Store
from dashboard.rules.findings import Inspection, OutcomeKind
from dashboard.rules.policy import Policy
from tests import builders
from tests.rules import case

HOSTILE: list[Any] = [
    *(None, 0, -1, 2**64, 10**400, 0.5, 1e-300, True, False),
    *("", "16", "auto", "*", "/", "a/b/c", builders.HOSTILE, "\x00\x1b[31m\u202e", "x" * 5000),
    *([], {}, [None], [[1]], ["NixlConnector"], [{"kv_connector": 1}], {"a": {"b": []}}),
]
CONNECTOR, EXTRA = "kv_transfer_config.kv_connector", "kv_transfer_config.kv_connector_extra_config"
EVENTS = "kv_events_config.enable_kv_cache_events"
IDENTITY = (
    *(f"kv_events_config.{name}" for name in ("endpoint", "replay_endpoint", "topic")),
    *(f"parallel_config.data_parallel_{name}" for name in ("master_ip", "rpc_port", "rank")),
    *(f"env.VLLM_{kind}_SIDE_CHANNEL_{part}" for kind in ("NIXL", "P2P") for part in ("HOST", "PORT")),
    *("kv_transfer_config.engine_id", "instance_id"),
)
# Settings that rules read besides those that they need.
FURTHER = {
    "ID": (EVENTS, CONNECTOR, f"{EXTRA}.secondary_tiers", "parallel_config.data_parallel_size"),
    "CO": (
        *(f"env.VLLM_{name}" for name in ("PLUGINS", "SERVER_DEV_MODE", "BATCH_INVARIANT")),
        *("parallel_config.data_parallel_size", "lora_config.target_modules"),
    ),
    "RT": (
        "cache_config.effective_attention_block_size",
        "kv_events_config.publisher",
        "kv_events_config.replay_endpoint",
        "speculative_config.method",
    ),
    "PD": (
        *(f"parallel_config.{name}_size" for name in ("decode_context_parallel", "pipeline_parallel")),
        *(f"speculative_config.{name}" for name in ("model", "kv_cache_dtype")),
        *(f"kv_transfer_config.{name}" for name in ("kv_buffer_device", "enable_permute_local_kv")),
        *(f"{EXTRA}.{name}" for name in ("connectors", "enforce_handshake_compat", "secondary_tiers")),
        *("model_config.dtype", "cache_config.enable_prefix_caching", "ec_transfer_config.ec_connector"),
        "scheduler_config.disable_hybrid_kv_cache_manager",
    ),
    "SH": (
        *("model_config.dtype", "cache_config.kv_offloading_backend", "kv_transfer_config", EXTRA),
        *(f"{EXTRA}.{name}" for name in ("connectors", "cache_prefix", "store_tp_size", "secondary_tiers")),
        *(f"{EXTRA}.{name}" for name in ("block_size", "lmcache.chunk_size", "lmcache.remote_url")),
    ),
    "CP": ("cache_config.cache_dtype", "cache_config.kv_cache_memory_bytes"),
}
CONNECTORS = {
    Store.FILE: "OffloadingConnector",
    Store.P2P: "OffloadingConnector",
    Store.LMCACHE: "LMCacheConnectorV1",
    Store.MOONCAKE: "MooncakeStoreConnector",
}


class Scene(NamedTuple):
    """Rules by the prefix of their ids, the pool's options, and the settings of its other replicas."""

    name: str
    prefix: str
    declared: PoolDeclaration
    usual: Mapping[str, Any]

    @property
    def paths(self) -> list[str]:
        needs = {need for rule in ALL_RULES if rule.id.startswith(self.prefix) for need in rule.needs}
        return sorted({*FURTHER[self.prefix], *(need for need in needs if "." in need or "_" in need)})


EXPECTING = Expectations(16, "sha256_cbor", SeedPolicy.ENVIRONMENT, "kv@{host}:{port}@{model}")
PUBLISHING = {EVENTS: True, "kv_events_config.topic": "kv", "kv_events_config.endpoint": "tcp://*:5557"}
ROUTED = [
    Scene(f"{router}, {expects.seed_policy}", "RT", PoolDeclaration(router, expects=expects), PUBLISHING)
    for router, expects in (
        (Router.PREFIX_HASH, EXPECTING),
        (Router.PREFIX_HASH, Expectations(seed_policy=SeedPolicy.DEFAULT)),
        (Router.KV_EVENTS, EXPECTING),
        (Router.KV_EVENTS, Expectations()),
        (Router.APPROXIMATE, Expectations()),
    )
]
STORED = [
    Scene(
        store,
        "SH",
        PoolDeclaration(kv_store=store),
        {CONNECTOR: name, "model_config.model": "org/llama", f"{EXTRA}.x": 1},
    )
    for store, name in CONNECTORS.items()
]
SPECULATING = {CONNECTOR: "NixlConnector", f"{EXTRA}.x": 1, "speculative_config.method": "eagle"}
IDENTIFIED = [
    Scene("identity", "ID", PoolDeclaration(), {}),
    Scene("side channels", "ID", PoolDeclaration(), {EVENTS: True, CONNECTOR: "NixlConnector"}),
]
PAIRED = [
    Scene("prefill, decode", "PD", PoolDeclaration(), {}),
    Scene("speculation", "PD", PoolDeclaration(), SPECULATING),
]
SIZED = [Scene("capacity", "CP", PoolDeclaration(), {})]
BEHAVING = Scene("behaviour", "CO", PoolDeclaration(), {})
COMPARED = BEHAVING._replace(name="compared behaviour", usual=dict.fromkeys(BEHAVING.paths, 16))
SCENES = [*ROUTED, *STORED, *PAIRED, *SIZED, *IDENTIFIED, BEHAVING, COMPARED]

each_hostile = pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])


def inspected(scene: Scene, odd: Sequence[Mapping[str, Any]], **more: Any) -> Inspection:
    """Inspect a pool of three usual and some odd replicas, or a pair of pools with the odd ones on prefill."""
    usual: dict[str, Any] = {"replicas": 3, "settings": scene.usual}
    if scene.prefix == "PD":
        usual |= {"pool": "m/decode", "role": "decode", **more}
        more |= {"pool": "m/prefill", "role": "prefill"}
    entries = [usual, *({"settings": each, **more} for each in odd)]
    rules = [each for each in ALL_RULES if each.id.startswith(scene.prefix)]
    return case.inspected(*case.built(entries), rules, Policy({"chat": scene.declared}))


@pytest.mark.few(60)
@pytest.mark.no_cover
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
@each_hostile
def test_no_hostile_value_makes_a_rule_raise_or_a_sentence_unprintable(value: Any, scene: Scene) -> None:
    one_each = [{**scene.usual, path: value} for path in scene.paths]
    version = value if isinstance(value, str) else "0.32.0"  # other types are refused on import
    for odd in (one_each, [{**dict.fromkeys(scene.paths, value), EVENTS: True, "version": version}]):
        inspection = inspected(scene, odd, labels={"role": "<b>"}, identity=dict.fromkeys(IDENTITY, value))

        assert [each.reason for each in inspection.outcomes if each.kind is OutcomeKind.ERROR] == []
        assert all(each.sentence.isprintable() and len(each.sentence) < 600 for each in inspection.findings)


@pytest.mark.no_cover
@pytest.mark.parametrize("scene", [*STORED, PAIRED[0], *SIZED], ids=lambda scene: scene.name)
@each_hostile
def test_hostile_values_on_all_replicas_are_no_difference(value: Any, scene: Scene) -> None:
    everywhere = {**dict.fromkeys(scene.paths, value), **scene.usual}

    # PD-10 and PD-15 report single replicas.
    found = inspected(scene._replace(usual=everywhere), [everywhere]).findings
    assert {each.rule for each in found} <= {"PD-10", "PD-15"}


@pytest.mark.parametrize("scene", STORED, ids=lambda scene: scene.name)
def test_replicas_of_a_store_may_differ_in_limits(scene: Scene) -> None:
    usual = {**builders.CONFIG, **scene.usual}

    assert not inspected(scene._replace(usual=usual), [{**usual, "scheduler_config.max_num_seqs": 64}]).findings


@pytest.mark.parametrize(
    "changed",
    [
        {"parallel_config.tensor_parallel_size": 8, "parallel_config.data_parallel_size": 1},
        {"scheduler_config.max_num_seqs": 8, "scheduler_config.max_num_batched_tokens": 16_384},
        {"cache_config.enable_prefix_caching": False, "cache_config.gpu_memory_utilization": 0.8},
        {"model_config.enforce_eager": True, "compilation_config.cudagraph_mode": "NONE"},
        {"parallel_config.enable_expert_parallel": True},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_prefill_and_decode_may_differ_in_limits_and_sizes(changed: dict[str, Any]) -> None:
    usual = {
        **builders.CONFIG,
        CONNECTOR: "NixlConnector",
        "kv_transfer_config.kv_role": "kv_consumer",
        EXTRA: {},
        "parallel_config.tensor_parallel_size": 4,
        "cache_config.block_size": 16,
    }
    odd = {**usual, "kv_transfer_config.kv_role": "kv_producer", **changed}

    assert not inspected(PAIRED[0]._replace(usual=usual), [odd]).findings
