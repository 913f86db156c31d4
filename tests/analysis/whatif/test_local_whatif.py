"""A what-if of some pools alone predicts what one of the whole fleet does, also where pools depend on each other."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis import pricing
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.pricing import Prediction, Wanted, change_of, parts_of, predictions
from dashboard.analysis.whatif import concerns_other_pools
from dashboard.compare.encoding import lookup_value
from dashboard.fleet import Replica, Role, SettingValue
from dashboard.rules.domain import PoolDeclaration, Router
from dashboard.rules.findings import Suppression
from dashboard.rules.policy import Policy
from tests.builders import POLLED_AT, document, fleet, replica, setting

CONNECTOR, EXTRA = "kv_transfer_config.kv_connector", "kv_transfer_config.kv_connector_extra_config"
NIXL: Mapping[str, Any] = {CONNECTOR: "NixlConnector", "kv_transfer_config.kv_role": "kv_both"}
MOONCAKE = {CONNECTOR: "MooncakeStoreConnector", f"{EXTRA}.cache_prefix": "one"}
EVENTS = {"kv_events_config.enable_kv_cache_events": True}
ENCODING = {"ec_transfer_config.ec_connector": "ECCPUConnector", "model_config.model": "org/m"}
# What replicas of one fleet report besides their defaults.
REPORTED: tuple[tuple[Mapping[str, Any], ...], ...] = (
    (
        {"cache_config.block_size": 32, "scheduler_config.max_num_seqs": 64},
        {"version": "0.31.0", "kv_transfer_config": None, "env.PYTHONHASHSEED": "7"},
        {"served_model_names": ["other"], "cache_config.cache_dtype": "fp8"},
    ),
    (
        {"kv_transfer_config": None},
        {**NIXL, "kv_transfer_config.kv_role": "kv_producer"},
        {**NIXL, "kv_transfer_config.kv_role": "kv_consumer", "cache_config.block_size": 32},
        {"version": "0.31.0"},
    ),
    (
        {**NIXL, "env.VLLM_NIXL_SIDE_CHANNEL_HOST": "10.0.0.1", "env.VLLM_NIXL_SIDE_CHANNEL_PORT": 5600},
        {**NIXL, "env.VLLM_NIXL_SIDE_CHANNEL_HOST": "10.0.0.2", "env.VLLM_NIXL_SIDE_CHANNEL_PORT": 5600},
    ),
    (
        {**NIXL, "kv_transfer_config.engine_id": "one", "parallel_config.data_parallel_size": 2},
        {**NIXL, "kv_transfer_config.engine_id": "two", "parallel_config.data_parallel_size": 1},
    ),
    (
        {**MOONCAKE, "model_config.model": "org/m", "model_config.revision": "b2"},
        {**MOONCAKE, "model_config.model": "org/m", "model_config.revision": "c3"},
    ),
    (
        {**ENCODING, "ec_transfer_config.ec_role": "ec_producer", "version": "0.31.0"},
        {**ENCODING, "ec_transfer_config.ec_role": "ec_consumer"},
    ),
    (
        {**EVENTS, "kv_events_config.replay_endpoint": "tcp://10.0.0.1:5557"},
        {**EVENTS, "kv_events_config.replay_endpoint": "tcp://10.0.0.2:5557"},
        {**EVENTS, "kv_events_config.topic": "kv@10.0.0.5:8000@m"},
    ),
)
IDENTITIES: tuple[Mapping[str, Any], ...] = (
    {},
    {},
    {"kv_transfer_config.engine_id": "one", "instance_id": "a"},
    {"env.VLLM_NIXL_SIDE_CHANNEL_HOST": "localhost", "env.VLLM_NIXL_SIDE_CHANNEL_PORT": 5600},
    {"kv_events_config.endpoint": "tcp://*:5557", "parallel_config.data_parallel_rank": 1},
)
ROLES = {"m/prefill": Role.PREFILL, "m/decode": Role.DECODE}
POOLS = ("m/prefill", "m/decode", "m", "chat")
PATHS = sorted({path for own in REPORTED for each in own for path in each} - {"kv_transfer_config"})


@st.composite
def replicas(draw: st.DrawFn, reports: tuple[Mapping[str, Any], ...]) -> tuple[Replica, Mapping[str, Any]]:
    """Return a replica of any pool of two clusters without its document, and what it reports."""
    pool, cluster = draw(st.sampled_from(POOLS)), draw(st.sampled_from(["", "", "", "east"]))
    reported = draw(st.sampled_from(reports))
    identity = {path: setting(each) for path, each in draw(st.sampled_from(IDENTITIES)).items()}
    role = ROLES.get(pool, Role.BOTH)
    label = {"role": str(role)} if pool in ROLES and draw(st.booleans()) else {}
    one = replica(
        pool=f"{cluster}/{pool}" if cluster else pool,
        role=role,
        labels={"cluster": cluster, **label} if cluster else label,
        identity=identity,
        served_model_names=draw(st.sampled_from([("m",), ("m",), ("other",)])),
        fresh=draw(st.sampled_from([True, True, True, False])),
    )
    return one, reported


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    documents, members = {}, []
    reports = draw(st.sampled_from(REPORTED))
    for number, (each, reported) in enumerate(draw(st.lists(replicas(reports), min_size=3, max_size=8))):
        own = document(reported)
        documents[own.id] = own
        name = f"replica-{number}"
        found = replace(each, id=f"http://{name}:8000", name=name, document=own.id, version=own.version)
        members.append(found)
    suppressed = Suppression(
        rule=draw(st.sampled_from(["RT-01", "ID-03"])), reason="known", owner="us", until=POLLED_AT.date()
    )
    policy = Policy({"*": PoolDeclaration(router=draw(st.sampled_from(Router)))}, suppressions=(suppressed,))
    return fleet(members, documents.values(), policy=policy)


def wanted_of(data: st.DataObject, found: Fleet) -> dict[str, Wanted]:
    """Draw which replicas get which values: those of other replicas of the fleet."""
    values = {
        path: sorted({own for each in found.documents.values() if (own := lookup_value(each.settings, path))})
        for path in PATHS
    }
    paths = [path for path, own in values.items() if own]
    changes = st.dictionaries(st.sampled_from(paths), st.integers(0, 9), min_size=1, max_size=3)
    drawn = data.draw(st.dictionaries(st.sampled_from([each.id for each in found.replicas]), changes, min_size=1))
    wanted: dict[str, Wanted] = {}
    for key, numbers in drawn.items():
        new: dict[str, SettingValue] = {
            path: values[path][number % len(values[path])] for path, number in numbers.items()
        }
        wanted.setdefault(str(found.by_id[key].pool), {})[key] = new
    return wanted


def predicted(found: Fleet, wanted: Mapping[str, Wanted], proposing: set[str]) -> Prediction:
    (effect,) = predictions(found, [change_of(found, parts_of(found), wanted, proposing)])
    return effect._replace(gained=+Counter(effect.gained))


@given(fleets(), st.data())
def test_pools_alone_have_the_prediction_of_the_whole_fleet(found: Fleet, data: st.DataObject) -> None:
    wanted = wanted_of(data, found)
    proposing = {each.id for each in found.inspection.findings if data.draw(st.booleans())}
    alone = predicted(found, wanted, proposing)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pricing, "concerns_other_pools", lambda *_: True)
        assert predicted(found, wanted, proposing) == alone


def test_a_change_that_only_its_pool_reads_leaves_the_rest_of_the_fleet_out() -> None:
    members = [replica(f"chat-{each}", pool=f"chat-{each}", document=document()) for each in range(2)]
    found = fleet(members, [document()])

    def concerns(path: str, value: str) -> bool:
        wanted = {"chat-0": {members[0].id: {path: SettingValue(value, setting("").state)}}}
        return concerns_other_pools(found, change_of(found, parts_of(found), wanted, ()).restarts.values())

    assert not concerns("cache_config.block_size", "32")
    assert concerns("kv_transfer_config.engine_id", '"one"')
    assert concerns("served_model_names", '["other"]')
