"""Whether KV cache can be transferred: a verdict of its own, where there is a store or separate prefill and decode."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.analysis.kv_transfer import GROUPS, KV_DTYPE, LAYOUT, TransferVerdict, transfer_text
from dashboard.analysis.parts import only_pool
from dashboard.compare import Share
from dashboard.compare.equality import DTYPE_PATH
from dashboard.fleet.pieces import to_plain
from dashboard.rules.connector_options import CONNECTOR
from tests import builders
from tests.rules.case import built

MODEL = "model_config.model"
STORE = {CONNECTOR: "LMCacheConnectorV1", LAYOUT: "NHD", MODEL: "org/llama", DTYPE_PATH: "bfloat16", KV_DTYPE: "auto"}
NIXL = {**STORE, CONNECTOR: "NixlConnector"}
GROUP = {"layers": 32}


def fleet_of(*members: Mapping[str, Any], pools: Sequence[str] = ()) -> Fleet:
    """A fleet of replicas with these settings, in pool chat unless named; each reports one KV cache group."""
    entries = [
        {"settings": dict(settings), "groups": [GROUP], "pool": pool, "hashes": ["a"]}
        for settings, pool in zip(members, pools or ["chat"] * len(members), strict=True)
    ]
    for entry in entries:
        if "/" in str(entry["pool"]):
            entry["role"] = str(entry["pool"]).rpartition("/")[2]
    return builders.fleet(*built(entries))


def verdict_of(fleet: Fleet) -> TransferVerdict | None:
    return fleet.transfers.get(fleet.pools[0].name)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, TransferVerdict(Share.YES)),
        ({LAYOUT: "HND"}, TransferVerdict(Share.NO, (LAYOUT,))),
        ({LAYOUT: None}, TransferVerdict(Share.UNKNOWN, (LAYOUT,))),
        ({KV_DTYPE: "fp8"}, TransferVerdict(Share.NO, (KV_DTYPE,))),
        ({KV_DTYPE: "bfloat16"}, TransferVerdict(Share.YES)),
        ({CONNECTOR: None}, TransferVerdict(Share.NO, (CONNECTOR,))),
        ({MODEL: "mirror/llama"}, TransferVerdict(Share.YES)),
    ],
)
def test_replicas_of_a_store_transfer_kv_cache_where_all_that_matters_is_equal(
    change: Mapping[str, Any], expected: TransferVerdict
) -> None:
    assert verdict_of(fleet_of(STORE, STORE, {**STORE, **change})) == expected


def test_a_pool_without_a_store_or_with_one_replica_transfers_nothing() -> None:
    assert verdict_of(fleet_of({LAYOUT: "NHD"}, {LAYOUT: "HND"})) is None
    assert verdict_of(fleet_of(STORE)) is None


def test_the_pool_that_decodes_counts_with_the_one_that_prefills() -> None:
    pools = ["chat/prefill", "chat/decode"]

    assert verdict_of(fleet_of(NIXL, NIXL, pools=pools)) == TransferVerdict(Share.YES)
    assert verdict_of(fleet_of(NIXL, {**NIXL, LAYOUT: "HND"}, pools=pools)) == TransferVerdict(Share.NO, (LAYOUT,))


def test_a_replica_that_was_never_read_leaves_it_unknown() -> None:
    replicas, documents = built([{"replicas": 2, "settings": STORE, "groups": [GROUP]}, {"state": "down"}])
    found = verdict_of(builders.fleet(replicas, documents))

    assert found is not None
    assert (found.share, GROUPS in found.paths) == (Share.UNKNOWN, True)


def test_it_has_no_effect_on_prefix_sharing() -> None:
    same = {**STORE, "version": "0.32.0", "model_config.revision": None, "cache_config.block_size": 16}
    fleet = fleet_of(same, {**same, LAYOUT: "HND"})

    assert fleet.sharing["chat"].share is Share.YES
    assert verdict_of(fleet) == TransferVerdict(Share.NO, (LAYOUT,))


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (TransferVerdict(Share.YES), "KV transfer: yes. Model, dtypes, layout, KV cache groups and connector match."),
        (TransferVerdict(Share.NO, (LAYOUT,)), "KV transfer: no. kv_cache_layout differs."),
        (TransferVerdict(Share.NO, (GROUPS,)), "KV transfer: no. KV cache groups differ."),
        (
            TransferVerdict(Share.UNKNOWN, (LAYOUT, GROUPS)),
            "KV transfer: unknown. kv_cache_layout and KV cache groups not reported by every replica.",
        ),
    ],
)
def test_the_verdict_is_one_short_line(verdict: TransferVerdict, text: str) -> None:
    assert to_plain(transfer_text(verdict, "chat")) == text


def test_what_did_not_change_keeps_its_verdict_and_a_pool_whose_partner_is_gone_is_decided_anew() -> None:
    fleet = fleet_of(NIXL, {**NIXL, LAYOUT: "HND"}, pools=["chat/prefill", "chat/decode"])
    again, alone = inspected(fleet, builders.NOW, before=fleet), only_pool(fleet, "chat/prefill")

    assert all(again.transfers[name] is verdict for name, verdict in fleet.transfers.items())
    assert (set(fleet.transfers), alone.transfers) == ({"chat/prefill", "chat/decode"}, {})
