"""What the JSON of a saved fleet is read as: each object by its keys, in strict types, as a value of the product."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Annotated, Any, NamedTuple, get_type_hints

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter
from pydantic_core import from_json
from typing_extensions import TypedDict

from dashboard import fleet
from dashboard.documents.fleet import MOST_KNOWN, SCHEMA_VERSION, finding_adapter
from dashboard.fleet.formatting import end_cut
from dashboard.fleet.history import Alternation, RecentEvents, Recurrence, SeenRollout, Sighting, Sightings, Symptom
from dashboard.fleet.pieces import Kind, Piece
from dashboard.fleet.traffic import COUNTERS, GAUGES, SHARES, Traffic
from dashboard.rules.domain import Expectations, PoolDeclaration
from dashboard.rules.findings import Evidence, Finding, Suppression
from dashboard.rules.policy import Policy, RuleChange
from dashboard.vllm.canonical import is_short, spelled
from dashboard.vllm.traffic import MAX_COUNT
from vllm_fleet_provider.shared.redaction import redact
from vllm_fleet_provider.shared.spelling import canonical_text
from vllm_fleet_provider.shared.types import Count, Moment

# The lists of what belongs to a replica, with what is unique in each of them.
LISTS = {"engines": ("dp_rank",), "devices": ("dp_rank", "rank"), "kv_cache_groups": ("dp_rank", "group_id")}
MAJOR = SCHEMA_VERSION.partition(".")[0]


class EngineTraffic(NamedTuple):
    """The traffic of an engine."""

    dp_rank: int
    traffic: Traffic


def _read_setting(path: str, values: Mapping[str, Any]) -> fleet.Setting:
    make = _known_setting if is_short(path, values["value"]) else make_setting
    return make(path, values["value"], values["state"], values["source"])


def make_setting(path: str, value: Any, state: str, source: str) -> fleet.Setting:
    """Return the setting of a JSON object; raise ValueError for an unknown state or source."""
    return fleet.Setting(spelled(path, value), fleet.State(state), fleet.Source(source))


# One object for equal settings, as in a poll: a thousand replicas have mostly equal ones. Typed, because True == 1.
_known_setting = lru_cache(maxsize=MOST_KNOWN, typed=True)(make_setting)


def _read_settings(objects: Mapping[str, Mapping[str, Any]]) -> Mapping[str, fleet.Setting]:
    return {path: _read_setting(path, values) for path, values in objects.items()}


def _read_contradiction(*, path: str, kept: Mapping[str, Any], other: Mapping[str, Any]) -> fleet.Contradiction:
    return fleet.Contradiction(path, _read_setting(path, kept), _read_setting(path, other))


def _read_probe(*, answered: bool, source: fleet.Source, **values: Any) -> fleet.ProbeResult:
    """Return a result without the content of its reply, which is not saved."""
    return fleet.ProbeResult(**values, source=source, reply=fleet.Reply(source) if answered else None)


def _read_replica(
    *,
    replica: str,
    reason: fleet.Failure | None,
    adapters: tuple[str, ...],
    adapter_paths: Mapping[str, str],
    **values: Any,
) -> fleet.Replica:
    """Return a replica without its engines, devices and KV cache groups, which have lists of their own."""
    paths = {name: adapter_paths.get(name) for name in adapters}
    return fleet.Replica(
        id=replica, failure=reason, adapters=paths, engines=(), devices=(), kv_cache_groups=(), **values
    )


def _read_traffic(*, window_seconds: float, refused: tuple[str, ...], **rose: float | None) -> Traffic:
    for part, whole in SHARES:
        if (rose[part] or 0.0) > (rose[whole] or 0.0):
            raise ValueError(f"{part} is larger than {whole}")
    return Traffic(window_seconds, **rose, refused=tuple(map(end_cut, refused)))


def _read_sightings(
    *, cohorts: Mapping[str, Mapping[str, Sighting]], differences: Mapping[str, Mapping[str, Sighting]], **values: Any
) -> Sightings:
    by_pool = (
        {(pool, key): sighting for pool, sightings in pools.items() for key, sighting in sightings.items()}
        for pools in (cohorts, differences)
    )
    return Sightings(**values, cohorts=next(by_pool), differences=next(by_pool))


def _read_unconfirmed(objects: tuple[Any, ...]) -> tuple[Finding, ...]:
    """Return the findings that a poll could not see; without links to other sites, and none that quotes a secret."""
    return tuple(
        replace(finding, text=tuple(map(_without_site, finding.text)))
        for finding in (finding_adapter().validate_python(objects) if objects else ())
        if finding.seen_at is not None and not any(map(_is_secret, finding.evidence))
    )


def _without_site(piece: Piece) -> Piece:
    return piece._replace(link=None) if piece.link is not None and piece.link.kind is Kind.WEB else piece


def _is_secret(evidence: Evidence) -> bool:
    value = from_json(evidence.value) if evidence.value else None
    return bool(redact(value, evidence.path) != value)


def object_of(make: Callable[..., Any], keys: Mapping[str, Any], *, without: tuple[str, ...] = ()) -> Any:
    """Return the type of a JSON object with these keys, all required, of which `make` makes a value.

    Other keys are ignored: a later minor version adds some. One that a minor version added is `NotRequired` here.
    """
    hints = {name: PLAIN.get(hint, hint) for name, hint in keys.items() if name not in without}
    declare: Any = TypedDict
    fields = declare("Fields", hints)
    fields.__pydantic_config__ = ConfigDict(extra="ignore", allow_inf_nan=False)
    return Annotated[fields, AfterValidator(lambda values: make(**values))]


def type_of(core: type, **other: Any) -> Any:
    """Return the type of a JSON object with the fields of a type; `other` are types of keys that JSON has instead."""
    return object_of(core, {**get_type_hints(core, include_extras=True), **other})


def _row_of(core: type, **other: Any) -> Any:
    """Return the type of a row: the id of its replica and a value of a type."""
    keys = {**get_type_hints(core, include_extras=True), "replica": str, **other}
    return object_of(lambda *, replica, **values: (replica, core(**values)), keys)


def many(item: Any) -> Any:
    """Return the type of a list that is read up to its first mistake: a file can have millions."""
    return Annotated[tuple[item, ...], Field(fail_fast=True)]


def keyed(item: Any) -> Any:
    return dict[str, item]


Native = Annotated[Any, BeforeValidator(canonical_text)]
Time = Annotated[Moment, AfterValidator(lambda time: time.astimezone(UTC))]
# What the hints of the product's types mean in JSON.
PLAIN = {
    int: Count,
    int | None: Count | None,
    datetime: Time,
    datetime | None: Time | None,
    tuple[str, ...]: many(str),
    fleet.JsonText: Native,
    Mapping[str, str]: dict[str, str],
}
SETTING = object_of(dict, {"value": Any, "state": fleet.State, "source": fleet.Source})
SETTINGS: Any = Annotated[keyed(SETTING), AfterValidator(_read_settings)]
SIGHTING = type_of(Sighting)
REPLICA = object_of(
    _read_replica,
    {
        **get_type_hints(fleet.Replica, include_extras=True),
        "replica": str,
        "reason": type_of(fleet.Failure) | None,
        "adapters": tuple[str, ...],
        "adapter_paths": dict[str, str],
        "identity": SETTINGS,
        "sources": many(fleet.Source),
        "set_arguments": many(type_of(fleet.Argument)) | None,
        "contradictions": many(object_of(_read_contradiction, {"path": str, "kept": SETTING, "other": SETTING})),
        "probes": many(
            object_of(
                _read_probe,
                {**get_type_hints(fleet.ProbeResult), "answered": bool, "failure": type_of(fleet.Failure) | None},
                without=("raw", "reply"),
            )
        ),
    },
    without=("id", "failure", *LISTS),
)
ROUTER = type_of(fleet.RouterConfig, facts=many(type_of(fleet.RouterFact)))
POLICY = type_of(
    Policy,
    pools=keyed(type_of(PoolDeclaration, expects=type_of(Expectations))),
    rules=keyed(type_of(RuleChange, parameters=dict[str, bool | int | float | str])),
    suppressions=many(object_of(Suppression, get_type_hints(Suppression), without=("author",))),
    baselines=many(
        type_of(
            fleet.Baseline,
            expected=keyed(Native),
            tolerated=keyed(type_of(fleet.Tolerance, any_of=many(Native))),
        )
    ),
)
DAY_SECONDS = 86_400  # the longest window
SECONDS = Annotated[float, Field(ge=0, le=DAY_SECONDS)]
AMOUNT = Annotated[float, Field(ge=0, le=MAX_COUNT)]
RECENT = type_of(
    RecentEvents,
    starts=keyed(many(Time)),
    alternations=keyed(many(type_of(Alternation, values=many(Native)))),
    rollouts=keyed(type_of(SeenRollout)),
    recurrences=keyed(type_of(Recurrence, times=keyed(many(Time)))),
    symptoms=keyed(keyed(type_of(Symptom, own=AMOUNT, others=AMOUNT, seconds=SECONDS))),
)
AMOUNTS = {
    "window_seconds": Annotated[float, Field(ge=0.001, le=DAY_SECONDS)],
    **dict.fromkeys((*COUNTERS, *GAUGES), AMOUNT | None),
    "kv_usage": Annotated[float, Field(ge=0, le=1)] | None,
    "refused": many(str),
}
TRAFFIC = object_of(
    lambda *, replica, dp_rank, **own: (replica, EngineTraffic(dp_rank, _read_traffic(**own))),
    {"replica": str, "dp_rank": int, **AMOUNTS},
)
RECORDED_TRAFFIC = object_of(
    lambda *, pool, document, **own: ((pool, document), _read_traffic(**own)),
    {"pool": str, "document": str, **AMOUNTS, **dict.fromkeys(COUNTERS, Annotated[float, Field(ge=0)] | None)},
)
BY_POOL = keyed(keyed(SIGHTING))
SIGHTINGS = object_of(
    _read_sightings,
    {"findings": keyed(SIGHTING), "replicas": keyed(SIGHTING), "cohorts": BY_POOL, "differences": BY_POOL},
)
LETTER = Annotated[str, Field(pattern=r"^[A-Z]{1,10}$")]
COHORT = {"document": str, "cohort": LETTER}
LETTERS_OF_POOL = object_of(
    lambda *, pool, cohorts: (pool, dict(cohorts)),
    {"pool": str, "cohorts": many(object_of(lambda *, document, cohort: (document, cohort), COHORT))},
)
UNCONFIRMED = Annotated[tuple[Any, ...], AfterValidator(_read_unconfirmed)]
ROWS = {  # of replicas
    "replicas": many(REPLICA),
    "engines": many(_row_of(fleet.Engine, fingerprint=type_of(fleet.EngineFingerprint) | None)),
    "devices": many(_row_of(fleet.Device, memory=type_of(fleet.WorkerMemory) | None)),
    "kv_cache_groups": many(_row_of(fleet.KVCacheGroup)),
}
FLEET = object_of(
    dict,
    {
        **ROWS,
        "schema_version": Annotated[str, Field(pattern=rf"^{MAJOR}\.\d+$")],
        "fleet": str,
        "data_as_of": Time,
        "ignored": tuple[str, ...],
        "discovery_errors": tuple[str, ...],
        "routers": many(ROUTER),
        "traffic": many(TRAFFIC),  # of engines; that of replicas, pools and cohorts is their sum
        "pools": many(LETTERS_OF_POOL),  # everything else of a pool is derived again
        "documents": keyed(SETTINGS),
        "policy": POLICY,
        "recent": RECENT,
        "recorded_traffic": many(RECORDED_TRAFFIC) | None,
        "traffic_window": SECONDS,
        "sightings": SIGHTINGS,
        "unconfirmed": UNCONFIRMED,
        "rule_set": int,
    },
)


@cache
def reader_of_fleets() -> TypeAdapter[dict[str, Any]]:
    """Return what reads a saved fleet; made at the first one, because that takes 40 ms."""
    return TypeAdapter(FLEET)


@cache
def readers_of_reports() -> Mapping[str, TypeAdapter[Any]]:
    """Return what reads the parts of a fleet that another dashboard reports: of one replica, or all of one kind."""
    parts = {"replica": object_of(dict, ROWS), "settings": SETTINGS, "traffic": many(TRAFFIC), "router": ROUTER}
    return {name: TypeAdapter(part) for name, part in parts.items()}
