"""The frames of a fleet: their columns and types, also for an empty fleet and for hostile text."""

from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum

import pandas as pd
import pytest

from dashboard.analysis.assembly import empty_fleet
from dashboard.fleet import Basis, EngineFingerprint, Failure, FailureKind, KVCacheGroup, ReplicaState, Role, State
from dashboard.fleet.formatting import STALE_TARGET
from dashboard.fleet.frames import FRAMES
from dashboard.fleet.history import Sighting, Sightings
from dashboard.fleet.traffic import Traffic
from tests.builders import GIB, POLLED_AT, alike, devices, document, engine, fleet, replica, story
from tests.findings_builder import finding, suppression, with_findings
from tests.polled_fleets import at, built

HOSTILE = "<script>alert(1)</script> **b** \x1b[31m\n\u202e=1+1,'\"\\"


@pytest.mark.parametrize(
    ("frame", "column", "values"),
    [("replicas", "role", Role), ("replicas", "state", ReplicaState), ("settings", "state", State)],
)
def test_a_column_of_fixed_values_is_documented_with_all_of_them(
    frame: str, column: str, values: type[StrEnum]
) -> None:
    _, text = FRAMES[frame][column]
    assert [each for each in values if f"`{each}`" not in text] == []


def test_a_replica_is_a_row_with_its_cohort() -> None:
    usual, other = document(), document({"cache_config.block_size": 32})
    failure = Failure(FailureKind.SCHEMA, HOSTILE)
    late = datetime(2242, 3, 16, tzinfo=UTC)
    odd = replica("odd", pool="chat", document=other, failure=failure, target_stale=True, started_at=late)
    rows = fleet([*alike("chat", 3, usual), odd], [usual, other]).frames.replicas.set_index("name")
    row = rows.loc[["chat-01"]].iloc[0]

    assert row.drop(["started_at", "failure", "reason", "first_seen", "since", "absent_at"]).to_dict() == {
        "replica": "http://chat-01:8000",
        "labels": {"pool": "chat"},
        "pool": "chat",
        "role": "both",
        "state": "up",
        "fresh": True,
        "target_stale": False,
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


def test_every_frame_has_its_columns_and_types_with_and_without_rows() -> None:
    numbers = {
        "replicas": 40,
        "settings": 136,
        "engines": 39,
        "devices": 117,
        "kv_cache_groups": 0,
        "traffic": 0,
        "findings": 16,
    }
    for known in (story(), empty_fleet("prod")):
        for name, columns in FRAMES.items():
            found = getattr(known.frames, name)
            assert {column: str(dtype) for column, dtype in found.dtypes.items()} == {
                column: dtype for column, (dtype, _) in columns.items()
            }
            assert len(found) == (numbers[name] if known.replicas else 0)


def test_an_engine_with_traffic_is_a_row_with_its_rates_or_why_it_has_none() -> None:
    off = document({"cache_config.enable_prefix_caching": False})
    known = fleet([replica("busy", pool="chat"), replica("off", pool="chat", document=off)], [document(), off])
    busy = Traffic(900, queries=40_000, hits=10_000, requests=50, first_token_seconds=25, first_tokens=50, waiting=3)
    rows = replace(
        known,
        traffic={
            "http://busy:8000": {0: busy, 1: Traffic(60, queries=100, hits=1, requests=2)},
            "http://off:8000": {0: busy._replace(hits=0)},
        },
    ).frames.traffic

    assert list(zip(rows["replica"], rows["dp_rank"], rows["pool"], rows["counts"], strict=True)) == [
        ("http://busy:8000", 0, "chat", True),
        ("http://busy:8000", 1, "chat", True),
        ("http://off:8000", 0, "chat", True),
    ]
    first, little, uncached = (rows.loc[each] for each in range(3))
    assert (first["window_seconds"], first["queries"], first["waiting"]) == (900, 40_000, 3)
    assert (first["prefix_hit_rate"], first["time_to_first_token_seconds"]) == (0.25, 0.5)
    assert pd.isna(first["missing"])
    assert pd.isna(little["prefix_hit_rate"])
    assert little["missing"] == (
        "Not enough traffic: 2 requests (minimum 20) and 100 prompt tokens (minimum 10,000) in 1 min."
    )
    assert (uncached["prefix_hit_rate"], uncached["caching_off"], first["caching_off"]) == (0, True, False)


def test_the_second_address_of_a_process_does_not_count() -> None:
    one, other = "http://a:8000", "http://b:8000"
    known = fleet([replica("a", same_process=(other,)), replica("b", same_process=(one,))])
    rows = replace(known, traffic={each: {0: Traffic(60)} for each in (one, other)}).frames.traffic

    assert list(rows["counts"]) == [True, False]


def test_a_finding_is_a_row_with_its_replicas_and_since_when_it_is_there() -> None:
    two = fleet([replica("a"), replica("b")])
    one, quiet = finding(two, ["a", "b"]), finding(two, ["b"], id="2", suppression=suppression())
    sighting = Sighting(POLLED_AT, POLLED_AT)
    known = replace(
        with_findings(two, one, suppressed=(quiet,)), sightings=Sightings(findings={one.fingerprint: sighting})
    )
    rows = known.frames.findings

    assert rows["replicas"].to_list() == [list(one.replicas), list(quiet.replicas)]
    assert rows["is_suppressed"].to_list() == [False, True]
    assert rows.loc[0, "since"] == pd.Timestamp(POLLED_AT)


def test_a_poll_builds_no_frames() -> None:
    first = built(at(1), at(2))
    later = built(at(1), at(2), before=first)

    assert [set(vars(each.frames)) & FRAMES.keys() for each in (first, later)] == [set(), set()]


def test_frames_are_built_once() -> None:
    known = story()

    assert known.frames.engines is known.frames.engines
    assert len(replace(known, replicas=known.replicas[:1]).frames.replicas) == 1


def test_a_rank_is_a_row_with_its_digests_its_devices_and_its_groups() -> None:
    digests = EngineFingerprint("canonical", "engine", None)
    member = replica(
        engines=(engine(100, fingerprint=digests), engine(None, dp_rank=1, basis=Basis.UNKNOWN, reason="Because.")),
        devices=devices(1, "H200", dp_rank=1),
        kv_cache_groups=(KVCacheGroup(0, 0, "sliding_window", 16, None, 8, sliding_window=1024),),
    )
    frames = fleet([member]).frames
    ranks, on_rank, groups = frames.engines, frames.devices, frames.kv_cache_groups

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
