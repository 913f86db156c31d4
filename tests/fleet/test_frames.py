"""The frame of replicas: its columns and types, also for an empty fleet and for hostile text."""

from datetime import UTC, datetime

import pandas as pd
import pytest

from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.fleet import Failure, FailureKind
from dashboard.fleet.formatting import STALE_TARGET
from dashboard.fleet.frames import REPLICAS, replicas_frame
from tests.builders import POLLED_AT, alike, document, fleet, replica, story

HOSTILE = "<script>alert(1)</script> **b** \x1b[31m\n\u202e=1+1,'\"\\"


def frame(built: Fleet) -> pd.DataFrame:
    return replicas_frame(built.replicas, built.pools)


@pytest.mark.parametrize("built", [empty_fleet("prod"), story()], ids=["empty", "story"])
def test_the_frame_has_its_columns_and_types_also_without_rows(built: Fleet) -> None:
    found = frame(built)

    assert {column: str(dtype) for column, dtype in found.dtypes.items()} == dict(REPLICAS)
    assert found["replica"].to_list() == [each.id for each in built.replicas]


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
