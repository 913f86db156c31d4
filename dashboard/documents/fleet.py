"""The JSON document of a fleet: what `poll --format json` prints and /api/v1/fleet answers.

docs/fleet.schema.json is made of this module. With `--full` the document has all that rules look at, so that
`read_snapshot` makes the same fleet of it.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from dashboard.analysis.assembly import Fleet
from dashboard.compare import SharingCell, SharingVerdict, cause_text
from dashboard.documents import findings
from dashboard.documents.contract import ADDED, Contract, JsonKey, JsonObject, WithExtraKeys, native
from dashboard.fleet import (
    Argument,
    Cohort,
    Contradiction,
    Device,
    Difference,
    Engine,
    EngineFingerprint,
    KVCacheGroup,
    Pool,
    ProbeResult,
    Replica,
    Reply,
    RouterConfig,
    RouterFact,
    Setting,
    SettingValue,
    Source,
    State,
    WorkerMemory,
    cohort_letters,
)
from dashboard.fleet.recent import RecentEvents
from dashboard.fleet.sightings import Sighting, Sightings
from dashboard.rules.catalogue import RULE_SET
from dashboard.rules.domain import PoolDeclaration
from dashboard.rules.findings import Confidence, Suppression
from dashboard.rules.policy import Policy, RuleChange
from dashboard.vllm.canonical import SHORT, is_short, spelled
from vllm_fleet_provider.shared.types import Count

SCHEMA_VERSION: Literal[2] = 2
MOST_KNOWN = 16_384  # settings that are made once: a thousand replicas have mostly equal ones


def fleet_json(fleet: Fleet, generated_at: datetime, *, full: bool = False, indent: int | None = None) -> bytes:
    """Return the document of a polled fleet; `full` adds what is needed to evaluate the rules again."""
    return fleet_object(full=full).dump(WithExtraKeys(fleet, {"generated_at": generated_at}), indent=indent)


@lru_cache(maxsize=MOST_KNOWN)
def _known_object(setting: Setting) -> dict[str, Any]:
    return {"value": native(setting.value), "state": setting.state, "source": setting.source}


def _setting_object(setting: Setting) -> dict[str, Any]:
    write = _known_object if len(setting.value) <= SHORT else _known_object.__wrapped__
    return write(setting)


def settings_json(settings: Mapping[str, Setting]) -> bytes:
    """Return the settings of one document as in `documents`."""
    written = {path: _setting_object(each) for path, each in settings.items()}
    return json.dumps(written, separators=(",", ":")).encode()  # four times as fast as pydantic's on enums


def make_setting(path: str, value: Any, state: str, source: str) -> Setting:
    """Return the setting of a JSON object; raise ValueError for an unknown state or source."""
    return Setting(spelled(path, value), State(state), Source(source))


# One object for equal settings, as in a poll: a thousand replicas have mostly equal ones. Typed, because True == 1.
_known_setting = lru_cache(maxsize=MOST_KNOWN, typed=True)(make_setting)


def _read_setting(path: str, values: Mapping[str, Any]) -> Setting:
    make = _known_setting if is_short(path, values["value"]) else make_setting
    return make(path, values["value"], values["state"], values["source"])


def _read_settings(objects: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Setting]:
    return {path: _read_setting(path, values) for path, values in objects.items()}


def _read_contradiction(values: Mapping[str, Any]) -> Contradiction:
    path = values["path"]
    return Contradiction(path, _read_setting(path, values["kept"]), _read_setting(path, values["other"]))


def _read_replica(values: dict[str, Any]) -> Replica:
    """Return a replica without its engines, devices and KV cache groups, which have lists of their own."""
    for name in ("cohort", *Sighting._fields):
        del values[name]
    paths = values.pop("adapter_paths")
    return Replica(
        id=values.pop("replica"),
        failure=values.pop("reason"),
        adapters={name: paths.get(name) for name in values.pop("adapters")},
        engines=(),
        devices=(),
        kv_cache_groups=(),
        **values,
    )


def _read_probe(values: dict[str, Any]) -> ProbeResult:
    """Return a result without the content of its reply, which is not saved."""
    answered = values.pop("answered")
    return ProbeResult(**values, reply=Reply(values["source"]) if answered else None)


def _replica_rows(fleet: Fleet) -> tuple[WithExtraKeys, ...]:
    cohorts = cohort_letters(fleet.pools)
    return tuple(
        WithExtraKeys(
            fleet.as_read(each),
            {"cohort": cohorts.get(each.id), **findings.sighted(fleet.sightings.replicas.get(each.id))},
        )
        for each in fleet.replicas
    )


def _rows(attribute: str) -> Callable[[Fleet], tuple[WithExtraKeys, ...]]:
    """Return what lists the engines, devices or KV cache groups of all replicas."""

    def rows(fleet: Fleet) -> tuple[WithExtraKeys, ...]:
        return tuple(
            WithExtraKeys(each, {"replica": replica.id})
            for replica in fleet.replicas
            for each in getattr(replica, attribute)
        )

    return rows


def _device_rows(fleet: Fleet) -> tuple[WithExtraKeys, ...]:
    def kv_cache_bytes(replica: Replica, device: Device) -> int | None:
        on_each = (each.kv_cache_bytes_per_device for each in replica.engines if each.dp_rank == device.dp_rank)
        return next(on_each, None)

    return tuple(
        WithExtraKeys(device, {"replica": replica.id, "kv_cache_bytes": kv_cache_bytes(replica, device)})
        for replica in fleet.replicas
        for device in replica.devices
    )


def _confidence(found: SharingVerdict | SharingCell) -> Confidence:
    return Confidence.REPORTED if found.is_measured else Confidence.DERIVED


def _policy() -> Contract:
    """Return the contract of the options in fleet.yaml on pools and rules."""
    contract = Contract(findings.CONTRACT)
    contract.object(PoolDeclaration, is_read=True, name="Declared")
    contract.object(
        Suppression,
        "rule owner reason until number pool replicas labels",
        JsonKey("file", str, doc="empty: fleet.yaml"),
        name="PolicySuppression",
        is_read=True,
    )
    contract.object(
        RuleChange, "enabled", "severity", JsonKey("parameters", dict[str, bool | int | float | str]), is_read=True
    )
    return contract


def _declare_settings(contract: Contract) -> None:
    contract.object(
        Setting, JsonKey("value", Any, doc="native JSON"), "state", "source", read=dict, write=_setting_object
    )
    contract.types[Mapping[str, Setting]] = Annotated[
        contract.resolve(Mapping[str, Setting]), AfterValidator(_read_settings)
    ]
    contract.object(Contradiction, read=_read_contradiction)
    contract.object(
        ProbeResult,
        "path",
        JsonKey("source", Source, lambda result: result.reply.source if result.reply else result.source),
        "observed_at",
        "status size_bytes",
        JsonKey("elapsed_seconds", float, lambda result: round(result.elapsed_seconds, 6)),
        JsonKey("answered", bool, lambda result: result.reply is not None),
        "failure",
        read=_read_probe,
    )


def _declare_replicas(contract: Contract) -> None:
    contract.object(Argument, is_read=True)
    contract.object(
        Replica,
        JsonKey("replica", of="id", doc="scheme://host:port"),
        "name pool role state",
        JsonKey("reason", of="failure"),
        "version started_at observed_at document",
        JsonKey("cohort", str | None, ADDED),
        "sources labels",
        JsonKey("target_stale", doc="its source of targets cannot be read: last known target"),
        JsonKey(
            "same_digest_as",
            doc="address of the replica whose settings these are: Prometheus has equal digests of both",
        ),
        JsonKey("fresh", doc="read within the last three intervals, or scraped within 150 s", full=True),
        JsonKey("served_model_names", full=True),
        JsonKey("adapters", tuple[str, ...], lambda replica: tuple(replica.adapters), full=True),
        JsonKey(
            "adapter_paths",
            dict[str, str],
            lambda replica: {name: path for name, path in replica.adapters.items() if path is not None},
            "by adapter, as far as reported",
            full=True,
        ),
        JsonKey(
            "set_arguments",
            doc="flags and variables that the server was started with; null: not reported",
            full=True,
        ),
        JsonKey("same_process", doc="other addresses of the same process", full=True),
        JsonKey("contradictions identity probes", full=True),
        *findings.SIGHTING_KEYS,
        read=_read_replica,
    )


def _declare_routers(contract: Contract) -> None:
    contract.object(RouterFact, "name value source observed_at", is_read=True)
    contract.object(RouterConfig, "name kind pools facts failures", is_read=True)


def _declare_engines(contract: Contract) -> None:
    of_replica = JsonKey("replica", str, ADDED)
    contract.object(EngineFingerprint, is_read=True, name="Fingerprint")
    contract.object(
        Engine,
        of_replica,
        "dp_rank num_gpu_blocks block_size kv_cache_size_tokens max_concurrency kv_cache_bytes naive_tokens",
        "max_model_len basis",
        JsonKey("fingerprint", doc="null: not reported"),
        JsonKey("sleep_level", doc="0, 1 or 2 while the engine sleeps: its KV cache adds to no sum"),
        JsonKey("shares_sum", doc="tokens and concurrency are the sum of all such engines of the replica"),
        JsonKey("kv_cache_bytes_per_device", full=True),
        JsonKey("reason", doc="why a number is unknown or assumed", full=True),
        JsonKey(
            "kv_cache_available_bytes",
            doc="free for the KV cache on the first device when the engine started",
            full=True,
        ),
        is_read=True,
    )
    contract.object(WorkerMemory, is_read=True, name="DeviceMemory")
    contract.object(
        Device,
        of_replica,
        "dp_rank rank name total_memory_bytes compute_capability",
        JsonKey("kv_cache_bytes", int | None, ADDED),
        JsonKey("compute_units tensor_parallel_rank pipeline_parallel_rank"),
        JsonKey("memory", doc="what its worker measured at the start", full=True),
        is_read=True,
    )
    contract.object(
        KVCacheGroup,
        of_replica,
        "dp_rank group_id spec_type block_size page_size_bytes layers sliding_window attention_chunk_size",
        "num_kv_heads head_size dtype",
        JsonKey("extra_retained_tokens mamba_cache_mode", full=True),
        JsonKey("num_speculative_blocks num_prefill_checkpoint_blocks", full=True),
        JsonKey("dcp_sharded host_resident", full=True),
        is_read=True,
    )


def _declare_pools(contract: Contract) -> None:
    contract.object(
        SharingCell,
        JsonKey("cohorts", tuple[str, str], lambda cell: (cell.one, cell.other), "a pair, or one cohort twice"),
        "share",
        JsonKey("confidence", Confidence, _confidence),
        JsonKey("reason", str, cause_text),
        JsonKey("not_known", of="silent", doc="replicas that do not report what decides it"),
    )
    contract.object(
        SharingVerdict,
        JsonKey("confidence", Confidence, _confidence, "reported where measured by fingerprints"),
        JsonKey("sentence", str, ADDED),
        JsonKey("not_known", int, doc="replicas that do not report what decides it"),
        JsonKey(
            "groups",
            tuple[tuple[str, ...], ...],
            "groups",
            "cohorts that hash alike, by their fingerprints",
        ),
        JsonKey("cells", tuple[SharingCell, ...], "cells", "empty where there are too many cohorts"),
        name="PrefixSharing",
    )
    distinction = Contract().object(SettingValue, "value", "state", JsonKey("path", str, ADDED), name="Distinction")
    contract.object(
        Cohort,
        JsonKey("cohort", of="letter"),
        "document replicas",
        JsonKey(
            "distinguishing",
            tuple[Annotated[Any, distinction], ...],
            lambda cohort: tuple(WithExtraKeys(value, {"path": path}) for path, value in cohort.distinguishing.items()),
        ),
        *findings.SIGHTING_KEYS,
    )
    contract.object(Difference, "path majority values", *findings.SIGHTING_KEYS)
    contract.object(
        Pool,
        *findings.POOL_KEYS,
        JsonKey("prefix_sharing", SharingVerdict, ADDED),
        "majority_document",
        JsonKey("cohorts", tuple[Cohort, ...], ADDED),
        JsonKey("differences", tuple[Difference, ...], ADDED),
    )


def _declare_sightings(contract: Contract) -> None:
    def by_pool(attribute: str) -> Callable[[Sightings], dict[str, dict[str, Sighting]]]:
        def nested(found: Sightings) -> dict[str, dict[str, Sighting]]:
            by_name: dict[str, dict[str, Sighting]] = {}
            for (pool, key), each in getattr(found, attribute).items():
                by_name.setdefault(pool, {})[key] = each
            return by_name

        return nested

    contract.object(RecentEvents, is_read=True, name="Recent")
    contract.object(Sighting, is_read=True)
    contract.object(
        Sightings,
        "findings replicas",
        JsonKey("cohorts", dict[str, dict[str, Sighting]], by_pool("cohorts"), "by pool and document"),
        JsonKey("differences", dict[str, dict[str, Sighting]], by_pool("differences"), "by pool and path"),
        read=_read_sightings,
    )


def _read_sightings(values: dict[str, Any]) -> Sightings:
    cohorts, differences = (
        {(pool, key): each for pool, found in values[name].items() for key, each in found.items()}
        for name in ("cohorts", "differences")
    )
    return Sightings(values["findings"], values["replicas"], cohorts, differences)


@cache
def fleet_object(*, full: bool) -> JsonObject:
    """Return the declaration of the document; `full` for its JSON Schema: what only that adds is not required."""
    replicas = Contract(findings.CONTRACT, types={int: Count}, full=full)
    _declare_settings(replicas)
    _declare_replicas(replicas)
    _declare_engines(replicas)
    _declare_routers(replicas)
    contract = Contract(replicas, types={int: int}, full=full)
    _declare_pools(contract)
    _declare_sightings(contract)
    return contract.object(
        Fleet,
        JsonKey("schema_version", Literal[2], lambda _: SCHEMA_VERSION),
        *findings.HEAD_KEYS,
        JsonKey("ignored", doc="paths, or globs, that are not compared"),
        JsonKey("notes", of="inspection.notes", doc="options and baselines that match nothing, keys over plain http"),
        JsonKey("discovery_errors", doc="sources of targets that cannot be read, and why"),
        JsonKey(
            "routers",
            tuple[RouterConfig, ...],
            doc="what routers and stores reported of their configuration",
        ),
        JsonKey("replicas", tuple[Replica, ...], _replica_rows),
        JsonKey("engines", tuple[Engine, ...], _rows("engines")),
        JsonKey("devices", tuple[Device, ...], _device_rows),
        JsonKey("kv_cache_groups", tuple[KVCacheGroup, ...], _rows("kv_cache_groups")),
        *findings.FINDING_KEYS,
        JsonKey(
            "documents",
            dict[str, Mapping[str, Setting]],
            lambda fleet: {key: document.settings for key, document in fleet.documents.items()},
            full=True,
        ),
        JsonKey(
            "policy",
            Annotated[Any, _policy().object(Policy, is_read=True)],
            doc="options when it was saved",
            full=True,
        ),
        JsonKey(
            "recent",
            doc="what the last polls saw: restarts, values that return, rollouts, findings that come and go",
            full=True,
        ),
        JsonKey("sightings", doc="since when, as the history recorded it", full=True),
        JsonKey("rule_set", int, lambda _: RULE_SET, "which rules evaluated it", full=True),
        read=dict,
        name="FleetDocument",
    )
