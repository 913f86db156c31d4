"""The list of the tools, with the schemas of their arguments and results."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dashboard.documents.fleet import ENGINE
from dashboard.mcp import tools
from dashboard.mcp.results import ResultPage
from dashboard.mcp.schemas import NUMBER, OBJECT, OPTIONAL_TEXT, SIMPLE, TEXT, defined, keys_of, result_schema
from dashboard.mcp.tools import SHORT, Asked, Fleets
from dashboard.rules.findings import Severity


class FleetTool(NamedTuple):
    """A tool. The docstring of `run` describes it to agents. The schemas are of arguments, `head` and rows by key."""

    run: Callable[[Fleets, Asked], ResultPage]
    arguments: Mapping[str, Any]
    head: Mapping[str, Any]
    rows: Mapping[str, Any]
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
TIME = {"type": "string", "description": "A time such as 2026-11-22T14:00Z, or a period before now such as 24h or 7d."}
OF_POOL = {"pool": {"type": "string", "description": "Name of a pool, as in fleet_status."}}
REPLICAS = {"minItems": 2, "maxItems": 20, "description": "Ids or names, instead of pool."}
SEVERITY = {"enum": [str(each) for each in Severity], "description": "The lowest severity."}
HEAD = keys_of("findings", "fleet", "data_as_of")
REPLICA, CAPACITY = defined("fleet", "Replica"), defined("changes", "CapacitySum")
TOOLS = (
    FleetTool(
        tools.fleet_status,
        {},
        {
            **keys_of("findings", "fleet", "data_as_of", "coverage", "tally", "notes"),
            **dict.fromkeys(("headline", "lead"), TEXT),
            "not_up": [keys_of(REPLICA, "replica", "name", "pool", "state", "reason")],
            "discovery_errors": "fleet/properties/discovery_errors",
        },
        {"pools": defined("findings", "Pool")},
    ),
    FleetTool(
        tools.list_findings,
        {
            **OF_POOL,
            "severity": SEVERITY,
            "rule": {"type": "string", "description": "Only of this rule, such as RT-01."},
            "suppressed": {"type": "boolean", "description": "The suppressed ones instead of the active ones."},
        },
        HEAD,
        {"findings": {**keys_of(defined("findings", "Finding"), *SHORT), "replica_count": NUMBER}},
    ),
    FleetTool(
        tools.get_finding,
        {"id": {"type": "string", "description": "The id or the fingerprint of a finding."}},
        HEAD,
        {"findings": defined("findings", "Finding")},
        ("id",),
    ),
    FleetTool(
        tools.fix_plan,
        OF_POOL,
        {**HEAD, "headline": TEXT, "restarts": [TEXT]},
        {"causes": "plan/properties/causes/items"},
    ),
    FleetTool(
        tools.compare,
        {**OF_POOL, "replicas": {"type": "array", "items": SIMPLE[TEXT], **REPLICAS}},
        {
            **HEAD,
            "pool": TEXT,
            "prefix_sharing": defined("fleet", "PrefixSharing"),
            "cohorts": [defined("fleet", "Cohort")],
        },
        {"differences": defined("fleet", "Difference")},
    ),
    FleetTool(
        tools.get_setting,
        {"path": {"type": "string", "description": "Such as cache_config.block_size, or block_size."}, **OF_POOL},
        {**HEAD, "path": TEXT, "description": OPTIONAL_TEXT, "declared": [OBJECT]},
        {
            "values": {
                **keys_of(defined("fleet", "Setting"), "value", "state"),
                "pool": OPTIONAL_TEXT,
                "replicas": [TEXT],
                "cohorts": [TEXT],
                "origins": OBJECT,
            }
        },
        ("path",),
    ),
    FleetTool(
        tools.capacity,
        OF_POOL,
        {**HEAD, "total": CAPACITY},
        {
            "pools": {"pool": TEXT, **keys_of(CAPACITY)},
            "engines": keys_of(defined("fleet", "Engine"), "replica", *ENGINE),
        },
    ),
    FleetTool(
        tools.traffic,
        OF_POOL,
        HEAD,
        {
            "cohorts": {
                "pool": TEXT,
                "replica_count": NUMBER,
                **keys_of(defined("fleet", "Cohort"), "cohort", "traffic"),
            },
            "replicas": keys_of(REPLICA, "replica", "name", "traffic"),
        },
    ),
    FleetTool(
        tools.changes,
        {"since": {**TIME, "default": "24h"}, "until": TIME, **OF_POOL},
        keys_of("events", "fleet", "since", "until"),
        {"events": defined("events", "Event")},
    ),
    FleetTool(
        tools.explain_rule,
        {"rule": {"type": "string", "description": "Id or name, such as RT-01."}},
        {},
        {"rules": dict.fromkeys(("rule", "name", "page"), TEXT)},
    ),
)
