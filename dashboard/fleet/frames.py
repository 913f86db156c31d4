"""The dataframes of a fleet, the product's public tables: columns, types, keys. Each is built when first read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dashboard.errors import FrameError
from dashboard.fleet import Document, Engine, Fingerprint, Pool, Replica, cohort_letters

if TYPE_CHECKING:
    import pandas as pd  # imported when a frame is built: it takes longer than all the rest

TEXT, INTEGER, NUMBER, TIME, OBJECT = "string", "Int64", "Float64", "datetime64[ns, UTC]", "object"
PLACE = {"replica": TEXT, "dp_rank": INTEGER}  # key columns: id of the replica, data-parallel rank

# Columns by table, the key columns first. Bytes and tokens as the names end.
REPLICAS = {
    "replica": TEXT,  # the id: scheme://host:port
    "name": TEXT,
    "target": TEXT,
    "labels": OBJECT,  # dict of str to str
    "pool": TEXT,
    "role": TEXT,
    "state": TEXT,
    "reason": TEXT,  # "kind: sentence"
    "version": TEXT,  # of vLLM
    "started_at": TIME,
    "observed_at": TIME,
    "document": TEXT,  # id, key of `settings`
    "cohort": TEXT,  # letter
    "sources": OBJECT,  # list of str
}
SETTINGS = {
    "document": TEXT,
    "path": TEXT,
    "value": TEXT,  # canonical JSON
    "state": TEXT,
    "source": TEXT,
}
ENGINES = {
    **PLACE,
    "num_gpu_blocks": INTEGER,
    "block_size": INTEGER,  # tokens
    "kv_cache_size_tokens": INTEGER,
    "max_concurrency": NUMBER,  # requests of max_model_len tokens
    "kv_cache_bytes": INTEGER,  # of all its devices
    "naive_tokens": INTEGER,  # blocks x block_size
    "max_model_len": INTEGER,  # tokens
    "basis": TEXT,  # reported, derived, assumed (upper bound), unknown
    "fingerprint_canonical": TEXT,
    "fingerprint_engine": TEXT,
}
DEVICES = {
    **PLACE,
    "rank": INTEGER,  # in the engine
    "name": TEXT,
    "total_memory_bytes": INTEGER,
    "compute_capability": TEXT,
    "kv_cache_bytes": INTEGER,  # of this device
    "compute_units": INTEGER,
    "tensor_parallel_rank": INTEGER,
    "pipeline_parallel_rank": INTEGER,
}
KV_CACHE_GROUPS = {
    **PLACE,
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
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "replicas": REPLICAS,
    "settings": SETTINGS,
    "engines": ENGINES,
    "devices": DEVICES,
    "kv_cache_groups": KV_CACHE_GROUPS,
}
KEYS: Mapping[str, Sequence[str]] = {
    "replicas": ("replica",),
    "settings": ("document", "path"),
    "engines": ("replica", "dp_rank"),
    "devices": ("replica", "dp_rank", "rank"),
    "kv_cache_groups": ("replica", "dp_rank", "group_id"),
}

STALE_TARGET = "Its source of targets cannot be read, so it may be gone."


class Frames:
    """The frames of one fleet. Rows are in the order of `replicas`."""

    def __init__(
        self,
        replicas: Sequence[Replica],
        documents: Mapping[str, Document],
        pools: Sequence[Pool],
        before: Frames | None = None,
    ) -> None:
        """Build nothing yet; the settings of the same documents are those of the frames `before`."""
        self._replicas = replicas
        self._pools = pools
        is_same = before is not None and before.shared_settings.documents.keys() == documents.keys()
        self.shared_settings: _Settings = before.shared_settings if before and is_same else _Settings(documents)

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield all frames in the order of COLUMNS."""
        return (getattr(self, name) for name in COLUMNS)

    @cached_property
    def replicas(self) -> pd.DataFrame:
        """One row per replica."""
        letters = cohort_letters(self._pools)
        return _frame("replicas", [_replica_row(replica, letters.get(replica.id)) for replica in self._replicas])

    @property
    def settings(self) -> pd.DataFrame:
        """One row per document and path."""
        return self.shared_settings.frame

    @cached_property
    def engines(self) -> pd.DataFrame:
        """One row per data-parallel rank."""
        return _frame("engines", [_engine_row(replica, each) for replica in self._replicas for each in replica.engines])

    @cached_property
    def devices(self) -> pd.DataFrame:
        """One row per device."""
        return _frame("devices", [row for replica in self._replicas for row in _device_rows(replica)])

    @cached_property
    def kv_cache_groups(self) -> pd.DataFrame:
        """One row per KV cache group of a data-parallel rank."""
        names = list(KV_CACHE_GROUPS)[1:]
        groups = ((replica.id, each) for replica in self._replicas for each in replica.kv_cache_groups)
        return _frame("kv_cache_groups", [(place, *(getattr(each, name) for name in names)) for place, each in groups])


class _Settings:
    """The frame of settings, shared by all polls with the same documents."""

    def __init__(self, documents: Mapping[str, Document]) -> None:
        self.documents = documents

    @cached_property
    def frame(self) -> pd.DataFrame:
        rows = [
            (document.id, path, setting.value, str(setting.state), str(setting.source))
            for document in self.documents.values()
            for path, setting in document.settings.items()
        ]
        return _frame("settings", rows)


def check(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame; raise FrameError unless it has the columns, types and unique key of its table."""
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
    import pandas as pd  # noqa: PLC0415  see above

    columns = COLUMNS[name]
    table = list(rows)
    series = zip(*table, strict=True) if table else ([] for _ in columns)
    data = {
        column: _series(list(values), dtype) for (column, dtype), values in zip(columns.items(), series, strict=True)
    }
    return check(name, pd.DataFrame(data, columns=list(columns)))


def _series(values: list[Any], dtype: str) -> pd.Series[Any]:
    import pandas as pd  # noqa: PLC0415  see above

    if dtype == TIME:
        return pd.Series(pd.DatetimeIndex(pd.to_datetime(values, utc=True)).as_unit("ns"))
    return pd.Series(values, dtype=dtype)


def _replica_row(replica: Replica, cohort: str | None) -> tuple[Any, ...]:
    failure = replica.failure
    reasons = [f"{failure.kind}: {failure.detail}"] if failure else []
    reasons += [f"stale target: {STALE_TARGET}"] if replica.target_stale else []
    return (
        replica.id,
        replica.name,
        replica.id,
        dict(replica.labels),
        replica.pool,
        str(replica.role),
        str(replica.state),
        " ".join(reasons) or None,
        replica.version,
        replica.started_at,
        replica.observed_at,
        replica.document,
        cohort,
        [str(source) for source in replica.sources],
    )


def _engine_row(replica: Replica, engine: Engine) -> tuple[Any, ...]:
    fingerprint = engine.fingerprint or Fingerprint()
    numbers = (getattr(engine, name) for name in list(ENGINES)[1:9])
    return replica.id, *numbers, str(engine.basis), fingerprint.canonical, fingerprint.engine


def _device_rows(replica: Replica) -> Iterable[tuple[Any, ...]]:
    on_each = {engine.dp_rank: engine.kv_cache_bytes_per_device for engine in replica.engines}
    for device in replica.devices:
        known = {**device._asdict(), "replica": replica.id, "kv_cache_bytes": on_each.get(device.dp_rank)}
        yield tuple(known[name] for name in DEVICES)
