"""The list of the tools, with the schemas of their arguments and results."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dashboard.documents.fleet import ENGINE
from dashboard.mcp import tools
from dashboard.mcp.results import ResultPage
from dashboard.mcp.schemas import TEXT, PublishedSchema, object_schema, published, result_schema
from dashboard.mcp.tools import SHORT, Asked, Fleets
from dashboard.rules.findings import Severity


class FleetTool(NamedTuple):
    """A tool. The docstring of `run` describes it to agents. The schemas are of arguments, `head` and rows by key."""

    run: Callable[[Fleets, Asked], ResultPage]
    arguments: Mapping[str, Any]
    head: Mapping[str, PublishedSchema]
    rows: Mapping[str, PublishedSchema]
    required: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def description(self) -> str:
        return " ".join((self.run.__doc__ or "").split())

    @property
    def input_schema(self) -> dict[str, Any]:
        properties = {**self.arguments, "cursor": CURSOR}
        required = [*self.required]
        return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}

    @property
    def output_schema(self) -> dict[str, Any]:
        return result_schema(self.head, self.rows)


CURSOR = {"type": "string", "description": "next_cursor of the last result, for the next rows."}
POOL = {"type": "string", "description": "Name of a pool, as in fleet_status."}
TIME = {"type": "string", "description": "A time such as 2026-11-22T14:00Z, or a period before now such as 24h or 7d."}
OF_POOL = {"pool": POOL}
WORDS: Mapping[str, Any] = {"type": "array", "items": TEXT}
HEAD = {key: PublishedSchema.key("findings", key) for key in ("fleet", "data_as_of")}
OPTIONAL: Mapping[str, Any] = {"type": ["string", "null"]}
OBJECTS: Mapping[str, Any] = {"type": "array", "items": {"type": "object"}}


def _listed(part: PublishedSchema) -> PublishedSchema:
    return part._replace(schema={"type": "array", "items": part.schema})


def _text_keys(*keys: str) -> dict[str, PublishedSchema]:
    return {key: PublishedSchema("findings", TEXT) for key in keys}


USED = {"traffic": published("fleet")["$defs"]["Pool"]["properties"]["traffic"]}
NUMBER: Mapping[str, Any] = {"type": "integer"}
TOOLS = (
    FleetTool(
        tools.fleet_status,
        {},
        {
            **HEAD,
            **{key: PublishedSchema.key("findings", key) for key in ("coverage", "tally", "notes")},
            **_text_keys("headline", "lead"),
            "not_up": _listed(
                PublishedSchema.some_of("fleet", "Replica", ("replica", "name", "pool", "state", "reason"))
            ),
            "discovery_errors": PublishedSchema.key("fleet", "discovery_errors"),
        },
        {"pools": PublishedSchema.definition("findings", "Pool")},
    ),
    FleetTool(
        tools.list_findings,
        {
            **OF_POOL,
            "severity": {"enum": [str(each) for each in Severity], "description": "The lowest severity."},
            "rule": {"type": "string", "description": "Only of this rule, such as RT-01."},
            "suppressed": {"type": "boolean", "description": "The suppressed ones instead of the active ones."},
        },
        HEAD,
        {"findings": PublishedSchema.some_of("findings", "Finding", SHORT, replica_count=NUMBER)},
    ),
    FleetTool(
        tools.get_finding,
        {"id": {"type": "string", "description": "The id or the fingerprint of a finding."}},
        HEAD,
        {"findings": PublishedSchema.definition("findings", "Finding")},
        ("id",),
    ),
    FleetTool(
        tools.fix_plan,
        OF_POOL,
        {**HEAD, **_text_keys("headline"), "restarts": PublishedSchema("plan", WORDS)},
        {"causes": PublishedSchema("plan", published("plan")["properties"]["causes"]["items"])},
    ),
    FleetTool(
        tools.compare,
        {
            **OF_POOL,
            "replicas": {**WORDS, "minItems": 2, "maxItems": 20, "description": "Ids or names, instead of pool."},
        },
        {
            **HEAD,
            **_text_keys("pool"),
            "prefix_sharing": PublishedSchema.definition("fleet", "PrefixSharing"),
            "cohorts": _listed(PublishedSchema.definition("fleet", "Cohort")),
        },
        {"differences": PublishedSchema.definition("fleet", "Difference")},
    ),
    FleetTool(
        tools.get_setting,
        {
            "path": {"type": "string", "description": "Such as cache_config.block_size, or block_size."},
            **OF_POOL,
        },
        {
            **HEAD,
            **_text_keys("path"),
            "description": PublishedSchema("fleet", OPTIONAL),
            "declared": PublishedSchema("fleet", OBJECTS),
        },
        {
            "values": PublishedSchema.some_of(
                "fleet",
                "Setting",
                ("value", "state"),
                pool=OPTIONAL,
                replicas=WORDS,
                cohorts=WORDS,
                origins={"type": "object"},
            )
        },
        ("path",),
    ),
    FleetTool(
        tools.capacity,
        OF_POOL,
        {**HEAD, "total": PublishedSchema.definition("changes", "CapacitySum")},
        {
            "pools": PublishedSchema.definition("changes", "CapacitySum", pool=TEXT),
            "engines": PublishedSchema.some_of("fleet", "Engine", ("replica", *ENGINE)),
        },
    ),
    FleetTool(
        tools.traffic,
        OF_POOL,
        HEAD,
        {
            "cohorts": PublishedSchema(
                "fleet", object_schema({"pool": TEXT, "cohort": TEXT, "replica_count": NUMBER, **USED})
            ),
            "replicas": PublishedSchema.some_of("fleet", "Replica", ("replica", "name", "traffic")),
        },
    ),
    FleetTool(
        tools.changes,
        {"since": {**TIME, "default": "24h"}, "until": TIME, **OF_POOL},
        {key: PublishedSchema.key("events", key) for key in ("fleet", "since", "until")},
        {"events": PublishedSchema.definition("events", "Event")},
    ),
    FleetTool(
        tools.explain_rule,
        {"rule": {"type": "string", "description": "Id or name, such as RT-01."}},
        {},
        {"rules": PublishedSchema("findings", object_schema({"rule": TEXT, "name": TEXT, "page": TEXT}))},
    ),
)
