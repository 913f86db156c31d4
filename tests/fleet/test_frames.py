"""The frames of a fleet: their columns and types, also for an empty fleet and for hostile text."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pandas as pd
import pytest

from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.fleet import Basis, EngineFingerprint, Failure, FailureKind, KVCacheGroup
from dashboard.fleet.formatting import STALE_TARGET
from dashboard.fleet.frames import (
    DEVICES,
    ENGINES,
    KV_CACHE_GROUPS,
    REPLICAS,
    SETTINGS,
    devices_frame,
    engines_frame,
    kv_cache_groups_frame,
    replicas_frame,
    settings_frame,
)
from tests.builders import GIB, POLLED_AT, alike, devices, document, engine, fleet, replica, story

HOSTILE = "<script>alert(1)</script> **b** \x1b[31m\n\u202e=1+1,'\"\\"


def frame(built: Fleet) -> pd.DataFrame:
    return replicas_frame(built.replicas, built.pools)


def test_a_replica_is_a_row_with_its_cohort() -> None:
    usual, other = document(), document({"cache_config.block_size": 32})
    failure = Failure(FailureKind.SCHEMA, HOSTILE)
    late = datetime(2242, 3, 16, tzinfo=UTC)
    odd = replica("odd", pool="chat", document=other, failure=failure, target_stale=True, started_at=late)
    rows = frame(fleet([*alike("chat", 3, usual), odd], [usual, other])).set_index("name")
    row = rows.loc[["chat-01"]].iloc[0]

    assert row.drop(["started_at", "reason"]).to_dict() == {
        "replica": "http://chat-01:8000",
        "labels": {"pool": "chat"},
        "pool": "chat",
        "role": "both",
        "state": "up",
        "version": "0.32.0",
        "observed_at": pd.Timestamp(POLLED_AT),
        "document": usual.id,
        "cohort": "A",
        "sources": ["server_info", "metrics", "version", "models"],
    }
    assert pd.isna(row["reason"])
    assert rows.loc["odd", "cohort"] == "B"
    assert rows.loc["odd", "reason"] == f"schema: {HOSTILE} stale target: {STALE_TARGET}"
    assert rows.loc["odd", "started_at"] == pd.Timestamp(late)


@pytest.mark.parametrize(
    ("columns", "build", "number"),
    [
        (REPLICAS, frame, 40),
        (SETTINGS, lambda built: settings_frame(built.documents.values()), 136),
        (ENGINES, lambda built: engines_frame(built.replicas), 39),
        (DEVICES, lambda built: devices_frame(built.replicas), 117),
        (KV_CACHE_GROUPS, lambda built: kv_cache_groups_frame(built.replicas), 0),
    ],
)
def test_every_frame_has_its_columns_and_types_with_and_without_rows(
    columns: Mapping[str, str], build: Callable[[Fleet], pd.DataFrame], number: int
) -> None:
    for built, rows in ((story(), number), (empty_fleet("prod"), 0)):
        found = build(built)
        assert {column: str(dtype) for column, dtype in found.dtypes.items()} == dict(columns)
        assert len(found) == rows


def test_a_rank_is_a_row_with_its_digests_its_devices_and_its_groups() -> None:
    digests = EngineFingerprint("canonical", "engine", None)
    member = replica(
        engines=(engine(100, fingerprint=digests), engine(None, dp_rank=1, basis=Basis.UNKNOWN, reason="Because.")),
        devices=devices(1, "H200", dp_rank=1),
        kv_cache_groups=(KVCacheGroup(0, 0, "sliding_window", 16, None, 8, sliding_window=1024),),
    )
    ranks, on_rank, groups = engines_frame([member]), devices_frame([member]), kv_cache_groups_frame([member])

    assert ranks["kv_cache_size_tokens"].to_list() == [100, pd.NA]
    assert ranks["fingerprint_engine"].to_list() == ["engine", pd.NA]
    assert ranks[["basis", "reason"]].iloc[1].to_list() == ["unknown", "Because."]
    assert on_rank[["replica", "dp_rank", "name", "kv_cache_bytes"]].iloc[0].to_list() == [
        member.id,
        1,
        "H200",
        46 * GIB,
    ]
    assert groups[["spec_type", "page_size_bytes", "sliding_window"]].iloc[0].to_list() == [
        "sliding_window",
        pd.NA,
        1024,
    ]
