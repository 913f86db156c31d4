"""The domain of a pool is declared in fleet.yaml, else read or detected from connectors, events and roles."""

from typing import Any

import pytest

from dashboard.fleet import Role
from dashboard.rules.domain import (
    Domain,
    Expectations,
    ImpactContext,
    Origin,
    PoolDeclaration,
    Router,
    Store,
    domain_of,
)
from tests.builders import document

Settings = dict[str, Any]
UNDECLARED = PoolDeclaration()
EXTRA = "kv_transfer_config.kv_connector_extra_config"
EVENTS = "kv_events_config.enable_kv_cache_events"
# vllm/distributed/kv_transfer/kv_connector/factory.py of 0.32.0, and older names
CONNECTORS = {
    "DecodeBenchConnector": Store.NONE,
    "ExampleConnector": Store.FILE,
    "ExampleHiddenStatesConnector": Store.NONE,
    "FlexKVConnectorV1": Store.NONE,
    "HF3FSKVConnector": Store.FILE,
    "HiSparseConnector": Store.NONE,
    "LMCacheConnector": Store.LMCACHE,
    "LMCacheConnectorV1": Store.LMCACHE,
    "LMCacheMPConnector": Store.LMCACHE,
    "MoRIIOConnector": Store.NONE,
    "MooncakeConnector": Store.NONE,
    "MooncakeStoreConnector": Store.MOONCAKE,
    "NixlConnector": Store.NONE,
    "NixlPullConnector": Store.NONE,
    "NixlPushConnector": Store.NONE,
    "OffloadingConnector": Store.NONE,
    "SharedStorageConnector": Store.FILE,
    "SimpleCPUOffloadConnector": Store.NONE,
}


def derived(
    *documents: Settings, declared: PoolDeclaration = UNDECLARED, roles: tuple[Role, ...] = (Role.BOTH,)
) -> Domain:
    return domain_of(declared, roles, [document(each, base={}).settings for each in documents])


def connector(name: str, **extra: object) -> Settings:
    return {"kv_transfer_config.kv_connector": name, **{f"{EXTRA}.{key}": value for key, value in extra.items()}}


def test_without_any_evidence_the_router_is_assumed_to_be_approximate() -> None:
    domain = derived({})

    assert (domain.router, domain.router_basis) == (Router.APPROXIMATE, Origin.ASSUMED)
    assert (domain.kv_store, domain.kv_store_basis) == (Store.NONE, Origin.ASSUMED)
    assert (domain.disaggregated, domain.disaggregated_basis) == (False, Origin.ASSUMED)
    assert domain.contexts == {ImpactContext.MODEL, ImpactContext.APPROXIMATE}
    assert domain.known_contexts == {ImpactContext.MODEL}
    assert domain.assumptions == ("router is approximate",)


def test_declared_parts_override_those_of_the_replicas() -> None:
    declared = PoolDeclaration(Router.NONE, Store.NONE, disaggregated=False, expects=Expectations(block_size=16))
    settings = {EVENTS: True, **connector("LMCacheConnectorV1")}
    domain = derived(settings, declared=declared, roles=(Role.PREFILL,))
    every = derived({}, declared=PoolDeclaration(Router.APPROXIMATE, Store.FILE, disaggregated=True))

    assert (domain.router, domain.kv_store, domain.disaggregated) == (Router.NONE, Store.NONE, False)
    assert {domain.router_basis, domain.kv_store_basis, domain.disaggregated_basis} == {Origin.DECLARED}
    assert domain.expects.block_size == 16
    assert domain.contexts == domain.known_contexts == {ImpactContext.MODEL}
    assert domain.assumptions == ()
    assert every.contexts == {
        ImpactContext.MODEL,
        ImpactContext.APPROXIMATE,
        ImpactContext.KV_STORE,
        ImpactContext.DISAGGREGATED,
    }


@pytest.mark.parametrize(
    ("settings", "router"),
    [
        ({EVENTS: True}, Router.KV_EVENTS),
        ({EVENTS: True, "kv_events_config.publisher": "zmq"}, Router.KV_EVENTS),
        ({EVENTS: True, "kv_events_config.publisher": "null"}, Router.APPROXIMATE),
        ({EVENTS: False}, Router.APPROXIMATE),
        ({EVENTS: "true"}, Router.APPROXIMATE),
        ({"kv_events_config": None}, Router.APPROXIMATE),
    ],
)
def test_a_replica_that_publishes_events_implies_a_router_on_kv_events(settings: Settings, router: Router) -> None:
    domain = derived({}, settings)

    assert domain.router is router
    assert domain.router_basis is (Origin.DETECTED if router is Router.KV_EVENTS else Origin.ASSUMED)
    assert domain.known_contexts == {ImpactContext.MODEL}
    assert domain.assumptions == (
        "router is kv-events (detected)" if router is Router.KV_EVENTS else "router is approximate",
    )


@pytest.mark.parametrize(("name", "store"), CONNECTORS.items())
def test_a_connector_implies_its_store_alone_and_inside_a_multi_connector(name: str, store: Store) -> None:
    multi = connector("MultiConnector", connectors=[{"kv_connector": "NixlConnector"}, {"kv_connector": name}])

    assert derived(connector(name)).kv_store is store
    assert derived(multi).kv_store is store
    assert derived(multi).kv_store_basis is (Origin.ASSUMED if store is Store.NONE else Origin.READ)


@pytest.mark.parametrize(
    ("options", "store"),
    [
        ({"secondary_tiers": [{"type": "fs"}]}, Store.FILE),
        ({"secondary_tiers": [{"type": "obj"}]}, Store.FILE),
        ({"secondary_tiers": [{"type": "p2p"}]}, Store.P2P),
        ({"secondary_tiers": [{"type": "fs"}, {"type": "p2p"}]}, Store.P2P),
        ({"secondary_tiers": [{"type": "example"}, {"type": "kvcr"}]}, Store.NONE),
        ({"secondary_tiers": [{"type": 1}, {}, "fs", None]}, Store.NONE),
        ({"secondary_tiers": "fs"}, Store.NONE),
        ({"secondary_tiers": []}, Store.NONE),
        ({"spec_name": "SharedStorageOffloadingSpec"}, Store.FILE),
        ({"note": "LMCacheConnectorV1", "tier": "p2p"}, Store.NONE),
    ],
)
def test_the_tiers_of_an_offloading_connector_imply_its_store(options: Settings, store: Store) -> None:
    assert derived(connector("OffloadingConnector", **options)).kv_store is store
    assert derived(connector("NixlConnector", **options)).kv_store is Store.NONE


def test_the_order_of_documents_does_not_matter() -> None:
    documents = [connector("MooncakeStoreConnector"), connector("LMCacheConnectorV1"), {}]

    assert derived(*documents) == derived(*reversed(documents))


@pytest.mark.parametrize(
    ("roles", "settings", "disaggregated"),
    [
        ((Role.PREFILL,), {}, True),
        ((Role.BOTH, Role.DECODE), {}, True),
        ((Role.BOTH,), {}, False),
        ((Role.BOTH,), {"ec_transfer_config.ec_role": "ec_producer"}, True),
        ((Role.BOTH,), {"ec_transfer_config": None}, False),
    ],
)
def test_a_role_implies_disaggregation(roles: tuple[Role, ...], settings: Settings, *, disaggregated: bool) -> None:
    domain = derived(settings, roles=roles)

    assert domain.disaggregated is disaggregated
    assert domain.disaggregated_basis is (Origin.READ if disaggregated else Origin.ASSUMED)
