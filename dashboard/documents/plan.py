"""The JSON document of the fix plan: what /api/v1/plan answers and `plan --format json` prints."""

import shlex
from datetime import datetime
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Cause, Fix, Plan
from dashboard.analysis.effect import effects_of_cause
from dashboard.analysis.patch import ChangeGroup, kubectl_texts, llm_d_values, production_stack_values
from dashboard.analysis.plan import plan_of
from dashboard.documents import value_object, write_json
from dashboard.documents.findings import effect_objects, head_of, names_of, past_object

SCHEMA_VERSION = 1


def plan_json(fleet: Fleet, generated_at: datetime, *, plan: Plan | None = None, indent: int | None = None) -> bytes:
    """Return the document of the plan of a fleet, or of a part of it; findings are named by their ids."""
    document = {
        "schema_version": SCHEMA_VERSION,
        **head_of(fleet, generated_at),
        "past": past_object(fleet.past),
        "causes": [cause_object(fleet, each) for each in (plan or plan_of(fleet)).causes],
    }
    return write_json(document, indent)


def cause_object(fleet: Fleet, cause: Cause) -> dict[str, Any]:
    """Return a cause: the findings that it explains, and what each of its fixes changes and is predicted to do."""
    return {
        "key": cause.key,
        "severity": cause.severity,
        "pools": fleet.pools_of(cause.replicas),
        "replicas": names_of(fleet, cause.replicas),
        "findings": [each.id for each in cause.findings],
        "remedies": list(dict.fromkeys(each.remedy.sentence for each in cause.findings)),
        "effect": effect_objects(effects_of_cause(fleet, cause), cause.findings),
        "fixes": [_fix_object(fleet, each) for each in cause.fixes],
    }


def _fix_object(fleet: Fleet, fix: Fix) -> dict[str, Any]:
    gained = fix.gained_in("")
    return {
        "changes": [_group_object(fleet, each) for each in fix.groups],
        "fixed": [each.id for each in fix.fixed],
        "new": [{"rule": each.rule, "severity": each.severity, "sentence": each.sentence} for each in fix.new],
        "known_after_restart": [each.id for each in fix.open],
        "kv_tokens": {"least": gained.least, "most": gained.most, "unknown_ranks": gained.unknown_ranks},
        "fewer_not_sharing": gained.sharing,
    }


def _group_object(fleet: Fleet, group: ChangeGroup) -> dict[str, Any]:
    patch, members = group.patch, [fleet.by_id[each] for each in group.replicas]
    return {
        "replicas": names_of(fleet, group.replicas),
        "settings": [
            {"path": each.path, "before": value_object(each.before), "after": value_object(each.after)}
            for each in group.changes
        ],
        "flags": list(map(shlex.join, patch.flags)),
        "flags_to_remove": patch.removed,
        "environment": [{"name": each.name, "value": each.value} for each in patch.variables],
        "image": patch.image,
        "kubectl": "\n\n".join(kubectl_texts(patch, members)),
        "helm": {"production_stack": production_stack_values(patch), "llm_d": llm_d_values(patch, members)},
    }
