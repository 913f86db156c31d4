"""RT-11: replicas of one pool send KV events to endpoints of different kinds."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from dashboard.fleet import Setting, SettingValue, Source, State
from dashboard.rules import remedy
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import MOST_SIDES, drift
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing.narrowing import only, publishing
from dashboard.rules.subject import Meaning, PoolSubject
from dashboard.vllm.canonical import canonical_text

ENDPOINT = "kv_events_config.endpoint"
REPLAY = "kv_events_config.replay_endpoint"
RANK = "parallel_config.data_parallel_rank"
PORT = re.compile(r":\d+$")
WILDCARD = "*"


@rule(
    id="RT-11",
    name="event-endpoint-differs",
    family=Family.ROUTING,
    severity={ImpactContext.KV_EVENTS: Severity.WARNING},
    needs=(ENDPOINT,),
)
def event_endpoint_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool send KV events to endpoints of different kinds.

    An endpoint with `*`, such as `tcp://*:5557`, is opened by the replica, and the router connects to it; any other one
    is the router's, and the replica connects. Hosts may differ. Ports are only compared where each replica has a host
    of its own and all have one data-parallel rank, for vLLM counts the port up with the rank.

    Why it matters:
        - kv-events: A router either collects events at one address or visits each replica on one port. It gets nothing
          from replicas that do it the other way, or on another port; and without a replay endpoint it cannot catch up.

    How to fix:
        Use one kind of endpoint, and one port, on all replicas of the pool.

    Exceptions:
        A router that learns each replica's endpoint from `/kv_event_sources` can follow different ports: disable the
        rule for it.

    Evidence:
        - vllm/distributed/kv_events.py (which endpoints are opened, which are connected to, and the offset by rank)
        - llm-d/llm-d#981

    Example:
        Most replicas open `tcp://*:5557` for the router to visit. One still has `tcp://router:5557` of the former
        set-up and sends its events to a port where nobody listens.
    """
    senders = only(publishing(pool), _tell_what_was_asked_for(pool))
    nouns = {ENDPOINT: "endpoint of KV events", REPLAY: "replay endpoint of KV events"}
    for draft in drift(senders, nouns, _shape(is_port_compared=_ports_are_alike(senders))):
        yield replace(draft, remedy=_pasteable(senders, draft))


def _tell_what_was_asked_for(pool: PoolSubject) -> set[str]:
    """Leave out who tells a bound endpoint only (`/kv_event_sources`): its host and port may be the system's choice."""
    return {
        member.id
        for member in pool.members
        if (told := pool.settings(member).get(ENDPOINT)) is not None and _is_as_asked(told)
    }


def _is_as_asked(told: Setting) -> bool:
    return told.source is not Source.KV_EVENT_SOURCES or WILDCARD in told.value


def _ports_are_alike(pool: PoolSubject) -> bool:
    """Whether one port is to be expected: each replica on a host of its own, all of one rank, as asked for."""
    hosts = {urlsplit(member.id).hostname for member in pool.members}
    ranks = {json.dumps(rank) for rank in pool.identity(RANK).values()}
    bound = any(pool.settings(member)[ENDPOINT].source is Source.KV_EVENT_SOURCES for member in pool.members)
    return len(hosts) == len(pool.members) and len(ranks) <= 1 and not bound


def _shape(*, is_port_compared: bool) -> Meaning:
    """Return what of an endpoint is compared."""

    def shape(told: SettingValue, _settings: Mapping[str, Setting]) -> SettingValue:
        value = json.loads(told.value)
        if told.state is State.NULL or not isinstance(value, str) or is_port_compared:
            return told
        return SettingValue(json.dumps(PORT.sub(":{port}", value), ensure_ascii=False), told.state)

    return shape


def _pasteable(pool: PoolSubject, draft: Draft) -> Remedy:
    """Offer endpoints as they were asked for; none where each replica has one of its own, or only the kind counts."""
    is_choice = draft.remedy.any_of
    rows = [each for each in draft.evidence if each.is_reference or is_choice]
    whole = [(each.path, told) for each in rows if (told := _whole(pool, each)) is not None]
    found = remedy.set_to(whole, draft.remedy.sentence)
    if not is_choice:
        return found
    choices = (remedy.pasteable(*each) for each in whole[:MOST_SIDES])
    return found._replace(snippets=tuple(each for each in choices if each), any_of=True)


def _whole(pool: PoolSubject, row: Evidence) -> SettingValue | None:
    """Return the whole endpoint of the replicas of one row of evidence: its host was set apart."""
    told = pool.identity(row.path)
    if "{port}" in row.value or not all(each in told for each in row.replicas):
        return None
    found = {canonical_text(told[each]) for each in row.replicas}
    return SettingValue(found.pop(), row.state) if len(found) == 1 else None
