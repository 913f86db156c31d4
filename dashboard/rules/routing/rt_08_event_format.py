"""RT-08: replicas of one pool send KV events in formats that exclude each other."""

import json
from collections.abc import Iterator, Mapping

from dashboard.fleet import Setting, SettingValue
from dashboard.fleet.formatting import count, joined
from dashboard.rules import remedy
from dashboard.rules.domain import EVENTS, Basis, ImpactContext, Router
from dashboard.rules.drift import MOST_SIDES, say
from dashboard.rules.findings import Confidence, Draft, Family, Remedy, Severity, Unjudged
from dashboard.rules.registry import rule
from dashboard.rules.routing.narrowing import NO, YES, only, publication, shown
from dashboard.rules.routing.releases import VERSION, most_run
from dashboard.rules.subject import PoolSubject
from dashboard.vllm.versions import has_change

# vllm-project/vllm#42892 came after 0.23.0 was cut (ai-dynamo/dynamo#10660 looked at both) and is in 0.24.0
# (verl-project/uni-agent#216 ran it).
MAPS_SINCE = (0, 24, 0)
PUBLISHING = "all replicas publish KV events"


@rule(
    id="RT-08",
    name="event-format-differs",
    family=Family.ROUTING,
    severity={ImpactContext.KV_EVENTS: Severity.CRITICAL},
    needs=(VERSION,),
)
def event_format_differs(pool: PoolSubject) -> Iterator[Draft | Unjudged]:
    """Replicas of one pool run vLLM releases whose KV events look different.

    Until 0.23 vLLM sent each event as an array, from 0.24 on as a map with named fields. The format of a build between
    the two, such as 0.24.0rc1, is unknown: such a replica is counted as unknown.

    Why it matters:
        - kv-events: Readers that know one format drop every event of the other, mostly without a word, so these
          replicas look cold and get no prompt because of what they hold.

    How to fix:
        Run one vLLM release in the pool, or make sure that whatever reads the events knows both formats before the
        first replica is upgraded.

    Exceptions:
        Readers that know both formats, such as llm-d's index from June 2026 on: suppress or disable the rule for them.

    Evidence:
        - vllm-project/vllm#42892
        - ai-dynamo/dynamo#10660
        - volcano-sh/kthena#1535
        - llm-d/llm-d-kv-cache#661
        - vllm/distributed/kv_events.py (KVCacheEvent)

    Example:
        Half of a pool is upgraded from 0.23.0 to 0.24.0. The router's index still decodes arrays: the upgraded half
        vanishes from it, and all traffic with known prefixes goes to the other half.
    """
    senders = only(pool, _senders(pool))
    formats = senders.values(VERSION, _sends_maps)
    maps, replicas = formats.get(YES, ()), formats.get(NO, ())
    if pool.is_ignored(VERSION):
        return
    unknown = sorted({each.id for each in senders.members}.difference(maps, replicas))
    if unknown:
        is_known = len(unknown) < len(senders.members)
        yield Unjudged(tuple(unknown), "" if is_known else "The event format of these vLLM versions is unknown.")
    if not (maps and replicas):
        return
    publishing = set(pool.values(EVENTS, publication).get(YES, ()))
    evidence = (*shown(senders, VERSION, replicas), *shown(senders, VERSION, maps, is_reference=True))
    versions = joined([say(told) for told in only(senders, replicas).values(VERSION)][:MOST_SIDES])
    yield Draft(
        replicas,
        f"KV events of vLLM {versions} are arrays without names, "
        f"those of {count(len(maps), 'other replica')} maps with named fields: "
        f"vLLM changed their format with {'.'.join(map(str, MAPS_SINCE))}.",
        evidence,
        _upgrade(most_run(only(senders, maps))),
        Confidence.DERIVED,
        assumptions=() if publishing.issuperset(each.id for each in senders.members) else (PUBLISHING,),
    )


def _senders(pool: PoolSubject) -> set[str]:
    """Return who publishes events; where fleet.yaml says that the router follows them, all who do not deny it."""
    told = pool.values(EVENTS, publication)
    if pool.domain.router is Router.KV_EVENTS and pool.domain.router_basis is Basis.DECLARED:
        return {member.id for member in pool.members} - set(told.get(NO, ()))
    return set(told.get(YES, ()))


def _sends_maps(version: SettingValue, _settings: Mapping[str, Setting]) -> SettingValue:
    """Say whether a version sends maps; itself where that is unknown."""
    has_maps = has_change(str(json.loads(version.value)), MAPS_SINCE)
    return version if has_maps is None else YES if has_maps else NO


def _upgrade(version: SettingValue) -> Remedy:
    sentence = (
        f"Give these replicas vLLM {say(version)} like the others, which ends ID-08 too; "
        "or let the router's reader of events know both formats."
    )
    return remedy.set_to([(VERSION, version)], sentence)
