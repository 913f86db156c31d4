"""Rules on shared stores: whatever replicas tell, they judge it, and where nothing is wrong they are silent."""

from typing import Any

import pytest

from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.domain import Store
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Family, Inspection, OutcomeKind
from dashboard.rules.policy import Policy
from tests import builders
from tests.rules.case import built, declared

STORES = tuple(each for each in ALL_RULES if each.family is Family.STORES)

EXTRA = "kv_transfer_config.kv_connector_extra_config"
CONNECTOR = "kv_transfer_config.kv_connector"
HOSTILE: list[Any] = [
    *(None, 0, -1, 2**64, True, False, "", "16", "auto", "/", "a/b/c", "<script>", "\x00\u202e", "x" * 5000),
    *([], {}, [None], ["LMCache"], [{"kv_connector": 1}], {"a": {"b": []}}),
]
PATHS = [
    *(f"model_config.{name}" for name in ("model", "dtype", "revision", "quantization")),
    *("cache_config.cache_dtype", "cache_config.kv_offloading_size", "cache_config.kv_offloading_backend"),
    *("parallel_config.tensor_parallel_size", "kv_transfer_config", CONNECTOR, EXTRA),
    *(f"{EXTRA}.{name}" for name in ("connectors", "cache_prefix", "store_tp_size", "secondary_tiers", "block_size")),
    *(f"{EXTRA}.lmcache.{name}" for name in ("chunk_size", "remote_url")),
]
USUAL = {"model_config.model": "org/llama", f"{EXTRA}.x": 1}
CONNECTORS = {
    Store.FILE: "OffloadingConnector",
    Store.P2P: "OffloadingConnector",
    Store.LMCACHE: "LMCacheConnectorV1",
    Store.MOONCAKE: "MooncakeStoreConnector",
}

each_store = pytest.mark.parametrize(("store", "connector"), CONNECTORS.items())


def inspected(fleet: list[dict[str, Any]], store: Store) -> Inspection:
    replicas, documents = built(fleet)
    known = {each.id: each for each in documents}
    policy = Policy({"chat": declared({"kv_store": store})})
    return inspect_fleet(STORES, builders.compared(replicas, known), replicas, known, policy, builders.NOW)


@pytest.mark.no_cover
@each_store
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_a_strange_value_raises_in_no_rule(store: Store, connector: str, value: Any) -> None:
    usual = {**USUAL, CONNECTOR: connector}
    for path in PATHS:
        told = inspected([{"replicas": 3, "settings": usual}, {"settings": {**usual, path: value}}], store)
        broken = [(path, each.rule, each.reason) for each in told.outcomes if each.kind is OutcomeKind.ERROR]
        assert not broken


@each_store
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_strange_values_that_all_share_are_no_difference(store: Store, connector: str, value: Any) -> None:
    settings = {**dict.fromkeys(PATHS, value), CONNECTOR: connector}

    assert not inspected([{"replicas": 4, "settings": settings}], store).findings


@each_store
def test_what_may_differ_between_replicas_keeps_none_of_them_apart(store: Store, connector: str) -> None:
    def one(seqs: int) -> dict[str, Any]:
        return {"settings": {**builders.CONFIG, **USUAL, CONNECTOR: connector, "scheduler_config.max_num_seqs": seqs}}

    assert not inspected([one(64), one(128), one(256)], store).findings


def test_a_prefix_to_paste_holds_nothing_that_a_shell_minds() -> None:
    strange = {**USUAL, CONNECTOR: "MooncakeStoreConnector", f"{EXTRA}.cache_prefix": "a; rm -rf $(x)"}
    told = inspected(
        [
            {"replicas": 3, "settings": {**strange, "model_config.revision": "`x`"}},
            {"settings": {**strange, "model_config.revision": "y|z"}},
        ],
        Store.MOONCAKE,
    )
    (finding,) = told.findings
    pasted = [each.text for each in finding.remedy.snippets]

    assert finding.rule == "SH-03"
    assert not set("".join(pasted)) & set(";$`|()&<>'\"")
    assert [text.rpartition("-")[2] for text in pasted] == ["x", "z"]
    assert finding.remedy.any_of
