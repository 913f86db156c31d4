"""The dataframes of a fleet: its public tables. Pages and exports make their tables from them.

Each function takes the core types and returns one row per object, in their order, with the columns and types of its
table. The end of a column's name is its unit, such as `_bytes`; a missing value is NA.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any

import pandas as pd

from dashboard.fleet import Document, Pool, Replica, cohort_letters
from dashboard.fleet.formatting import STALE_TARGET

TEXT, INTEGER, NUMBER, TIME, OBJECT = "string", "Int64", "Float64", "datetime64[ns, UTC]", "object"
REPLICAS = {
    "replica": TEXT,  # the id: scheme://host:port
    "name": TEXT,
    "labels": OBJECT,  # dict of str to str
    "pool": TEXT,
    "role": TEXT,
    "state": TEXT,
    "reason": TEXT,  # "kind: sentence"
    "version": TEXT,  # of vLLM
    "started_at": TIME,
    "observed_at": TIME,
    "document": TEXT,  # id
    "cohort": TEXT,  # letter
    "sources": OBJECT,  # list of str
}


SETTINGS = {
    "document": TEXT,  # id, key of `replicas`
    "path": TEXT,
    "value": TEXT,  # canonical JSON
    "state": TEXT,
    "source": TEXT,
}
RANK = {"replica": TEXT, "dp_rank": INTEGER}
ENGINES = {
    **RANK,
    "num_gpu_blocks": INTEGER,
    "block_size": INTEGER,  # tokens
    "kv_cache_size_tokens": INTEGER,
    "max_concurrency": NUMBER,  # requests of max_model_len tokens
    "kv_cache_bytes": INTEGER,  # of all its devices
    "kv_cache_bytes_per_device": INTEGER,
    "naive_tokens": INTEGER,  # blocks x block_size
    "max_model_len": INTEGER,  # tokens
    "basis": TEXT,  # reported, derived, assumed (upper bound), unknown
    "reason": TEXT,  # why a number is unknown or assumed
    "fingerprint_canonical": TEXT,
    "fingerprint_engine": TEXT,
    "fingerprint_reason": TEXT,  # why a digest is missing
}
DEVICES = {
    **RANK,
    "rank": INTEGER,  # in the engine
    "name": TEXT,
    "total_memory_bytes": INTEGER,
    "kv_cache_bytes": INTEGER,  # of this device
    "compute_capability": TEXT,
    "compute_units": INTEGER,
    "tensor_parallel_rank": INTEGER,
    "pipeline_parallel_rank": INTEGER,
}
KV_CACHE_GROUPS = {
    **RANK,
    "group_id": INTEGER,
    "spec_type": TEXT,
    "block_size": INTEGER,  # tokens
    "page_size_bytes": INTEGER,
    "layers": INTEGER,
    "sliding_window": INTEGER,  # tokens
    "attention_chunk_size": INTEGER,  # tokens
    "num_kv_heads": INTEGER,
    "head_size": INTEGER,
    "dtype": TEXT,
}


def replicas_frame(
    replicas: Iterable[Replica],
    pools: Iterable[Pool],
    read_at: Callable[[Replica], datetime | None] = attrgetter("observed_at"),
) -> pd.DataFrame:
    """Return one row per replica; `read_at` is that of their fleet."""
    letters = cohort_letters(pools)
    return _frame(REPLICAS, (_row(replica, read_at(replica), letters.get(replica.id)) for replica in replicas))


def settings_frame(documents: Iterable[Document]) -> pd.DataFrame:
    """Return one row per document and setting."""
    rows = (
        (document.id, path, setting.value, str(setting.state), str(setting.source))
        for document in documents
        for path, setting in document.settings.items()
    )
    return _frame(SETTINGS, rows)


def engines_frame(replicas: Iterable[Replica]) -> pd.DataFrame:
    """Return one row per DP rank."""
    rows = []
    for replica in replicas:
        for engine in replica.engines:
            digests = engine.fingerprint or (None, None, None)
            rows.append((replica.id, *_fields(engine, ENGINES, skip=3), *digests))
    return _frame(ENGINES, rows)


def devices_frame(replicas: Iterable[Replica]) -> pd.DataFrame:
    """Return one row per device of a DP rank."""
    rows = []
    for replica in replicas:
        on_each = {engine.dp_rank: engine.kv_cache_bytes_per_device for engine in replica.engines}
        for device in replica.devices:
            known = {**device._asdict(), "kv_cache_bytes": on_each.get(device.dp_rank)}
            rows.append((replica.id, *(known[name] for name in list(DEVICES)[1:])))
    return _frame(DEVICES, rows)


def kv_cache_groups_frame(replicas: Iterable[Replica]) -> pd.DataFrame:
    """Return one row per KV cache group of a DP rank."""
    rows = ((replica.id, *_fields(group, KV_CACHE_GROUPS)) for replica in replicas for group in replica.kv_cache_groups)
    return _frame(KV_CACHE_GROUPS, rows)


def rows_of(frame: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows of a frame as named tuples, with None in place of NA."""
    known = frame.astype(object)
    yield from known.where(frame.notna(), None).itertuples(index=False, name="Row")


def _fields(row: object, columns: Mapping[str, str], skip: int = 0) -> list[Any]:
    """Return the attributes that columns after `replica` are named by; `skip` leaves out the last ones."""
    names = list(columns)[1 : len(columns) - skip]
    return [str(value) if isinstance(value := getattr(row, name), StrEnum) else value for name in names]


def _frame(columns: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> pd.DataFrame:
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    return pd.DataFrame(
        {name: _series(list(column), dtype) for (name, dtype), column in zip(columns.items(), values, strict=True)}
    )


def _series(values: list[Any], dtype: str) -> "pd.Series[Any]":
    if dtype == TIME:
        return pd.Series(pd.DatetimeIndex(pd.to_datetime(values, utc=True)).as_unit("ns"))
    return pd.Series(values, dtype=dtype)


def _row(replica: Replica, read_at: datetime | None, cohort: str | None) -> tuple[Any, ...]:
    failure = replica.failure
    reasons = [f"{failure.kind}: {failure.detail}"] if failure else []
    reasons += [f"stale target: {STALE_TARGET}"] if replica.target_stale else []
    return (
        replica.id,
        replica.name,
        dict(replica.labels),
        replica.pool,
        str(replica.role),
        str(replica.state),
        " ".join(reasons) or None,
        replica.version,
        replica.started_at,
        read_at,
        replica.document,
        cohort,
        [str(source) for source in replica.sources],
    )
