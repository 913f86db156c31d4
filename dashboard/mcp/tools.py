"""The tools: each takes a part of a published document, or a page of its rows. None decides anything."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from dashboard.analysis.assembly import Fleet, only_replicas
from dashboard.analysis.changes.events import ChangeFilter, EventPeriod, filter_events
from dashboard.analysis.plan import plan_of
from dashboard.documents import pick
from dashboard.documents.changes import event_object, sum_object
from dashboard.documents.findings import finding_object, head_of, pool_object, traffic_object
from dashboard.documents.fleet import comparison_object, engine_object
from dashboard.documents.plan import cause_object
from dashboard.fleet import Cohort, Pool, Replica
from dashboard.fleet.formatting import end_cut, shortlist
from dashboard.fleet.times import parse_since
from dashboard.mcp.results import ResultPage, ToolError
from dashboard.render.rule_markdown import headline, rule_page
from dashboard.render.tabular import setting_object
from dashboard.rules.catalogue import ALL_RULES, BY_ID, likely_rule_id, unknown_rule
from dashboard.rules.findings import Finding, Severity
from dashboard.views.plan import plan_text
from dashboard.views.setting import pool_values, similar_settings
from dashboard.views.summary import fleet_lead, fleet_title, incomplete_replicas
from dashboard.vllm.field_reference import known_paths

CHOSEN = "chosen replicas"
SHORT = ("id", "rule", "name", "severity", "pools", "sentence", "fingerprint", "first_seen")
Asked = Mapping[str, Any]


class Fleets(NamedTuple):
    """Where tools read: the current fleet, what happened to it between two times, and the time.

    Errors are a DashboardError.
    """

    current: Callable[[], Fleet]
    happened: Callable[[datetime, datetime], EventPeriod]
    now: Callable[[], datetime]


def fleet_status(fleets: Fleets, _asked: Asked) -> ResultPage:
    """Start here: coverage, counts of findings, replicas that are down or partial, and the pools.

    Of each pool its replicas, whether they share prefixes, what they share (router, KV store), and its rollout.
    """
    fleet = _fleet(fleets)
    head = {
        **_pick(head_of(fleet, fleets.now()), "fleet", "data_as_of", "coverage", "tally"),
        "headline": fleet_title(fleet),
        "lead": fleet_lead(fleet),
        "not_up": [
            {**pick(each, ("name", "pool", "state")), "replica": each.id, "reason": each.failure}
            for each in incomplete_replicas(fleet)
        ],
        "notes": [*fleet.inspection.notes, *fleet.unrecorded],
        "discovery_errors": fleet.discovery_errors,
    }
    return ResultPage("pools", fleet.pools, lambda pool: pool_object(fleet, pool), head)


def list_findings(fleets: Fleets, asked: Asked) -> ResultPage:
    """List the findings in short, the worst first. get_finding has evidence and remedy, fix_plan what to change."""
    fleet = _fleet(fleets)
    pool, rule, least = asked.get("pool"), asked.get("rule"), Severity(asked.get("severity", Severity.INFO))
    if pool is not None:
        _pool(fleet, pool)
    known = fleet.inspection.suppressed if asked.get("suppressed") else fleet.inspection.findings
    found = [
        each
        for each in known
        if (pool is None or pool in each.pools)
        and (rule is None or each.rule == likely_rule_id(rule))
        and each.severity.rank <= least.rank
    ]

    def short(finding: Finding) -> dict[str, Any]:
        return {**_pick(finding_object(fleet, finding), *SHORT), "replica_count": len(finding.replicas)}

    return ResultPage("findings", found, short, _head(fleet))


def get_finding(fleets: Fleets, asked: Asked) -> ResultPage:
    """Return one finding: who has it, evidence, why it matters, remedy with flags, since when, measured effect."""
    fleet, key = _fleet(fleets), asked["id"]
    every = (*fleet.inspection.findings, *fleet.inspection.suppressed)
    found = [each for each in every if key in {each.id, each.fingerprint}]
    if not found:
        if key in BY_ID:
            raise ToolError(f"{key} is a rule, not a finding. list_findings with rule {key} has the ids.")
        raise ToolError(f"There is no finding {_quoted(key)}: it was fixed, or changed. list_findings has the ids.")
    return ResultPage("findings", found, lambda finding: finding_object(fleet, finding), _head(fleet))


def fix_plan(fleets: Fleets, asked: Asked) -> ResultPage:
    """Return the fix plan: settings to change, flags, which replicas to restart.

    The first cause comes first. Of each change the findings that it is predicted to end or to begin. This server
    changes nothing.
    """
    fleet = _fleet(fleets)
    plan = plan_of(fleet)
    if (pool := asked.get("pool")) is not None:
        plan = plan.of_pool(_pool(fleet, pool).name, fleet.replicas)
    names = sorted(fleet.names[each] for each in plan.own(plan.restarts))
    head = {**_head(fleet), "headline": plan_text(plan), "restarts": names}
    return ResultPage("causes", plan.causes, lambda cause: cause_object(fleet, cause), head)


def compare(fleets: Fleets, asked: Asked) -> ResultPage:
    """Compare the replicas of a pool, or two or more replicas of any pools.

    Cohorts of equal settings, whether they share prefixes and why not, and each setting that differs with its values.
    """
    fleet = _fleet(fleets)
    pool, replicas = asked.get("pool"), asked.get("replicas")
    if (pool is None) == (replicas is None):
        raise ToolError("compare: pass pool, or replicas.")
    if replicas is not None:
        fleet = only_replicas(fleet, [_replica(fleet, each).id for each in replicas], CHOSEN)
        own = fleet.pools[0]
    else:
        own = _pool(fleet, str(pool))
    whole = comparison_object(fleet, own)
    head = {**_head(fleet), "pool": own.name, **_pick(whole, "prefix_sharing", "cohorts")}
    return ResultPage("differences", whole["differences"], dict, head)


def get_setting(fleets: Fleets, asked: Asked) -> ResultPage:
    """Return the values of one setting on all replicas, where they are from, and its default by vLLM version."""
    fleet, path, pool = _fleet(fleets), asked["path"], asked.get("pool")
    if (similar := similar_settings(fleet, path)) is not None:
        similar = [each for each in similar if each in known_paths()]
        if [each.rpartition(".")[2] for each in similar] != [path]:
            which = f"; similar: {shortlist(similar, len(similar))}" if similar else ""
            raise ToolError(f"There is no setting {_quoted(path)}{which}.")
        path = similar[0]
    name = None if pool is None else _pool(fleet, pool).name
    values = [each for each in pool_values(fleet, path) if name in {None, each.pool}]
    whole = setting_object(path, values)
    return ResultPage("values", whole.pop("values"), dict, {**_head(fleet), **whole})


def capacity(fleets: Fleets, asked: Asked) -> ResultPage:
    """Return the KV cache in tokens and bytes, of each pool; with `pool` of each DP rank of it.

    Basis `assumed` is an upper bound.
    """
    fleet = _fleet(fleets)
    if (pool := asked.get("pool")) is None:
        head = {**_head(fleet), "total": sum_object(fleet.total)}
        return ResultPage(
            "pools", fleet.pools, lambda own: {"pool": own.name, **sum_object(fleet.capacity[own.name])}, head
        )
    own = _pool(fleet, pool)
    ranks = [(each, rank) for each in _members(fleet, own) for rank in each.engines]
    head = {**_head(fleet), "total": sum_object(fleet.capacity[own.name])}
    return ResultPage("engines", ranks, lambda row: {"replica": row[0].id, **engine_object(row[1])}, head)


def traffic(fleets: Fleets, asked: Asked) -> ResultPage:
    """Return what engines did in the last window: requests, prefix hit rate, time to first token.

    Of each cohort of each pool; with `pool` of each replica of it. null: not read twice, or traffic is off.
    """
    fleet = _fleet(fleets)
    if (pool := asked.get("pool")) is not None:
        members = _members(fleet, _pool(fleet, pool))

        def of_replica(replica: Replica) -> dict[str, Any]:
            used = traffic_object(fleet.traffic_of([replica.id]))
            return {"replica": replica.id, "name": replica.name, "traffic": used}

        return ResultPage("replicas", members, of_replica, _head(fleet))
    cohorts = [(each, cohort) for each in fleet.pools for cohort in each.cohorts]

    def of_cohort(row: tuple[Pool, Cohort]) -> dict[str, Any]:
        used = traffic_object(fleet.traffic_of(row[1].replicas))
        return {"pool": row[0].name, "cohort": row[1].letter, "replica_count": len(row[1].replicas), "traffic": used}

    return ResultPage("cohorts", cohorts, of_cohort, _head(fleet))


def changes(fleets: Fleets, asked: Asked) -> ResultPage:
    """Return what happened since a time, from the history.

    Replicas added, removed or restarted; settings; KV cache; findings that began or ended.
    """
    fleet, now = _fleet(fleets), fleets.now()
    since, until = (_time(name, asked.get(name, usual), now) for name, usual in (("since", "24h"), ("until", None)))
    if since > until:
        raise ToolError("until: earlier than since.")
    pool = asked.get("pool", "")
    happened = fleets.happened(since, until)
    events = filter_events(happened.events, ChangeFilter(pool), ()) if pool else happened.events
    return ResultPage("events", events, event_object, {"fleet": fleet.name, **pick(happened, ("since", "until"))})


def explain_rule(_fleets: Fleets, asked: Asked) -> ResultPage:
    """Return the page of a rule: why it matters, how to fix, exceptions, evidence. Without `rule` the list of rules."""
    text = asked.get("rule")
    if text is None:
        return ResultPage("rules", ALL_RULES, lambda rule: {"rule": rule.id, "name": rule.name, "page": headline(rule)})
    by_name = {each.name: each for each in ALL_RULES}
    found = BY_ID.get(likely_rule_id(text)) or by_name.get(text.lower())
    if found is None:
        raise ToolError(f"{_quoted(text)}: {unknown_rule(text)}.")
    return ResultPage("rules", [found], lambda rule: {"rule": rule.id, "name": rule.name, "page": rule_page(rule)})


def _fleet(fleets: Fleets) -> Fleet:
    fleet = fleets.current()
    if fleet.polled_at is None:
        raise ToolError("No poll is complete yet; call again in a few seconds.")
    return fleet


def _head(fleet: Fleet) -> dict[str, Any]:
    return {"fleet": fleet.name, "data_as_of": fleet.polled_at}


def _pick(written: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: written[key] for key in keys}


def _pool(fleet: Fleet, name: str) -> Pool:
    found = next((each for each in fleet.pools if each.name == name), None)
    if found is None:  # without the names that there are: they are foreign
        raise ToolError(f"There is no pool {_quoted(name)}; fleet_status lists the pools.")
    return found


def _members(fleet: Fleet, pool: Pool) -> list[Replica]:
    return [fleet.by_id[each] for each in pool.replicas]


def _replica(fleet: Fleet, name: str) -> Replica:
    """Return a replica by its id or its name."""
    found = [each for each in fleet.replicas if each.id == name] or [
        each for each in fleet.replicas if each.name == name
    ]
    if len(found) != 1:
        why = f"Several replicas have the name {_quoted(name)}" if found else f"There is no replica {_quoted(name)}"
        raise ToolError(f"{why}; pass the id, such as http://10.0.0.1:8000.")
    return found[0]


def _time(name: str, text: str | None, now: datetime) -> datetime:
    try:
        return now if text is None else parse_since(text, now)
    except ValueError as error:
        raise ToolError(f"{name}: {error}.") from None


def _quoted(text: str) -> str:
    """Return what an agent passed, which may be foreign."""
    return repr(end_cut(text, 80))
