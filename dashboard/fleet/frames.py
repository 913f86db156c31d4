"""The dataframes of a fleet: its public tables, which pages and exports read. docs/dataframes.md lists their columns.

The end of a column's name is its unit, such as `_bytes`; a missing value is NA. pandas is loaded with the first frame.
"""

from __future__ import annotations

from collections import namedtuple
from enum import StrEnum
from functools import cached_property, lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dashboard.fleet.formatting import STALE_TARGET, missing_rate
from dashboard.fleet.history import NO_SIGHTINGS, Sightings
from dashboard.fleet.pools import Document, Engine, Pool, Replica, cohort_letters, last_read

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pandas as pd

    from dashboard.fleet.traffic import Traffic

Columns = dict[str, tuple[str, str]]  # name -> dtype, and what it holds
TEXT, INTEGER, NUMBER, TIME, OBJECT = "string", "Int64", "Float64", "datetime64[ns, UTC]", "object"
FLAG = "bool"
NOTHING: Mapping[str, Any] = MappingProxyType({})
NEVER_SEEN = (None, None, None)  # a sighting
PLACE: Columns = {
    "replica": (TEXT, "id, as in `replicas`"),
    "pool": (TEXT, "name of its pool"),
    "cohort": (TEXT, "letter of its cohort in the pool"),
    "dp_rank": (INTEGER, "rank of the engine"),
}
SIGHTED: Columns = {
    "first_seen": (TIME, "first poll with it; NA without a history"),
    "since": (TIME, "since when it is there without a pause"),
    "absent_at": (TIME, "last poll before `since`, without it"),
}
REPLICAS: Columns = {
    "replica": (TEXT, "id: `scheme://host:port`"),
    "name": (TEXT, "label `name`, else `host:port`"),
    "labels": (OBJECT, "dict of str to str"),
    "pool": (TEXT, "name of its pool"),
    "role": (TEXT, "`prefill`, `decode`, `both`, `encoder`"),
    "state": (TEXT, "`up`, `partial`, `down`"),
    "fresh": (FLAG, "read lately; sums and comparisons leave out the others"),
    "failure": (TEXT, "kind of failure of a replica that is `down`, such as `refused`"),
    "target_stale": (FLAG, "its source of targets cannot be read: it may be gone"),
    "reason": (TEXT, "why it is not `up`, or that its target is stale"),
    "version": (TEXT, "version of vLLM"),
    "started_at": (TIME, "start of the process"),
    "observed_at": (TIME, "when it was read last"),
    "document": (TEXT, "id of its settings, key of `settings`"),
    "cohort": (TEXT, "letter of its cohort in the pool"),
    "sources": (OBJECT, "list of the endpoints that answered"),
    **SIGHTED,
}
SETTINGS: Columns = {
    "document": (TEXT, "id; replicas with equal settings share a document"),
    "path": (TEXT, "vLLM's own, such as `cache_config.block_size`"),
    "value": (TEXT, "canonical JSON"),
    "state": (
        TEXT,
        "`reported`, `null` (not set), `absent`, `unsupported`, `redacted`, `unknown` (null, set later)",
    ),
    "source": (TEXT, "endpoint that reported it"),
}
ENGINES: Columns = {
    **PLACE,
    "counts": (FLAG, "sums count this rank: its replica is fresh, no second address, and it does not sleep"),
    "adds": (FLAG, "counted, and its tokens and requests are not in those of another rank"),
    "sleep_level": (INTEGER, "NA: awake"),
    "num_gpu_blocks": (INTEGER, "KV cache blocks"),
    "block_size": (INTEGER, "tokens"),
    "kv_cache_size_tokens": (INTEGER, "tokens"),
    "max_concurrency": (NUMBER, "requests of `max_model_len` tokens"),
    "kv_cache_bytes": (INTEGER, "of all its devices"),
    "kv_cache_bytes_per_device": (INTEGER, "of one device"),
    "naive_tokens": (INTEGER, "blocks x `block_size`: too much for hybrid models"),
    "max_model_len": (INTEGER, "tokens"),
    "basis": (TEXT, "of tokens and requests: `reported`, `derived`, `assumed` (upper bound), `unknown`"),
    "reason": (TEXT, "why a number is assumed or unknown"),
    "fingerprint_canonical": (TEXT, "digest of block hashes, without the block size"),
    "fingerprint_engine": (TEXT, "digest of block hashes"),
    "fingerprint_reason": (TEXT, "why a digest is missing"),
}
DEVICES: Columns = {
    **PLACE,
    "counts": (FLAG, "sums count this device: its replica is fresh and no second address"),
    "rank": (INTEGER, "in the engine"),
    "name": (TEXT, "as vLLM reports it"),
    "total_memory_bytes": (INTEGER, "memory of the device"),
    "kv_cache_bytes": (INTEGER, "KV cache on this device"),
    "compute_capability": (TEXT, "such as `9.0`"),
    "compute_units": (INTEGER, "multiprocessors"),
    "tensor_parallel_rank": (INTEGER, ""),
    "pipeline_parallel_rank": (INTEGER, ""),
}
KV_CACHE_GROUPS: Columns = {
    **PLACE,
    "group_id": (INTEGER, "in the engine"),
    "spec_type": (TEXT, "kind of attention, such as `FullAttentionSpec`"),
    "block_size": (INTEGER, "tokens"),
    "page_size_bytes": (INTEGER, "of one block"),
    "layers": (INTEGER, "number of layers"),
    "sliding_window": (INTEGER, "tokens"),
    "attention_chunk_size": (INTEGER, "tokens"),
    "num_kv_heads": (INTEGER, ""),
    "head_size": (INTEGER, ""),
    "dtype": (TEXT, "of the KV cache"),
}
TRAFFIC: Columns = {
    **PLACE,
    "counts": (FLAG, "sums count this rank: its replica is no second address"),
    "window_seconds": (NUMBER, "between the first and the last read; counters are what they rose by in it"),
    "queries": (NUMBER, "tokens looked up in the prefix cache"),
    "hits": (NUMBER, "tokens found there"),
    "external_queries": (NUMBER, "tokens looked up by the KV connector"),
    "external_hits": (NUMBER, "tokens found there"),
    "prompt_tokens": (NUMBER, "tokens of prompts"),
    "requests": (NUMBER, "finished requests"),
    "preemptions": (NUMBER, "preempted requests"),
    "first_token_seconds": (NUMBER, "time to first token, of all `first_tokens` together"),
    "first_tokens": (NUMBER, "requests with a first token"),
    "prefill_seconds": (NUMBER, "time of prefill, of all requests together"),
    "computed_tokens": (NUMBER, "tokens of prompts that were computed, not found in a cache"),
    "waiting": (NUMBER, "most waiting requests of all reads"),
    "kv_usage": (NUMBER, "highest share of the KV cache in use of all reads, 0 to 1"),
    "prefix_hit_rate": (NUMBER, "`hits` / `queries`, 0 to 1; NA without enough traffic"),
    "external_hit_rate": (NUMBER, "`external_hits` / `external_queries`, 0 to 1; NA without enough traffic"),
    "time_to_first_token_seconds": (NUMBER, "mean of a request"),
    "missing": (TEXT, "why there is no `prefix_hit_rate`"),
    "caching_off": (FLAG, "prefix caching is off: `queries` are the prompt tokens, `hits` are 0"),
}
FINDINGS: Columns = {
    "id": (TEXT, "the same in every poll while rule, pools and values are"),
    "fingerprint": (TEXT, "the same when values change"),
    "rule": (TEXT, "id of the rule"),
    "severity": (TEXT, "`critical`, `warning`, `info`"),
    "confidence": (TEXT, "`reported`, `derived`, `assumed`"),
    "assumptions": (OBJECT, "list of str"),
    "subject": (TEXT, "what the rule evaluated: a pool, a pair of pools, or `fleet`"),
    "pools": (OBJECT, "list of names"),
    "replicas": (OBJECT, "list of ids: those to change"),
    "sentence": (TEXT, "what is wrong"),
    "why": (TEXT, "what it breaks"),
    "remedy": (TEXT, "what to do"),
    "paths": (OBJECT, "list of settings"),
    "is_rollout": (FLAG, "part of a rollout in progress"),
    "is_suppressed": (FLAG, "suppressed by an entry of fleet.yaml"),
    "unknown": (INTEGER, "replicas of the subject that do not report these settings"),
    "total": (INTEGER, "replicas of the subject"),
    **SIGHTED,
}
FRAMES = {
    "replicas": REPLICAS,
    "settings": SETTINGS,
    "engines": ENGINES,
    "devices": DEVICES,
    "kv_cache_groups": KV_CACHE_GROUPS,
    "traffic": TRAFFIC,
    "findings": FINDINGS,
}


class Frames:
    """The frames of one fleet, each built when it is first read. All readers share them: change a copy only."""

    def __init__(
        self,
        replicas: Sequence[Replica] = (),
        documents: Mapping[str, Document] = NOTHING,
        pools: Sequence[Pool] = (),
        findings: Sequence[Any] = (),
        sightings: Sightings = NO_SIGHTINGS,
        scraped_at: Mapping[str, float] = NOTHING,
        traffic: Mapping[str, Mapping[int, Traffic]] = NOTHING,
        without_cache: Collection[str] = (),
    ) -> None:
        """Take the parts of a fleet that the frames are built from. `findings` are the active ones, then the others.

        `without_cache` are the ids of replicas whose prefix caching is off.
        """
        self._replicas, self._documents, self._pools = replicas, documents, pools
        self._findings, self._sightings, self._scraped_at = findings, sightings, scraped_at
        self._traffic, self._without_cache = traffic, without_cache

    def __repr__(self) -> str:
        """Return the names of the frames, and build none."""
        return f"<Frames {', '.join(FRAMES)}>"

    @cached_property
    def replicas(self) -> pd.DataFrame:
        """One row per replica."""
        rows = []
        for replica in self._replicas:
            failure = replica.failure
            reasons = [f"{failure.kind}: {failure.detail}"] if failure else []
            reasons += [f"stale target: {STALE_TARGET}"] if replica.target_stale else []
            rows.append(
                (
                    replica.id,
                    replica.name,
                    dict(replica.labels),
                    replica.pool,
                    str(replica.role),
                    str(replica.state),
                    replica.fresh,
                    str(failure.kind) if failure else None,
                    replica.target_stale,
                    " ".join(reasons) or None,
                    replica.version,
                    replica.started_at,
                    last_read(replica, self._scraped_at),
                    replica.document,
                    self._letters.get(replica.id),
                    [str(source) for source in replica.sources],
                    *(self._sightings.replicas.get(replica.id) or NEVER_SEEN),
                )
            )
        return _frame(REPLICAS, rows)

    @cached_property
    def settings(self) -> pd.DataFrame:
        """One row per document and setting."""
        rows = [
            (document.id, path, setting.value, str(setting.state), str(setting.source))
            for document in self._documents.values()
            for path, setting in document.settings.items()
        ]
        return _frame(SETTINGS, rows)

    @cached_property
    def engines(self) -> pd.DataFrame:
        """One row per DP rank."""
        values = attrgetter(*(name for name in ENGINES if name in Engine._fields and name not in PLACE))
        rows = []
        for replica in self._replicas:
            adding = {engine.dp_rank for engine in replica.adding_engines}
            for engine in replica.engines:
                counts = replica.is_counted and engine.sleep_level is None
                adds = counts and engine.dp_rank in adding
                digests = engine.fingerprint or (None, None, None)
                place = self._place(replica, engine.dp_rank)
                rows.append((*place, counts, adds, *map(_plain, values(engine)), *digests))
        return _frame(ENGINES, rows)

    @cached_property
    def devices(self) -> pd.DataFrame:
        """One row per accelerator of a DP rank."""
        rows = []
        for replica in self._replicas:
            on_each = {engine.dp_rank: engine.kv_cache_bytes_per_device for engine in replica.engines}
            is_counted = replica.is_counted
            for device in replica.devices:
                rank, *reported = device[:8]
                place = self._place(replica, rank)
                rows.append((*place, is_counted, *reported[:3], on_each.get(rank), *reported[3:]))
        return _frame(DEVICES, rows)

    @cached_property
    def kv_cache_groups(self) -> pd.DataFrame:
        """One row per KV cache group of a DP rank."""
        values = attrgetter(*(name for name in KV_CACHE_GROUPS if name not in PLACE))
        rows = [
            (*self._place(replica, group.dp_rank), *values(group))
            for replica in self._replicas
            for group in replica.kv_cache_groups
        ]
        return _frame(KV_CACHE_GROUPS, rows)

    @cached_property
    def traffic(self) -> pd.DataFrame:
        """One row per DP rank whose counters were read at least twice."""
        rows = []
        for replica in self._replicas:
            counts, is_off = not replica.is_second_address, replica.id in self._without_cache
            for rank, own in self._traffic.get(replica.id, {}).items():
                *rose, _ = own
                rates = own.hit_rate, own.external_hit_rate, own.first_token, missing_rate(own) or None
                rows.append((*self._place(replica, rank), counts, *rose, *rates, is_off))
        return _frame(TRAFFIC, rows)

    @cached_property
    def findings(self) -> pd.DataFrame:
        """One row per finding, the active ones first."""
        named = {"remedy": "remedy.sentence", "is_suppressed": "suppression"}
        values = attrgetter(*(named.get(name, name) for name in FINDINGS if name not in SIGHTED))
        rows = [
            (*map(_plain, values(finding)), *(self._sightings.findings.get(finding.fingerprint) or NEVER_SEEN))
            for finding in self._findings
        ]
        return _frame(FINDINGS, rows)

    @cached_property
    def _letters(self) -> Mapping[str, str]:
        return cohort_letters(self._pools)

    def _place(self, replica: Replica, dp_rank: int) -> tuple[str, str | None, str | None, int]:
        """Return the columns of PLACE."""
        return replica.id, replica.pool, self._letters.get(replica.id), dp_rank


def rows_of(frame: pd.DataFrame, more: Mapping[str, Sequence[Any]] = NOTHING) -> Iterator[Any]:
    """Yield the rows of a frame as named tuples, with None in place of NA. They also have the columns `more`."""
    if not len(frame):
        return
    import pandas as pd  # noqa: PLC0415  commands that read no frame do not load it

    columns = [
        [None if value is pd.NA or value != value else value for value in column.tolist()]  # noqa: PLR0124  NaN, NaT
        for _, column in frame.items()
    ]
    yield from map(_row_type((*frame.columns, *more))._make, zip(*columns, *more.values(), strict=True))


@lru_cache(maxsize=64)
def _row_type(names: tuple[str, ...]) -> Any:
    return namedtuple("Row", names)  # noqa: PYI024  its fields are known when it runs


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _frame(columns: Columns, rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415  commands that read no frame do not load it

    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    series = {}
    for (name, (dtype, _)), column in zip(columns.items(), values, strict=True):
        if dtype == TIME:
            series[name] = pd.Series(pd.DatetimeIndex(pd.to_datetime(list(column), utc=True)).as_unit("ns"))
        else:
            series[name] = pd.Series(list(column), dtype=dtype)
    return pd.DataFrame(series)
