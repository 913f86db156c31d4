"""The five dataframes of a fleet: their columns, their types, and the check of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from dashboard.errors import FrameError
from dashboard.fleet import Document, Fingerprint, Pool, Replica, cohort_letters

TEXT, INTEGER, NUMBER, TIME, OBJECT = "string", "Int64", "Float64", "datetime64[ns, UTC]", "object"

# Each table: its key columns, then what a row says. Sizes in bytes or tokens as the name ends.
REPLICAS = {
    "replica": TEXT,  # the id: scheme://host:port
    "name": TEXT,
    "target": TEXT,
    "labels": OBJECT,  # dict of str to str
    "pool": TEXT,
    "role": TEXT,
    "state": TEXT,
    "reason": TEXT,  # "kind: sentence"
    "version": TEXT,
    "started_at": TIME,
    "observed_at": TIME,
    "document": TEXT,
    "cohort": TEXT,
    "sources": OBJECT,  # list of str
}
SETTINGS = {"document": TEXT, "path": TEXT, "value": TEXT, "state": TEXT, "source": TEXT}
ENGINES = {
    "replica": TEXT,
    "dp_rank": INTEGER,
    "num_gpu_blocks": INTEGER,
    "block_size": INTEGER,
    "kv_cache_size_tokens": INTEGER,
    "max_concurrency": NUMBER,
    "kv_cache_bytes": INTEGER,
    "naive_tokens": INTEGER,
    "max_model_len": INTEGER,
    "basis": TEXT,
    "fingerprint_canonical": TEXT,
    "fingerprint_engine": TEXT,
}
DEVICES = {
    "replica": TEXT,
    "dp_rank": INTEGER,
    "rank": INTEGER,
    "name": TEXT,
    "total_memory_bytes": INTEGER,
    "compute_capability": TEXT,
    "kv_cache_bytes": INTEGER,
    "compute_units": INTEGER,
    "tensor_parallel_rank": INTEGER,
    "pipeline_parallel_rank": INTEGER,
}
KV_CACHE_GROUPS = {
    "replica": TEXT,
    "dp_rank": INTEGER,
    "group_id": INTEGER,
    "spec_type": TEXT,
    "block_size": INTEGER,
    "page_size_bytes": INTEGER,
    "layers": INTEGER,
    "sliding_window": INTEGER,
    "attention_chunk_size": INTEGER,
    "num_kv_heads": INTEGER,
    "head_size": INTEGER,
    "dtype": TEXT,
}
KEYS: Mapping[str, Sequence[str]] = {
    "replicas": ("replica",),
    "settings": ("document", "path"),
    "engines": ("replica", "dp_rank"),
    "devices": ("replica", "dp_rank", "rank"),
    "kv_cache_groups": ("replica", "dp_rank", "group_id"),
}
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "replicas": REPLICAS,
    "settings": SETTINGS,
    "engines": ENGINES,
    "devices": DEVICES,
    "kv_cache_groups": KV_CACHE_GROUPS,
}

STALE_TARGET = "Its source of targets cannot be read, so it may be gone."


class Frames(NamedTuple):
    """The five frames of one fleet."""

    replicas: pd.DataFrame
    settings: pd.DataFrame
    engines: pd.DataFrame
    devices: pd.DataFrame
    kv_cache_groups: pd.DataFrame


def build(
    replicas: Sequence[Replica],
    documents: Mapping[str, Document],
    pools: Sequence[Pool],
    settings: pd.DataFrame | None = None,
) -> Frames:
    """Put the fleet into frames. Rows keep the order of `replicas`; `settings` is that frame, if it stands already."""
    cohorts = cohort_letters(pools)
    return Frames(
        replicas=_frame("replicas", [_replica_row(replica, cohorts.get(replica.id)) for replica in replicas]),
        settings=_settings_frame(documents) if settings is None else settings,
        engines=_frame("engines", [row for replica in replicas for row in _engine_rows(replica)]),
        devices=_frame("devices", [row for replica in replicas for row in _device_rows(replica)]),
        kv_cache_groups=_frame("kv_cache_groups", [row for replica in replicas for row in _group_rows(replica)]),
    )


def check(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame when it has the columns, types and unique key of its table; else raise FrameError."""
    columns = COLUMNS[name]
    if list(frame.columns) != list(columns):
        raise FrameError(f"{name}: columns are {list(frame.columns)}, expected {list(columns)}")
    for column, dtype in columns.items():
        if str(frame[column].dtype) != dtype:
            raise FrameError(f"{name}.{column}: type is {frame[column].dtype}, expected {dtype}")
    key = list(KEYS[name])
    if frame[key].isna().to_numpy().any():
        raise FrameError(f"{name}: a key of {key} is missing")
    if frame.duplicated(key).any():
        raise FrameError(f"{name}: {key} is not unique")
    return frame


def _frame(name: str, rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    columns = COLUMNS[name]
    table = list(rows)
    series = zip(*table, strict=True) if table else ([] for _ in columns)
    data = {
        column: _series(list(values), dtype) for (column, dtype), values in zip(columns.items(), series, strict=True)
    }
    return check(name, pd.DataFrame(data, columns=list(columns)))


def _series(values: list[Any], dtype: str) -> pd.Series[Any]:
    if dtype == TIME:
        return pd.Series(pd.DatetimeIndex(pd.to_datetime(values, utc=True)).as_unit("ns"))
    return pd.Series(values, dtype=dtype)


def _replica_row(replica: Replica, cohort: str | None) -> tuple[Any, ...]:
    failure = replica.failure
    stale = f"stale target: {STALE_TARGET}" if replica.target_stale else ""
    return (
        replica.id,
        replica.name,
        replica.id,
        dict(replica.labels),
        replica.pool,
        str(replica.role),
        str(replica.state),
        " ".join(each for each in (f"{failure.kind}: {failure.detail}" if failure else "", stale) if each) or None,
        replica.version,
        replica.started_at,
        replica.observed_at,
        replica.document,
        cohort,
        [str(source) for source in replica.sources],
    )


def _settings_frame(documents: Mapping[str, Document]) -> pd.DataFrame:
    rows = [
        (document.id, path, setting.value, str(setting.state), str(setting.source))
        for document in documents.values()
        for path, setting in document.settings.items()
    ]
    return _frame("settings", rows)


def _engine_rows(replica: Replica) -> Iterable[tuple[Any, ...]]:
    for engine in replica.engines:
        fingerprint = engine.fingerprint or Fingerprint()
        yield (
            replica.id,
            engine.dp_rank,
            engine.num_gpu_blocks,
            engine.block_size,
            engine.kv_cache_size_tokens,
            engine.max_concurrency,
            engine.kv_cache_bytes,
            engine.naive_tokens,
            engine.max_model_len,
            str(engine.basis),
            fingerprint.canonical,
            fingerprint.engine,
        )


def _device_rows(replica: Replica) -> Iterable[tuple[Any, ...]]:
    on_each = {engine.dp_rank: engine.kv_cache_bytes_per_device for engine in replica.engines}
    for device in replica.devices:
        yield (
            replica.id,
            device.dp_rank,
            device.rank,
            device.name,
            device.total_memory_bytes,
            device.compute_capability,
            on_each.get(device.dp_rank),
            device.compute_units,
            device.tensor_parallel_rank,
            device.pipeline_parallel_rank,
        )


def _group_rows(replica: Replica) -> Iterable[tuple[Any, ...]]:
    for group in replica.kv_cache_groups:
        yield (
            replica.id,
            group.dp_rank,
            group.group_id,
            group.spec_type,
            group.block_size,
            group.page_size_bytes,
            group.layers,
            group.sliding_window,
            group.attention_chunk_size,
            group.num_kv_heads,
            group.head_size,
            group.dtype,
        )
