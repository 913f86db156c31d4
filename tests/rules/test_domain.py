"""What a pool shares is what fleet.yaml says, else what the replicas' connectors and events show."""

from typing import Any

import pytest

from dashboard.fleet import Role
from dashboard.rules.domain import Basis, Declared, Domain, Expectations, ImpactContext, Router, Store, domain_of
from tests.builders import document

Settings = dict[str, Any]
UNSAID = Declared()
EXTRA = "kv_transfer_config.kv_connector_extra_config"
EVENTS = "kv_events_config.enable_kv_cache_events"
# vllm/distributed/kv_transfer/kv_connector/factory.py of 0.32.0, and older names.
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


def inferred(*documents: Settings, declared: Declared = UNSAID, roles: tuple[Role, ...] = (Role.BOTH,)) -> Domain:
    return domain_of(declared, roles, [document(each, base={}).settings for each in documents])


def connector(name: str, **extra: object) -> Settings:
    return {"kv_transfer_config.kv_connector": name, **{f"{EXTRA}.{key}": value for key, value in extra.items()}}


def test_a_router_that_nobody_declared_and_no_setting_shows_is_assumed_to_be_approximate() -> None:
    domain = inferred({})

    assert (domain.router, domain.router_basis) == (Router.APPROXIMATE, Basis.ASSUMED)
    assert (domain.kv_store, domain.kv_store_basis) == (Store.NONE, Basis.ASSUMED)
    assert (domain.disaggregated, domain.disaggregated_basis) == (False, Basis.ASSUMED)
    assert domain.contexts == {ImpactContext.MODEL, ImpactContext.APPROXIMATE}
    assert domain.known_contexts == {ImpactContext.MODEL}
    assert domain.assumptions == ("router is approximate",)


def test_what_fleet_yaml_says_counts_more_than_what_is_shown() -> None:
    declared = Declared(Router.NONE, Store.NONE, disaggregated=False, expects=Expectations(block_size=16))
    shown = {EVENTS: True, **connector("LMCacheConnectorV1")}
    domain = inferred(shown, declared=declared, roles=(Role.PREFILL,))

    assert (domain.router, domain.kv_store, domain.disaggregated) == (Router.NONE, Store.NONE, False)
    assert {domain.router_basis, domain.kv_store_basis, domain.disaggregated_basis} == {Basis.DECLARED}
    assert domain.expects.block_size == 16
    assert domain.contexts == domain.known_contexts == {ImpactContext.MODEL}
    assert domain.assumptions == ()


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
def test_a_replica_that_publishes_events_shows_a_router_that_follows_them(settings: Settings, router: Router) -> None:
    domain = inferred({}, settings)

    assert domain.router is router
    assert domain.router_basis is (Basis.INFERRED if router is Router.KV_EVENTS else Basis.ASSUMED)


@pytest.mark.parametrize(("name", "store"), CONNECTORS.items())
def test_a_connector_shows_its_store_alone_and_inside_a_multi_connector(name: str, store: Store) -> None:
    multi = connector("MultiConnector", connectors=[{"kv_connector": "NixlConnector"}, {"kv_connector": name}])

    assert inferred(connector(name)).kv_store is store
    assert inferred(multi).kv_store is store
    assert inferred(multi).kv_store_basis is (Basis.ASSUMED if store is Store.NONE else Basis.INFERRED)


@pytest.mark.parametrize(
    ("tiers", "store"),
    [
        ([{"type": "fs"}], Store.FILE),
        ([{"type": "obj"}], Store.FILE),
        ([{"type": "p2p"}], Store.P2P),
        ([{"type": "fs"}, {"type": "p2p"}], Store.P2P),
        ([{"type": "example"}, {"type": "kvcr"}], Store.NONE),
        ([{"type": 1}, {}, "fs", None], Store.NONE),
        ("fs", Store.NONE),
        ([], Store.NONE),
    ],
)
def test_the_tiers_of_an_offloading_connector_show_its_store(tiers: object, store: Store) -> None:
    assert inferred(connector("OffloadingConnector", secondary_tiers=tiers)).kv_store is store
    assert inferred(connector("NixlConnector", secondary_tiers=tiers)).kv_store is Store.NONE


def test_the_shared_folder_of_llm_d_is_a_store() -> None:
    told = connector("OffloadingConnector", spec_name="SharedStorageOffloadingSpec")

    assert inferred(told).kv_store is Store.FILE


def test_a_name_in_an_option_is_no_connector() -> None:
    assert inferred(connector("NixlConnector", note="LMCacheConnectorV1", tier="p2p")).kv_store is Store.NONE


def test_the_order_of_documents_means_nothing() -> None:
    told = [connector("MooncakeStoreConnector"), connector("LMCacheConnectorV1"), {}]

    assert inferred(*told) == inferred(*reversed(told))


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
def test_a_role_shows_that_a_model_is_served_in_parts(
    roles: tuple[Role, ...], settings: Settings, *, disaggregated: bool
) -> None:
    domain = inferred(settings, roles=roles)

    assert domain.disaggregated is disaggregated
    assert domain.disaggregated_basis is (Basis.INFERRED if disaggregated else Basis.ASSUMED)


def test_each_part_of_a_domain_is_a_reason_for_harm() -> None:
    declared = Declared(Router.APPROXIMATE, Store.FILE, disaggregated=True)

    assert inferred({}, declared=declared).contexts == {
        ImpactContext.MODEL,
        ImpactContext.APPROXIMATE,
        ImpactContext.KV_STORE,
        ImpactContext.DISAGGREGATED,
    }
