"""The tools: each takes a part of a published document, or a page of its rows. None decides anything."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from dashboard.analysis.assembly import Fleet, only_replicas
from dashboard.analysis.causes import Cause
from dashboard.analysis.changes.events import ChangeFilter, EventPeriod, events_of_cluster, filter_events
from dashboard.analysis.clusters import clusters_of, only_cluster
from dashboard.analysis.plan import plan_of
from dashboard.documents import pick
from dashboard.documents.changes import event_object, sum_object
from dashboard.documents.findings import finding_object, pool_object, traffic_object
from dashboard.documents.fleet import comparison_object, engine_object
from dashboard.documents.plan import cause_object
from dashboard.fleet import Pool, Replica
from dashboard.fleet.formatting import end_cut, iso, shortlist
from dashboard.fleet.pieces import to_plain
from dashboard.fleet.times import DAY, parse_since
from dashboard.mcp.results import ResultPage, ToolError
from dashboard.render.rule_markdown import headline, rule_page
from dashboard.render.tabular import setting_object
from dashboard.rules.catalogue import ALL_RULES, find_rule, unknown_rule
from dashboard.rules.findings import Finding, Severity
from dashboard.rules.registry import Rule
from dashboard.views.blocks import Paragraph
from dashboard.views.cause import cause_section
from dashboard.views.plan import plan_text
from dashboard.views.setting import pool_values, similar_settings
from dashboard.views.summary import fleet_lead, fleet_title, incomplete_replicas
from dashboard.vllm.field_reference import known_paths

CHOSEN = "chosen replicas"
SHORT = ("id", "rule", "name", "severity", "pools", "sentence", "fingerprint", "first_seen")
PoolName = Annotated[str, Field(description="Name of a pool, as in fleet_status.")]
ClusterName = Annotated[str, Field(description="Name of a cluster, before the / of its pools: only this one.")]
RuleName = Annotated[str, Field(description="Id or name of a rule, such as RT-01.")]
Time = Annotated[str, Field(description="A time such as 2026-11-22T14:00Z, or a period before now such as 24h or 7d.")]


class Fleets(NamedTuple):
    """Where tools read: the current fleet, what happened to it between two times, and the time.

    Without the first time it is what happened in the last 24 hours, or since the first poll.
    Errors are a DashboardError.
    """

    current: Callable[[], Fleet]
    happened: Callable[[datetime | None, datetime], EventPeriod]
    now: Callable[[], datetime]


def fleet_status(fleets: Fleets, cluster: ClusterName | None = None) -> ResultPage:
    """Start here: coverage, counts of findings, replicas that are down or partial, and the pools.

    Of each pool its replicas, whether they share prefixes, what they share (router, KV store), and its rollout.
    """
    fleet = _fleet(fleets, cluster)
    head = {
        **_head(fleet),
        "coverage": fleet.coverage._asdict(),
        "tally": fleet.inspection.tally._asdict(),
        "headline": fleet_title(fleet),
        "lead": fleet_lead(fleet),
        "not_up": [
            {**pick(each, ("name", "pool", "state")), "replica": each.id, "reason": each.failure}
            for each in incomplete_replicas(fleet)
        ],
        "notes": [*fleet.inspection.notes, *fleet.unrecorded],
        "discovery_errors": fleet.discovery_errors,
    }
    return ResultPage("pools", fleet.pools, head, lambda pool: pool_object(fleet, pool))


def list_findings(
    fleets: Fleets,
    pool: PoolName | None = None,
    cluster: ClusterName | None = None,
    severity: Annotated[Severity, Field(description="The lowest severity.")] = Severity.INFO,
    rule: RuleName | None = None,
    suppressed: Annotated[bool, Field(description="The suppressed ones instead of the active ones.")] = False,  # noqa: FBT002
) -> ResultPage:
    """List the findings in short, the worst first. get_finding has evidence and remedy, fix_plan what to change."""
    fleet = _fleet(fleets, cluster)
    if pool is not None:
        _pool(fleet, pool)
    only = None if rule is None else _rule(rule).id
    known = fleet.inspection.suppressed if suppressed else fleet.inspection.findings
    found = [
        each
        for each in known
        if (pool is None or pool in each.pools) and only in {None, each.rule} and each.severity.rank <= severity.rank
    ]

    def short(finding: Finding) -> dict[str, Any]:
        whole = finding_object(fleet, finding)
        return {**{key: whole[key] for key in SHORT}, "replica_count": len(finding.replicas)}

    return ResultPage("findings", found, _head(fleet), short)


def get_finding(
    fleets: Fleets,
    id: Annotated[str, Field(description="The id or the fingerprint of a finding.")],  # noqa: A002
) -> ResultPage:
    """Return one finding: who has it, evidence, why it matters, remedy with flags, since when, measured effect."""
    fleet = _fleet(fleets)
    every = (*fleet.inspection.findings, *fleet.inspection.suppressed)
    found = [each for each in every if id in {each.id, each.fingerprint}]
    if not found:
        if rule := find_rule(id):
            raise ToolError(f"{rule.id} is a rule, not a finding. list_findings with rule {rule.id} has the ids.")
        raise ToolError(f"There is no finding {_quoted(id)}: it was fixed, or changed. list_findings has the ids.")
    return ResultPage("findings", found, _head(fleet), lambda finding: finding_object(fleet, finding))


def fix_plan(fleets: Fleets, pool: PoolName | None = None, cluster: ClusterName | None = None) -> ResultPage:
    """Return the fix plan: settings to change, flags, which replicas to restart.

    The first cause comes first. Of each change the findings that it is predicted to end or to begin. This server
    changes nothing.
    """
    fleet = _fleet(fleets, cluster)
    plan = plan_of(fleet)
    if pool is not None:
        plan = plan.of_pool(_pool(fleet, pool).name, fleet.replicas)

    def numbered(row: tuple[int, Cause]) -> dict[str, Any]:
        shown = cause_section(fleet, plan, row[1], row[0], is_short=True)
        sentences = [to_plain(each.line) for each in shown.blocks if isinstance(each, Paragraph)]
        return {"title": shown.title, "sentences": sentences, **cause_object(fleet, row[1])}

    restarts = sorted(_names(fleet, plan.own(plan.restarts)))
    head = {**_head(fleet), "headline": plan_text(plan), "restarts": restarts}
    return ResultPage("causes", [*enumerate(plan.causes, 1)], head, numbered)


def compare(
    fleets: Fleets,
    pool: PoolName | None = None,
    replicas: Annotated[list[str], Field(min_length=2, max_length=20, description="Ids or names, instead of pool.")]
    | None = None,
) -> ResultPage:
    """Compare the replicas of a pool, or two or more replicas of any pools.

    Cohorts of equal settings, whether they share prefixes and why not, and each setting that differs with its values.
    """
    fleet = _fleet(fleets)
    if (pool is None) == (replicas is None):
        raise ToolError("compare: pass pool, or replicas.")
    if replicas is not None:
        fleet = only_replicas(fleet, [_replica(fleet, each).id for each in replicas], CHOSEN)
        own = fleet.pools[0]
    else:
        own = _pool(fleet, str(pool))
    whole = comparison_object(fleet, own)
    cohorts = [{**each, "replicas": _names(fleet, each["replicas"])} for each in whole["cohorts"]]
    head = {**_head(fleet), "pool": own.name, "prefix_sharing": whole["prefix_sharing"], "cohorts": cohorts}
    return ResultPage("differences", whole["differences"], head)


def get_setting(
    fleets: Fleets,
    path: Annotated[str, Field(description="Such as cache_config.block_size, or block_size.")],
    pool: PoolName | None = None,
    cluster: ClusterName | None = None,
) -> ResultPage:
    """Return the values of one setting on all replicas, where they are from, and its default by vLLM version."""
    fleet = _fleet(fleets, cluster)
    if (similar := similar_settings(fleet, path)) is not None:
        similar = [each for each in similar if each in known_paths()]
        if [each.rpartition(".")[2] for each in similar] != [path]:
            which = f"; similar: {shortlist(similar, len(similar))}" if similar else ""
            raise ToolError(f"There is no setting {_quoted(path)}{which}.")
        path = similar[0]
    name = None if pool is None else _pool(fleet, pool).name
    values = [each for each in pool_values(fleet, path) if name in {None, each.pool}]
    whole = setting_object(path, values)
    rows = [{**each, "replicas": _names(fleet, each["replicas"])} for each in whole.pop("values")]
    return ResultPage("values", rows, {**_head(fleet), **whole})


def capacity(fleets: Fleets, pool: PoolName | None = None, cluster: ClusterName | None = None) -> ResultPage:
    """Return the KV cache in tokens and bytes, of each pool; with `pool` of each DP rank of it.

    Basis `assumed` is an upper bound.
    """
    fleet = _fleet(fleets, cluster)
    if pool is None:
        sums = [{"pool": each.name, **sum_object(fleet.capacity[each.name])} for each in fleet.pools]
        return ResultPage("pools", sums, {**_head(fleet), "total": sum_object(fleet.total)})
    ranks = [
        {"replica": each.id, "name": each.name, **engine_object(rank)}
        for each in _members(fleet, pool)
        for rank in each.engines
    ]
    return ResultPage("engines", ranks, {**_head(fleet), "total": sum_object(fleet.capacity[pool])})


def traffic(fleets: Fleets, pool: PoolName | None = None, cluster: ClusterName | None = None) -> ResultPage:
    """Return what engines did in the last window: requests, prefix hit rate, time to first token.

    Of each cohort of each pool; with `pool` of each replica of it. null: not read twice, or traffic is off.
    """
    fleet = _fleet(fleets, cluster)
    if pool is None:
        cohorts = [(each.name, cohort.letter, cohort.replicas) for each in fleet.pools for cohort in each.cohorts]
        rows = [({"pool": name, "cohort": letter, "replica_count": len(ids)}, ids) for name, letter, ids in cohorts]
    else:
        rows = [({"replica": each.id, "name": each.name}, (each.id,)) for each in _members(fleet, pool)]
    key = "cohorts" if pool is None else "replicas"
    return ResultPage(
        key, rows, _head(fleet), lambda row: {**row[0], "traffic": traffic_object(fleet.traffic_of(row[1]))}
    )


def changes(
    fleets: Fleets,
    since: Time | None = None,
    until: Time | None = None,
    pool: PoolName | None = None,
    cluster: ClusterName | None = None,
) -> ResultPage:
    """Return what happened since a time, from the history; without `since` in the last 24 hours.

    Replicas added, removed or restarted; settings; KV cache; findings that began or ended.
    """
    fleet, now = _fleet(fleets), fleets.now()
    begin, end = (_time(name, text, now) if text else None for name, text in (("since", since), ("until", until)))
    end = end or now
    if begin and begin > end:
        raise ToolError("until: earlier than since.")
    happened = fleets.happened(begin, end)
    events = filter_events(happened.events, ChangeFilter(pool), ()) if pool else happened.events
    events = events_of_cluster(events, cluster) if cluster else events
    head = {"fleet": fleet.name, **pick(happened, ("since", "until"))}
    is_young = begin is None and end - happened.since < DAY
    lacks = (f"The history begins at {iso(happened.since)}: nothing before is known.",) if is_young else ()
    return ResultPage("events", events, head, event_object, lacks)


def explain_rule(_fleets: Fleets, rule: RuleName | None = None) -> ResultPage:
    """Return the page of a rule: why it matters, how to fix, exceptions, evidence. Without `rule` the list of rules."""
    found, page = (ALL_RULES, headline) if rule is None else ([_rule(rule)], rule_page)
    return ResultPage("rules", found, {}, lambda each: {"rule": each.id, "name": each.name, "page": page(each)})


def _fleet(fleets: Fleets, cluster: str | None = None) -> Fleet:
    fleet = fleets.current()
    if fleet.polled_at is None:
        raise ToolError("No poll is complete yet; call again in a few seconds.")
    if cluster is not None and cluster not in clusters_of(fleet):
        raise ToolError(f"There is no cluster {_quoted(cluster)}; keys of pools in fleet_status begin with theirs.")
    return only_cluster(fleet, cluster) if cluster is not None else fleet


def _head(fleet: Fleet) -> dict[str, Any]:
    return {"fleet": fleet.name, "data_as_of": fleet.polled_at}


def _pool(fleet: Fleet, name: str) -> Pool:
    found = next((each for each in fleet.pools if each.name == name), None)
    if found is None:  # without the names that there are: they are foreign
        raise ToolError(f"There is no pool {_quoted(name)}; fleet_status lists the pools.")
    return found


def _rule(text: str) -> Rule:
    found = find_rule(text)
    if found is None:
        raise ToolError(f"{_quoted(text)}: {unknown_rule(text)} (explain_rule lists all)")
    return found


def _names(fleet: Fleet, replicas: Iterable[str]) -> list[str]:
    return [fleet.names[each] for each in replicas]


def _members(fleet: Fleet, pool: str) -> list[Replica]:
    return [fleet.by_id[each] for each in _pool(fleet, pool).replicas]


def _replica(fleet: Fleet, name: str) -> Replica:
    """Return a replica by its id or its name."""
    found = [each for each in fleet.replicas if each.id == name] or [
        each for each in fleet.replicas if each.name == name
    ]
    if len(found) != 1:
        why = f"Several replicas have the name {_quoted(name)}" if found else f"There is no replica {_quoted(name)}"
        raise ToolError(f"{why}; pass the id, such as http://10.0.0.1:8000.")
    return found[0]


def _time(name: str, text: str, now: datetime) -> datetime:
    try:
        return parse_since(text, now)
    except ValueError as error:
        raise ToolError(f"{name}: {error}.") from None


def _quoted(text: str) -> str:
    """Return what an agent passed, which may be foreign."""
    return repr(end_cut(text, 80))
