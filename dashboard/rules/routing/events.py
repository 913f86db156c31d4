"""RT-08, RT-09 and RT-11: format, publishing and endpoints of KV events."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from dashboard.fleet import Setting, SettingValue, Source, State
from dashboard.fleet.formatting import count
from dashboard.rules import remedy
from dashboard.rules.differences import pool_differences
from dashboard.rules.domain import EVENTS, PUBLISHER, Basis, ImpactContext, Router
from dashboard.rules.findings import Confidence, Draft, Evidence, NotEvaluated, Remedy, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing.router import VERSION, most_used_version
from dashboard.rules.selection import evidence_of, publication, publishing
from dashboard.rules.sentences import MAX_VALUES, say, values_text, write
from dashboard.rules.subject import Meaning, PoolSubject
from dashboard.rules.value_equivalence import NO, YES
from dashboard.vllm.canonical import canonical_text
from dashboard.vllm.versions import has_change

# vllm-project/vllm#42892 was merged after 0.23.0 was cut (ai-dynamo/dynamo#10660 read both) and is in 0.24.0
# (verl-project/uni-agent#216 ran it).
MAPS_SINCE = (0, 24, 0)
PUBLISHING = "all replicas publish KV events"
ZMQ = SettingValue('"zmq"', State.REPORTED)
ENDPOINT = "kv_events_config.endpoint"
REPLAY = "kv_events_config.replay_endpoint"
RANK = "parallel_config.data_parallel_rank"
PORT = re.compile(r":\d+$")
WILDCARD = "*"


@rule("RT-08", {ImpactContext.KV_EVENTS: Severity.CRITICAL}, needs=(VERSION,))
def event_format_differs(pool: PoolSubject) -> Iterator[Draft | NotEvaluated]:
    """Replicas of one pool run vLLM versions with different KV event formats.

    Until 0.23 vLLM sent each event as an array, since 0.24 as a map with named fields. The format of a build between
    the two, such as 0.24.0rc1, is unknown: such a replica is counted as unknown.

    Why it matters:
        - kv-events: Readers of one format drop every event of the other, mostly without a log line. These replicas look
          cold to the router.

    How to fix:
        Run one vLLM version in the pool, or make sure that every reader of events supports both formats before the
        first replica is upgraded.

    Exceptions:
        Readers that support both formats, such as llm-d's index since June 2026: suppress or disable the rule.

    Evidence:
        - vllm-project/vllm#42892
        - ai-dynamo/dynamo#10660
        - volcano-sh/kthena#1535
        - llm-d/llm-d-kv-cache#661
        - vllm/distributed/kv_events.py (KVCacheEvent)

    Example:
        Half of a pool is upgraded from 0.23.0 to 0.24.0. The router's index still decodes arrays: the upgraded half
        vanishes from it, and all requests with known prefixes go to the other half.
    """
    senders = _possible_senders(pool)
    formats = senders.values(VERSION, _sends_maps)
    maps, replicas = formats.get(YES, ()), formats.get(NO, ())
    if pool.is_ignored(VERSION):
        return
    unknown = sorted({each.id for each in senders.members}.difference(maps, replicas))
    if unknown:
        is_known = len(unknown) < len(senders.members)
        yield NotEvaluated(tuple(unknown), "" if is_known else "The event format of these vLLM versions is unknown.")
    if not (maps and replicas):
        return
    publishers = set(pool.values(EVENTS, publication).get(YES, ()))
    rows = (*evidence_of(senders, [VERSION], replicas), *evidence_of(senders, [VERSION], maps, is_reference=True))
    versions = values_text(senders.only(replicas).values(VERSION), last=" and ")
    changed = ".".join(map(str, MAPS_SINCE))
    yield Draft(
        replicas,
        write(
            *("vLLM ", versions, " sends KV events as arrays; "),
            f"{count(len(maps), 'other replica')} use maps, the format since {changed}.",
        ),
        rows,
        _upgrade(most_used_version(senders.only(maps))),
        Confidence.DERIVED,
        assumptions=() if publishers.issuperset(each.id for each in senders.members) else (PUBLISHING,),
    )


def _possible_senders(pool: PoolSubject) -> PoolSubject:
    """Return the publishing replicas; where fleet.yaml declares kv-events, all except those that report not to."""
    known = pool.values(EVENTS, publication)
    if pool.domain.router is Router.KV_EVENTS and pool.domain.router_basis is Basis.DECLARED:
        return pool.without(known.get(NO, ()))
    return pool.only(known.get(YES, ()))


def _sends_maps(version: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    """Return whether a version sends maps; itself where that is unknown."""
    has_maps = has_change(str(json.loads(version.value)), MAPS_SINCE)
    return version if has_maps is None else YES if has_maps else NO


def _upgrade(version: SettingValue) -> Remedy:
    sentence = (
        f"Update these replicas to vLLM {say(version)} like the others (ID-08), or make the router's reader of events "
        "support both formats."
    )
    return remedy.set_to([(VERSION, version)], sentence)


@rule(
    "RT-09", {ImpactContext.MODEL: Severity.INFO, ImpactContext.KV_EVENTS: Severity.CRITICAL}, needs=(EVENTS,), least=1
)
def events_not_published(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas publish no KV events while others do, or while the router reads them.

    Publishing needs `enable_kv_cache_events` and a publisher other than `null`. A replica that answers `{}` at
    `/kv_event_sources` publishes nothing.

    Why it matters:
        - any pool: Readers of events see only some replicas. The router is not known to read them.
        - kv-events: A replica without events always looks cold, so no prompt is routed to its cache. Where none
          publishes, the router only balances load, without an error.

    How to fix:
        Enable KV events on every replica of the pool. The router's own setting does not enable them on the replicas.

    Exceptions:
        Where nothing reads the events, disable them everywhere instead.

    Evidence:
        - vllm/config/kv_events.py (both settings, and what they are by default)
        - ai-dynamo/dynamo#12319
        - ai-dynamo/dynamo#11505
        - ai-dynamo/dynamo#11984

    Example:
        A second deployment joins the pool without `--kv-events-config`. Its replicas only get requests when the others
        are busy.
    """
    known = pool.values(EVENTS, publication)
    on, off = known.get(YES, ()), known.get(NO, ())
    is_read = pool.domain.router is Router.KV_EVENTS and pool.domain.router_basis is not Basis.ASSUMED
    if not off or not (on or is_read) or pool.is_ignored(EVENTS):
        return
    if on:
        text = write(f"KV events are not published; {len(on):,} of {len(on) + len(off):,} replicas publish them.")
    else:
        text = write("KV events are not published by any replica that reports it; the router reads them.")
    yield Draft(
        off,
        text,
        (*evidence_of(pool, (EVENTS, PUBLISHER), off), *evidence_of(pool, [EVENTS], on, is_reference=True)),
        remedy.set_to([(EVENTS, YES), (PUBLISHER, ZMQ)], "Enable KV events on these replicas and restart them."),
    )


@rule("RT-11", {ImpactContext.KV_EVENTS: Severity.WARNING}, needs=(ENDPOINT,))
def event_endpoint_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool publish KV events at different kinds of endpoints.

    With `*`, such as `tcp://*:5557`, the replica binds the endpoint and the router connects. Any other endpoint is the
    router's, and the replica connects. Hosts may differ. Ports are compared only where each replica has its own host
    and all have one data-parallel rank, because vLLM adds the rank to the port.

    Why it matters:
        - kv-events: A router collects events at one address, or connects to every replica on one port. It gets nothing
          from replicas of the other kind or with another port, and without a replay endpoint it cannot catch up.

    How to fix:
        Use one kind of endpoint and one port on all replicas of the pool.

    Exceptions:
        A router that reads each replica's endpoint from `/kv_event_sources` supports different ports: disable the rule.

    Evidence:
        - vllm/distributed/kv_events.py (which endpoints are opened, which are connected to, and the offset by rank)
        - llm-d/llm-d#981

    Example:
        Most replicas bind `tcp://*:5557`. One still has `tcp://router:5557` of an earlier setup, a port without a
        listener.
    """
    senders = publishing(pool)
    senders = senders.only({each.id for each in senders.members if _is_configured(pool.settings(each).get(ENDPOINT))})
    for draft in pool_differences(senders, (ENDPOINT, REPLAY), _shape(is_port_compared=_has_one_port(senders))):
        yield replace(draft, remedy=_endpoint_remedy(senders, draft))


def _is_configured(endpoint: Setting | None) -> bool:
    """Tell whether an endpoint is the configured one: a bound one (`/kv_event_sources`) may be chosen by the system."""
    if endpoint is None:
        return False
    return endpoint.source is not Source.KV_EVENT_SOURCES or WILDCARD in endpoint.value


def _has_one_port(pool: PoolSubject) -> bool:
    """Tell whether one port is expected: one replica per host, all of one rank, configured endpoints only."""
    hosts = {urlsplit(member.id).hostname for member in pool.members}
    ranks = {json.dumps(rank) for rank in pool.identity(RANK).values()}
    bound = any(pool.settings(member)[ENDPOINT].source is Source.KV_EVENT_SOURCES for member in pool.members)
    return len(hosts) == len(pool.members) and len(ranks) <= 1 and not bound


def _shape(*, is_port_compared: bool) -> Meaning:
    """Return the meaning that keeps what is compared of an endpoint."""

    def shape(endpoint: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
        value = json.loads(endpoint.value)
        if endpoint.state is State.NULL or not isinstance(value, str) or is_port_compared:
            return endpoint
        return SettingValue(json.dumps(PORT.sub(":{port}", value), ensure_ascii=False), endpoint.state)

    return shape


def _endpoint_remedy(pool: PoolSubject, draft: Draft) -> Remedy:
    """Return a draft's remedy with whole endpoints; none where each replica has its own, or only the kind counts."""
    is_choice = draft.remedy.any_of
    rows = [each for each in draft.evidence if each.is_reference or is_choice]
    whole = [(each.path, value) for each in rows if (value := _whole_endpoint(pool, each)) is not None]
    found = remedy.set_to(whole, draft.remedy.sentence)
    if not is_choice:
        return found
    choices = (remedy.pasteable(*each) for each in whole[:MAX_VALUES])
    return found._replace(snippets=tuple(each for each in choices if each), any_of=True)


def _whole_endpoint(pool: PoolSubject, row: Evidence) -> SettingValue | None:
    """Return the whole endpoint of the replicas of one row of evidence, which has no host."""
    known = pool.identity(row.path)
    if "{port}" in row.value or not all(each in known for each in row.replicas):
        return None
    found = {canonical_text(known[each]) for each in row.replicas}
    return SettingValue(found.pop(), row.state) if len(found) == 1 else None
