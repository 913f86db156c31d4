"""The JSON document of a fleet: what `poll --format json` prints and /api/v1/fleet answers.

With `--full` the document has all that rules look at, so that `read_snapshot` makes the same fleet of it.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, lru_cache
from typing import Any

from pydantic import TypeAdapter

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.sharing_text import cause_text, sharing_text
from dashboard.compare import SharingCell, SharingCounts, SharingVerdict
from dashboard.documents import as_float, findings, native, pick, value_object, write_json
from dashboard.documents.findings import sighted, traffic_object
from dashboard.fleet import (
    Baseline,
    Device,
    Engine,
    KVCacheGroup,
    Pool,
    ProbeResult,
    Replica,
    RouterConfig,
    Setting,
    cohort_letters,
)
from dashboard.fleet.history import RecentEvents, Sightings
from dashboard.fleet.pieces import to_plain
from dashboard.rules.catalogue import RULE_SET
from dashboard.rules.findings import Confidence, Finding, Inspection
from dashboard.rules.policy import Policy
from dashboard.vllm.canonical import SHORT

# A minor version adds keys, and readers ignore keys that they do not know. A major version changes or removes some.
SCHEMA_VERSION = "1.0"
MOST_KNOWN = 16_384  # settings that are made once: a thousand replicas have mostly equal ones

ENGINE = (
    *("dp_rank", "num_gpu_blocks", "block_size", "kv_cache_size_tokens", "max_concurrency", "kv_cache_bytes"),
    *("naive_tokens", "max_model_len", "basis", "fingerprint", "sleep_level", "shares_sum"),
)
SUPPRESSION = ("rule", "owner", "reason", "until", "pool", "replicas", "labels", "number", "file")  # not its author
ENGINE_FULL = (*ENGINE, "kv_cache_bytes_per_device", "reason", "kv_cache_available_bytes")
GROUP = (
    *("dp_rank", "group_id", "spec_type", "block_size", "page_size_bytes", "layers", "sliding_window"),
    *("attention_chunk_size", "num_kv_heads", "head_size", "dtype"),
)


def fleet_json(fleet: Fleet, generated_at: datetime, *, full: bool = False, indent: int | None = None) -> bytes:
    """Return the document of a polled fleet; `full` adds what is needed to evaluate the rules again."""
    cohorts = cohort_letters(fleet.pools)
    document = {
        "schema_version": SCHEMA_VERSION,
        **findings.head_of(fleet, generated_at),
        "ignored": fleet.ignored,
        "notes": [*fleet.inspection.notes, *fleet.unrecorded],
        "discovery_errors": fleet.discovery_errors,
        "prefix_sharing": _counts_object(fleet.prefix_sharing),
        "routers": [_router_object(router) for router in fleet.routers],
        "replicas": [
            _replica_object(fleet.as_read(replica), cohorts.get(replica.id), full=full)
            | sighted(fleet.sightings.replicas.get(replica.id))
            | {"traffic": traffic_object(fleet.traffic_of([replica.id]))}
            for replica in fleet.replicas
        ],
        "engines": _rows(fleet, lambda replica: [engine_object(engine, full=full) for engine in replica.engines]),
        "devices": _rows(
            fleet, lambda replica: [_device_object(device, replica, full=full) for device in replica.devices]
        ),
        "kv_cache_groups": _rows(
            fleet, lambda replica: [_group_object(group, full=full) for group in replica.kv_cache_groups]
        ),
        "traffic": _rows(fleet, lambda replica: _traffic_objects(fleet, replica)),
        "pools": [findings.pool_object(fleet, pool) | comparison_object(fleet, pool) for pool in fleet.pools],
        **findings.findings_of(fleet),
    }
    if full:
        document |= {
            "documents": {key: _settings_object(each.settings) for key, each in fleet.documents.items()},
            "policy": _policy_object(fleet.policy),
            "recent": _recent_object(fleet.recent),
            "recorded_traffic": [
                {"pool": pool, "document": key, **(traffic_object(own) or {})}
                for (pool, key), own in (fleet.recorded_traffic or {}).items()
                if own.seconds
            ]
            or None,
            "traffic_window": fleet.traffic_window,
            "sightings": _sightings_object(fleet.sightings),
            "unconfirmed": unconfirmed_object(fleet.inspection),
            "rule_set": RULE_SET,
        }
    return write_json(document, indent)


def _rows(fleet: Fleet, rows_of: Callable[[Replica], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"replica": replica.id, **row} for replica in fleet.replicas for row in rows_of(replica)]


@lru_cache(maxsize=MOST_KNOWN)
def _known_object(setting: Setting) -> dict[str, Any]:
    return {"value": native(setting.value), "state": setting.state, "source": setting.source}


def _setting_object(setting: Setting) -> dict[str, Any]:
    write = _known_object if len(setting.value) <= SHORT else _known_object.__wrapped__
    return write(setting)


def _settings_object(settings: Mapping[str, Setting]) -> dict[str, Any]:
    return {path: _setting_object(setting) for path, setting in settings.items()}


def settings_json(settings: Mapping[str, Setting]) -> bytes:
    """Return the settings of one document as in `documents`."""
    return json.dumps(_settings_object(settings), separators=(",", ":")).encode()


def _router_object(router: RouterConfig) -> dict[str, Any]:
    facts = [{**pick(fact, ("name", "source", "observed_at")), "value": native(fact.value)} for fact in router.facts]
    return {**pick(router, ("name", "kind", "pools")), "facts": facts, "failures": router.failures}


def _replica_object(replica: Replica, cohort: str | None, *, full: bool) -> dict[str, Any]:
    written = {
        "replica": replica.id,
        **pick(replica, ("name", "pool", "role", "state")),
        "reason": replica.failure,
        **pick(replica, ("version", "started_at", "observed_at", "document")),
        "cohort": cohort,
        **pick(replica, ("sources", "labels", "target_stale", "same_digest_as")),
    }
    if full:
        arguments = replica.set_arguments
        written |= {
            **pick(replica, ("fresh", "served_model_names", "same_process")),
            "adapters": list(replica.adapters),
            "adapter_paths": {name: path for name, path in replica.adapters.items() if path is not None},
            "set_arguments": None if arguments is None else [argument._asdict() for argument in arguments],
            "contradictions": [
                {"path": each.path, "kept": _setting_object(each.kept), "other": _setting_object(each.other)}
                for each in replica.contradictions
            ],
            "identity": _settings_object(replica.identity),
            "probes": [_probe_object(probe) for probe in replica.probes],
        }
    return written


def _probe_object(probe: ProbeResult) -> dict[str, Any]:
    return {
        "path": probe.path,
        "source": probe.reply.source if probe.reply else probe.source,
        **pick(probe, ("observed_at", "status", "size_bytes")),
        "elapsed_seconds": round(probe.elapsed_seconds, 6),
        "answered": probe.reply is not None,
        "failure": probe.failure,
    }


def engine_object(engine: Engine, *, full: bool = False) -> dict[str, Any]:
    """Return the KV cache of one DP rank; `full` as of the document."""
    written = pick(engine, ENGINE_FULL if full else ENGINE)
    fingerprint = engine.fingerprint and engine.fingerprint._asdict()
    return {**written, "max_concurrency": as_float(engine.max_concurrency), "fingerprint": fingerprint}


def _device_object(device: Device, replica: Replica, *, full: bool) -> dict[str, Any]:
    on_each = (each.kv_cache_bytes_per_device for each in replica.engines if each.dp_rank == device.dp_rank)
    written = {
        **pick(device, ("dp_rank", "rank", "name", "total_memory_bytes", "compute_capability")),
        "kv_cache_bytes": next(on_each, None),
        **pick(device, ("compute_units", "tensor_parallel_rank", "pipeline_parallel_rank")),
    }
    return {**written, "memory": device.memory and device.memory._asdict()} if full else written


def _group_object(group: KVCacheGroup, *, full: bool) -> dict[str, Any]:
    return group._asdict() if full else pick(group, GROUP)


def _traffic_objects(fleet: Fleet, replica: Replica) -> list[dict[str, Any]]:
    return [
        {"dp_rank": rank, **(traffic_object(own) or {}), "caching_off": replica.id in fleet.without_cache}
        for rank, own in fleet.traffic.get(replica.id, {}).items()
    ]


def comparison_object(fleet: Fleet, pool: Pool) -> dict[str, Any]:
    """Return the cohorts of a pool, its differences, and which cohorts share prefixes."""
    sightings = fleet.sightings
    return {
        "prefix_sharing": {
            **_sharing_object(fleet.sharing[pool.name], fleet.by_id),
            "replicas": _counts_object(fleet.sharing_counts[pool.name]),
        },
        "majority_document": pool.majority_document,
        "traffic": traffic_object(fleet.traffic_of(pool.replicas)),
        "cohorts": [
            {
                "cohort": cohort.letter,
                **pick(cohort, ("document", "replicas")),
                "traffic": traffic_object(fleet.traffic_of(cohort.replicas)),
                "distinguishing": [
                    {**value_object(value), "path": path} for path, value in cohort.distinguishing.items()
                ],
                **sighted(sightings.cohorts.get((pool.name, cohort.document))),
            }
            for cohort in pool.cohorts
        ],
        "differences": [
            {
                "path": difference.path,
                "majority": difference.majority and value_object(difference.majority),
                "values": [{**value_object(value), **pick(value, ("count", "cohorts"))} for value in difference.values],
                **sighted(sightings.differences.get((pool.name, difference.path))),
            }
            for difference in pool.differences
        ],
    }


def _counts_object(counts: SharingCounts) -> dict[str, Any]:
    return {**counts._asdict(), "ratio": as_float(counts.ratio)}


def _sharing_object(sharing: SharingVerdict, replicas: Mapping[str, Replica]) -> dict[str, Any]:
    cells = [
        {
            "cohorts": (cell.one, cell.other),
            "share": cell.share,
            "confidence": _confidence(cell),
            "reason": cause_text(cell),
            "not_known": cell.silent,
        }
        for cell in sharing.cells
    ]
    return {
        "confidence": _confidence(sharing),
        "sentence": to_plain(sharing_text(sharing, replicas)),
        **pick(sharing, ("not_known", "groups")),
        "cells": cells,
    }


def _confidence(found: SharingVerdict | SharingCell) -> Confidence:
    return Confidence.REPORTED if found.is_measured else Confidence.DERIVED


def _policy_object(policy: Policy) -> dict[str, Any]:
    return {
        **pick(policy, ("pools", "rules")),
        "suppressions": [pick(each, SUPPRESSION) for each in policy.suppressions],
        "file": policy.file,
        "baselines": [_baseline_object(baseline) for baseline in policy.baselines],
    }


def _baseline_object(baseline: Baseline) -> dict[str, Any]:
    return {
        **pick(baseline, ("name", "pool", "ignored", "comments", "file")),
        "expected": {path: native(value) for path, value in baseline.expected.items()},
        "tolerated": {
            path: {
                "any_of": [native(value) for value in tolerance.any_of],
                "at_least": as_float(tolerance.at_least),
                "at_most": as_float(tolerance.at_most),
            }
            for path, tolerance in baseline.tolerated.items()
        },
    }


def _recent_object(recent: RecentEvents) -> dict[str, Any]:
    return {
        **pick(recent, ("since", "starts")),
        "alternations": {
            replica: [{**each._asdict(), "values": [native(value) for value in each.values]} for each in alternations]
            for replica, alternations in recent.alternations.items()
        },
        "rollouts": {pool: rollout._asdict() for pool, rollout in recent.rollouts.items()},
        "recurrences": {finding: each._asdict() for finding, each in recent.recurrences.items()},
        "symptoms": {
            measure: {replica: symptom._asdict() for replica, symptom in found.items()}
            for measure, found in recent.symptoms.items()
        },
    }


@cache
def finding_adapter() -> TypeAdapter[tuple[Finding, ...]]:
    """Return what writes and reads whole findings; made at the first one, because that takes time."""
    return TypeAdapter(tuple[Finding, ...])


def unconfirmed_object(inspection: Inspection) -> list[Any]:
    """Return the findings that last although the poll could not see them, as JSON that only this program reads."""
    found = inspection.unconfirmed
    return list(finding_adapter().dump_python(found, mode="json")) if found else []


def _sightings_object(sightings: Sightings) -> dict[str, Any]:
    written: dict[str, Any] = {
        "findings": {key: sighting._asdict() for key, sighting in sightings.findings.items()},
        "replicas": {key: sighting._asdict() for key, sighting in sightings.replicas.items()},
    }
    for name, by_pool in (("cohorts", sightings.cohorts), ("differences", sightings.differences)):
        nested = written[name] = {}
        for (pool, key), sighting in by_pool.items():
            nested.setdefault(pool, {})[key] = sighting._asdict()
    return written
