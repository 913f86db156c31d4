"""The JSON document of findings: what /api/v1/findings answers and `check --format json` prints.

The fleet document has the same objects.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from dashboard import __version__
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.effect import ASSUMPTION, Effect, effects_on, is_of_prefixes
from dashboard.documents import as_float, native, pick, write_json
from dashboard.fleet import PastTime, Pool
from dashboard.fleet.formatting import missing_rate
from dashboard.fleet.grouping import grouped
from dashboard.fleet.history import Rollout, Sighting
from dashboard.fleet.traffic import COUNTERS, GAUGES, Traffic
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.domain import Domain
from dashboard.rules.findings import Evidence, Finding, Outcome, OutcomeKind, Suppression

SCHEMA_VERSION = 1


def findings_json(fleet: Fleet, generated_at: datetime, *, left_out: str = "", indent: int | None = None) -> bytes:
    """Return the document of the findings of a fleet; `left_out` says which are not in it."""
    document = {
        "schema_version": SCHEMA_VERSION,
        **head_of(fleet, generated_at),
        "past": past_object(fleet.past),
        "left_out": left_out or None,
        "pools": [pool_object(fleet, pool) for pool in fleet.pools],
        **findings_of(fleet),
        "outcomes": list(_outcomes(fleet.inspection.outcomes)),
        "notes": [*fleet.inspection.notes, *fleet.unrecorded],
    }
    return write_json(document, indent)


def head_of(fleet: Fleet, generated_at: datetime) -> dict[str, Any]:
    """Return the keys with which the documents of a fleet begin."""
    return {
        "program_version": __version__,
        "generated_at": generated_at,
        "data_as_of": fleet.polled_at,
        "fleet": fleet.name,
        "coverage": fleet.coverage._asdict(),
        "tally": fleet.inspection.tally._asdict(),
    }


def past_object(past: PastTime | None) -> dict[str, Any] | None:
    """Return a time in the history; None where the fleet is not of the history."""
    return past and {"at": past.at, "gap": past.gap and past.gap._asdict()}


def pool_object(fleet: Fleet, pool: Pool) -> dict[str, Any]:
    """Return what the rules found in a pool, and whether its replicas share prefixes."""
    inspection, transfer = fleet.inspection, fleet.transfers.get(pool.name)
    return {
        "pool": pool.name,
        "cluster": pool.cluster,
        "replicas": len(pool.replicas),
        "tally": inspection.tallies[pool.name]._asdict(),
        "domain": _domain_object(inspection.domains[pool.name]),
        "rollout": _rollout_object(inspection.rollouts.get(pool.name)),
        "shares_prefixes": fleet.sharing[pool.name].share,
        "kv_transfer": transfer and transfer.share,
    }


def _domain_object(domain: Domain) -> dict[str, Any]:
    parts = {
        name: {"value": getattr(domain, name), "basis": getattr(domain, f"{name}_basis")}
        for name in ("router", "kv_store", "disaggregated")
    }
    return {**parts, "expects": domain.expects}


def _rollout_object(rollout: Rollout | None) -> dict[str, Any] | None:
    if rollout is None:
        return None
    versions, times = pick(rollout, ("old", "new")), pick(rollout, ("total", "began", "last"))
    return {**versions, "moved": len(rollout.replicas), **times}


def findings_of(fleet: Fleet) -> dict[str, Any]:
    return {
        kind: [finding_object(fleet, finding) for finding in findings]
        for kind, findings in (("findings", fleet.inspection.findings), ("suppressed", fleet.inspection.suppressed))
    }


def finding_object(fleet: Fleet, finding: Finding) -> dict[str, Any]:
    """Return a finding with its evidence, its remedy, since when it is there, and its measured effect."""
    rule, remedy = BY_ID[finding.rule], finding.remedy
    return {
        "id": finding.id,
        "rule": finding.rule,
        "name": rule.name,
        "family": rule.family,
        **pick(finding, ("severity", "confidence", "fingerprint", "subject", "pools")),
        "replicas": names_of(fleet, finding.replicas),
        "cohorts": [
            {"pool": share.pool or None, "cohort": share.letter or None, "count": share.number}
            for share in finding.cohorts
        ],
        "sentence": finding.sentence,
        "why": finding.why,
        "remedy": {
            "sentence": remedy.sentence,
            "snippets": [snippet._asdict() for snippet in remedy.snippets],
            "any_of": remedy.any_of,
        },
        "evidence": [_evidence_object(evidence) for evidence in finding.evidence],
        **pick(finding, ("unknown", "total", "is_rollout")),
        "suppression": suppression_object(finding.suppression, "number"),
        "expired": suppression_object(finding.expired, "number"),
        "assumptions": finding.assumptions,
        "severity_behind": dict(finding.severity_behind),
        "seen_at": finding.seen_at,
        **sighted(fleet.sightings.findings.get(finding.fingerprint)),
        "effect": effect_objects(effects_on(fleet, finding.replicas, finding.pools), [finding]),
    }


def names_of(fleet: Fleet, replicas: Iterable[str]) -> list[dict[str, str]]:
    """Return replicas by id and name."""
    return [{"replica": each, "name": fleet.names[each]} for each in replicas]


def traffic_object(traffic: Traffic) -> dict[str, Any] | None:
    """Return what engines did in a window; null where they were not read twice."""
    if not traffic.seconds:
        return None
    numbers = {
        "window_seconds": traffic.seconds,
        **pick(traffic, (*COUNTERS, *GAUGES)),
        "prefix_hit_rate": traffic.hit_rate,
        "external_hit_rate": traffic.external_hit_rate,
        "time_to_first_token_seconds": traffic.first_token,
    }
    missing = missing_rate(traffic) or None
    return {name: as_float(each) for name, each in numbers.items()} | {"missing": missing, "refused": traffic.refused}


def effect_objects(effects: Iterable[Effect], findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return what was measured where findings are, by pool: with the estimate, or why there is none."""
    missing = "" if is_of_prefixes(findings) else "Estimated for findings on prefix sharing and low hit rates only."
    return [_effect_object(each, missing or each.missing) for each in effects]


def _effect_object(effect: Effect, missing: str) -> dict[str, Any]:
    tokens, seconds = (None, None) if missing else (effect.avoidable_tokens, effect.avoidable_seconds)
    return {
        "pool": effect.pool,
        "affected": traffic_object(effect.affected),
        "rest": traffic_object(effect.rest),
        "prompt_share": effect.prompt_share,
        "avoidable_tokens_per_minute": tokens,
        "avoidable_prefill_seconds_per_request": seconds,
        "assumption": ASSUMPTION if tokens is not None else None,
        "missing": missing or None,
    }


def _evidence_object(evidence: Evidence) -> dict[str, Any]:
    """Return one value and who reports it. Most replicas report the reference: they are only counted."""
    return {
        "path": evidence.path,
        "value": native(evidence.value),
        "state": evidence.state,
        "count": len(evidence.replicas),
        "replicas": None if evidence.is_reference else evidence.replicas,
        "holder": evidence.holder or None,
        "is_reference": evidence.is_reference,
        "comment": evidence.comment or None,
    }


def suppression_object(suppression: Suppression | None, *names: str) -> dict[str, Any] | None:
    return None if suppression is None else pick(suppression, ("owner", "reason", "until", *names))


def sighted(sighting: Sighting | None) -> dict[str, datetime | None]:
    """Return since when something is seen; null where it is not recorded."""
    return dict.fromkeys(Sighting._fields) if sighting is None else sighting._asdict()


def _outcomes(outcomes: Iterable[Outcome]) -> Iterable[dict[str, Any]]:
    """Yield the outcome of each rule once for all subjects where it is the same, for the same reason."""
    alike = grouped(((outcome.rule, outcome.kind, outcome.reason), outcome) for outcome in outcomes)
    kinds = list(OutcomeKind)
    for rule, kind, reason in sorted(alike, key=lambda key: (key[0], kinds.index(key[1]), key[2])):
        same = alike[rule, kind, reason]
        yield {
            "rule": rule,
            "kind": kind,
            "reason": reason or None,
            "subjects": [outcome.subject for outcome in same],
            "unknown": {outcome.subject: outcome.unknown for outcome in same if outcome.unknown},
        }
