"""The five frames: their columns, types and keys, also for an empty fleet and for hostile text and numbers."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pandas as pd
import pytest

from dashboard.errors import FrameError
from dashboard.fleet import Failure, FailureKind, KVCacheGroup, frames
from dashboard.fleet.frames import COLUMNS, KEYS, Frames
from dashboard.vllm.schemas.types import MAX_INTEGER
from tests.builders import POLLED_AT, alike, devices, document, engine, fleet, replica, story

HOSTILE = "<script>alert(1)</script> **b** \x1b[31m\n\u202e=1+1,'\"\\"
GROUP = KVCacheGroup(0, 0, "SlidingWindowSpec", 16, 4096, 2, sliding_window=512, num_kv_heads=8, dtype="bfloat16")


def tables(built: Frames) -> Mapping[str, pd.DataFrame]:
    return dict(zip(COLUMNS, built, strict=True))


@pytest.mark.parametrize("built", [Frames((), {}, ()), story().frames], ids=["empty", "story"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_frame_has_the_columns_types_and_keys_of_its_table(name: str, built: Frames) -> None:
    frame = tables(built)[name]

    assert {column: str(dtype) for column, dtype in frame.dtypes.items()} == dict(COLUMNS[name])
    assert not frame.duplicated(list(KEYS[name])).any()
    assert list(frame.index) == list(range(len(frame)))


def test_a_replica_is_a_row_with_its_cohort() -> None:
    told, other = document(), document({"cache_config.block_size": 32})
    chat = [*alike("chat", 3, told), replica("odd", pool="chat", document=other)]

    rows = fleet(chat, [told, other]).frames.replicas.set_index("replica")

    row = rows.loc[["http://chat-01:8000"]].iloc[0]
    assert row[["name", "target", "pool", "role", "state", "version", "document", "cohort"]].to_list() == [
        "chat-01",
        "http://chat-01:8000",
        "chat",
        "both",
        "up",
        "0.32.0",
        told.id,
        "A",
    ]
    assert row["labels"] == {"pool": "chat"}
    assert row["sources"] == ["server_info", "metrics", "version", "models"]
    assert row["observed_at"] == pd.Timestamp(POLLED_AT)
    assert pd.isna(row["reason"])
    assert rows.loc["http://odd:8000", "cohort"] == "B"


def test_settings_are_rows_per_document() -> None:
    told = document({"a.b": None}, base={})

    frame = fleet([replica(document=told)], [told]).frames.settings

    assert frame.to_dict("records") == [
        {"document": told.id, "path": "a.b", "value": "null", "state": "null", "source": "server_info"}
    ]


def test_engines_and_devices_are_rows_per_rank() -> None:
    ranks = tuple(engine(1600, dp_rank=rank, kv_cache_bytes_per_device=rank + 5) for rank in range(2))
    cards = (*devices(2, dp_rank=0), *devices(2, dp_rank=1), *devices(1, dp_rank=9))

    built = fleet([replica(engines=ranks, devices=cards)]).frames

    assert built.engines[["dp_rank", "num_gpu_blocks", "kv_cache_size_tokens", "basis"]].to_numpy().tolist() == [
        [0, 100, 1600, "reported"],
        [1, 100, 1600, "reported"],
    ]
    assert built.devices["kv_cache_bytes"].to_list() == [5, 5, 6, 6, pd.NA]
    assert built.devices["rank"].to_list() == [0, 1, 0, 1, 0]


def test_groups_are_rows_with_what_their_kind_tells() -> None:
    row = fleet([replica(kv_cache_groups=(GROUP,))]).frames.kv_cache_groups.iloc[0]

    assert {column: value for column, value in row.items() if value is not pd.NA} == {
        "replica": "http://chat-0:8000",
        "dp_rank": 0,
        "group_id": 0,
        "spec_type": "SlidingWindowSpec",
        "block_size": 16,
        "page_size_bytes": 4096,
        "layers": 2,
        "sliding_window": 512,
        "num_kv_heads": 8,
        "dtype": "bfloat16",
    }


def test_hostile_text_stays_text() -> None:
    odd = replica(
        HOSTILE,
        pool=HOSTILE,
        labels={HOSTILE: HOSTILE},
        failure=Failure(FailureKind.SCHEMA, HOSTILE),
        devices=devices(1, HOSTILE),
        kv_cache_groups=(GROUP._replace(spec_type=HOSTILE),),
    )

    built = fleet([odd]).frames

    assert built.replicas["name"].to_list() == [HOSTILE]
    assert built.replicas["reason"].to_list() == [f"schema: {HOSTILE}"]
    assert built.devices["name"].to_list() == [HOSTILE]
    assert built.kv_cache_groups["spec_type"].to_list() == [HOSTILE]


def test_the_largest_integers_and_the_latest_times_fit() -> None:
    large = engine(MAX_INTEGER, num_gpu_blocks=MAX_INTEGER, kv_cache_bytes=MAX_INTEGER, max_concurrency=1e300)
    group = GROUP._replace(block_size=MAX_INTEGER, page_size_bytes=MAX_INTEGER, sliding_window=None)
    late = datetime(2242, 3, 16, tzinfo=UTC)

    built = fleet([replica(engines=(large,), kv_cache_groups=(group,), started_at=late)]).frames

    assert built.engines["num_gpu_blocks"].to_list() == [MAX_INTEGER]
    assert built.kv_cache_groups["page_size_bytes"].to_list() == [MAX_INTEGER]
    assert built.replicas["started_at"].to_list() == [pd.Timestamp(late)]


@pytest.mark.parametrize("name", COLUMNS)
def test_a_frame_with_other_columns_is_refused(name: str) -> None:
    frame = tables(story().frames)[name]

    with pytest.raises(FrameError, match=f"{name}: columns are"):
        frames.check(name, frame.iloc[:, ::-1])
    with pytest.raises(FrameError, match=f"{name}: columns are"):
        frames.check(name, frame.assign(more=1))


def test_a_frame_with_another_type_is_refused() -> None:
    frame = story().frames.engines.astype({"dp_rank": "Float64"})

    with pytest.raises(FrameError, match=r"engines.dp_rank: type is Float64, expected Int64"):
        frames.check("engines", frame)


def test_a_key_that_is_missing_or_not_unique_is_refused() -> None:
    frame = story().frames.engines

    with pytest.raises(FrameError, match=r"a key of .* is missing"):
        frames.check("engines", frame.assign(dp_rank=pd.Series([None] * len(frame), dtype="Int64")))
    with pytest.raises(FrameError, match="is not unique"):
        frames.check("engines", pd.concat([frame, frame.iloc[:1]], ignore_index=True))
